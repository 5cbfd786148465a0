//! What the informer loop tells a listener: one change of one object, as the store saw it.

use informant_object::{Key, KeyRef, Object};

use crate::{Moment, Reason};

/// One change of one object, as the store saw it when it was written.
///
/// Cheap to clone: it shares its objects with the store.
#[derive(Clone, Debug)]
pub struct Change {
    /// What happened.
    pub kind: ChangeKind,
    /// Why it is told.
    pub reason: Reason,
    /// When its frame was read.
    pub received: Moment,
}

/// What happened to the object. `old` and `last` are what the store held until then.
#[derive(Clone, Debug)]
pub enum ChangeKind {
    /// The store did not hold it.
    Add(Object),
    /// The store held `old`. Where the uids differ the listener tells it as a delete and an add.
    Update {
        /// What the store held.
        old: Object,
        /// What it holds now.
        new: Object,
    },
    /// The store holds it no more.
    Delete {
        /// The last known state; none only where nothing but the key is known.
        last: Option<Object>,
        /// Which object is gone.
        key: Key,
        /// The object vanished unseen: `last` may be older than the state it was deleted in. client-go's
        /// `DeletedFinalStateUnknown`.
        final_state_unknown: bool,
    },
}

impl Change {
    /// Whose change it is.
    #[must_use]
    pub fn key(&self) -> KeyRef<'_> {
        match &self.kind {
            ChangeKind::Add(object) | ChangeKind::Update { new: object, .. } => object.key(),
            ChangeKind::Delete { key, .. } => key.as_ref(),
        }
    }
}
