//! The server's source of time. Nothing else in this crate reads a clock or sleeps.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;

/// A sleep of a [`Clock`].
pub(crate) type Sleep = Pin<Box<tokio::time::Sleep>>;

/// The server's only source of time: tokio's, real, or virtual in a runtime whose clock is paused. Clones share it.
///
/// Starts at its first use, so that it can be created before its runtime. [`Options::start`](crate::Options::start) is
/// the calendar time of that moment.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    began: Arc<OnceLock<Instant>>,
}

impl Clock {
    /// Time since the clock started. Monotonic.
    pub(crate) fn now(&self) -> Duration {
        let now = Instant::now();
        now.saturating_duration_since(*self.began.get_or_init(|| now))
    }

    /// Completes once `duration` has passed.
    pub(crate) fn sleep(&self, duration: Duration) -> Sleep {
        Box::pin(tokio::time::sleep(duration))
    }
}
