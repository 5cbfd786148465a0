//! What an informer loop pushes into a listener.

use informant_object::{Key, KeyRef, Object};

use crate::{Moment, Reason};

/// One change of one object, as the store saw it when it was written.
///
/// Cheap to clone: it shares its objects with the store.
#[derive(Clone, Debug)]
pub struct ObjectChange {
    /// What happened.
    pub kind: ChangeKind,
    /// The reason of the change.
    pub reason: Reason,
    /// When its frame was read.
    pub received: Moment,
}

/// What happened to the object. `old` and `last` are what the store held until then.
#[derive(Clone, Debug)]
pub enum ChangeKind {
    /// The store did not hold it.
    Add(Object),
    /// The store held `old`. If the uids differ, the listener delivers a delete and an add.
    Update {
        /// What the store held.
        old: Object,
        /// What it holds now.
        new: Object,
    },
    /// The store no longer holds it.
    Delete {
        /// The last known state; none only if nothing but the key is known.
        last: Option<Object>,
        /// The key of the deleted object.
        key: Key,
        /// The delete was not observed: `last` may be older than the final state. client-go's
        /// `DeletedFinalStateUnknown`.
        final_state_unknown: bool,
    },
    /// The store no longer holds it, because this process no longer reads its shard: another one calls the handlers.
    Forget {
        /// The key of the object.
        key: Key,
    },
}

impl ObjectChange {
    /// The key of the object.
    #[must_use]
    pub fn key(&self) -> KeyRef<'_> {
        match &self.kind {
            ChangeKind::Add(object) | ChangeKind::Update { new: object, .. } => object.key(),
            ChangeKind::Delete { key, .. } | ChangeKind::Forget { key } => key.as_ref(),
        }
    }
}
