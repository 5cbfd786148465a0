//! One source as the rest of the process sees it: what it is, how it fares, and its current snapshot.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use informant_object::SourceId;

use crate::store::Snapshot;

/// Bytes kept of the text that says what is wrong with a source.
pub const SOURCE_ERROR_BYTES_MAX: usize = 512;

/// What a source is. Never changes; another selector or namespace is another source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceInfo {
    /// The informer it belongs to, as config.toml names it.
    pub informer: String,
    /// The cluster it is read from; empty for the only one.
    pub cluster: String,
    /// `apiVersion` of its objects.
    pub api_version: String,
    /// `kind` of its objects.
    pub kind: String,
    /// The namespace it is limited to; none for all, and for cluster-scoped kinds.
    pub namespace: Option<String>,
}

/// How a source fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum SourceState {
    /// The first list is not complete yet.
    Syncing,
    /// The watch is open, and its server gives signs of life.
    Live,
    /// Synced once, but the watch is down or silent: what is there may be old.
    Stale,
    /// The API server does not know the resource (yet).
    WaitingForResource,
    /// The API server refuses to list or watch it.
    Forbidden,
    /// Nobody reads it any more.
    Stopped,
}

/// What there is to say of a source at one moment.
#[derive(Clone, Debug)]
pub struct SourceStatus {
    /// How it fares.
    pub state: SourceState,
    /// Whether its first list is complete and published.
    pub synced: bool,
    /// What is wrong, if anything is.
    pub last_error: Option<Arc<str>>,
    /// Objects, bytes, version and epoch are the snapshot's.
    pub snapshot: Snapshot,
}

/// One source, shared by its writer and everybody who reads it. Locks are held for the exchange of one pointer.
pub struct Source {
    id: SourceId,
    info: SourceInfo,
    state: AtomicU8,
    synced: AtomicBool,
    /// Whether it is among its informer's sources; not while it is built beside another, or leaving.
    listed: AtomicBool,
    last_error: Mutex<Option<Arc<str>>>,
    /// None once the source was removed: a writer that is late brings nothing back.
    snapshot: Mutex<Option<Snapshot>>,
}

impl SourceState {
    /// All of them, in the order in which metrics and status lists show them.
    pub const ALL: [SourceState; 6] = [
        SourceState::Syncing,
        SourceState::Live,
        SourceState::Stale,
        SourceState::WaitingForResource,
        SourceState::Forbidden,
        SourceState::Stopped,
    ];

    /// The state's name as metrics, `/readyz?verbose` and the command line write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            SourceState::Syncing => "Syncing",
            SourceState::Live => "Live",
            SourceState::Stale => "Stale",
            SourceState::WaitingForResource => "WaitingForResource",
            SourceState::Forbidden => "Forbidden",
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
    pub(crate) fn new(id: SourceId, info: SourceInfo) -> Source {
        Source {
            id,
            info,
            state: AtomicU8::new(SourceState::Syncing as u8),
            synced: AtomicBool::new(false),
            listed: AtomicBool::new(true),
            last_error: Mutex::default(),
            snapshot: Mutex::new(Some(Snapshot::default())),
        }
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> SourceId {
        self.id
    }

    /// What it is.
    #[must_use]
    pub fn info(&self) -> &SourceInfo {
        &self.info
    }

    /// The newest published state.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        lock(&self.snapshot).clone().unwrap_or_default()
    }

    /// How it fares.
    #[must_use]
    pub fn state(&self) -> SourceState {
        SourceState::ALL[usize::from(self.state.load(Ordering::Acquire))]
    }

    /// Notes how it fares; [`SourceState::Stopped`] is final. `Live` clears the text of
    /// [`set_last_error`](Self::set_last_error).
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
    }

    /// Whether its first list is complete and published. Once true, it stays.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.synced.load(Ordering::Acquire)
    }

    /// Notes that the first list is complete and published.
    pub fn set_synced(&self) {
        self.synced.store(true, Ordering::Release);
    }

    pub(crate) fn is_listed(&self) -> bool {
        self.listed.load(Ordering::Acquire)
    }

    pub(crate) fn set_listed(&self, listed: bool) {
        self.listed.store(listed, Ordering::Release);
    }

    /// Notes what is wrong, in words for whoever looks at the source's state. Cut at [`SOURCE_ERROR_BYTES_MAX`].
    pub fn set_last_error(&self, error: &str) {
        let error = &error[..error.floor_char_boundary(SOURCE_ERROR_BYTES_MAX)];
        *lock(&self.last_error) = Some(Arc::from(error));
    }

    /// All there is to say of it now.
    #[must_use]
    pub fn status(&self) -> SourceStatus {
        SourceStatus {
            state: self.state(),
            synced: self.is_synced(),
            last_error: lock(&self.last_error).clone(),
            snapshot: self.snapshot(),
        }
    }

    /// Shows `snapshot` to readers; returns the one they saw before, or `snapshot` itself if the source was removed.
    pub(crate) fn publish(&self, snapshot: Snapshot) -> Snapshot {
        match &mut *lock(&self.snapshot) {
            Some(shown) => std::mem::replace(shown, snapshot),
            None => snapshot,
        }
    }

    /// Shows nothing any more; returns what readers saw.
    pub(crate) fn remove(&self) -> Snapshot {
        self.set_state(SourceState::Stopped);
        lock(&self.snapshot).take().unwrap_or_default()
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

/// A lock that a panic left behind is taken all the same: under it one pointer is exchanged, which cannot stay half
/// done.
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
            namespace: Some("default".to_owned()),
        };
        Source::new(SourceId(1), info)
    }

    #[test]
    fn a_source_begins_syncing_and_once_stopped_stays_so() {
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
    fn trouble_is_shown_until_the_source_is_live_and_never_longer_than_its_limit() {
        let source = source();
        source.set_last_error(&"é".repeat(SOURCE_ERROR_BYTES_MAX));
        source.set_state(SourceState::Stale);
        assert_eq!(source.status().last_error.unwrap().len(), SOURCE_ERROR_BYTES_MAX);
        source.set_state(SourceState::Live);
        assert_eq!(source.status().last_error, None);
    }

    #[test]
    fn a_source_says_what_it_is() {
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
