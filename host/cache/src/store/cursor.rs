//! A resumable iterator over a snapshot.

use std::collections::VecDeque;

use informant_object::{KeyRef, Object};

use super::Snapshot;

/// Objects fetched per descent into the tree.
const CHUNK_OBJECTS: usize = 64;

/// Iterates over a snapshot's objects in key order, one at a time; copies only one chunk of handles at once.
#[derive(Clone, Debug)]
pub struct Cursor {
    snapshot: Snapshot,
    /// Fetched and not yet returned.
    chunk: VecDeque<Object>,
    /// The last one returned: the cursor has passed all keys up to its key.
    last: Option<Object>,
    remaining: usize,
}

impl Cursor {
    pub(super) fn new(snapshot: Snapshot) -> Cursor {
        Cursor {
            remaining: snapshot.len(),
            snapshot,
            chunk: VecDeque::new(),
            last: None,
        }
    }

    /// Whether the cursor has passed `key`, in the snapshot or not.
    #[must_use]
    pub fn has_passed(&self, key: KeyRef<'_>) -> bool {
        self.last.as_ref().is_some_and(|last| key <= last.key())
    }

    /// How many objects are left.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.remaining
    }
}

impl Iterator for Cursor {
    type Item = Object;

    fn next(&mut self) -> Option<Object> {
        if self.chunk.is_empty() && self.remaining > 0 {
            let last = self.last.as_ref().map(Object::key);
            self.chunk
                .extend(self.snapshot.after(last).take(CHUNK_OBJECTS).cloned());
        }
        let next = self.chunk.pop_front()?;
        self.remaining -= 1;
        self.last = Some(next.clone());
        Some(next)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.remaining, Some(self.remaining))
    }
}

impl ExactSizeIterator for Cursor {}
