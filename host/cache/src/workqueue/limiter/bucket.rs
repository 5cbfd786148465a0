//! A limiter that looks at all items together.

use std::num::NonZeroU32;
use std::time::Duration;

use super::RateLimiter;
use crate::Moment;

/// A bucket of tokens, full at first, into which so many fall per second. Who finds none takes one on credit, and waits
/// until it is there.
///
/// Kept as one moment, that at which the bucket will be full again; so nothing is rounded twice, and a clock that
/// stands still does no harm. Source: client-go `BucketRateLimiter` over `golang.org/x/time/rate`.
#[derive(Clone, Debug)]
pub struct BucketRateLimiter {
    /// Between two tokens.
    interval: Duration,
    burst: u32,
    full_at: Moment,
}

impl BucketRateLimiter {
    /// `per_second` tokens, and `burst` of them at most saved up.
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

    /// Zero: it does not look at items.
    fn num_requeues(&self, _item: &T) -> u32 {
        0
    }
}
