//! How long to wait before the next attempt.
//!
//! One delay per failure, growing by a factor up to a cap, with jitter, so that a thousand informers do not come back
//! at the same moment. Reads no clock and draws no random number: both are arguments.
//!
//! The default values follow client-go (`tools/cache/reflector.go`, `NewReflector`). The reset does not: the delay
//! returns to the first one with the first success, or after a period without failure. client-go's does so only after
//! a time, and also during failures.

use std::time::Duration;

use crate::Moment;

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

impl BackoffOptions {
    /// Delays that double from `first` to `max`, each 20 % shorter to 20 % longer, until a success.
    #[must_use]
    pub fn around(first: Duration, max: Duration) -> Self {
        Self {
            first: shortest_around(first),
            factor: 2,
            max: shortest_around(max),
            jitter_percent: AROUND_PERCENT,
            reset_after: Duration::MAX,
        }
    }
}

/// The delays of what fails again and again.
#[derive(Debug)]
pub struct Backoff {
    options: BackoffOptions,
    /// The next delay, before jitter.
    delay: Duration,
    last_failure: Option<Moment>,
}

impl Backoff {
    /// Starts with the first delay.
    #[must_use]
    pub fn new(options: BackoffOptions) -> Self {
        Self {
            options,
            delay: options.first.min(options.max),
            last_failure: None,
        }
    }

    /// An attempt succeeded: the next delay is the first one again.
    pub fn reset(&mut self) {
        self.delay = self.options.first.min(self.options.max);
        self.last_failure = None;
    }

    /// How long to wait after a failure at `now`; `random` is a new random number.
    pub fn after_failure(&mut self, now: Moment, random: u64) -> Duration {
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
#[must_use]
pub fn with_jitter(delay: Duration, percent: u32, random: u64) -> Duration {
    let most_nanos = delay.as_nanos().saturating_mul(u128::from(percent)) / 100;
    let most_nanos = u64::try_from(most_nanos).unwrap_or(u64::MAX);
    let added = (u128::from(random) * (u128::from(most_nanos) + 1)) >> 64;
    delay.saturating_add(Duration::from_nanos(u64::try_from(added).unwrap_or(u64::MAX)))
}

/// How much longer than the shortest one a delay of [`around`] may be: from 80 % to 120 %.
const AROUND_PERCENT: u32 = 50;

/// `delay`, 20 % shorter to 20 % longer, so that what started together does not stay together.
#[must_use]
pub fn around(delay: Duration, random: u64) -> Duration {
    with_jitter(shortest_around(delay), AROUND_PERCENT, random)
}

fn shortest_around(delay: Duration) -> Duration {
    delay.saturating_mul(4) / 5
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

    #[test]
    fn delays_around_a_value_differ_from_it_by_a_fifth() {
        let seconds = |delay: Duration| delay.as_secs_f64();
        assert_eq!(seconds(around(Duration::from_secs(10), 0)), 8.0);
        assert_eq!(seconds(around(Duration::from_secs(10), u64::MAX)), 12.0);
        let options = BackoffOptions::around(Duration::from_secs(1), Duration::from_secs(30));
        let mut backoff = Backoff::new(options);
        let delays: Vec<f64> = (0..7)
            .map(|hour| seconds(backoff.after_failure(at(hour * 3_600), 0)))
            .collect();
        assert_eq!(delays, [0.8, 1.6, 3.2, 6.4, 12.8, 24.0, 24.0]);
    }
}
