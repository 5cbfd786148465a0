//! The queue, the store and the workqueue for programs with threads: shared by cloning, thread-safe, and blocking where
//! client-go's block.
//!
//! | client-go | here |
//! |---|---|
//! | `cache.DeltaFIFO`, `cache.Queue` | [`DeltaFifo`] |
//! | `cache.Store`, `cache.Indexer`, `cache.ThreadSafeStore` | [`Indexer`] |
//! | `workqueue.TypedRateLimitingInterface`, `TypedDelayingInterface`, `TypedInterface` | [`WorkQueue`] |
//!
//! They have the guarantees of the pure types, behind a lock that is not held while a caller's code runs, except where
//! documented. The only module of this crate that blocks. It reads no clock either: a [`ClockFn`] is passed in.

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

/// A clock: returns the current time. Must not go back.
///
/// ```
/// # use std::{sync::Arc, time::Instant};
/// # use informant_cache::{Moment, blocking::ClockFn};
/// let began = Instant::now();
/// let clock: ClockFn = Arc::new(move || Moment::ZERO + began.elapsed());
/// # assert!(clock() <= clock());
/// ```
pub type ClockFn = Arc<dyn Fn() -> Moment + Send + Sync>;

/// Ignores lock poisoning: the state behind the lock stays consistent when a caller panics.
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
