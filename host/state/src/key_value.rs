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
//! While the database fails, ends are reported nevertheless, and the keys stay dirty until it recovers.

mod rows;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use informant_cache::seeded_bug::{SeededBug, seeded_bug};
use informant_object::{Key, SourceId};

use self::rows::{HoldNumber, Rows};
use crate::journal::RecorderWaker;
use crate::metrics::StateMetrics;
use crate::schema::{self, RowError};
use crate::table_store::TableStore;
use crate::tables::{Tables, damaged, with_prefix};

/// The keys of one plugin. Clones share them.
#[derive(Clone)]
pub struct KeySpace {
    plugin: Arc<str>,
    keys: Arc<KeyTable>,
    recorder: Arc<RecorderWaker>,
    metrics: StateMetrics,
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

/// The keys of all plugins, shared by their calls and the recorder.
#[derive(Default)]
pub(crate) struct KeyTable(Mutex<Content>);

#[derive(Default)]
struct Content {
    spaces: BTreeMap<Arc<str>, Rows>,
    ends: Vec<(Arc<str>, EventEnd)>,
    /// The number of the next call whose changes are held.
    next_hold: HoldNumber,
    /// The recorder has ended.
    is_over: bool,
}

#[derive(Default)]
pub(crate) struct KeyBatch {
    changes: Vec<(Arc<str>, KeyChange)>,
    ends: Vec<(Arc<str>, EventEnd)>,
}

/// The keys whose events have ended with changes, by source and handler.
pub(crate) type EndedKeys = BTreeMap<(SourceId, String), Vec<Key>>;

impl KeySpace {
    /// The keys of `plugin` in `keys`, open or not.
    pub(crate) fn new(
        plugin: &str,
        keys: &Arc<KeyTable>,
        recorder: &Arc<RecorderWaker>,
        metrics: &StateMetrics,
    ) -> Self {
        Self {
            plugin: plugin.into(),
            keys: Arc::clone(keys),
            recorder: Arc::clone(recorder),
            metrics: metrics.clone(),
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.content().spaces.contains_key(&self.plugin)
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Arc<[u8]>> {
        self.content().spaces.get(&self.plugin)?.values().get(key).cloned()
    }

    /// The first `max` keys that start with `prefix` and sort after `cursor`.
    #[must_use]
    pub fn keys(&self, prefix: &str, cursor: &str, max: usize) -> Vec<String> {
        let content = self.content();
        let Some(rows) = content.spaces.get(&self.plugin) else {
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
        let rows = content.spaces.get(&self.plugin);
        rows.map_or((0, 0), |rows| (rows.values().len(), rows.bytes()))
    }

    /// Whether changes are not persisted at present.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.content().is_over || self.metrics.failing.get() != 0
    }

    /// Applies the changes of a successful call, and persists them with the `end` of its event.
    pub fn commit(&self, changes: Vec<KeyChange>, end: Option<EventEnd>) {
        let mut content = self.content();
        let rows = content.spaces.entry(Arc::clone(&self.plugin)).or_default();
        for (key, value) in changes {
            rows.change(key, value);
        }
        self.persist(content, end);
    }

    /// Applies the changes of a successful call whose event ends later. They are persisted with that end.
    pub fn hold(&self, changes: Vec<KeyChange>) -> HeldChanges {
        let mut content = self.content();
        let number = content.next_hold;
        content.next_hold += 1;
        let rows = content.spaces.entry(Arc::clone(&self.plugin)).or_default();
        for (key, value) in &changes {
            match seeded_bug(SeededBug::KeysBeforeWrites) {
                true => rows.change(key.clone(), value.clone()),
                false => rows.hold(number, key, value.clone()),
            }
        }
        HeldChanges {
            keys: self.clone(),
            number,
            changes,
        }
    }

    /// Lets the recorder write what has changed, with the `end` of an event.
    fn persist(&self, mut content: MutexGuard<'_, Content>, end: Option<EventEnd>) {
        let unpersisted = match content.is_over {
            true => end,
            false => {
                content.ends.extend(end.map(|end| (Arc::clone(&self.plugin), end)));
                None
            }
        };
        drop(content);
        // Otherwise the event would never end.
        if let Some(end) = unpersisted {
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
            .field("plugin", &self.plugin)
            .finish_non_exhaustive()
    }
}

impl HeldChanges {
    /// The event ends: persists the changes with its `end`.
    pub fn end(mut self, end: EventEnd) {
        let mut content = self.keys.content();
        if let Some(rows) = content.spaces.get_mut(&self.keys.plugin) {
            for (key, value) in std::mem::take(&mut self.changes) {
                rows.release(self.number, key, value);
            }
        }
        self.keys.persist(content, Some(end));
    }
}

impl Drop for HeldChanges {
    fn drop(&mut self) {
        let mut content = self.keys.content();
        if let Some(rows) = content.spaces.get_mut(&self.keys.plugin) {
            for (key, _) in &self.changes {
                rows.take_back(self.number, key);
            }
        }
    }
}

impl fmt::Debug for HeldChanges {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("HeldChanges")
            .field("plugin", &self.keys.plugin)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl KeyTable {
    /// Reads the keys of a plugin, unless they are open.
    pub(crate) fn load(&self, store: &mut TableStore, plugin: &Arc<str>) -> Result<(), redb::Error> {
        if self.content().spaces.contains_key(plugin) {
            return Ok(());
        }
        let rows = store.write(|tables| {
            let mut rows = Rows::default();
            let prefix = schema::plugin_prefix(plugin);
            for found in with_prefix(&tables.plugin_keys, &prefix)? {
                let (key, value) = found?;
                let key = std::str::from_utf8(&key.value()[prefix.len()..]);
                let key = key.map_err(|_| damaged(RowError::Malformed))?;
                rows.set(key, Some(value.value().into()));
            }
            Ok(rows)
        })?;
        self.content().spaces.insert(Arc::clone(plugin), rows);
        Ok(())
    }

    /// Takes what is to be written.
    pub(crate) fn take(&self) -> KeyBatch {
        let mut content = self.content();
        let mut batch = KeyBatch {
            ends: std::mem::take(&mut content.ends),
            changes: Vec::new(),
        };
        if !batch.ends.is_empty() && seeded_bug(SeededBug::KeysStoredLate) {
            return batch;
        }
        for (plugin, rows) in &mut content.spaces {
            let changes = rows.take_dirty().into_iter();
            batch.changes.extend(changes.map(|change| (Arc::clone(plugin), change)));
        }
        batch
    }

    /// What could not be written is to be written again.
    pub(crate) fn failed(&self, batch: KeyBatch) {
        let mut content = self.content();
        for (plugin, (key, _)) in batch.changes {
            if let Some(rows) = content.spaces.get_mut(&plugin) {
                rows.mark_dirty(key);
            }
        }
    }

    /// Writes all keys again: the file may have been replaced.
    pub(crate) fn write_all(&self) {
        for rows in self.content().spaces.values_mut() {
            rows.mark_all_dirty();
        }
    }

    /// Nothing is written any more: events end without.
    pub(crate) fn end(&self) {
        self.content().is_over = true;
        let _ = self.take().report_ends();
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        // No code under this lock panics.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeyBatch {
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Reports the ends of events to their listeners. Returns whose acknowledgements belong to this transaction.
    pub(crate) fn report_ends(&mut self) -> EndedKeys {
        let mut ended = EndedKeys::new();
        for (plugin, EventEnd { source, key, report }) in std::mem::take(&mut self.ends) {
            report();
            let keys = ended.entry((source, plugin.to_string())).or_default();
            keys.extend(key);
        }
        ended
    }

    pub(crate) fn write(&self, tables: &mut Tables<'_>) -> Result<(), redb::Error> {
        for (plugin, (key, value)) in &self.changes {
            let row_key = schema::plugin_key(plugin, key);
            match value {
                Some(value) => drop(tables.plugin_keys.insert(&row_key[..], &value[..])?),
                None => drop(tables.plugin_keys.remove(&row_key[..])?),
            }
        }
        Ok(())
    }
}

/// Deletes the keys of all plugins but these.
pub(crate) fn keep_only(store: &mut TableStore, plugins: &BTreeSet<String>) {
    let mut gone: BTreeMap<String, usize> = BTreeMap::new();
    // On failure, the next start deletes them.
    let deleted = store.write(|tables| {
        let mut stays = |key: &[u8]| {
            let plugin = String::from_utf8_lossy(key.split(|byte| *byte == 0).next().unwrap_or_default());
            let stays = plugins.contains(&*plugin);
            if !stays {
                *gone.entry(plugin.into_owned()).or_default() += 1;
            }
            stays
        };
        Ok(tables.plugin_keys.retain(|key, _| stays(key))?)
    });
    if deleted.is_ok() {
        for (plugin, keys) in gone {
            tracing::warn!(%plugin, keys, "plugin keys deleted, because config.toml has no such plugin");
        }
    }
}
