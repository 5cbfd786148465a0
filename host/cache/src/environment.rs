//! Time, tasks and random numbers, injected. [`Moment`] is `Instant` without a system clock: nothing here reads a
//! clock, so that tests and the simulation control the time.
//!
//! Only the trait is defined here, using only std, so that pure crates need no runtime. The daemon uses tokio's clock,
//! the simulation paused time and a seed; the code that uses the trait is the same.

use std::fmt;
use std::future::Future;
use std::ops::{Add, AddAssign, Sub};
use std::pin::Pin;
use std::time::Duration;

/// A future that owns what it needs and may move between threads.
pub type BoxFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The source of time, tasks and random numbers. Nothing reads a clock, spawns a task or draws random numbers in any
/// other way.
pub trait Environment: Send + Sync + 'static {
    /// The current time. Never goes back.
    fn now(&self) -> Moment;

    /// The current time of a clock that counts while the machine sleeps, for leases. Never goes back. Its moments must
    /// not be compared with those of [`now`](Self::now).
    fn boot_now(&self) -> Moment {
        self.now()
    }

    /// Completes after `duration`. Dropping it cancels.
    fn sleep(&self, duration: Duration) -> BoxFuture;

    /// Spawns `task`. `name` is for diagnostics and need not be unique.
    fn spawn(&self, name: &'static str, task: BoxFuture);

    /// A number for jitter and seeds. Not for secrets.
    fn random(&self) -> u64;
}

/// Nanoseconds since the environment started. 64 bits last 584 years; sums saturate instead of overflowing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The start of the environment.
    pub const ZERO: Moment = Moment(0);

    /// Later than any other moment; means "never".
    pub const NEVER: Moment = Moment(u64::MAX);

    /// The moment `nanos` nanoseconds after the environment started.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Moment {
        Moment(nanos)
    }

    /// Nanoseconds since the environment started.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this is; zero if it is not after it.
    #[must_use]
    pub const fn since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, duration: Duration) -> Moment {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Moment(self.0.saturating_add(nanos))
    }
}

impl AddAssign<Duration> for Moment {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub for Moment {
    type Output = Duration;

    fn sub(self, earlier: Moment) -> Duration {
        self.since(earlier)
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from_nanos(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_and_sums_saturate() {
        let second = Duration::from_secs(1);
        assert_eq!(Moment::ZERO - (Moment::ZERO + second), Duration::ZERO);
        assert_eq!((Moment::ZERO + second) - Moment::ZERO, second);
        assert_eq!(Moment::ZERO + Duration::MAX, Moment::NEVER);
        assert_eq!(Moment::NEVER + second, Moment::NEVER);
    }
}
