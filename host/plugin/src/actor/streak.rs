//! How many calls in a row have failed. A success costs one load.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use informant_cache::listener::DeliveryOutcome;

/// Calls in a row that failed, from which on a plugin is `failing`: 10. Retries count, so a single object may be
/// enough; one success of any object ends it.
pub(crate) const FAILING_CALLS: u32 = 10;

/// The calls since the last success of a plugin's handlers.
#[derive(Debug, Default)]
pub(crate) struct Streak {
    failures: AtomicU32,
    /// Those at its end that cost an instance.
    crashes: AtomicU32,
}

impl Streak {
    /// A call has ended. Returns whether the plugin is failing, if that has changed.
    pub(crate) fn ended(&self, outcome: &DeliveryOutcome) -> Option<bool> {
        match outcome {
            DeliveryOutcome::Ok | DeliveryOutcome::RequeueAfter(_) => self.reset().then_some(false),
            DeliveryOutcome::Retryable(_) | DeliveryOutcome::Permanent(_) => {
                self.crashes.store(0, Relaxed);
                self.failed()
            }
            DeliveryOutcome::Trapped(_) | DeliveryOutcome::TimedOut(_) => {
                self.crashes.fetch_add(1, Relaxed);
                self.failed()
            }
            // The handler was not called, or waits for something.
            DeliveryOutcome::Filtered | DeliveryOutcome::NotReady(_) | DeliveryOutcome::RetryAfter(..) => None,
        }
    }

    /// Counts from scratch. Returns whether the plugin was failing.
    pub(crate) fn reset(&self) -> bool {
        if self.failures.load(Relaxed) == 0 {
            return false;
        }
        self.crashes.store(0, Relaxed);
        self.failures.swap(0, Relaxed) >= FAILING_CALLS
    }

    pub(crate) fn is_failing(&self) -> bool {
        self.failures.load(Relaxed) >= FAILING_CALLS
    }

    /// How many calls in a row cost an instance.
    pub(crate) fn crashes(&self) -> u32 {
        self.crashes.load(Relaxed)
    }

    fn failed(&self) -> Option<bool> {
        (self.failures.fetch_add(1, Relaxed) + 1 == FAILING_CALLS).then_some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_failures_in_a_row_are_failing_until_a_success() {
        let streak = Streak::default();
        let failure = DeliveryOutcome::Permanent("no".to_owned());
        let changes: Vec<_> = (0..12).map(|_| streak.ended(&failure)).collect();
        assert_eq!(changes.iter().position(Option::is_some), Some(9));
        assert_eq!(streak.ended(&DeliveryOutcome::Filtered), None);
        assert!(streak.is_failing());
        assert_eq!(streak.ended(&DeliveryOutcome::Ok), Some(false));
        assert_eq!(streak.ended(&failure), None);
    }

    #[test]
    fn a_failure_that_returns_ends_a_row_of_crashes() {
        let streak = Streak::default();
        for _ in 0..3 {
            streak.ended(&DeliveryOutcome::Trapped("it panicked".to_owned()));
        }
        assert_eq!(streak.crashes(), 3);
        streak.ended(&DeliveryOutcome::Retryable("later".to_owned()));
        assert_eq!(streak.crashes(), 0);
    }
}
