//! Tells an actor whether a command may be queued, at the price of one atomic load.
//!
//! `sync` is the standard library's. `tests/wake-ups` includes this file with loom's, so it uses nothing else.

use super::sync::{AtomicBool, Ordering};

/// Raised after a command was queued, and lowered before the queue is read.
#[derive(Default)]
pub(crate) struct CommandFlag(AtomicBool);

impl CommandFlag {
    pub(crate) fn new() -> CommandFlag {
        CommandFlag(AtomicBool::new(false))
    }

    /// A command was queued.
    pub(crate) fn raise(&self) {
        self.0.swap(true, Ordering::AcqRel);
    }

    /// Nothing is queued any more, and no command is being queued.
    pub(crate) fn lower(&self) {
        self.0.swap(false, Ordering::AcqRel);
    }

    /// Whether a command may be queued.
    pub(crate) fn is_raised(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// The next command, by `receive` from the queue. Does not look into the queue if the flag is not raised.
    pub(crate) fn take<T>(&self, receive: impl FnOnce() -> Option<T>) -> Option<T> {
        if !self.is_raised() {
            return None;
        }
        // Swaps, not stores. A store could overwrite the flag of a command that `receive` does not see yet; a swap that
        // overwrites it has seen what was queued before.
        self.0.swap(false, Ordering::AcqRel);
        let command = receive()?;
        // Another one may be queued behind it.
        self.raise();
        Some(command)
    }
}
