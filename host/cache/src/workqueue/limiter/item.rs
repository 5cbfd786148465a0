//! Limiters that look at how often the item itself failed.

use std::hash::Hash;
use std::time::Duration;

use foldhash::quality::FixedState;
use hashbrown::HashMap;

use super::{FAILING_ITEMS_MAX, RateLimiter};
use crate::Moment;

/// How often each item failed.
#[derive(Debug)]
struct Failures<T> {
    counts: HashMap<T, u32, FixedState>,
    items_max: usize,
}

impl<T: Clone + Eq + Hash> Failures<T> {
    fn new() -> Failures<T> {
        Failures {
            counts: HashMap::default(),
            items_max: FAILING_ITEMS_MAX,
        }
    }

    /// Counts one more; returns how many there were before.
    fn count(&mut self, item: &T) -> u32 {
        if let Some(count) = self.counts.get_mut(item) {
            let before = *count;
            *count = before.saturating_add(1);
            return before;
        }
        if self.counts.len() < self.items_max {
            self.counts.insert(item.clone(), 1);
        }
        0
    }

    fn forget(&mut self, item: &T) {
        self.counts.remove(item);
    }

    fn of(&self, item: &T) -> u32 {
        self.counts.get(item).copied().unwrap_or(0)
    }
}

/// `base`, doubling with each failure of the item, up to `max`.
#[derive(Debug)]
pub struct ItemExponentialFailureRateLimiter<T> {
    failures: Failures<T>,
    base: Duration,
    max: Duration,
}

/// `fast` for the first few failures of the item, `slow` after.
#[derive(Debug)]
pub struct ItemFastSlowRateLimiter<T> {
    failures: Failures<T>,
    fast: Duration,
    slow: Duration,
    fast_attempts_max: u32,
}

impl<T: Clone + Eq + Hash> ItemExponentialFailureRateLimiter<T> {
    /// Waits of `base`, 2 `base`, 4 `base` … up to `max`.
    #[must_use]
    pub fn new(base: Duration, max: Duration) -> Self {
        Self {
            failures: Failures::new(),
            base,
            max,
        }
    }

    /// Remembers at most so many items instead of [`FAILING_ITEMS_MAX`].
    #[must_use]
    pub fn with_items_max(mut self, items_max: usize) -> Self {
        self.failures.items_max = items_max;
        self
    }
}

impl<T: Clone + Eq + Hash> ItemFastSlowRateLimiter<T> {
    /// Waits of `fast` for the first `fast_attempts_max` failures, then of `slow`.
    #[must_use]
    pub fn new(fast: Duration, slow: Duration, fast_attempts_max: u32) -> Self {
        Self {
            failures: Failures::new(),
            fast,
            slow,
            fast_attempts_max,
        }
    }
}

impl<T: Clone + Eq + Hash + Send> RateLimiter<T> for ItemExponentialFailureRateLimiter<T> {
    fn when(&mut self, item: &T, _now: Moment) -> Duration {
        let doublings = self.failures.count(item);
        // Nothing doubled 64 times is below any maximum, but for nothing.
        let factor = 1_u128.checked_shl(doublings.min(64)).unwrap_or(u128::MAX);
        let nanos = self.base.as_nanos().saturating_mul(factor);
        match u64::try_from(nanos) {
            Ok(nanos) => Duration::from_nanos(nanos).min(self.max),
            Err(_) => self.max,
        }
    }

    fn forget(&mut self, item: &T) {
        self.failures.forget(item);
    }

    fn num_requeues(&self, item: &T) -> u32 {
        self.failures.of(item)
    }

    fn failing(&self) -> usize {
        self.failures.counts.len()
    }
}

impl<T: Clone + Eq + Hash + Send> RateLimiter<T> for ItemFastSlowRateLimiter<T> {
    fn when(&mut self, item: &T, _now: Moment) -> Duration {
        if self.failures.count(item) < self.fast_attempts_max {
            self.fast
        } else {
            self.slow
        }
    }

    fn forget(&mut self, item: &T) {
        self.failures.forget(item);
    }

    fn num_requeues(&self, item: &T) -> u32 {
        self.failures.of(item)
    }

    fn failing(&self) -> usize {
        self.failures.counts.len()
    }
}
