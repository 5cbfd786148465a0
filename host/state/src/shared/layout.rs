//! Where rows are: in chunks as of the last checkpoint, and in the journal what has changed since.
//!
//! A *fold* brings changes into chunks. Its plan is in the journal before the first chunk is written: these chunks are
//! *unsettled*, and stay so until a fold has written all of them. Until then the journal keeps the changes, so a chunk
//! that was written and one that was not read the same. A row moves to another chunk only with a change, so that a row
//! that is in two chunks, or in none, is in the journal. A chunk that a former holder writes late is unsettled in the
//! journal that its successor has read: the first fold of the successor writes it again, and with that the late write
//! is a conflict.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::format::{ChunkContent, JournalContent, RowChange, Stamp, row_cost_bytes};
use crate::row::{Row, RowKey};

/// The chunks and the journal.
#[derive(Debug, Default)]
pub(super) struct Layout {
    chunks: Vec<Chunk>,
    /// The chunk of each row that is in one.
    places: BTreeMap<RowKey, u32>,
    /// What has changed since the last checkpoint.
    changes: BTreeMap<RowKey, Change>,
    changes_bytes: usize,
    fold: Option<Fold>,
    /// The chunks that may differ from their stamp.
    unsettled: BTreeSet<u32>,
    chunk_bytes_max: usize,
}

#[derive(Debug, Default)]
struct Chunk {
    rows: BTreeMap<RowKey, Arc<[u8]>>,
    bytes: usize,
    stamp: Stamp,
    /// Of its Secret; none: it does not exist.
    version: Option<String>,
}

#[derive(Debug)]
struct Change {
    value: Option<Arc<[u8]>>,
    /// The write of the journal that brought it.
    sequence: u64,
}

/// Changes that are being brought into chunks: those of earlier writes than the stamp's.
#[derive(Debug)]
struct Fold {
    stamp: Stamp,
    left: BTreeSet<u32>,
}

impl Layout {
    /// What the journal says. Its chunks are to be [loaded](Self::load).
    pub(super) fn of(journal: JournalContent, chunk_bytes_max: usize) -> Self {
        let chunk = |stamp| Chunk {
            stamp,
            ..Chunk::default()
        };
        let mut layout = Self {
            chunks: journal.chunks.into_iter().map(chunk).collect(),
            unsettled: journal.unsettled.into_iter().collect(),
            chunk_bytes_max,
            ..Self::default()
        };
        layout.add_changes(journal.rows, journal.sequence);
        layout
    }

    pub(super) fn chunk_count(&self) -> u32 {
        self.chunks.len() as u32
    }

    /// Adds the rows of a chunk. Returns whether it belongs to this journal, whose last write is `last`.
    pub(super) fn load(&mut self, number: u32, content: ChunkContent, version: String, last: Stamp) -> bool {
        let is_unsettled = self.unsettled.contains(&number);
        let known = self.chunks[number as usize].stamp;
        let ChunkContent { stamp, rows } = content;
        let is_later = is_unsettled && stamp > known && stamp.epoch <= last.epoch && stamp.sequence <= last.sequence;
        if stamp != known && !is_later {
            return false;
        }
        let chunk = &mut self.chunks[number as usize];
        (chunk.stamp, chunk.version) = (stamp, Some(version));
        for (key, value) in rows {
            let Some(value) = value else { return false };
            if let Some(&other) = self.places.get(&key) {
                // One of them was left: the row is in the journal.
                if !is_unsettled || !self.unsettled.contains(&other) {
                    return false;
                }
                if self.chunks[other as usize].stamp > stamp {
                    continue;
                }
                self.take_out(&key);
            }
            self.put(number, key, value);
        }
        true
    }

    /// Whether a chunk may be missing: it was planned, and never written.
    pub(super) fn may_be_missing(&self, number: u32) -> bool {
        self.unsettled.contains(&number) && self.chunks[number as usize].stamp.sequence == 0
    }

    /// All rows as of the last write.
    pub(super) fn rows(&self) -> impl Iterator<Item = Row> {
        let chunks = self.chunks.iter().flat_map(|chunk| &chunk.rows);
        let unchanged = chunks.filter(|(key, _)| !self.changes.contains_key(*key));
        let changed = self.changes.iter();
        let changed = changed.filter_map(|(key, change)| Some((key, change.value.as_ref()?)));
        unchanged.chain(changed).map(|(key, value)| Row {
            key: key.clone(),
            value: Arc::clone(value),
        })
    }

    /// What the rows in the journal take.
    pub(super) fn changes_bytes(&self) -> usize {
        self.changes_bytes
    }

    /// What all rows take in the Secrets.
    pub(super) fn bytes(&self) -> usize {
        self.changes_bytes + self.chunks.iter().map(|chunk| chunk.bytes).sum::<usize>()
    }

    /// Whether the journal could be smaller: changes wait, and no fold is under way.
    pub(super) fn can_fold(&self) -> bool {
        self.fold.is_none() && !self.changes.is_empty()
    }

    pub(super) fn is_folding(&self) -> bool {
        self.fold.is_some()
    }

