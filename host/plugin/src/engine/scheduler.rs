//! The CPU scheduler: which of the slow calls may run.
//!
//! ```text
//! a call's first 20 ms            any worker
//! after that                      slow queue: half the workers, one tick at a time
//! a plugin that overran lately    slow queue from the first tick, and one worker for all of these
//! ```
//!
//! A quick call needs no permit. A slow one gives up its worker at each tick and queues for the next permit with all
//! other slow calls, so half the workers stay free for quick calls, however many guests loop. Plugins take turns,
//! however many instances each has; permits of a plugin are granted in the order of requests. A guest that waits in the
//! host holds no permit.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use informant_cache::Moment;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::engine::ticker::TICK;
use crate::sync::lock;

/// Time a call may run before it counts as slow: 20 ms.
pub(crate) const SLOW_CALL: Duration = Duration::from_millis(20);

/// How long a plugin stays in the queue of those that overran after its last timeout: 60 s.
pub(crate) const OVERRAN_FOR: Duration = Duration::from_secs(60);

/// [`SLOW_CALL`] in ticks.
const SLOW_TICKS: u64 = (SLOW_CALL.as_millis() / TICK.as_millis()) as u64;

#[derive(Debug)]
pub(crate) struct CpuScheduler {
    slow: Arc<Semaphore>,
    /// Permits of plugins that overran; they need one of `slow`, too.
    overran: Arc<Semaphore>,
}

/// Lets a guest run until the next tick.
#[derive(Debug)]
pub(crate) struct RunPermit {
    _slow: OwnedSemaphorePermit,
    _overran: Option<OwnedSemaphorePermit>,
}

/// Holds a guest's permit while it runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct PermitSlot(Arc<Mutex<Option<RunPermit>>>);

/// Whether a plugin overran recently, and its turn among slow plugins. Shared by its instances.
#[derive(Debug)]
pub(crate) struct OverrunHistory {
    overran: AtomicBool,
    until: AtomicU64,
    /// Held while one of its slow calls waits for a permit: however many wait, the plugin has one place in the queue.
    turn: Semaphore,
}

impl Default for OverrunHistory {
    fn default() -> OverrunHistory {
        OverrunHistory {
            overran: AtomicBool::default(),
            until: AtomicU64::default(),
            turn: Semaphore::new(1),
        }
    }
}

impl CpuScheduler {
    /// For a runtime with so many workers.
    pub(crate) fn new(workers: usize) -> CpuScheduler {
        CpuScheduler {
            slow: Arc::new(Semaphore::new((workers / 2).max(1))),
            overran: Arc::new(Semaphore::new(1)),
        }
    }

    /// Waits for a permit, if a guest of `plugin` that ran for `ticks` in this call needs one.
    pub(crate) async fn acquire(&self, ticks: u64, plugin: &OverrunHistory) -> Option<RunPermit> {
        let overran = plugin.has_overrun();
        if !overran && ticks <= SLOW_TICKS {
            return None;
        }
        // Always in this order. The semaphores are never closed.
        let _turn = plugin.turn.acquire().await.ok()?;
        let overran_permit = match overran {
            true => Some(Arc::clone(&self.overran).acquire_owned().await.ok()?),
            false => None,
        };
        Some(RunPermit {
            _slow: Arc::clone(&self.slow).acquire_owned().await.ok()?,
            _overran: overran_permit,
        })
    }
}

impl PermitSlot {
    /// The guest runs with `permit` from now on.
    pub(crate) fn set(&self, permit: Option<RunPermit>) {
        // An assignment: whole after any panic.
        *lock(&self.0) = permit;
    }

    /// The guest does not run: gives the permit back.
    pub(crate) fn release(&self) {
        self.set(None);
    }
}

impl OverrunHistory {
    pub(crate) fn record_overrun(&self, now: Moment) {
        self.until.store((now + OVERRAN_FOR).as_nanos(), Ordering::Relaxed);
        self.overran.store(true, Ordering::Release);
    }

    /// Forgets an overrun that is older than [`OVERRAN_FOR`].
    pub(crate) fn expire(&self, now: Moment) {
        if self.has_overrun() && now.as_nanos() >= self.until.load(Ordering::Relaxed) {
            self.overran.store(false, Ordering::Release);
        }
    }

    /// Forgets the overrun: the plugin was resumed, or another version was activated.
    pub(crate) fn reset(&self) {
        self.overran.store(false, Ordering::Release);
    }

    pub(crate) fn has_overrun(&self) -> bool {
        self.overran.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn only_slow_calls_need_a_permit() {
        let (scheduler, plugin) = (CpuScheduler::new(4), OverrunHistory::default());
        for _ in 0..100 {
            assert!(scheduler.acquire(SLOW_TICKS, &plugin).now_or_never().unwrap().is_none());
        }
        let slow = || scheduler.acquire(SLOW_TICKS + 1, &plugin).now_or_never();
        let first = slow().unwrap();
        let second = slow().unwrap();
        assert!(first.is_some() && second.is_some());
        assert!(slow().is_none(), "a third one waits");
        drop(first);
        assert!(slow().is_some());
    }

    #[test]
    fn plugins_that_overran_share_one_worker() {
        let (scheduler, plugin) = (CpuScheduler::new(16), OverrunHistory::default());
        plugin.record_overrun(Moment::ZERO);
        let overran = || scheduler.acquire(0, &plugin).now_or_never();
        let first = overran().unwrap();
        assert!(first.is_some());
        assert!(overran().is_none());
        drop(first);
        assert!(overran().is_some());
    }

    #[test]
    fn one_worker_suffices() {
        let (scheduler, plugin) = (CpuScheduler::new(1), OverrunHistory::default());
        assert!(scheduler.acquire(SLOW_TICKS + 1, &plugin).now_or_never().is_some());
    }

    #[test]
    fn slow_plugins_take_turns_whatever_their_instances() {
        let scheduler = CpuScheduler::new(2);
        let (many, one) = (OverrunHistory::default(), OverrunHistory::default());
        let slow = |plugin| Box::pin(scheduler.acquire(SLOW_TICKS + 1, plugin));
        let running = slow(&many).now_or_never().unwrap();
        let mut waiting: Vec<_> = (0..16).map(|_| slow(&many)).collect();
        for request in &mut waiting {
            assert!(request.now_or_never().is_none());
        }
        let mut other = slow(&one);
        assert!((&mut other).now_or_never().is_none());
        drop(running);
        let next = (&mut waiting[0]).now_or_never();
        assert!(next.is_some(), "it came first");
        for request in &mut waiting[1..] {
            assert!(request.now_or_never().is_none());
        }
        drop(next);
        assert!(other.now_or_never().is_some(), "before the 15 others");
    }

    #[test]
    fn an_overrun_expires() {
        let history = OverrunHistory::default();
        assert!(!history.has_overrun());
        history.record_overrun(Moment::ZERO);
        history.expire(Moment::ZERO + OVERRAN_FOR / 2);
        assert!(history.has_overrun());
        history.expire(Moment::ZERO + OVERRAN_FOR);
        assert!(!history.has_overrun());
    }
}
