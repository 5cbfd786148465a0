//! How long to wait before the next attempt.
//!
//! One delay per failure, growing by a factor up to a cap, with jitter, so that a thousand informers do not come back
//! at the same moment. Reads no clock and draws no random number: both are arguments.
//!
//! The values follow client-go (`tools/cache/reflector.go`, defaults of `NewReflector`). The reset does not: the delay
//! returns to the first one with the first success, or after a period without failure. client-go's does so only after
//! a time, and also during failures.

use std::time::Duration;

use informant_cache::Moment;

/// Configures a `Backoff`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BackoffOptions {
    /// The first delay, before jitter. Default 800 ms.
    pub first: Duration,
    /// Factor from one delay to the next. Default 2.
    pub factor: u32,
    /// The longest delay before jitter. Default 30 s.
    pub max: Duration,
    /// Jitter in percent of the delay. Default 100: a delay of 30 s becomes one of 30 to 60 s.
    pub jitter_percent: u32,
    /// How long without failure until the next delay is the first one again. Default 2 min; it should exceed the
    /// longest delay with its jitter, because waiting counts as time without failure.
    pub reset_after: Duration,
}

impl Default for BackoffOptions {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(800),
            factor: 2,
            max: Duration::from_secs(30),
            jitter_percent: 100,
            reset_after: Duration::from_secs(120),
        }
    }
}

/// The delays of one source's reflector; lists and watches share them.
#[derive(Debug)]
pub(crate) struct Backoff {
    options: BackoffOptions,
    /// The next delay, before jitter.
    delay: Duration,
    last_failure: Option<Moment>,
}

impl Backoff {
    pub(crate) fn new(options: BackoffOptions) -> Self {
        Self {
            options,
            delay: options.first.min(options.max),
            last_failure: None,
        }
    }

    /// An attempt succeeded: the next delay is the first one again.
    pub(crate) fn reset(&mut self) {
        self.delay = self.options.first.min(self.options.max);
        self.last_failure = None;
    }

    /// How long to wait after a failure at `now`; `random` is a new random number.
    pub(crate) fn after_failure(&mut self, now: Moment, random: u64) -> Duration {
        if self
            .last_failure
            .is_some_and(|last| now - last > self.options.reset_after)
        {
            self.reset();
        }
        self.last_failure = Some(now);
        let delay = self.delay;
        self.delay = delay.saturating_mul(self.options.factor).min(self.options.max);
        with_jitter(delay, self.options.jitter_percent, random)
    }
}

/// `delay` plus a random share of at most `percent` of it.
pub(crate) fn with_jitter(delay: Duration, percent: u32, random: u64) -> Duration {
    let most_nanos = delay.as_nanos().saturating_mul(u128::from(percent)) / 100;
    let most_nanos = u64::try_from(most_nanos).unwrap_or(u64::MAX);
    let added = (u128::from(random) * (u128::from(most_nanos) + 1)) >> 64;
    delay.saturating_add(Duration::from_nanos(u64::try_from(added).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn delays_double_up_to_the_cap() {
        let mut backoff = Backoff::new(BackoffOptions::default());
        let delays: Vec<_> = (0..8).map(|_| backoff.after_failure(at(0), 0).as_millis()).collect();
        assert_eq!(delays, [800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000]);
    }

    #[test]
    fn jitter_adds_at_most_the_delay_itself() {
        let mut backoff = Backoff::new(BackoffOptions::default());
        let delay = backoff.after_failure(at(0), u64::MAX);
        assert_eq!(delay, Duration::from_millis(1_600));
        let halved = with_jitter(Duration::from_secs(10), 50, u64::MAX / 2);
        assert!(
            halved > Duration::from_millis(12_400) && halved <= Duration::from_millis(12_500),
            "{halved:?}"
        );
    }

    #[test]
    fn delays_reset_after_two_minutes_without_failure() {
        let mut backoff = Backoff::new(BackoffOptions::default());
        for _ in 0..5 {
            backoff.after_failure(at(10), 0);
        }
        assert_eq!(backoff.after_failure(at(131), 0), Duration::from_millis(800));
    }

    #[test]
    fn delays_keep_growing_during_long_failures() {
        let mut backoff = Backoff::new(BackoffOptions::default());
        let mut now = 0;
        let mut last = Duration::ZERO;
        for _ in 0..20 {
            let delay = backoff.after_failure(at(now), u64::MAX);
            assert!(delay >= last, "{delay:?} after {last:?}");
            last = delay;
            now += delay.as_secs();
        }
        assert!(now > 600);
        assert_eq!(last, Duration::from_secs(60));
    }
}
