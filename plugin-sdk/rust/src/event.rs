//! What a handler is told about beside the object itself.

use std::fmt;
use std::rc::Rc;

use crate::bindings::imports::informant::plugin::types as contract;
use crate::failure::Result;
use crate::store::{self, SourceInfo};

pub use contract::Reason;

/// A source of objects: one resource of one cluster in one namespace or all. Never reused while Informant runs.
///
/// [`store::source`] says what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u32);

impl fmt::Display for SourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which object a call is about, and why the call is made.
///
/// Displayed as kubectl would name the object: `namespace/name`, or `name` if it is cluster-scoped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Where the object came from.
    pub source: SourceId,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// Tells an object from a later one of the same name.
    pub uid: String,
    /// Opaque text; compare only for equality.
    pub resource_version: String,
    /// Why the call is made.
    pub reason: Reason,
    /// 0 at the first try, then one more for each retry.
    pub attempt: u32,
}

impl Event {
    /// Informer, cluster, apiVersion and kind of the object. Asked for once per source.
    ///
    /// # Errors
    /// A [`HostError`](crate::HostError) as a [`Failure`](crate::Failure).
    pub fn source_info(&self) -> Result<Rc<SourceInfo>> {
        Ok(store::source(self.source)?)
    }

    pub(crate) fn new(object: contract::ObjectRef, call: contract::Call) -> Self {
        Self {
            source: SourceId(object.source),
            namespace: object.namespace,
            name: object.name,
            uid: object.uid,
            resource_version: object.resource_version,
            reason: call.reason,
            attempt: call.attempt,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_key(f, &self.namespace, &self.name)
    }
}

/// An object whose index values are asked for. Displayed as [`Event`] is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRef {
    /// Where the object came from. Index functions cannot ask what it is: their answer must depend on the object alone.
    pub source: SourceId,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// Tells an object from a later one of the same name.
    pub uid: String,
    /// Opaque text; compare only for equality.
    pub resource_version: String,
}

impl From<contract::ObjectRef> for ObjectRef {
    fn from(object: contract::ObjectRef) -> Self {
        Self {
            source: SourceId(object.source),
            namespace: object.namespace,
            name: object.name,
            uid: object.uid,
            resource_version: object.resource_version,
        }
    }
}

impl From<&Event> for ObjectRef {
    fn from(event: &Event) -> Self {
        Self {
            source: event.source,
            namespace: event.namespace.clone(),
            name: event.name.clone(),
            uid: event.uid.clone(),
            resource_version: event.resource_version.clone(),
        }
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_key(f, &self.namespace, &self.name)
    }
}

pub(crate) fn fmt_key(f: &mut fmt::Formatter<'_>, namespace: &str, name: &str) -> fmt::Result {
    if namespace.is_empty() {
        f.write_str(name)
    } else {
        write!(f, "{namespace}/{name}")
    }
}

/// What is known of an object that is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deleted<T> {
    /// The last state the cache knew; none if it knew no more than the key.
    pub last: Option<T>,
    /// Whether the object vanished while nobody watched, so that `last` may be older than the state it was deleted in.
    pub final_state_unknown: bool,
}