    /// Whether a chunk may differ from what is known of it.
    pub(super) fn is_unsettled(&self, number: u32) -> bool {
        self.unsettled.contains(&number)
    }

    /// Adds what the write `sequence` of the journal brings.
    pub(super) fn add_changes(&mut self, changes: impl IntoIterator<Item = RowChange>, sequence: u64) {
        for (key, value) in changes {
            self.remove_change(&key);
            self.changes_bytes += row_cost_bytes(&key, value.as_ref());
            self.changes.insert(key, Change { value, sequence });
        }
    }

    /// The head and the rows of the journal.
    pub(super) fn describe(&self, journal: &mut JournalContent) {
        journal.chunks = self.chunks.iter().map(|chunk| chunk.stamp).collect();
        journal.unsettled = self.unsettled.iter().copied().collect();
        let rows = self.changes.iter();
        journal.rows = rows.map(|(key, change)| (key.clone(), change.value.clone())).collect();
    }

    /// Plans to bring all changes so far into chunks, with the write of the journal that `stamp` names.
    pub(super) fn begin_fold(&mut self, stamp: Stamp) {
        let mut dirty = std::mem::take(&mut self.unsettled);
        let changes: Vec<RowChange> = self
            .changes
            .iter()
            .map(|(key, change)| (key.clone(), change.value.clone()))
            .collect();
        for (key, value) in changes {
            let before = self.take_out(&key);
            dirty.extend(before);
            if let Some(value) = value {
                let number = self.place_for(row_cost_bytes(&key, Some(&value)), before, &dirty);
                dirty.insert(number);
                self.put(number, key, value);
            }
        }
        self.unsettled.clone_from(&dirty);
        self.fold = Some(Fold { stamp, left: dirty });
        self.end_fold();
    }

    /// The next chunk of the fold.
    pub(super) fn next_chunk(&self) -> Option<u32> {
        self.fold.as_ref()?.left.first().copied()
    }

    /// The bytes of a chunk: those of the fold, or those that were written last.
    pub(super) fn chunk_data(&self, group: &str, number: u32) -> Arc<[u8]> {
        let chunk = &self.chunks[number as usize];
        let in_fold = self.fold.as_ref().filter(|fold| fold.left.contains(&number));
        let stamp = in_fold.map_or(chunk.stamp, |fold| fold.stamp);
        ChunkContent::encode(group, number, stamp, chunk.rows.iter())
    }

    /// The version of its Secret.
    pub(super) fn chunk_version(&self, number: u32) -> Option<String> {
        self.chunks[number as usize].version.clone()
    }

    /// A chunk was written.
    pub(super) fn chunk_written(&mut self, number: u32, version: String) {
        let chunk = &mut self.chunks[number as usize];
        chunk.version = Some(version);
        let Some(fold) = &mut self.fold else { return };
        if fold.left.remove(&number) {
            chunk.stamp = fold.stamp;
        }
        self.end_fold();
    }

    /// Ends the fold if all its chunks are written: the journal need not keep its changes.
    fn end_fold(&mut self) {
        let Some(fold) = self.fold.take_if(|fold| fold.left.is_empty()) else {
            return;
        };
        let is_folded = |change: &Change| change.sequence < fold.stamp.sequence;
        let folded: Vec<RowKey> = self
            .changes
            .iter()
            .filter(|(_, change)| is_folded(change))
            .map(|(key, _)| key.clone())
            .collect();
        folded.iter().for_each(|key| self.remove_change(key));
        self.unsettled.clear();
    }

    fn remove_change(&mut self, key: &RowKey) {
        if let Some(change) = self.changes.remove(key) {
            self.changes_bytes -= row_cost_bytes(key, change.value.as_ref());
        }
    }

    /// The chunk for a row: the one it was in, one that is written anyway, another one, or a new one.
    fn place_for(&mut self, bytes: usize, before: Option<u32>, dirty: &BTreeSet<u32>) -> u32 {
        let has_room = |number: &u32| self.chunks[*number as usize].bytes + bytes <= self.chunk_bytes_max;
        let candidates = before
            .into_iter()
            .chain(dirty.iter().copied())
            .chain(0..self.chunk_count());
        if let Some(number) = candidates.into_iter().find(has_room) {
            return number;
        }
        self.chunks.push(Chunk::default());
        self.chunk_count() - 1
    }

    fn put(&mut self, number: u32, key: RowKey, value: Arc<[u8]>) {
        let chunk = &mut self.chunks[number as usize];
        chunk.bytes += row_cost_bytes(&key, Some(&value));
        self.places.insert(key.clone(), number);
        chunk.rows.insert(key, value);
    }

    /// Takes a row out of its chunk. Returns which one it was.
    fn take_out(&mut self, key: &RowKey) -> Option<u32> {
        let number = self.places.remove(key)?;
        let chunk = &mut self.chunks[number as usize];
        if let Some(value) = chunk.rows.remove(key) {
            chunk.bytes -= row_cost_bytes(key, Some(&value));
        }
        Some(number)
    }
}
