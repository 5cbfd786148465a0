//! How a source is doing: [`SourceStatus`] for people, and the cell behind it that reflector and loop write.

mod tracker;

use std::time::Duration;

use informant_cache::SourceState;
use informant_object::{Key, ResourceVersion, SourceId};

pub(crate) use self::tracker::{ReflectorState, RequestCounter, StatusTracker};

/// How many keys whose newest state was too large to take are remembered by name. Beyond it they are counted only.
pub const OUTDATED_KEYS_MAX: usize = 1_000;

/// How one source is doing at one moment.
#[derive(Debug, Clone)]
pub struct SourceStatus {
    /// Which source.
    pub source: SourceId,
    /// What it is up to.
    pub state: SourceState,
    /// Whether its first list is in the store.
    pub synced: bool,
    /// The store has seen everything up to this version ("fresh as of").
    pub version: ResourceVersion,
    /// How often the source was found to have gone back in time, as after a restored backup.
    pub epoch: u64,
    /// Whether older states can be told and refused; false where versions are no decimal numbers.
    pub guarded: bool,
    /// What went wrong last, and how long ago.
    pub last_error: Option<(String, Duration)>,
    /// How long ago the watch last brought an event or a bookmark.
    pub last_event_age: Option<Duration>,
    /// How long ago the last bookmark came.
    pub bookmark_age: Option<Duration>,
    /// Lists begun, by LIST or by WatchList, the first included.
    pub lists: u64,
    /// Lists after the first one that succeeded.
    pub relists: u64,
    /// Watches opened.
    pub watches: u64,
    /// How the state is obtained.
    pub watch_list: WatchListUse,
    /// Another request is on its way to take the place of the one that runs; why it has not yet, if it failed.
    pub reconfiguring: Option<Reconfiguring>,
    /// Objects, lines and events that could not be used.
    pub skipped: u64,
    /// Lists and events refused because they were older than what is known.
    pub rejected: u64,
    /// Keys of which the store holds an older state, because the newest was too large to take; at most
    /// [`OUTDATED_KEYS_MAX`].
    pub outdated: Vec<Key>,
}

/// Whether a source's state is obtained by WatchList, a watch that begins with all there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchListUse {
    /// It is not asked for: the configuration says so.
    Off,
    /// It is asked for and has not been answered yet.
    Untried,
    /// It is used.
    InUse,
    /// The API server refused it, or did not bring it to an end: LIST is used. Why.
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

/// A change of what a source asks for that is under way. What ran before goes on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reconfiguring {
    /// What went wrong with the new request last.
    pub last_error: Option<String>,
}
