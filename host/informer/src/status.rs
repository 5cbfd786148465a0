//! The status of a source: [`ReflectorStatus`], and the tracker that reflector and loop update.

mod tracker;

use std::time::Duration;

use informant_cache::SourceState;
use informant_object::{Key, ResourceVersion, SourceId};

pub(crate) use self::tracker::{ReflectorState, RequestCounter, StatusTracker};

/// How many keys whose newest state could not be kept are remembered by name, for each source. Further ones are only
/// counted.
pub const OUTDATED_KEYS_MAX: usize = 1_000;

/// The status of one source at one moment.
#[derive(Debug, Clone)]
pub struct ReflectorStatus {
    /// Which source.
    pub source: SourceId,
    /// Its state.
    pub state: SourceState,
    /// Whether its first list is in the store.
    pub synced: bool,
    /// The store has seen everything up to this version ("fresh as of").
    pub version: ResourceVersion,
    /// How often the cluster was rolled back, as after a restored backup.
    pub epoch: u64,
    /// Whether older states can be detected and rejected; false if versions are not integers.
    pub guarded: bool,
    /// The last error, and how long ago it happened.
    pub last_error: Option<(String, Duration)>,
    /// How long ago the watch last brought an event or a bookmark.
    pub last_event_age: Option<Duration>,
    /// How long ago the last bookmark came.
    pub bookmark_age: Option<Duration>,
    /// Lists started, by LIST or WatchList, including the first.
    pub lists: u64,
    /// Lists after the first successful one.
    pub relists: u64,
    /// Watches opened.
    pub watches: u64,
    /// Changes of objects that watches have read.
    pub changes: u64,
    /// How the state is fetched.
    pub watch_list: WatchListUse,
    /// A change of the request in progress; with the reason if it has failed so far.
    pub reconfiguring: Option<Reconfiguring>,
    /// Bytes of a list that is being received or applied.
    pub staged_bytes: usize,
    /// Bytes between the reflector and the informer loop.
    pub channel_bytes: usize,
    /// Objects, lines and events that were skipped because they were invalid.
    pub skipped: u64,
    /// Lists and events rejected because they were older than the known state.
    pub rejected: u64,
    /// Keys whose newest state could not be kept, because it was too large or broken: the store has an older state, or
    /// none. At most [`OUTDATED_KEYS_MAX`].
    pub outdated: Vec<Key>,
}

/// Whether a source's state is fetched by WatchList, a watch that starts with the current state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchListUse {
    /// Disabled by the configuration.
    Off,
    /// Enabled; no response yet.
    Untried,
    /// In use.
    InUse,
    /// The API server refused it, or did not end its initial events: LIST is used. With the reason.
    Refused(String),
}

impl WatchListUse {
    /// The word for it in the admin API.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Untried => "untried",
            Self::InUse => "in-use",
            Self::Refused(_) => "refused",
        }
    }
}

/// A change of a source's request in progress. The previous request stays in use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reconfiguring {
    /// The last error of the new request.
    pub last_error: Option<String>,
    /// The number of the reflector with the new request.
    pub(crate) generation: u64,
}
