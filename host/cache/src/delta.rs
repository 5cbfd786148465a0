//! One change of one object, and all queued changes of one key.
//!
//! Plain data. Which deltas may follow each other is up to the queue ([`DeltaFifo`](crate::DeltaFifo)), except for one
//! rule of the list itself: two deletes in a row become one.

use std::ops::Deref;

use informant_object::{Key, KeyRef, Object};

use crate::{Moment, Reason};

/// What happened to an object. Source: client-go `DeltaType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeltaType {
    /// The watch reported a created object.
    Added,
    /// The watch reported a changed object.
    Updated,
    /// The object was deleted: the watch reported it, or a list lacked the object (then the delta's object is a
    /// [`Tombstone`]).
    Deleted,
    /// A list contained the object. The store decides whether it is new, changed or unchanged.
    Replaced,
}

/// A delete whose final state was not observed; client-go's `DeletedFinalStateUnknown`.
#[derive(Clone, Debug)]
pub struct Tombstone {
    /// The key of the deleted object.
    pub key: Key,
    /// The newest observed state, which may be older than the final state. None if no state was observed.
    pub object: Option<Object>,
}

/// The object after the change; for a delete the last known state.
#[derive(Clone, Debug)]
pub enum DeltaObject {
    /// A state from the API server.
    Object(Object),
    /// The last known state of an object whose delete was not observed. Boxed: rare, and larger than the other variant.
    Tombstone(Box<Tombstone>),
}

/// One change of one object.
#[derive(Clone, Debug)]
pub struct Delta {
    /// What happened.
    pub kind: DeltaType,
    /// The object after it.
    pub object: DeltaObject,
    /// The reason of the change.
    pub reason: Reason,
    /// When its frame was read.
    pub received: Moment,
}

/// All queued changes of one key, oldest first. Never empty.
///
/// Derefs to a slice. One delta, by far the most common case, needs no allocation.
#[derive(Clone, Debug)]
pub struct Deltas(Repr);

#[derive(Clone, Debug)]
enum Repr {
    One(Delta),
    Many(Vec<Delta>),
}

impl DeltaObject {
    /// The key of the object.
    #[must_use]
    pub fn key(&self) -> KeyRef<'_> {
        match self {
            DeltaObject::Object(object) => object.key(),
            DeltaObject::Tombstone(tombstone) => tombstone.key.as_ref(),
        }
    }

    /// The state itself, of an object or a tombstone; none for a tombstone without one.
    #[must_use]
    pub fn object(&self) -> Option<&Object> {
        match self {
            DeltaObject::Object(object) => Some(object),
            DeltaObject::Tombstone(tombstone) => tombstone.object.as_ref(),
        }
    }

    /// Whether the final state was not observed.
    #[must_use]
    pub fn is_tombstone(&self) -> bool {
        matches!(self, DeltaObject::Tombstone(_))
    }
}

impl From<Object> for DeltaObject {
    fn from(object: Object) -> DeltaObject {
        DeltaObject::Object(object)
    }
}

impl From<Tombstone> for DeltaObject {
    fn from(tombstone: Tombstone) -> DeltaObject {
        DeltaObject::Tombstone(Box::new(tombstone))
    }
}

impl Delta {
    /// The key of the object.
    #[must_use]
    pub fn key(&self) -> KeyRef<'_> {
        self.object.key()
    }
}

impl Deltas {
    /// A list of one.
    #[must_use]
    pub fn new(delta: Delta) -> Deltas {
        Deltas(Repr::One(delta))
    }

    /// The key of the object.
    #[must_use]
    pub fn key(&self) -> KeyRef<'_> {
        self.newest().key()
    }

    /// The last change.
    #[must_use]
    pub fn newest(&self) -> &Delta {
        self.last().expect("a list of deltas is never empty")
    }

    /// Appends `delta`, unless it and the newest are both deletes: then one is kept, the earlier one if its final state
    /// was observed, otherwise the later one.
    ///
    /// Source: client-go `dedupDeltas`, `isDeletionDup`.
    pub(crate) fn push(&mut self, delta: Delta) {
        let newest = self.newest_mut();
        if delta.kind != DeltaType::Deleted || newest.kind != DeltaType::Deleted {
            self.append(delta);
        } else if newest.object.is_tombstone() {
            *newest = delta;
        }
    }

    /// Appends all to `out`.
    pub(crate) fn drain_into(self, out: &mut Vec<Delta>) {
        match self.0 {
            Repr::One(delta) => out.push(delta),
            Repr::Many(deltas) => out.extend(deltas),
        }
    }

    fn newest_mut(&mut self) -> &mut Delta {
        match &mut self.0 {
            Repr::One(delta) => delta,
            Repr::Many(deltas) => deltas.last_mut().expect("a list of deltas is never empty"),
        }
    }

    fn append(&mut self, delta: Delta) {
        match &mut self.0 {
            Repr::Many(deltas) => deltas.push(delta),
            one @ Repr::One(_) => {
                if let Repr::One(first) = std::mem::replace(one, Repr::Many(Vec::with_capacity(2)))
                    && let Repr::Many(deltas) = one
                {
                    deltas.extend([first, delta]);
                }
            }
        }
    }
}

impl Deref for Deltas {
    type Target = [Delta];

    fn deref(&self) -> &[Delta] {
        match &self.0 {
            Repr::One(delta) => std::slice::from_ref(delta),
            Repr::Many(deltas) => deltas,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queued_key_with_one_delta_takes_32_bytes() {
        assert!(size_of::<Deltas>() <= 32, "{}", size_of::<Deltas>());
    }
}
