//! Waiting for a source's states to be published.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Tells those who wait for a version that another state is published. Costs the loop one load while nobody waits.
#[derive(Debug, Default)]
pub(super) struct Publishing {
    waiting: AtomicUsize,
    published: Notify,
}

impl Publishing {
    /// Another state is published.
    pub(super) fn tell(&self) {
        // Who began to wait after this was read takes the store's lock after the publishing did, and finds the new
        // state.
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.published.notify_waiters();
        }
    }

    pub(super) fn wait(&self) -> Waiting<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(self)
    }
}

/// Somebody waits for states to be published, until it is dropped.
pub(crate) struct Waiting<'a>(&'a Publishing);

impl Waiting<'_> {
    /// Ends once another state is published; those published before it is enabled do not count.
    pub(crate) fn published(&self) -> Notified<'_> {
        self.0.published.notified()
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
