//! What a handler receives in addition to the object.

use std::fmt;
use std::ops::Deref;
use std::rc::Rc;

use crate::bindings::imports::informant::plugin::types as contract;
use crate::failure::Result;
use crate::store::{self, SourceInfo};

pub use contract::Reason;

/// A source of objects: one resource in one cluster, in one namespace or all of them. An ID is never reused while
/// Informant runs.
///
/// [`store::source`] returns the details of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u32);

impl fmt::Display for SourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The object that a call is about, and why the call is made.
///
/// Displays as `namespace/name`, or as `name` for a cluster-scoped object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The source that the object comes from.
    pub source: SourceId,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// Distinguishes the object from a later one with the same name.
    pub uid: String,
    /// Opaque: compare it only for equality.
    pub resource_version: String,
    /// Why the call is made.
    pub reason: Reason,
    /// 0 for the first attempt; each retry adds 1.
    pub attempt: u32,
}

impl Event {
    /// The informer, cluster, apiVersion, kind and resource of the object. Requested from Informant once in each call.
    /// [`kube::of`](crate::kube::of) is the object's address.
    ///
    /// # Errors
    /// A [`HostError`](crate::HostError) as a [`Failure`](crate::Failure).
    pub fn source_info(&self) -> Result<Rc<SourceInfo>> {
        Ok(store::source(self.source)?)
    }

    /// Names the state that the event is about: `uid/resourceVersion`. It is the same in each attempt, so services that
    /// take an idempotency key can tell a repetition. A handler that sends several requests adds what each is for.
    pub fn id(&self) -> String {
        format!("{}/{}", self.uid, self.resource_version)
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

/// The object that is to be reconciled, and why. Displays like [`Event`], which it dereferences to.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request {
    /// The object, and the reason of the first cause since the last call: [`Reason::Related`] if another object
    /// changed.
    pub event: Event,
    /// The cache may lack writes of earlier calls for this object, or a watch is down: do not conclude that something
    /// is absent.
    pub cache_is_behind: bool,
}

impl Request {
    pub(crate) fn new(event: Event, cache_is_behind: bool) -> Self {
        Self { event, cache_is_behind }
    }
}

impl Deref for Request {
    type Target = Event;

    fn deref(&self) -> &Event {
        &self.event
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.event.fmt(f)
    }
}

/// A run of a timer. Displays as the timer's name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tick {
    /// The name of the timer.
    pub name: String,
    /// When the run was due, RFC 3339 in UTC: `2026-01-05T07:00:00Z`. It is the same in each attempt.
    pub scheduled: String,
    /// How many earlier runs were missed since the last one; this run stands for them.
    pub missed: u32,
    /// 0 for the first attempt; each retry adds 1.
    pub attempt: u32,
}

impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// The source of which the handler has received every object, and why the call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Synced {
    /// [`store::source`] returns its details.
    pub source: SourceId,
    /// Of the list or replay that has ended.
    pub reason: Reason,
    /// 0 for the first attempt; each retry adds 1.
    pub attempt: u32,
}

impl Synced {
    pub(crate) fn new(source: SourceId, call: contract::Call) -> Self {
        Self {
            source,
            reason: call.reason,
            attempt: call.attempt,
        }
    }
}

/// The object whose index values are computed. Displays like [`Event`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRef {
    /// The source that the object comes from. Index functions cannot look it up: their result must depend only on the
    /// object.
    pub source: SourceId,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// The object's name.
    pub name: String,
    /// Distinguishes the object from a later one with the same name.
    pub uid: String,
    /// Opaque: compare it only for equality.
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

/// What is known about a deleted object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deleted<T> {
    /// The last state in the cache. `None` if only the key is known.
    pub last: Option<T>,
    /// Whether the delete happened while no watch was running, so that the object may have changed after `last`.
    pub final_state_unknown: bool,
}
