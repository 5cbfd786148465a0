//! Where the server's time comes from. Nothing else in the room reads a clock or sleeps.

use std::future::Future;
use std::pin::Pin;
use std::sync::OnceLock;
use std::time::Duration;

/// A sleep that a [`Clock`] handed out.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The server's only source of time.
///
/// Time is counted from the clock's own beginning; [`Options::start`](crate::Options::start) says which moment of the
/// calendar that was.
pub trait Clock: Send + Sync + 'static {
    /// Time since the clock began. Never goes backwards.
    fn now(&self) -> Duration;

    /// Completes once `duration` has passed.
    fn sleep(&self, duration: Duration) -> Sleep;
}

/// tokio's time: real in a usual runtime, virtual in one whose clock is paused.
///
/// Begins at its first use, so that it may be made before the runtime whose time it tells.
#[derive(Debug, Default)]
pub struct TokioClock {
    began: OnceLock<tokio::time::Instant>,
}

impl TokioClock {
    /// A clock that has not begun yet.
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
