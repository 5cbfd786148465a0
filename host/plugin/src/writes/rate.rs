//! The rate of a plugin's writes: a token bucket, as the time at which it would be full again.

use std::time::Duration;

use informant_cache::Moment;

use crate::writes::WRITES_BURST;

/// How many writes may start.
#[derive(Debug)]
pub(crate) struct WriteRate {
    /// Between two writes, in nanoseconds; at least 1.
    interval: u64,
    /// When the bucket is full, in nanoseconds.
    full_at: u64,
}

impl WriteRate {
    pub(crate) fn new(per_second: u32) -> WriteRate {
        WriteRate {
            interval: interval(per_second),
            full_at: 0,
        }
    }

    /// Applies another rate from `now` on. What the bucket holds stays in it.
    pub(crate) fn set(&mut self, per_second: u32, now: Moment) {
        let missing_writes = self.full_at.saturating_sub(now.as_nanos()) / self.interval;
        self.interval = interval(per_second);
        self.full_at = now.as_nanos() + missing_writes * self.interval;
    }

    /// Starts a write at `now`, or returns when one may start.
    pub(crate) fn take(&mut self, now: Moment) -> Result<(), Moment> {
        let full_at = self.full_at.max(now.as_nanos());
        let latest = self.interval * u64::from(WRITES_BURST - 1);
        if full_at - now.as_nanos() > latest {
            return Err(Moment::from_nanos(full_at - latest));
        }
        self.full_at = full_at + self.interval;
        Ok(())
    }

    /// The last write was not sent.
    pub(crate) fn give_back(&mut self) {
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
        let mut rate = WriteRate::new(20);
        let now = Moment::ZERO + Duration::from_secs(7);
        let burst = (0..1_000).take_while(|_| rate.take(now).is_ok()).count();
        assert_eq!(burst, WRITES_BURST as usize);
        assert_eq!(rate.take(now), Err(now + Duration::from_millis(50)));
        let later = now + Duration::from_millis(120);
        assert_eq!((0..9).take_while(|_| rate.take(later).is_ok()).count(), 2);
        rate.give_back();
        assert!(rate.take(later).is_ok());
    }

    #[test]
    fn another_rate_applies_at_once() {
        let now = Moment::ZERO + Duration::from_secs(7);
        let mut rate = WriteRate::new(1);
        while rate.take(now).is_ok() {}
        rate.set(1_000, now);
        assert_eq!(rate.take(now), Err(now + Duration::from_millis(1)));
        rate.set(1, now);
        assert_eq!(rate.take(now), Err(now + Duration::from_secs(1)));
    }
}
