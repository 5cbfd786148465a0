//! What plugins remember: the keys of each plugin, in memory and in the database.
//!
//! ```text
//! successful call ─commit─▶ rows in memory, dirty keys, ends of events
//!                                               └─▶ recorder: 1. reports the ends to listeners
//!                                                             2. reads acknowledgements
//!                                                             3. one transaction: dirty keys, acknowledgements
//! ```
//!
//! The event of a call that changed keys ends only when the recorder is about to write. So its acknowledgement is read
//! for the same transaction as its changes: after a kill either both are there, or neither is. Rows and ends are taken
//! together, so a transaction has the changes of exactly those calls whose ends it reports, and of earlier ones.
//!
//! If the event ends later than its call, with writes to the cluster, the changes are *held* ([`KeySpace::hold`]):
//! calls see them, and the database gets them with that end ([`rows`]). So after a kill in between the event is
//! delivered again to a handler that finds what it remembered before.
//!
//! While the database fails, ends are reported nevertheless, and the keys stay dirty until it recovers. In shared state
//! ([`SharedJournal`](crate::SharedJournal)) ends wait instead: rows in memory are the same, and what persists them
//! differs.

mod file;
mod rows;
mod table;

use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, MutexGuard};

use informant_cache::seeded_bug::{SeededBug, seeded_bug};
use informant_object::{Key, SourceId};

use prometheus_client::metrics::gauge::Gauge;

pub(crate) use self::file::keep_only;
use self::rows::HoldNumber;
use self::table::Content;
pub(crate) use self::table::{EndedKeys, KeyBatch, KeyTable, SpaceId};
use crate::journal::RecorderWaker;

/// The keys of one plugin, or its rows of another kind. Clones share them.
#[derive(Clone)]
pub struct KeySpace {
    id: SpaceId,
    keys: Arc<KeyTable>,
    recorder: Arc<RecorderWaker>,
    /// 1 while changes cannot be persisted.
    failing: Gauge,
}

/// A key, and its new value; none: it is deleted.
pub type KeyChange = (String, Option<Arc<[u8]>>);

/// The end of the event whose call made changes.
pub struct EventEnd {
    /// The source of its object.
    pub source: SourceId,
    /// None: the event is that the source is synced.
    pub key: Option<Key>,
    /// Reports the outcome to the listener.
    pub report: Box<dyn FnOnce() + Send>,
}

/// Changes of a call whose event has not ended. Dropping it takes them back: the event will not end in this process,
/// and the next one delivers it again.
#[must_use]
pub struct HeldChanges {
    keys: KeySpace,
    number: HoldNumber,
    changes: Vec<KeyChange>,
}

impl KeySpace {
    /// The rows of a plugin in `keys`, open or not.
    pub(crate) fn new(id: SpaceId, keys: &Arc<KeyTable>, recorder: &Arc<RecorderWaker>, failing: &Gauge) -> Self {
        Self {
            id,
            keys: Arc::clone(keys),
            recorder: Arc::clone(recorder),
            failing: failing.clone(),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.keys.has(&self.id)
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Arc<[u8]>> {
        self.content().rows(&self.id)?.values().get(key).cloned()
    }

    /// The first `max` keys that start with `prefix` and sort after `cursor`.
    #[must_use]
    pub fn keys(&self, prefix: &str, cursor: &str, max: usize) -> Vec<String> {
        let content = self.content();
        let Some(rows) = content.rows(&self.id) else {
            return Vec::new();
        };
        let from = match cursor < prefix {
            true => Bound::Included(prefix),
            false => Bound::Excluded(cursor),
        };
        let found = rows.values().range::<str, _>((from, Bound::Unbounded));
        let found = found.map(|(key, _)| key).take_while(|key| key.starts_with(prefix));
        // An empty prefix and an empty cursor start at the first key, which is not empty.
        found.take(max).cloned().collect()
    }

    /// How many keys there are, and the bytes of keys and values.
    #[must_use]
    pub fn usage(&self) -> (usize, usize) {
        let content = self.content();
        let rows = content.rows(&self.id);
        rows.map_or((0, 0), |rows| (rows.values().len(), rows.bytes()))
    }

    /// How many bytes of keys and values may be added, by all plugins together. In a file there is no such limit.
    #[must_use]
    pub fn room(&self) -> usize {
        if !self.keys.is_strict {
            return usize::MAX;
        }
        let content = self.content();
        let of_kind = content.spaces.iter().filter(|((_, kind), _)| *kind == self.id.1);
        let used = of_kind.map(|(_, space)| space.rows.bytes()).sum();
        self.id.1.shared_bytes_max().saturating_sub(used)
    }

    /// Whether changes are not persisted at present.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.content().is_over || self.failing.get() != 0
    }

    /// Applies the changes of a successful call, and persists them with the `end` of its event.
    pub fn commit(&self, changes: Vec<KeyChange>, end: Option<EventEnd>) {
        let mut content = self.content();
        let space = content.spaces.entry(self.id.clone()).or_default();
        for (key, value) in changes {
            space.rows.change(key, value);
        }
        self.persist(content, end);
    }

    /// Applies the changes of a successful call whose event ends later. They are persisted with that end.
    pub fn hold(&self, changes: Vec<KeyChange>) -> HeldChanges {
        let mut content = self.content();
        let number = content.next_hold;
        content.next_hold += 1;
        let space = content.spaces.entry(self.id.clone()).or_default();
        for (key, value) in &changes {
            match seeded_bug(SeededBug::KeysBeforeWrites) {
                true => space.rows.change(key.clone(), value.clone()),
                false => space.rows.hold(number, key, value.clone()),
            }
        }
        HeldChanges {
            keys: self.clone(),
            number,
            changes,
        }
    }

    /// Lets what has changed be written, with the `end` of an event.
    fn persist(&self, mut content: MutexGuard<'_, Content>, end: Option<EventEnd>) {
        let unpersisted = match content.is_over {
            true => end,
            false => {
                let space = content.spaces.entry(self.id.clone()).or_default();
                space.ends.extend(end);
                None
            }
        };
        drop(content);
        // Otherwise the event would never end. That of a strict table does not: the next holder delivers it again.
        if let Some(end) = unpersisted.filter(|_| !self.keys.is_strict) {
            (end.report)();
        }
        self.recorder.notify();
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.keys.content()
    }
}

impl fmt::Debug for KeySpace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("KeySpace")
            .field("plugin", &self.id.0)
            .field("kind", &self.id.1)
            .finish_non_exhaustive()
    }
}

impl HeldChanges {
    /// The event ends: persists the changes with its `end`.
    pub fn end(mut self, end: EventEnd) {
        let mut content = self.keys.content();
        if let Some(space) = content.spaces.get_mut(&self.keys.id) {
            for (key, value) in std::mem::take(&mut self.changes) {
                space.rows.release(self.number, key, value);
            }
        }
        self.keys.persist(content, Some(end));
    }
}

impl Drop for HeldChanges {
    fn drop(&mut self) {
        let mut content = self.keys.content();
        if let Some(space) = content.spaces.get_mut(&self.keys.id) {
            for (key, _) in &self.changes {
                space.rows.take_back(self.number, key);
            }
        }
    }
}

impl fmt::Debug for HeldChanges {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("HeldChanges")
            .field("plugin", &self.keys.id.0)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}
