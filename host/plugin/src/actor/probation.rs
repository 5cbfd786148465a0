//! Probation: decides whether a new version becomes the rollback target.
//!
//! A version is on probation for [`PROBATION`] after it is loaded or swapped in. If it is quarantined in that time, it
//! has failed. Otherwise it is good, and later versions are rolled back to it.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use informant_cache::{Environment, Moment};
use tokio::sync::Notify;

use crate::sync::lock;

/// How long a version is on probation: 60 s. As long as losses of its instance count (`LOSS_WINDOW`): a version that
/// traps on every call is quarantined in half of it.
pub(crate) const PROBATION: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(crate) struct Probation {
    phase: Mutex<Phase>,
    notify: Notify,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Running {
        until: Moment,
    },
    /// It begins when the plugin acts.
    Suspended,
    Failed {
        because: String,
    },
    Ended,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProbationResult {
    Passed,
    Failed { because: String },
}

impl Probation {
    pub(crate) fn new(now: Moment) -> Probation {
        Probation {
            phase: Mutex::new(Phase::Running { until: now + PROBATION }),
            notify: Notify::new(),
        }
    }

    /// Another version starts to run, on probation.
    pub(crate) fn begin(&self, now: Moment) {
        self.set(Phase::Running { until: now + PROBATION });
    }

    /// A version starts to run that was good before: it needs no probation.
    pub(crate) fn skip(&self) {
        self.set(Phase::Ended);
    }

    /// The plugin stands by: a probation that runs begins from scratch when it acts.
    pub(crate) fn suspend(&self) {
        let mut phase = self.phase();
        if matches!(*phase, Phase::Running { .. }) {
            *phase = Phase::Suspended;
            drop(phase);
            self.notify.notify_one();
        }
    }

    /// The plugin acts.
    pub(crate) fn resume(&self, now: Moment) {
        let is_suspended = *self.phase() == Phase::Suspended;
        if is_suspended {
            self.begin(now);
        }
    }

    /// The running version is quarantined. Has no effect after its probation.
    pub(crate) fn fail(&self, because: &str) {
        let mut phase = self.phase();
        if matches!(*phase, Phase::Running { .. } | Phase::Suspended) {
            *phase = Phase::Failed {
                because: because.to_owned(),
            };
            drop(phase);
            self.notify.notify_one();
        }
    }

    /// Whether a version is on probation.
    pub(crate) fn is_running(&self, now: Moment) -> bool {
        matches!(*self.phase(), Phase::Running { until } if now < until)
    }

    /// Waits for a result. For one waiter at a time; the future may be dropped at any point.
    pub(crate) async fn ended(&self, env: &dyn Environment) {
        loop {
            let until = match &*self.phase() {
                Phase::Failed { .. } => return,
                Phase::Running { until } => Some(*until),
                Phase::Suspended | Phase::Ended => None,
            };
            let Some(until) = until else {
                self.notify.notified().await;
                continue;
            };
            let now = env.now();
            if now >= until {
                return;
            }
            tokio::select! {
                biased;
                () = self.notify.notified() => {}
                () = env.sleep(until - now) => {}
            }
        }
    }

    /// The result, once, if there is one.
    pub(crate) fn take_result(&self, now: Moment) -> Option<ProbationResult> {
        let mut phase = self.phase();
        let result = match &*phase {
            Phase::Running { until } if *until <= now => ProbationResult::Passed,
            Phase::Failed { because } => ProbationResult::Failed {
                because: because.clone(),
            },
            Phase::Running { .. } | Phase::Suspended | Phase::Ended => return None,
        };
        *phase = Phase::Ended;
        Some(result)
    }

    fn set(&self, phase: Phase) {
        *self.phase() = phase;
        self.notify.notify_one();
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        // Changed by single assignments: whole after any panic.
        lock(&self.phase)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn a_version_passes_when_its_probation_is_over() {
        let probation = Probation::new(at(10));
        assert_eq!(probation.take_result(at(69)), None);
        assert_eq!(probation.take_result(at(70)), Some(ProbationResult::Passed));
        assert_eq!(probation.take_result(at(71)), None);
        probation.fail("later");
        assert_eq!(probation.take_result(at(72)), None);
    }

    #[test]
    fn a_version_that_fails_on_probation_fails_once() {
        let probation = Probation::new(at(0));
        probation.fail("it traps");
        probation.fail("again");
        let because = "it traps".to_owned();
        assert_eq!(probation.take_result(at(1)), Some(ProbationResult::Failed { because }));
        assert_eq!(probation.take_result(at(100)), None);
        probation.begin(at(100));
        assert_eq!(probation.take_result(at(159)), None);
        probation.skip();
        probation.fail("it was good before");
        assert_eq!(probation.take_result(at(200)), None);
    }
}
