//! Rate limiters: how long an item waits before it is retried.
//!
//! The trait and client-go's limiters. Plain state: time is passed in, nothing sleeps, nothing is random. Sums and
//! products saturate instead of overflowing.
//!
//! Source: client-go `util/workqueue/default_rate_limiters.go`.

#[cfg(test)]
mod tests;

use std::fmt;
use std::hash::Hash;
use std::num::NonZeroU32;
use std::time::Duration;

use foldhash::quality::FixedState;
use hashbrown::HashMap;

use informant_cache::Moment;

/// The first wait of the default limiter.
pub const DEFAULT_BACK_OFF_BASE: Duration = Duration::from_millis(5);

/// The longest wait of the default limiter: 1,000 s, more than a quarter of an hour.
pub const DEFAULT_BACK_OFF_MAX: Duration = Duration::from_secs(1_000);

/// How many items per second the default limiter allows in total.
pub const DEFAULT_BUCKET_PER_SECOND: NonZeroU32 = NonZeroU32::new(10).expect("10 is not 0");

/// The burst that the default limiter allows.
pub const DEFAULT_BUCKET_BURST: u32 = 100;

/// How many failing items one limiter remembers. Above it a new item waits as after its first failure each time;
/// [`WorkQueueStats::failing`](super::WorkQueueStats::failing) shows that the limit is reached. client-go has none.
pub const FAILING_ITEMS_MAX: usize = 1_000_000;

/// Computes how long an item waits.
pub trait RateLimiter<T>: Send {
    /// How long the failed `item` waits. Each call counts as one more failure.
    fn when(&mut self, item: &T, now: Moment) -> Duration;

    /// Forgets how often `item` failed.
    fn forget(&mut self, item: &T);

    /// How often `item` failed since it was last forgotten.
    fn num_requeues(&self, item: &T) -> u32;

    /// How many items it remembers.
    fn failing(&self) -> usize {
        0
    }
}

/// The longer of two waits: 5 ms, doubling per failure of the item up to 1,000 s; and that of a token bucket of 100
/// with 10 per second for all items. Source: client-go `DefaultTypedControllerRateLimiter`.
#[must_use]
pub fn default_rate_limiter<T: Clone + Eq + Hash + Send + 'static>() -> Box<dyn RateLimiter<T>> {
    Box::new(MaxOfRateLimiter::new(vec![
        Box::new(ItemExponentialFailureRateLimiter::new(
            DEFAULT_BACK_OFF_BASE,
            DEFAULT_BACK_OFF_MAX,
        )),
        Box::new(BucketRateLimiter::new(DEFAULT_BUCKET_PER_SECOND, DEFAULT_BUCKET_BURST)),
    ]))
}

/// 1 ms, doubling per failure of the item up to 1,000 s. Source: client-go `DefaultTypedItemBasedRateLimiter`.
#[must_use]
pub fn default_item_based_rate_limiter<T: Clone + Eq + Hash + Send + 'static>() -> Box<dyn RateLimiter<T>> {
    Box::new(ItemExponentialFailureRateLimiter::new(
        Duration::from_millis(1),
        DEFAULT_BACK_OFF_MAX,
    ))
}

/// The failures of each item.
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

    /// Counts one more failure; returns the previous count.
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

    /// Remembers at most this many items instead of [`FAILING_ITEMS_MAX`].
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
        // Anything doubled 64 times exceeds any maximum, except zero.
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

/// A token bucket, full at first, filled at a constant rate. If it is empty, an item takes a future token and waits for
/// it.
///
/// Stored as the time at which the bucket will be full again; so nothing is rounded twice, and a paused clock does no
/// harm. Source: client-go `BucketRateLimiter` over `golang.org/x/time/rate`.
#[derive(Clone, Debug)]
pub struct BucketRateLimiter {
    /// The time between two tokens.
    interval: Duration,
    burst: u32,
    full_at: Moment,
}

impl BucketRateLimiter {
    /// Adds `per_second` tokens per second, up to `burst`.
    #[must_use]
    pub fn new(per_second: NonZeroU32, burst: u32) -> BucketRateLimiter {
        BucketRateLimiter {
            interval: Duration::from_secs(1) / per_second.get(),
            burst,
            full_at: Moment::ZERO,
        }
    }
}

impl<T> RateLimiter<T> for BucketRateLimiter {
    fn when(&mut self, _item: &T, now: Moment) -> Duration {
        self.full_at = self.full_at.max(now) + self.interval;
        (self.full_at - now).saturating_sub(self.interval.saturating_mul(self.burst))
    }

    fn forget(&mut self, _item: &T) {}

    /// Zero: it does not count per item.
    fn num_requeues(&self, _item: &T) -> u32 {
        0
    }
}

/// The longest wait of multiple limiters, each of which counts the failure.
pub struct MaxOfRateLimiter<T>(Vec<Box<dyn RateLimiter<T>>>);

/// Another limiter with waits of at most `max`.
pub struct WithMaxWaitRateLimiter<T> {
    limiter: Box<dyn RateLimiter<T>>,
    max: Duration,
}

impl<T> MaxOfRateLimiter<T> {
    /// Combines `limiters`; without limiters there is no wait.
    #[must_use]
    pub fn new(limiters: Vec<Box<dyn RateLimiter<T>>>) -> Self {
        Self(limiters)
    }
}

impl<T> WithMaxWaitRateLimiter<T> {
    /// Limits the waits of `limiter` to `max`.
    #[must_use]
    pub fn new(limiter: Box<dyn RateLimiter<T>>, max: Duration) -> Self {
        Self { limiter, max }
    }
}

impl<T> fmt::Debug for MaxOfRateLimiter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MaxOfRateLimiter")
            .field("limiters", &self.0.len())
            .finish()
    }
}

impl<T> fmt::Debug for WithMaxWaitRateLimiter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithMaxWaitRateLimiter")
            .field("max", &self.max)
            .finish_non_exhaustive()
    }
}

impl<T> RateLimiter<T> for MaxOfRateLimiter<T> {
    fn when(&mut self, item: &T, now: Moment) -> Duration {
        // Call all of them: each counts the failure.
        let waits = self.0.iter_mut().map(|limiter| limiter.when(item, now));
        waits.fold(Duration::ZERO, Duration::max)
    }

    fn forget(&mut self, item: &T) {
        self.0.iter_mut().for_each(|limiter| limiter.forget(item));
    }

    /// The highest count of all.
    fn num_requeues(&self, item: &T) -> u32 {
        let counts = self.0.iter().map(|limiter| limiter.num_requeues(item));
        counts.max().unwrap_or(0)
    }

    fn failing(&self) -> usize {
        let counts = self.0.iter().map(|limiter| limiter.failing());
        counts.max().unwrap_or(0)
    }
}

impl<T> RateLimiter<T> for WithMaxWaitRateLimiter<T> {
    fn when(&mut self, item: &T, now: Moment) -> Duration {
        self.limiter.when(item, now).min(self.max)
    }

    fn forget(&mut self, item: &T) {
        self.limiter.forget(item);
    }

    fn num_requeues(&self, item: &T) -> u32 {
        self.limiter.num_requeues(item)
    }

    fn failing(&self) -> usize {
        self.limiter.failing()
    }
}
