//! One source as the rest of the process sees it: its identity, its state and its current snapshot.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use informant_object::{Object, Shape, SourceId};

use crate::readiness::{Awaited, Readiness};
use crate::store::Snapshot;

/// Bytes kept of a source's last error.
pub const SOURCE_ERROR_BYTES_MAX: usize = 512;

/// The identity of a source. Never changes; another selector or namespace is another source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceInfo {
    /// The informer it belongs to, by its name in config.toml.
    pub informer: String,
    /// The cluster it is read from; empty if there is only one.
    pub cluster: String,
    /// `apiVersion` of its objects.
    pub api_version: String,
    /// `kind` of its objects.
    pub kind: String,
    /// Version and plural of its resource: `v1/pods`, `apps/v1/deployments`.
    pub resource: String,
    /// The namespace it is limited to; none for all, and for cluster-scoped kinds.
    pub namespace: Option<String>,
    /// Whether its objects have namespaces.
    pub namespaced: bool,
    /// Whether it may lack objects that exist, because of a selector.
    pub partial: bool,
}

/// The state of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum SourceState {
    /// The first list is not complete yet.
    Syncing,
    /// The watch is open, and the server responds.
    Live,
    /// Synced once, but the watch is down or silent: the objects may be outdated.
    Stale,
    /// The API server does not serve the resource (yet).
    WaitingForResource,
    /// The API server refuses to list or watch it.
    Forbidden,
    /// The API server does not support the request, for example a field of the field selector.
    Refused,
    /// The source is no longer read.
    Stopped,
}

/// Shapes of one source that are remembered: 8. Above that none is known.
const SHAPES_MAX: usize = 8;

/// The status of a source at one time.
#[derive(Clone, Debug)]
pub struct SourceStatus {
    /// Its state.
    pub state: SourceState,
    /// Whether its first list is complete and published.
    pub synced: bool,
    /// The last error; none while the source is live.
    pub last_error: Option<Arc<str>>,
    /// The snapshot, with objects, bytes, version and epoch.
    pub snapshot: Snapshot,
}

/// One source, shared by its writer and its readers. Locks are held only to swap a pointer.
pub struct Source {
    id: SourceId,
    info: SourceInfo,
    state: AtomicU8,
    synced: AtomicBool,
    /// Whether it is listed among its informer's sources; not while it is staged or draining.
    listed: AtomicBool,
    /// Whether its informer has a resource pattern.
    of_pattern: AtomicBool,
    last_error: Mutex<Option<Arc<str>>>,
    /// Its objects may have any of them. Empty: unknown.
    shapes: Mutex<Shapes>,
    /// None once the source was removed: a late writer does not bring objects back.
    snapshot: Mutex<Option<Snapshot>>,
    body_reader: Mutex<Option<Arc<dyn ReadBodies>>>,
    readiness: Readiness,
}

/// Reads objects of which the store has only the head.
pub trait ReadBodies: Send + Sync {
    /// Answers with the object that `head` is of, whole, or with a newer state of it; at once or later.
    fn read_body(&self, head: &Object, answer: BodyAnswer);
}

/// Takes the answer to a [`ReadBodies::read_body`]. A closure always does.
pub trait AnswerBody: Send {
    /// Whether the answer is no longer waited for, so that the body need not be read.
    fn is_closed(&self) -> bool {
        false
    }

    /// Answers. Returns whether the answer was waited for.
    fn send(self: Box<Self>, body: Result<Object, BodyUnavailable>) -> bool;
}

/// See [`AnswerBody`].
pub type BodyAnswer = Box<dyn AnswerBody>;

impl<F: FnOnce(Result<Object, BodyUnavailable>) + Send> AnswerBody for F {
    fn send(self: Box<Self>, body: Result<Object, BodyUnavailable>) -> bool {
        self(body);
        true
    }
}

/// Why a body was not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyUnavailable {
    /// The object was deleted, or is another one now.
    #[error("it was deleted meanwhile")]
    Gone,
    /// Too many bodies are asked for, or the answer came too late, or it was older than the head.
    #[error("the API server was not asked in time, because too much is read")]
    Busy,
    /// The API server, or the connection to it, failed.
    #[error("the API server did not return it: {0}")]
    Failed(String),
    /// The source is over, or does not read.
    #[error("its informer does not read any more")]
    NoReader,
}

#[derive(Default)]
struct Shapes {
    known: Vec<Arc<Shape>>,
    are_too_many: bool,
}

impl SourceState {
    /// All states, in the order of metrics and status lists.
    pub const ALL: [SourceState; 7] = [
        SourceState::Syncing,
        SourceState::Live,
        SourceState::Stale,
        SourceState::WaitingForResource,
        SourceState::Forbidden,
        SourceState::Refused,
        SourceState::Stopped,
    ];

