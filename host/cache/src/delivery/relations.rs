//! Relations: which changes lead to calls about objects of other sources.

use std::fmt;
use std::sync::Arc;

use informant_object::{Key, KeyRef, ResourceVersion, SourceId};

use crate::Snapshot;
use crate::delivery::change::{ChangeKind, ObjectChange};

/// Which sources of a listener lead to objects of others.
pub trait Relations: fmt::Debug + Send + Sync {
    /// What the objects of `source` lead to. None: they are delivered themselves.
    fn of(&self, source: SourceId) -> Option<Arc<dyn Relation>>;

    /// Whether `source`, which leads to others, has at `snapshot` what it had before the first call about those.
    fn is_as_before(&self, source: SourceId, snapshot: &Snapshot) -> bool;
}

/// What the objects of one source lead to.
pub trait Relation: fmt::Debug + Send + Sync {
    /// Whether it may be objects of `source`.
    fn leads_to(&self, source: SourceId) -> bool;

    /// Calls `found` for all that `change` leads to, by its states before and after. Called in the informer's loop: it
    /// must be quick.
    fn map(&self, change: &ChangeKind, found: &mut dyn FnMut(RelatedTo<'_>));
}

/// The related object whose change led to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelatedCause {
    /// Its source.
    pub source: SourceId,
    /// Its key.
    pub key: Key,
    /// Its version after the change, or the last known one; empty if none is known.
    pub version: ResourceVersion,
    /// `add`, `update` or `delete`.
    pub event: &'static str,
}

impl RelatedCause {
    /// A change of an object of `source`.
    pub(crate) fn of(source: SourceId, change: &ObjectChange) -> RelatedCause {
        let (event, state) = match &change.kind {
            ChangeKind::Add(object) => ("add", Some(object)),
            ChangeKind::Update { new, .. } => ("update", Some(new)),
            ChangeKind::Delete { last, .. } => ("delete", last.as_ref()),
            // It leads to nothing.
            ChangeKind::Forget { .. } => ("forget", None),
        };
        RelatedCause {
            source,
            key: change.key().to_key(),
            version: state.map_or_else(ResourceVersion::default, |state| state.version().to_version()),
            event,
        }
    }
}

/// What a change leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelatedTo<'a> {
    /// The object at this key, whatever its uid: what an earlier object of the name owned is gone soon, and its end
    /// concerns the present one.
    Object(KeyRef<'a>),
    /// The objects that an index of their source has under a value. While the index is not ready, all of them.
    Index {
        /// The name of the index.
        name: &'a str,
        /// The value.
        value: &'a str,
    },
    /// All objects: which it is is unknown.
    All,
}
