//! Whether a version that began to run is any good.
//!
//! A version is on trial for [`TRIAL`] from when it is loaded or swapped in. If it comes to what leads to quarantine
//! within that time, it has failed; if the time passes, it is good, and what a later one is rolled back to.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use informant_cache::{Environment, Moment};
use tokio::sync::Notify;

/// How long a version is on trial: 60 s. As long as losses of its instance count (`LOSS_WINDOW`): one that does nothing
/// but trap is found out in half of it.
pub const TRIAL: Duration = Duration::from_secs(60);

/// The trial of the version that runs.
#[derive(Debug)]
pub(crate) struct Trial {
    phase: Mutex<Phase>,
    bell: Notify,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Runs { until: Moment },
    Failed { because: String },
    Over,
}

/// How a trial ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Good,
    Failed { because: String },
}

impl Trial {
    pub(crate) fn new(now: Moment) -> Trial {
        Trial {
            phase: Mutex::new(Phase::Runs { until: now + TRIAL }),
            bell: Notify::new(),
        }
    }

    /// Another version begins to run, at its own risk.
    pub(crate) fn begin(&self, now: Moment) {
        self.set(Phase::Runs { until: now + TRIAL });
    }

    /// A version begins to run that was good before.
    pub(crate) fn spare(&self) {
        self.set(Phase::Over);
    }

    /// The version that runs comes to quarantine. Means nothing once its trial is over.
    pub(crate) fn fail(&self, because: &str) {
        let mut phase = self.phase();
        if matches!(*phase, Phase::Runs { .. }) {
            *phase = Phase::Failed {
                because: because.to_owned(),
            };
            drop(phase);
            self.bell.notify_one();
        }
    }

    /// Waits for a verdict. For one waiter at a time, who may stop waiting at any point.
    pub(crate) async fn ends(&self, env: &dyn Environment) {
        loop {
            let until = match &*self.phase() {
                Phase::Failed { .. } => return,
                Phase::Runs { until } => Some(*until),
                Phase::Over => None,
            };
            let Some(until) = until else {
                self.bell.notified().await;
                continue;
            };
            let now = env.now();
            if now >= until {
                return;
            }
            tokio::select! {
                biased;
                () = self.bell.notified() => {}
                () = env.sleep(until - now) => {}
            }
        }
    }

    /// The verdict, once, if there is one.
    pub(crate) fn verdict(&self, now: Moment) -> Option<Verdict> {
        let mut phase = self.phase();
        let verdict = match &*phase {
            Phase::Runs { until } if *until <= now => Verdict::Good,
            Phase::Failed { because } => Verdict::Failed {
                because: because.clone(),
            },
            Phase::Runs { .. } | Phase::Over => return None,
        };
        *phase = Phase::Over;
        Some(verdict)
    }

    fn set(&self, phase: Phase) {
        *self.phase() = phase;
        self.bell.notify_one();
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        // Changed by single assignments: whole after any panic.
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn a_version_is_good_when_its_time_has_passed() {
        let trial = Trial::new(at(10));
        assert_eq!(trial.verdict(at(69)), None);
        assert_eq!(trial.verdict(at(70)), Some(Verdict::Good));
        assert_eq!(trial.verdict(at(71)), None);
        trial.fail("later");
        assert_eq!(trial.verdict(at(72)), None);
    }

    #[test]
    fn a_version_that_fails_in_its_time_has_failed_once() {
        let trial = Trial::new(at(0));
        trial.fail("it traps");
        trial.fail("again");
        let because = "it traps".to_owned();
        assert_eq!(trial.verdict(at(1)), Some(Verdict::Failed { because }));
        assert_eq!(trial.verdict(at(100)), None);
        trial.begin(at(100));
        assert_eq!(trial.verdict(at(159)), None);
        trial.spare();
        trial.fail("it was good before");
        assert_eq!(trial.verdict(at(200)), None);
    }
}
