//! A lock around a state, and the callback that wakes the thread that waits for a change of it.
//!
//! `sync` is the standard library's. `tests/wake-ups` includes this file with loom's, so it uses nothing else.

use std::sync::Arc;

use super::sync::{Mutex, MutexGuard, PoisonError};

/// Wakes a waiting consumer.
pub(super) type Waker = Arc<dyn Fn() + Send + Sync>;

/// A state that knows whether somebody waits for it.
pub(super) trait TakeWake {
    /// Whether the consumer has to be woken; true once until it waits again.
    fn take_wake(&mut self) -> bool;
}

/// A state, shared by those who change it and one consumer who waits.
pub(super) struct WakingLock<S> {
    state: Mutex<S>,
    waker: Mutex<Option<Waker>>,
}

impl<S: TakeWake> WakingLock<S> {
    pub(super) fn new(state: S) -> WakingLock<S> {
        WakingLock {
            state: Mutex::new(state),
            waker: Mutex::new(None),
        }
    }

    /// Sets the callback. Replaces an earlier one.
    pub(super) fn set_waker(&self, waker: Waker) {
        *lock(&self.waker) = Some(waker);
    }

    /// The state, to read it or to begin to wait for it.
    pub(super) fn lock(&self) -> MutexGuard<'_, S> {
        lock(&self.state)
    }

    /// Changes the state. Decides under the same lock whether the consumer waits, and wakes it without the lock.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut S) -> T) -> T {
        let (result, wake) = {
            let mut state = self.lock();
            let result = change(&mut state);
            (result, state.take_wake())
        };
        if wake {
            let waker = lock(&self.waker).clone();
            if let Some(waker) = waker {
                waker();
            }
        }
        result
    }
}

/// The state is consistent between changes; callbacks panic outside the lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
