//! One change of one object, and all queued changes of one key.
//!
//! Source: client-go `delta_fifo.go`. An object, or the [`Tombstone`](crate::Tombstone) of one, is a [`DeltaObject`].

use std::fmt;
use std::ops::Deref;

use informant_cache::DeltaObject;
use informant_object::KeyRef;

/// What happened to an object. Source: client-go `DeltaType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeltaType {
    /// The watch reported a created object.
    Added,
    /// The watch reported a changed object.
    Updated,
    /// The object was deleted: the watch reported it, or a list lacked the object (then the delta's object is a
    /// tombstone).
    Deleted,
    /// A list contained the object, which may be new, changed or unchanged.
    Replaced,
    /// Nothing happened: a resync repeats a known object.
    Sync,
}

/// One change of one object.
#[derive(Clone, Debug)]
pub struct Delta {
    /// What happened. client-go: `Type`.
    pub kind: DeltaType,
    /// The object after it; for a delete its last known state.
    pub object: DeltaObject,
}

/// All queued changes of one key, oldest first. Never empty; derefs to a slice.
#[derive(Clone, Debug)]
pub struct Deltas(Vec<Delta>);

impl Delta {
    /// The key of the object.
    #[must_use]
    pub fn key(&self) -> KeyRef<'_> {
        self.object.key()
    }
}

impl Deltas {
    pub(crate) fn new(delta: Delta) -> Deltas {
        Deltas(vec![delta])
    }

    /// The key of the object.
    #[must_use]
    pub fn key(&self) -> KeyRef<'_> {
        self.newest().key()
    }

    /// The first change. client-go: `Oldest`.
    #[must_use]
    pub fn oldest(&self) -> &Delta {
        self.0.first().expect("a list of deltas is never empty")
    }

    /// The last change. client-go: `Newest`.
    #[must_use]
    pub fn newest(&self) -> &Delta {
        self.0.last().expect("a list of deltas is never empty")
    }

    /// Appends `delta`, unless it and the newest are both deletes: then one is kept, the earlier one if its final state
    /// was observed, otherwise the later one. Returns the dropped one.
    ///
    /// Source: client-go `dedupDeltas`, `isDeletionDup`.
    pub(crate) fn push(&mut self, delta: Delta) -> Option<Delta> {
        let newest = self.0.last_mut().expect("a list of deltas is never empty");
        if delta.kind != DeltaType::Deleted || newest.kind != DeltaType::Deleted {
            self.0.push(delta);
            return None;
        }
        Some(if newest.object.is_tombstone() {
            std::mem::replace(newest, delta)
        } else {
            delta
        })
    }
}

impl Deref for Deltas {
    type Target = [Delta];

    fn deref(&self) -> &[Delta] {
        &self.0
    }
}

impl<'a> IntoIterator for &'a Deltas {
    type Item = &'a Delta;
    type IntoIter = std::slice::Iter<'a, Delta>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// `Updated(12)`, `Deleted(unknown final state, last seen at 2)`: for diagnostics and tests.
impl fmt::Display for Delta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind;
        match (self.object.is_tombstone(), self.object.object()) {
            (true, None) => write!(f, "{kind:?}(unknown final state, never seen)"),
            (true, Some(last)) => write!(f, "{kind:?}(unknown final state, last seen at {})", last.version()),
            (false, object) => {
                let version = object.map(|object| object.version().to_string());
                write!(f, "{kind:?}({})", version.unwrap_or_default())
            }
        }
    }
}
