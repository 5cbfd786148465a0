//! How long an item waits before it is tried again.
//!
//! Owns the trait and client-go's limiters. Plain state: time is handed in, nothing sleeps, nothing is random. Every
//! sum and product ends at its maximum instead of overflowing.
//!
//! Source: client-go `util/workqueue/default_rate_limiters.go`.

mod bucket;
mod combined;
mod item;
#[cfg(test)]
mod tests;

use std::hash::Hash;
use std::num::NonZeroU32;
use std::time::Duration;

pub use self::bucket::BucketRateLimiter;
pub use self::combined::{MaxOfRateLimiter, WithMaxWaitRateLimiter};
pub use self::item::{ItemExponentialFailureRateLimiter, ItemFastSlowRateLimiter};
use crate::Moment;

/// The first wait of the default limiter.
pub const DEFAULT_BACK_OFF_BASE: Duration = Duration::from_millis(5);

/// The longest wait of the default limiter: 1,000 s, more than a quarter of an hour.
pub const DEFAULT_BACK_OFF_MAX: Duration = Duration::from_secs(1_000);

/// How many items a second the default limiter lets through, all together.
pub const DEFAULT_BUCKET_PER_SECOND: NonZeroU32 = NonZeroU32::new(10).expect("10 is not 0");

/// How many items the default limiter lets through at once after a rest.
pub const DEFAULT_BUCKET_BURST: u32 = 100;

/// How many failing items one limiter remembers. Beyond it an item that is not known yet waits as after its first
/// failure each time; [`WorkQueueStats::failing`](super::WorkQueueStats::failing) shows that the limit is reached.
/// client-go has none.
pub const FAILING_ITEMS_MAX: usize = 1_000_000;

/// Says how long an item waits.
pub trait RateLimiter<T>: Send {
    /// How long `item`, which failed, waits. Each call counts as one more failure.
    fn when(&mut self, item: &T, now: Moment) -> Duration;

    /// Forgets how often `item` failed.
    fn forget(&mut self, item: &T);

    /// How often `item` failed since it was forgotten.
    fn num_requeues(&self, item: &T) -> u32;

    /// How many items it remembers.
    fn failing(&self) -> usize {
        0
    }
}

/// The longer of 5 ms, doubling per failure of the item up to 1,000 s, and of what a bucket of 100 with 10 a second
/// allows all items together. Source: client-go `DefaultTypedControllerRateLimiter`.
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
