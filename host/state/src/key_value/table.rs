//! The rows of all plugins, shared by their calls and what persists them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use informant_cache::seeded_bug::{SeededBug, seeded_bug};
use informant_object::{Key, SourceId};

use super::rows::{HoldNumber, Rows};
use super::{EventEnd, KeyChange};
use crate::row::{Row, RowKey, RowKind};

/// A plugin, and the kind of its rows.
pub(crate) type SpaceId = (Arc<str>, RowKind);

/// The rows of all plugins, shared by their calls and what persists them.
#[derive(Default)]
pub(crate) struct KeyTable {
    content: Mutex<Content>,
    /// An end is not reported unless its changes are persisted.
    pub(super) is_strict: bool,
}

#[derive(Default)]
pub(super) struct Content {
    pub(super) spaces: BTreeMap<SpaceId, Space>,
    /// The number of the next call whose changes are held.
    pub(super) next_hold: HoldNumber,
    /// The space whose turn it is to be written.
    turn: Option<SpaceId>,
    /// Nothing is persisted any more.
    pub(super) is_over: bool,
}

/// The rows of one kind of one plugin, and the ends of events that wait for their changes.
#[derive(Default)]
pub(super) struct Space {
    pub(super) rows: Rows,
    pub(super) ends: Vec<EventEnd>,
}

/// What is written together.
#[derive(Default)]
pub(crate) struct KeyBatch {
    pub(crate) changes: Vec<(SpaceId, KeyChange)>,
    pub(crate) ends: Vec<(Arc<str>, EventEnd)>,
}

/// The keys whose events have ended with changes, by source and handler.
pub(crate) type EndedKeys = BTreeMap<(SourceId, String), Vec<Key>>;

impl KeyTable {
    /// A table whose ends wait until their changes are persisted, however long that takes.
    pub(crate) fn strict() -> Self {
        Self {
            is_strict: true,
            ..Self::default()
        }
    }

    pub(crate) fn has(&self, space: &SpaceId) -> bool {
        self.content().spaces.contains_key(space)
    }

    /// Sets what is persisted already.
    pub(crate) fn restore(&self, rows: impl IntoIterator<Item = Row>) {
        let mut content = self.content();
        for Row { key, value } in rows {
            let space = content.spaces.entry((key.plugin, key.kind)).or_default();
            space.rows.set(&key.key, Some(value));
        }
    }

    /// Sets the rows of one space that is persisted already.
    pub(super) fn insert(&self, space: SpaceId, rows: Rows) {
        let ends = Vec::new();
        self.content().spaces.insert(space, Space { rows, ends });
    }

