//! How many guests run, and the wake-up of a thread that sleeps while none does.
//!
//! `sync` is the standard library's. `tests/wake-ups` includes this file with loom's, so it uses nothing else.

use super::sync::{AtomicBool, AtomicUsize, Ordering};

/// Guests that are being called now, and whether the thread sleeps.
pub(crate) struct GuestCount {
    running: AtomicUsize,
    asleep: AtomicBool,
    stop: AtomicBool,
}

impl GuestCount {
    pub(crate) fn new() -> GuestCount {
        GuestCount {
            running: AtomicUsize::new(0),
            asleep: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        }
    }

    /// A guest starts. `wake` wakes the thread, which may have begun to sleep.
    pub(crate) fn enter(&self, wake: impl FnOnce()) {
        self.running.fetch_add(1, Ordering::AcqRel);
        if self.asleep.load(Ordering::Acquire) {
            wake();
        }
    }

    /// A guest has ended.
    pub(crate) fn leave(&self) {
        self.running.fetch_sub(1, Ordering::AcqRel);
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running.load(Ordering::Acquire) > 0
    }

    #[cfg(test)]
    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::Acquire)
    }

    /// Ends the thread. Wake it afterwards.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Sleeps, by `park`, until a guest runs or the thread is to end.
    pub(crate) fn sleep(&self, mut park: impl FnMut()) {
        self.asleep.store(true, Ordering::Release);
        // Not a load: it could miss a guest that has not seen `asleep`. Of two that add to one number, the second has
        // seen what the first did before.
        while self.running.fetch_add(0, Ordering::AcqRel) == 0 && !self.is_stopped() {
            park();
        }
        self.asleep.store(false, Ordering::Release);
    }
}
