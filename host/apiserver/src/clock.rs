//! The server's source of time. Nothing else in this crate reads a clock or sleeps.

use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::time::Duration;

/// A sleep of a [`Clock`].
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The server's only source of time.
///
/// Time is counted from the clock's start; [`Options::start`](crate::Options::start) is the calendar time of that
/// moment.
pub trait Clock: Send + Sync + 'static {
    /// Time since the clock started. Monotonic.
    fn now(&self) -> Duration;

    /// Completes once `duration` has passed.
    fn sleep(&self, duration: Duration) -> Sleep;
}

/// tokio's time: real, or virtual in a runtime whose clock is paused.
///
/// Starts at its first use, so that it can be created before its runtime.
#[derive(Debug, Default)]
pub struct TokioClock {
    began: OnceLock<tokio::time::Instant>,
}

impl TokioClock {
    /// A clock that has not started yet.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Duration {
        let now = tokio::time::Instant::now();
        now.saturating_duration_since(*self.began.get_or_init(|| now))
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        Box::pin(tokio::time::sleep(duration))
    }
}