    /// What is persisted, or is to be: not what is held.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let content = self.content();
        let mut rows = Vec::new();
        for ((plugin, kind), space) in &content.spaces {
            rows.extend(space.rows.persistent_rows().map(|(key, value)| Row {
                key: RowKey {
                    plugin: Arc::clone(plugin),
                    kind: *kind,
                    key: key.into(),
                },
                value,
            }));
        }
        rows
    }

    /// Changes rows, with the next write.
    pub(crate) fn change(&self, changes: impl IntoIterator<Item = (RowKey, Option<Arc<[u8]>>)>) {
        let mut content = self.content();
        for (RowKey { plugin, kind, key }, value) in changes {
            let space = content.spaces.entry((plugin, kind)).or_default();
            space.rows.change(key.to_string(), value);
        }
    }

    /// Deletes the rows of all plugins but these. Returns how many of each.
    pub(crate) fn keep_only(&self, plugins: &BTreeSet<String>) -> BTreeMap<Arc<str>, usize> {
        let mut gone: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        for ((plugin, _), space) in &mut self.content().spaces {
            if plugins.contains(&**plugin) {
                continue;
            }
            let keys: Vec<String> = space.rows.values().keys().cloned().collect();
            if !keys.is_empty() {
                *gone.entry(Arc::clone(plugin)).or_default() += keys.len();
            }
            keys.into_iter().for_each(|key| space.rows.change(key, None));
        }
        gone
    }

    /// Whether anything is to be written.
    pub(crate) fn has_pending(&self) -> bool {
        self.content().spaces.values().any(Space::has_pending)
    }

    /// Takes what is to be written.
    pub(crate) fn take(&self) -> KeyBatch {
        self.take_at_most(usize::MAX, false)
    }

    /// Takes what is to be written, of as many plugins as fit into `bytes_max`, in turn. Changes of one plugin stay
    /// together, with the ends of their events. If not even those of the first one fit, they are split only if
    /// `may_split`; the ends then come with the last part.
    pub(crate) fn take_at_most(&self, bytes_max: usize, may_split: bool) -> KeyBatch {
        let mut content = self.content();
        let mut batch = KeyBatch::default();
        let mut left = bytes_max;
        for id in content.in_turn() {
            let Some(space) = content.spaces.get_mut(&id) else {
                continue;
            };
            let bytes = space.rows.dirty_bytes() + SPACE_COST_BYTES + id.0.len();
            let fits = bytes <= left;
            let is_split = !fits && may_split && batch.is_empty();
            if !fits && !is_split {
                content.turn = Some(id);
                break;
            }
            if !space.ends.is_empty() && seeded_bug(SeededBug::KeysStoredLate) {
                batch.take_ends(&id, space);
                continue;
            }
            let changes = space.rows.take_dirty(left).into_iter();
            batch.changes.extend(changes.map(|change| (id.clone(), change)));
            if is_split {
                content.turn = Some(id);
                break;
            }
            batch.take_ends(&id, space);
            left -= bytes;
        }
        batch
    }

    /// What could not be written is to be written again.
    pub(crate) fn failed(&self, batch: KeyBatch) {
        let mut content = self.content();
        for (id, (key, _)) in batch.changes {
            if let Some(space) = content.spaces.get_mut(&id) {
                space.rows.mark_dirty(key);
            }
        }
    }

    /// Writes all keys again: the file may have been replaced.
    pub(crate) fn write_all(&self) {
        for space in self.content().spaces.values_mut() {
            space.rows.mark_all_dirty();
        }
    }

    /// Nothing is written any more. Events end without; or, in a strict table, they do not end, and how many is
    /// returned.
    pub(crate) fn end(&self) -> usize {
        self.content().is_over = true;
        let mut batch = self.take();
        if self.is_strict {
            return batch.ends.len();
        }
        let _ = batch.report_ends();
        0
    }

    pub(super) fn content(&self) -> MutexGuard<'_, Content> {
        // No code under this lock panics.
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the header of a space takes, besides its plugin's name.
const SPACE_COST_BYTES: usize = 16;

impl Space {
    fn has_pending(&self) -> bool {
        self.rows.is_dirty() || !self.ends.is_empty()
    }
}

impl Content {
    pub(super) fn rows(&self, space: &SpaceId) -> Option<&Rows> {
        self.spaces.get(space).map(|space| &space.rows)
    }

    /// The spaces with something to be written, beginning with the one whose turn it is.
    fn in_turn(&mut self) -> Vec<SpaceId> {
        let first = self.turn.take();
        let from = first.as_ref().map_or(Bound::Unbounded, Bound::Included);
        let until = first.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let later = self.spaces.range::<SpaceId, _>((from, Bound::Unbounded));
        let earlier = self.spaces.range::<SpaceId, _>((Bound::Unbounded, until));
        // Without a turn, both are everything.
        let earlier = earlier.take(if first.is_some() { usize::MAX } else { 0 });
        let pending = later.chain(earlier).filter(|(_, space)| space.has_pending());
        pending.map(|(id, _)| id.clone()).collect()
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

    fn take_ends(&mut self, (plugin, _): &SpaceId, space: &mut Space) {
        let ends = std::mem::take(&mut space.ends).into_iter();
        self.ends.extend(ends.map(|end| (Arc::clone(plugin), end)));
    }
}
