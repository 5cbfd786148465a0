//! Time, tasks and random numbers, injected.
//!
//! Only the trait is here, in terms of std, so that pure crates can pass it on without depending on a runtime. The
//! daemon uses tokio's clock, the simulation paused time and a seed; the code that uses the trait is the same.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::Moment;

/// A future that owns what it needs and may move between threads.
pub type BoxFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The source of time, tasks and random numbers. Nothing reads a clock, spawns a task or draws random numbers in any
/// other way.
pub trait Environment: Send + Sync + 'static {
    /// The current time. Never goes back.
    fn now(&self) -> Moment;

    /// Completes after `duration`. Dropping it cancels.
    fn sleep(&self, duration: Duration) -> BoxFuture;

    /// Spawns `task`. `name` is for diagnostics and need not be unique.
    fn spawn(&self, name: &'static str, task: BoxFuture);

    /// A number for jitter and seeds. Not for secrets.
    fn random(&self) -> u64;
}
