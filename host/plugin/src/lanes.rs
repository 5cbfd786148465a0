//! Which guests may run while they take long.
//!
//! ```text
//! a call's first 20 ms            any worker
//! after that                      slow lane: half the workers, in turns of a tick
//! a plugin that overran lately    slow lane from the first tick, and one worker for all of these
//! ```
//!
//! A call that ends soon is never in a lane. One that does not gives its worker back at each tick, and takes its turn
//! with all others that take long; so half the workers are left to those that do not, whoever loops and however many.
//! Turns are in the order of asking. A guest that waits in the host holds no turn.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use informant_cache::Moment;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::ticker::TICK;

/// Time a call may run before it counts as slow: 20 ms.
pub const SLOW_CALL: Duration = Duration::from_millis(20);

/// How long a plugin counts as one that overran after its last timeout: 60 s.
pub const OVERRAN_FOR: Duration = Duration::from_secs(60);

/// [`SLOW_CALL`] in ticks.
const SLOW_TICKS: u64 = (SLOW_CALL.as_millis() / TICK.as_millis()) as u64;

/// The lanes of one host.
#[derive(Debug)]
pub(crate) struct Lanes {
    slow: Arc<Semaphore>,
    /// Turns of plugins that overran; they need one of `slow` too.
    overran: Arc<Semaphore>,
}

/// A guest's leave to run until the next tick.
#[derive(Debug)]
pub(crate) struct Permit {
    _slow: OwnedSemaphorePermit,
    _overran: Option<OwnedSemaphorePermit>,
}

/// Where a guest keeps its permit while it runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turn(Arc<Mutex<Option<Permit>>>);

/// Whether a plugin overran lately. Shared by its instances.
#[derive(Debug, Default)]
pub(crate) struct Conduct {
    overran: AtomicBool,
    until: AtomicU64,
}

impl Lanes {
    /// For a runtime with so many workers.
    pub(crate) fn new(workers: usize) -> Lanes {
        Lanes {
            slow: Arc::new(Semaphore::new((workers / 2).max(1))),
            overran: Arc::new(Semaphore::new(1)),
        }
    }

    /// Waits for a turn, if a guest that ran for `ticks` in this call needs one.
    pub(crate) async fn turn(&self, ticks: u64, overran: bool) -> Option<Permit> {
        if !overran && ticks <= SLOW_TICKS {
            return None;
        }
        // Always in this order. The semaphores are never closed.
        let of_overran = match overran {
            true => Some(Arc::clone(&self.overran).acquire_owned().await.ok()?),
            false => None,
        };
        Some(Permit {
            _slow: Arc::clone(&self.slow).acquire_owned().await.ok()?,
            _overran: of_overran,
        })
    }
}

impl Turn {
    /// The guest runs by `permit` from now on.
    pub(crate) fn take(&self, permit: Option<Permit>) {
        // An assignment: whole after any panic.
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = permit;
    }

    /// The guest does not run now.
    pub(crate) fn give_back(&self) {
        self.take(None);
    }
}

impl Conduct {
    /// The plugin overran.
    pub(crate) fn overran(&self, now: Moment) {
        self.until.store((now + OVERRAN_FOR).as_nanos(), Ordering::Relaxed);
        self.overran.store(true, Ordering::Release);
    }

    /// Forgives what lies back far enough.
    pub(crate) fn review(&self, now: Moment) {
        if self.is_bad() && now.as_nanos() >= self.until.load(Ordering::Relaxed) {
            self.overran.store(false, Ordering::Release);
        }
    }

    /// What was is forgotten: somebody says that it is well again, or it is another version.
    pub(crate) fn forgive(&self) {
        self.overran.store(false, Ordering::Release);
    }

    pub(crate) fn is_bad(&self) -> bool {
        self.overran.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn quick_calls_need_no_turn_and_slow_ones_share_half_the_workers() {
        let lanes = Lanes::new(4);
        for _ in 0..100 {
            assert!(lanes.turn(SLOW_TICKS, false).now_or_never().unwrap().is_none());
        }
        let slow = || lanes.turn(SLOW_TICKS + 1, false).now_or_never();
        let first = slow().unwrap();
        let second = slow().unwrap();
        assert!(first.is_some() && second.is_some());
        assert!(slow().is_none(), "a third one waits");
        drop(first);
        assert!(slow().is_some());
    }

    #[test]
    fn plugins_that_overran_have_one_worker_between_them() {
        let lanes = Lanes::new(16);
        let overran = || lanes.turn(0, true).now_or_never();
        let first = overran().unwrap();
        assert!(first.is_some());
        assert!(overran().is_none());
        drop(first);
        assert!(overran().is_some());
    }

    #[test]
    fn one_worker_is_enough_for_everybody() {
        let lanes = Lanes::new(1);
        assert!(lanes.turn(SLOW_TICKS + 1, false).now_or_never().is_some());
    }

    #[test]
    fn an_overrun_is_forgiven_in_time() {
        let conduct = Conduct::default();
        assert!(!conduct.is_bad());
        conduct.overran(Moment::ZERO);
        conduct.review(Moment::ZERO + OVERRAN_FOR / 2);
        assert!(conduct.is_bad());
        conduct.review(Moment::ZERO + OVERRAN_FOR);
        assert!(!conduct.is_bad());
    }
}
