//! A limit on a rate, with bursts: a token bucket, as the time at which it would be full again.

use std::time::Duration;

use crate::Moment;

/// How many actions may start in a second, after a burst.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    /// Between two actions, in nanoseconds; at least 1.
    interval: u64,
    /// How many may start at once; at least 1.
    burst: u32,
    /// When the bucket is full, in nanoseconds.
    full_at: u64,
}

impl TokenBucket {
    /// A full bucket. 0 counts as 1, in both arguments.
    #[must_use]
    pub fn new(per_second: u32, burst: u32) -> TokenBucket {
        TokenBucket {
            interval: interval(per_second),
            burst: burst.max(1),
            full_at: 0,
        }
    }

    /// Applies another rate and burst from `now` on. What was taken from the bucket stays taken.
    pub fn set(&mut self, per_second: u32, burst: u32, now: Moment) {
        let missing = self.full_at.saturating_sub(now.as_nanos()).div_ceil(self.interval);
        (self.interval, self.burst) = (interval(per_second), burst.max(1));
        self.full_at = now.as_nanos() + missing.min(u64::from(self.burst)) * self.interval;
    }

    /// When the next action may start; a moment in the past if it may start now.
    #[must_use]
    pub fn next(&self) -> Moment {
        let latest = self.interval * u64::from(self.burst - 1);
        Moment::from_nanos(self.full_at.saturating_sub(latest))
    }

    /// Starts an action at `now`.
    ///
    /// # Errors
    /// When one may start, if that is later.
    pub fn take(&mut self, now: Moment) -> Result<(), Moment> {
        let next = self.next();
        if next > now {
            return Err(next);
        }
        self.full_at = self.full_at.max(now.as_nanos()) + self.interval;
        Ok(())
    }

    /// The last action was not made.
    pub fn give_back(&mut self) {
        self.full_at = self.full_at.saturating_sub(self.interval);
    }
}

fn interval(per_second: u32) -> u64 {
    let second = Duration::from_secs(1).as_nanos() as u64;
    (second / u64::from(per_second.max(1))).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_followed_by_the_rate() {
        let mut rate = TokenBucket::new(20, 100);
        let now = Moment::ZERO + Duration::from_secs(7);
        assert_eq!((0..1_000).take_while(|_| rate.take(now).is_ok()).count(), 100);
        assert_eq!(rate.take(now), Err(now + Duration::from_millis(50)));
        let later = now + Duration::from_millis(120);
        assert_eq!((0..9).take_while(|_| rate.take(later).is_ok()).count(), 2);
        rate.give_back();
        assert!(rate.take(later).is_ok());
    }

    #[test]
    fn another_rate_applies_at_once() {
        let now = Moment::ZERO + Duration::from_secs(7);
        let mut rate = TokenBucket::new(1, 100);
        while rate.take(now).is_ok() {}
        rate.set(1_000, 100, now);
        assert_eq!(rate.take(now), Err(now + Duration::from_millis(1)));
        rate.set(1, 100, now);
        assert_eq!(rate.take(now), Err(now + Duration::from_secs(1)));
        rate.set(1, 1, now);
        assert_eq!(rate.take(now), Err(now + Duration::from_secs(1)), "a smaller burst");
    }
}
