//! What one handler has not acknowledged of one source.

use std::collections::BTreeMap;
use std::ops::Bound;

use informant_cache::ListenerHandle;
use informant_cache::listener::OpenKeys;
use informant_object::{Key, SourceId};

use crate::metrics::HandlerMetrics;
use crate::schema::HandlerRow;
use crate::source::OnStart;

/// How many open keys of one handler are checked in its listener at once, under its lock: well below a millisecond. The
/// rest follows with the next batches.
pub const OPEN_KEYS_CHECKED_MAX: usize = 1_024;

/// How many deletes are stored for one handler and source while it does not acknowledge them. Further ones are not
/// stored, and are counted in `state_tombstones_dropped`: after a restart they are missing.
pub const TOMBSTONES_MAX: usize = 100_000;

/// A handler's state for one source.
#[derive(Debug, Default)]
pub(crate) struct HandlerState {
    /// The attached listener, also one that is about to be attached.
    pub(crate) listener: Option<ListenerHandle>,
    pub(crate) on_start: OnStart,
    /// It was attached while the database could not be read for what had been delivered to it.
    pub(crate) attached_unread: bool,
    /// Every key is open.
    pub(crate) all_open: bool,
    /// The open keys in the database; true for deletes.
    pub(crate) open: BTreeMap<Key, bool>,
    pub(crate) tombstones: usize,
    /// The key that was checked last.
    pub(crate) asked: Option<Key>,
    /// The row in the database.
    pub(crate) stored_row: Option<HandlerRow>,
    pub(crate) metrics: Option<HandlerMetrics>,
    /// A replay was seen, which may start once this is persisted.
    pub(crate) replay_seen: bool,
}

/// What checking a listener found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Acknowledgements {
    /// Every key is open from now on, or no longer.
    pub(crate) all_open: Option<bool>,
    /// Keys that are open in addition to the known ones.
    pub(crate) opened: Vec<Key>,
    /// Keys that are no longer open.
    pub(crate) closed: Vec<Key>,
}

impl Acknowledgements {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl HandlerState {
    /// A handler that has received nothing yet.
    pub(crate) fn all_open() -> Self {
        Self {
            all_open: true,
            ..Self::default()
        }
    }

    pub(crate) fn set(&mut self, key: Key, gone: bool) {
        let before = self.open.insert(key, gone);
        self.tombstones += usize::from(gone);
        self.tombstones -= usize::from(before == Some(true));
    }

    pub(crate) fn close(&mut self, key: &Key) {
        self.tombstones -= usize::from(self.open.remove(key) == Some(true));
    }

    pub(crate) fn is_gone(&self, key: &Key) -> bool {
        self.open.get(key) == Some(&true)
    }

    /// Reads from the listener what the handler has acknowledged; of all open keys if `all`, else of the next ones in
    /// turn.
    pub(crate) fn poll_acknowledged(&mut self, source: SourceId, all: bool) -> Acknowledgements {
        let mut found = Acknowledgements::default();
        let Some(listener) = &self.listener else { return found };
        let max = if self.all_open { OPEN_KEYS_CHECKED_MAX } else { 0 };
        match listener.open_keys(source, max) {
            // Unknown; nothing is closed on a guess.
            OpenKeys::Detached => return found,
            OpenKeys::All => {
                self.replay_seen = true;
                found.all_open = (!self.all_open).then_some(true);
            }
            OpenKeys::Keys(keys) if self.all_open => {
                found.all_open = Some(false);
                let is_new = |key: &Key| !self.open.contains_key(key);
                found.opened = keys.into_iter().filter(is_new).collect();
            }
            OpenKeys::Many | OpenKeys::Keys(_) => {}
        }
        let turns = if all {
            self.asked = None;
            self.open.len().div_ceil(OPEN_KEYS_CHECKED_MAX)
        } else {
            1
        };
        for _ in 0..turns {
            let keys = self.run_once();
            let Some(open) = self
                .listener
                .as_ref()
                .and_then(|listener| listener.are_open(source, &keys))
            else {
                break;
            };
            let closed = keys.into_iter().zip(open).filter(|(_, open)| !open);
            found.closed.extend(closed.map(|(key, _)| key));
        }
        found
    }

    /// Records that every key is open if a replay runs, while the database has to be read before anything is written.
    pub(crate) fn check_replaying(&mut self, source: SourceId) {
        let Some(listener) = &self.listener else { return };
        if listener.open_keys(source, 0) == OpenKeys::All {
            self.replay_seen = true;
            self.all_open = true;
        }
    }

    /// The next keys to check.
    fn run_once(&mut self) -> Vec<Key> {
        let from = self.asked.take().map_or(Bound::Unbounded, Bound::Excluded);
        let keys = self.open.range((from, Bound::Unbounded)).map(|(key, _)| key.clone());
        let keys: Vec<Key> = keys.take(OPEN_KEYS_CHECKED_MAX).collect();
        if keys.len() == OPEN_KEYS_CHECKED_MAX {
            self.asked = keys.last().cloned();
        }
        keys
    }
}
