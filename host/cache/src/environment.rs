//! What a room may ask of the world besides the network: time, tasks, chance.
//!
//! Only the trait is here, in terms of std, so that the pure rooms can pass it on without knowing a runtime. A daemon
//! runs on tokio's clock, a simulation on paused time and a seed; neither shows in the code that uses it.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::Moment;

/// A future that owns what it needs and may move between threads.
pub type BoxFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where time, tasks and randomness come from. Nothing reads a clock, spawns or draws in any other way.
pub trait Environment: Send + Sync + 'static {
    /// Now. Never goes back.
    fn now(&self) -> Moment;

    /// Ends once `duration` has passed. Dropping it cancels.
    fn sleep(&self, duration: Duration) -> BoxFuture;

    /// Runs `task` on its own. `name` is for diagnostics and need not be unique.
    fn spawn(&self, name: &'static str, task: BoxFuture);

    /// A number for jitter and seeds. Not for secrets.
    fn random(&self) -> u64;
}
