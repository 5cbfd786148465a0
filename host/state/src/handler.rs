//! What one handler has not acknowledged of one source.

use std::collections::BTreeMap;
use std::ops::Bound;

use informant_cache::ListenerHandle;
use informant_cache::listener::OpenKeys;
use informant_object::{Key, SourceId};

use crate::metrics::HandlerNumbers;
use crate::row::HandlerRow;
use crate::source::OnStart;

/// How many open keys of one handler are looked up in its listener at once, under its lock: well below a millisecond.
/// The rest has its turn with the next group.
pub const OPEN_KEYS_ASKED_MAX: usize = 1_024;

/// How many deletes are kept for one handler and source that does not take them. Above it further ones are not kept,
/// and counted in `state_tombstones_dropped`: after a restart they are missing.
pub const TOMBSTONES_MAX: usize = 100_000;

/// A handler.
#[derive(Debug, Default)]
pub(crate) struct Handler {
    /// Attached, or about to be.
    pub(crate) listener: Option<ListenerHandle>,
    pub(crate) on_start: OnStart,
    /// It was attached while the database could not be asked what it had been told before.
    pub(crate) is_unasked: bool,
    /// Everything is open.
    pub(crate) all_open: bool,
    /// What is, as the database has it; true for deletes.
    pub(crate) open: BTreeMap<Key, bool>,
    pub(crate) tombstones: usize,
    /// The key that was looked up last.
    pub(crate) asked: Option<Key>,
    /// The row, as the database has it.
    pub(crate) head_kept: Option<HandlerRow>,
    pub(crate) numbers: Option<HandlerNumbers>,
    /// It was seen that everything is shown to it, so that a replay that waits for that may begin once this is kept.
    pub(crate) seen_shown: bool,
}

/// What a look at a listener brought.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    /// Everything is open from now on, or not any more.
    pub(crate) all_open: Option<bool>,
    /// Keys that are open besides those that are known to be.
    pub(crate) opened: Vec<Key>,
    /// Keys that are open no more.
    pub(crate) closed: Vec<Key>,
}

impl Acknowledged {
    pub(crate) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl Handler {
    /// One that was told nothing yet.
    pub(crate) fn unknown() -> Self {
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

    /// Looks up what the handler has acknowledged; every open key if `all`, else as many as have their turn.
    pub(crate) fn look_up(&mut self, source: SourceId, all: bool) -> Acknowledged {
        let mut found = Acknowledged::default();
        let Some(listener) = &self.listener else { return found };
        let max = if self.all_open { OPEN_KEYS_ASKED_MAX } else { 0 };
        match listener.open_keys(source, max) {
            // Nobody knows, and nothing is closed on a guess.
            OpenKeys::Detached => return found,
            OpenKeys::All => {
                self.seen_shown = true;
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
            self.open.len().div_ceil(OPEN_KEYS_ASKED_MAX)
        } else {
            1
        };
        for _ in 0..turns {
            let keys = self.turn();
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

    /// Notes that everything is open if it is, where the database is to be read before anything is written.
    pub(crate) fn look_whether_shown(&mut self, source: SourceId) {
        let Some(listener) = &self.listener else { return };
        if listener.open_keys(source, 0) == OpenKeys::All {
            self.seen_shown = true;
            self.all_open = true;
        }
    }

    /// The keys whose turn it is.
    fn turn(&mut self) -> Vec<Key> {
        let from = self.asked.take().map_or(Bound::Unbounded, Bound::Excluded);
        let keys = self.open.range((from, Bound::Unbounded)).map(|(key, _)| key.clone());
        let keys: Vec<Key> = keys.take(OPEN_KEYS_ASKED_MAX).collect();
        if keys.len() == OPEN_KEYS_ASKED_MAX {
            self.asked = keys.last().cloned();
        }
        keys
    }
}
