//! The queue, the store and the workqueue for programs with threads: shared by cloning, safe from any thread, and
//! waiting where client-go's wait.
//!
//! | client-go | here |
//! |---|---|
//! | `cache.DeltaFIFO`, `cache.Queue` | [`DeltaFifo`] |
//! | `cache.Store`, `cache.Indexer`, `cache.ThreadSafeStore` | [`Indexer`] |
//! | `workqueue.TypedRateLimitingInterface`, `TypedDelayingInterface`, `TypedInterface` | [`WorkQueue`] |
//!
//! Thin: what they promise is what the pure ones promise, behind a lock that is never held while a caller's code runs,
//! but where an item says so. The only place of this room that waits. It still reads no clock: a [`Clock`] is handed
//! in.

mod delta_fifo;
#[cfg(test)]
mod delta_fifo_tests;
mod indexer;
mod work_queue;
#[cfg(test)]
mod work_queue_tests;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use self::delta_fifo::{DeltaFifo, PopError, ProcessError};
pub use self::indexer::Indexer;
pub use self::work_queue::{Wake, WorkQueue};
use crate::Moment;

/// What time it is. Must not go back.
///
/// ```
/// # use std::{sync::Arc, time::Instant};
/// # use informant_cache::{Moment, blocking::Clock};
/// let began = Instant::now();
/// let clock: Clock = Arc::new(move || Moment::ZERO + began.elapsed());
/// # assert!(clock() <= clock());
/// ```
pub type Clock = Arc<dyn Fn() -> Moment + Send + Sync>;

/// Takes a lock that a panic left behind all the same: what is behind it is changed by calls that do not panic half
/// way.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

fn wait_for<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>, time: Duration) -> MutexGuard<'a, T> {
    let woken = condition.wait_timeout(guard, time);
    woken.unwrap_or_else(PoisonError::into_inner).0
}
