//! Limiters made of limiters.

use std::fmt;
use std::time::Duration;

use super::RateLimiter;
use crate::Moment;

/// The longest wait of several limiters, each of which counts the failure.
pub struct MaxOfRateLimiter<T>(Vec<Box<dyn RateLimiter<T>>>);

/// Another limiter, but never a longer wait than `max`.
pub struct WithMaxWaitRateLimiter<T> {
    limiter: Box<dyn RateLimiter<T>>,
    max: Duration,
}

impl<T> MaxOfRateLimiter<T> {
    /// Asks all of `limiters`; none is no wait.
    #[must_use]
    pub fn new(limiters: Vec<Box<dyn RateLimiter<T>>>) -> Self {
        Self(limiters)
    }
}

impl<T> WithMaxWaitRateLimiter<T> {
    /// Asks `limiter`, and cuts what it says to `max`.
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
        // All are asked: each counts.
        let waits = self.0.iter_mut().map(|limiter| limiter.when(item, now));
        waits.fold(Duration::ZERO, Duration::max)
    }

    fn forget(&mut self, item: &T) {
        self.0.iter_mut().for_each(|limiter| limiter.forget(item));
    }

    /// The most of all.
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
