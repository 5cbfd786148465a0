//! When a lost instance is rebuilt: back-off and quarantine.
//!
//! A guest that trapped once is rebuilt at once: one poisoned object must not delay the others. One that keeps trapping
//! or timing out is rebuilt with growing delays, and is then quarantined until it is resumed or reloaded. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use informant_cache::Moment;

use crate::engine::trap::TrapKind;
use crate::error::LoadProblem;

/// The window in which losses count: 60 s.
pub(crate) const LOSS_WINDOW: Duration = Duration::from_secs(60);

/// Points within [`LOSS_WINDOW`] that lead to quarantine: 30. A trap is one point, so this is a trap every two seconds.
pub(crate) const LOSS_POINTS_MAX: u32 = 30;

/// Points of a timeout: 5. Each has cost a second of a core (`limits.cpu`), so six of them lead to quarantine.
pub(crate) const TIMEOUT_POINTS: u32 = 5;

/// FailureHistory within [`LOSS_WINDOW`] after which the next instance is created without delay.
const FREE_LOSSES: u32 = 3;

/// The first delay; doubles with each loss.
const WAIT_BASE: Duration = Duration::from_millis(10);

/// The longest delay.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The recent losses of one slot.
#[derive(Debug, Default)]
pub(crate) struct FailureHistory {
    recent: VecDeque<(Moment, u32)>,
}

/// The first wait after an `init` that asks to be tried again: 1 s; doubles each time.
const INIT_RETRY_INITIAL: Duration = Duration::from_secs(1);

/// The longest wait after an `init` that asks to be tried again: 60 s.
pub(crate) const INIT_RETRY_MAX: Duration = Duration::from_secs(60);

/// The failures of one `init` in a row that asked to be tried again.
#[derive(Debug, Default)]
pub(crate) struct InitFailures(u32);

impl InitFailures {
    /// How long to wait after another one, which may ask for a time.
    pub(crate) fn wait(&mut self, failure: &LoadProblem) -> Duration {
        let after = match failure {
            LoadProblem::InitRetryable { after, .. } => *after,
            _ => None,
        };
        let doubled = INIT_RETRY_INITIAL.saturating_mul(2u32.saturating_pow(self.0));
        self.0 = self.0.saturating_add(1);
        after.unwrap_or(doubled).min(INIT_RETRY_MAX)
    }
}

/// What follows a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RestartDecision {
    RebuildAfter(Duration),
    Quarantine,
}

impl FailureHistory {
    pub(crate) fn record(&mut self, kind: TrapKind, now: Moment) -> RestartDecision {
        while self.recent.front().is_some_and(|(at, _)| now - *at > LOSS_WINDOW) {
            self.recent.pop_front();
        }
        let points = match kind {
            TrapKind::Timeout => TIMEOUT_POINTS,
            TrapKind::Trap => 1,
            // The plugin is being stopped.
            TrapKind::Aborted => 0,
        };
        self.recent.push_back((now, points));
        if self.recent.iter().map(|(_, points)| points).sum::<u32>() >= LOSS_POINTS_MAX {
            return RestartDecision::Quarantine;
        }
        let failures = u32::try_from(self.recent.len()).unwrap_or(u32::MAX);
        let wait = match failures.checked_sub(FREE_LOSSES + 1) {
            None => Duration::ZERO,
            Some(doublings) => WAIT_BASE.saturating_mul(2u32.saturating_pow(doublings)).min(WAIT_MAX),
        };
        RestartDecision::RebuildAfter(wait)
    }

    pub(crate) fn reset(&mut self) {
        self.recent.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::ZERO + Duration::from_millis(millis)
    }

    fn wait(decision: RestartDecision) -> Duration {
        match decision {
            RestartDecision::RebuildAfter(wait) => wait,
            RestartDecision::Quarantine => panic!("quarantine"),
        }
    }

    #[test]
    fn a_few_traps_cause_no_delay() {
        let mut failures = FailureHistory::default();
        for minute in 0..100 {
            for trap in 0..3 {
                assert_eq!(
                    wait(failures.record(TrapKind::Trap, at(minute * 60_001 + trap))),
                    Duration::ZERO
                );
            }
        }
    }

    #[test]
    fn delays_double_up_to_a_second() {
        let mut failures = FailureHistory::default();
        let waits: Vec<u128> = (0..14)
            .map(|_| wait(failures.record(TrapKind::Trap, at(0))).as_millis())
            .collect();
        assert_eq!(
            waits,
            [0, 0, 0, 10, 20, 40, 80, 160, 320, 640, 1_000, 1_000, 1_000, 1_000]
        );
    }

    #[test]
    fn constant_traps_lead_to_quarantine_within_half_a_minute() {
        let (mut failures, mut now, mut traps) = (FailureHistory::default(), Moment::ZERO, 0);
        while let RestartDecision::RebuildAfter(wait) = failures.record(TrapKind::Trap, now) {
            traps += 1;
            now += wait;
        }
        assert_eq!(traps + 1, LOSS_POINTS_MAX);
        assert!(now < at(30_000), "{now}");
    }

    #[test]
    fn constant_timeouts_lead_to_quarantine_after_six_calls() {
        let (mut failures, mut now, mut timeouts) = (FailureHistory::default(), Moment::ZERO, 1);
        while let RestartDecision::RebuildAfter(wait) = failures.record(TrapKind::Timeout, now) {
            timeouts += 1;
            now += wait + Duration::from_secs(1);
        }
        assert_eq!(timeouts, 6);
    }

    #[test]
    fn old_losses_do_not_count() {
        let mut failures = FailureHistory::default();
        for second in 0..200 {
            // One trap every four seconds: 15 per minute.
            wait(failures.record(TrapKind::Trap, at(second * 4_000)));
        }
        failures.reset();
        assert_eq!(wait(failures.record(TrapKind::Trap, at(800_000))), Duration::ZERO);
    }
}