    /// The name of the state in metrics, `/readyz?verbose` and the CLI.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            SourceState::Syncing => "Syncing",
            SourceState::Live => "Live",
            SourceState::Stale => "Stale",
            SourceState::WaitingForResource => "WaitingForResource",
            SourceState::Forbidden => "Forbidden",
            SourceState::Refused => "Refused",
            SourceState::Stopped => "Stopped",
        }
    }
}

impl fmt::Display for SourceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for SourceInfo {
    /// `pods (v1 Pod in default, cluster east)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} {}", self.informer, self.api_version, self.kind)?;
        if let Some(namespace) = &self.namespace {
            write!(f, " in {namespace}")?;
        }
        if !self.cluster.is_empty() {
            write!(f, ", cluster {}", self.cluster)?;
        }
        f.write_str(")")
    }
}

impl Source {
    pub(crate) fn new(id: SourceId, info: SourceInfo, readiness: Readiness) -> Source {
        Source {
            id,
            info,
            state: AtomicU8::new(SourceState::Syncing as u8),
            synced: AtomicBool::new(false),
            listed: AtomicBool::new(true),
            of_pattern: AtomicBool::new(false),
            last_error: Mutex::default(),
            shapes: Mutex::default(),
            snapshot: Mutex::new(Some(Snapshot::default())),
            body_reader: Mutex::default(),
            readiness,
        }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> SourceId {
        self.id
    }

    /// Its identity.
    #[must_use]
    pub fn info(&self) -> &SourceInfo {
        &self.info
    }

    /// The newest published state.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        lock(&self.snapshot).clone().unwrap_or_default()
    }

    /// Its state.
    #[must_use]
    pub fn state(&self) -> SourceState {
        SourceState::ALL[usize::from(self.state.load(Ordering::Acquire))]
    }

    /// Sets its state; [`SourceState::Stopped`] is final. `Live` clears the [last error](Self::set_last_error).
    pub fn set_state(&self, state: SourceState) {
        let stopped = SourceState::Stopped as u8;
        let unless_stopped = |was: u8| (was != stopped).then_some(state as u8);
        if self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, unless_stopped)
            .is_err()
        {
            return;
        }
        if state == SourceState::Live {
            *lock(&self.last_error) = None;
        }
        if self.is_left_out() {
            self.readiness.notify(Awaited::Source(self.id));
        }
    }

    /// Whether its first list is complete and published. Stays true.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire)
    }

    /// Records that the first list is complete and published.
    pub fn set_synced(&self) {
        if !self.synced.swap(true, Ordering::AcqRel) {
            self.readiness.notify(Awaited::Source(self.id));
        }
    }

    /// Records that its informer has a resource pattern (`*`, `apps/v1/*`) instead of one resource.
    pub fn set_of_pattern(&self) {
        self.of_pattern.store(true, Ordering::Release);
    }

    /// Whether its informer continues without it: it is one kind of a pattern, has never synced, and the API server
    /// does not let Informant read it, or does not serve it. One such kind must not disable the others.
    #[must_use]
    pub fn is_left_out(&self) -> bool {
        let unreadable = matches!(self.state(), SourceState::Forbidden | SourceState::WaitingForResource);
        self.of_pattern.load(Ordering::Acquire) && unreadable && !self.is_synced()
    }

    /// What of it cannot be read yet: itself, or some of `indexes`. Nothing of one that is
    /// [left out](Self::is_left_out).
    #[must_use]
    pub fn not_ready(&self, indexes: &[Arc<str>]) -> Vec<String> {
        let info = self.info();
        if self.is_left_out() {
            return Vec::new();
        }
        if !self.is_synced() {
            return vec![format!("{info} is {}", self.state())];
        }
        let snapshot = self.snapshot();
        let lacking = indexes.iter().filter(|index| !snapshot.has_index(index));
        lacking
            .map(|index| format!("index {index} of {info} is not filled"))
            .collect()
    }

    /// Its objects may have this shape from now on.
    pub fn add_shape(&self, shape: Arc<Shape>) {
        let mut shapes = lock(&self.shapes);
        shapes.are_too_many |= shapes.known.len() == SHAPES_MAX;
        if shapes.are_too_many {
            shapes.known.clear();
        } else {
            shapes.known.push(shape);
        }
    }

    /// The shapes that its objects may have: what it drops of them. Empty if that is not known.
    #[must_use]
    pub fn shapes(&self) -> Vec<Arc<Shape>> {
        lock(&self.shapes).known.clone()
    }

    /// From now on `reader` reads bodies.
    pub fn set_body_reader(&self, reader: Arc<dyn ReadBodies>) {
        *lock(&self.body_reader) = Some(reader);
    }

    /// Reads the object that `head` is of, whole. See [`ReadBodies::read_body`].
    pub fn read_body(&self, head: &Object, answer: BodyAnswer) {
        let reader = lock(&self.body_reader).clone();
        match reader {
            Some(reader) => reader.read_body(head, answer),
            None => {
                answer.send(Err(BodyUnavailable::NoReader));
            }
        }
    }

    /// A body was read: who [waits](Awaited::Body) for one may try again.
    pub fn notify_body_read(&self) {
        self.readiness.notify(Awaited::Body(self.id));
    }

    pub(crate) fn is_listed(&self) -> bool {
        self.listed.load(Ordering::Acquire)
    }

    pub(crate) fn set_listed(&self, listed: bool) {
        self.listed.store(listed, Ordering::Release);
    }

    /// Sets the last error, a text for the source's status. Cut at [`SOURCE_ERROR_BYTES_MAX`].
    pub fn set_last_error(&self, error: &str) {
        let error = &error[..error.floor_char_boundary(SOURCE_ERROR_BYTES_MAX)];
        *lock(&self.last_error) = Some(Arc::from(error));
    }

    /// Its status now.
    #[must_use]
    pub fn status(&self) -> SourceStatus {
        SourceStatus {
            state: self.state(),
            synced: self.is_synced(),
            last_error: lock(&self.last_error).clone(),
            snapshot: self.snapshot(),
        }
    }

    /// Publishes `snapshot` to readers; returns the previous one, or `snapshot` itself if the source was removed.
    pub(crate) fn publish(&self, snapshot: Snapshot) -> Snapshot {
        let new = snapshot.clone();
        let old = match &mut *lock(&self.snapshot) {
            Some(shown) => std::mem::replace(shown, snapshot),
            None => return snapshot,
        };
        if new.has_more_indexes_than(&old) {
            self.readiness.notify(Awaited::Index(self.id));
        }
        old
    }

    /// Removes the snapshot from readers and returns it.
    pub(crate) fn remove(&self) -> Snapshot {
        self.set_state(SourceState::Stopped);
        let last = lock(&self.snapshot).take().unwrap_or_default();
        *lock(&self.body_reader) = None;
        // What waits for it gets another answer now.
        self.readiness.notify(Awaited::Source(self.id));
        self.readiness.notify(Awaited::Index(self.id));
        last
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("id", &self.id)
            .field("info", &self.info)
            .field("state", &self.state())
            .field("synced", &self.is_synced())
            .finish_non_exhaustive()
    }
}

