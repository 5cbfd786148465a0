//! What readers may still use and the writer no longer needs.

use super::Snapshot;

/// Replaced roots that a writer keeps for whoever takes them. Beyond it the oldest is freed by the writer itself, and
/// counted in [`StoreWriter::garbage_freed_here`](crate::StoreWriter::garbage_freed_here).
pub const GARBAGE_ROOTS_MAX: usize = 256;

/// Replaced roots. Dropping it frees what no reader uses any more, which for a large store takes tens of milliseconds:
/// drop it on a thread where nobody waits.
#[derive(Debug, Default)]
#[must_use = "dropping it here frees it here"]
pub struct Garbage {
    roots: Vec<Snapshot>,
}

impl Garbage {
    pub(crate) fn of(root: Snapshot) -> Garbage {
        Garbage { roots: vec![root] }
    }

    /// How many roots it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.roots.len()
    }

    /// Whether there is nothing to free.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    /// Adds `roots` without a limit.
    pub(super) fn with(mut self, roots: impl IntoIterator<Item = Snapshot>) -> Garbage {
        self.roots.extend(roots);
        self
    }

    /// Adds `root`; returns whether another had to be freed for it.
    pub(super) fn push(&mut self, root: Snapshot) -> bool {
        let full = self.roots.len() >= GARBAGE_ROOTS_MAX;
        if full {
            self.roots.remove(0);
        }
        self.roots.push(root);
        full
    }
}