/// Ignores lock poisoning: only one pointer is swapped under the lock, which cannot stay half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use insta::assert_snapshot;

    use super::*;

    fn source() -> Source {
        let info = SourceInfo {
            informer: "pods".to_owned(),
            cluster: "east".to_owned(),
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            resource: "v1/pods".to_owned(),
            namespace: Some("default".to_owned()),
            namespaced: true,
            partial: false,
        };
        Source::new(SourceId(1), info, Readiness::default())
    }

    #[test]
    fn source_starts_syncing_and_stopped_is_final() {
        let source = source();
        assert_eq!((source.state(), source.is_synced()), (SourceState::Syncing, false));
        for state in SourceState::ALL {
            source.set_state(state);
            assert_eq!(source.state(), state);
        }
        source.set_state(SourceState::Live);
        assert_eq!(source.state(), SourceState::Stopped);
    }

    #[test]
    fn only_unreadable_kinds_of_a_pattern_are_left_out() {
        let (single, kind) = (source(), source());
        kind.set_of_pattern();
        for state in [
            SourceState::Syncing,
            SourceState::Forbidden,
            SourceState::WaitingForResource,
        ] {
            single.set_state(state);
            kind.set_state(state);
            assert_eq!(
                (single.is_left_out(), kind.is_left_out()),
                (false, state != SourceState::Syncing)
            );
        }
        kind.set_synced();
        assert!(!kind.is_left_out(), "its objects are known");
    }

    #[test]
    fn last_error_is_bounded_and_cleared_when_live() {
        let source = source();
        source.set_last_error(&"é".repeat(SOURCE_ERROR_BYTES_MAX));
        source.set_state(SourceState::Stale);
        assert_eq!(source.status().last_error.unwrap().len(), SOURCE_ERROR_BYTES_MAX);
        source.set_state(SourceState::Live);
        assert_eq!(source.status().last_error, None);
    }

    #[test]
    fn source_displays_its_identity() {
        let source = source();
        assert_snapshot!(source.info(), @"pods (v1 Pod in default, cluster east)");
        let info = SourceInfo {
            cluster: String::new(),
            namespace: None,
            ..source.info().clone()
        };
        assert_snapshot!(info, @"pods (v1 Pod)");
    }
}
