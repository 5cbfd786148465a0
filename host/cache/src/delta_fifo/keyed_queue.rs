//! Keys in order of first appearance, each with its deltas, found by key in constant time.
//!
//! Keys leave at the front only, so a place in line is a running number: the table from key to place holds these
//! numbers (4 bytes a key) and reads the keys themselves out of the queued objects. Nothing is copied per key, nothing
//! iterates over the table, and the hash is seeded from outside, so that names chosen by a stranger cannot make it
//! slow.

use std::collections::VecDeque;
use std::hash::BuildHasher;

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;
use hashbrown::HashTable;
use informant_object::KeyRef;

use crate::delta::{Delta, Deltas};

/// Keys' worth of memory that an emptied queue keeps for the next ones. What a first list or a relist needed beyond it
/// is given back.
const KEYS_KEPT_WHEN_EMPTY: usize = 4_096;

/// One key in line.
#[derive(Debug)]
pub(super) struct QueuedKey {
    pub(super) deltas: Deltas,
    /// The newest version that the source had shown before this key came; 0 if unknown. See `DeltaFifo::fresh_as_of`.
    pub(super) shown_before: u64,
    pub(super) hash: u64,
}

#[derive(Debug)]
pub(super) struct KeyedQueue {
    entries: VecDeque<QueuedKey>,
    /// The running number of the first in line. Wraps; no more than 2^32 keys wait at once.
    first: u32,
    positions: HashTable<u32>,
    hasher: SeedableRandomState,
}

/// Where a key is, or would be: its hash, and its index in line if it is there. Valid until the queue changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeySlot {
    pub(super) hash: u64,
    pub(super) index: Option<usize>,
}

impl KeyedQueue {
    pub(super) fn new(hash_seed: u64) -> KeyedQueue {
        let hasher = SeedableRandomState::with_seed(hash_seed, SharedSeed::global_fixed());
        KeyedQueue {
            entries: VecDeque::new(),
            first: 0,
            positions: HashTable::new(),
            hasher,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn hash(&self, key: KeyRef<'_>) -> u64 {
        self.hasher.hash_one(key)
    }

    pub(super) fn find(&self, key: KeyRef<'_>) -> KeySlot {
        self.find_hashed(self.hash(key), key)
    }

    pub(super) fn find_hashed(&self, hash: u64, key: KeyRef<'_>) -> KeySlot {
        let position = self
            .positions
            .find(hash, |&position| self.entries[self.index(position)].deltas.key() == key);
        KeySlot {
            hash,
            index: position.map(|&position| self.index(position)),
        }
    }

    pub(super) fn get(&self, index: usize) -> &QueuedKey {
        &self.entries[index]
    }

    /// Appends to the deltas of a key in line; see [`Deltas::push`].
    pub(super) fn append(&mut self, index: usize, delta: Delta) -> Option<Delta> {
        self.entries[index].deltas.push(delta)
    }

    /// Puts a key that is not in line at its end.
    pub(super) fn push_back(&mut self, hash: u64, deltas: Deltas, shown_before: u64) {
        let index = u32::try_from(self.entries.len()).expect("fewer than 2^32 keys wait");
        let position = self.first.wrapping_add(index);
        self.entries.push_back(QueuedKey {
            deltas,
            shown_before,
            hash,
        });
        let (entries, first) = (&self.entries, self.first);
        self.positions.insert_unique(hash, position, |&position| {
            entries[position.wrapping_sub(first) as usize].hash
        });
    }

    pub(super) fn front(&self) -> Option<&QueuedKey> {
        self.entries.front()
    }

    /// Takes the first key out of line.
    pub(super) fn pop_front(&mut self) -> Option<Deltas> {
        let queued = self.entries.pop_front()?;
        let first = self.first;
        if let Ok(entry) = self.positions.find_entry(queued.hash, |&position| position == first) {
            entry.remove();
        }
        self.first = first.wrapping_add(1);
        self.give_back_when_empty();
        Some(queued.deltas)
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &Deltas> {
        self.entries.iter().map(|queued| &queued.deltas)
    }

    /// Forgets for all keys in line what the source had shown before them.
    pub(super) fn forget_shown(&mut self) {
        self.entries.iter_mut().for_each(|queued| queued.shown_before = 0);
    }

    /// Room for `more` keys at once.
    pub(super) fn reserve(&mut self, more: usize) {
        self.entries.reserve(more);
        let (entries, first) = (&self.entries, self.first);
        self.positions
            .reserve(more, |&position| entries[position.wrapping_sub(first) as usize].hash);
    }

    fn index(&self, position: u32) -> usize {
        position.wrapping_sub(self.first) as usize
    }

    fn give_back_when_empty(&mut self) {
        if self.entries.is_empty() && self.entries.capacity() > KEYS_KEPT_WHEN_EMPTY {
            self.entries = VecDeque::new();
            self.positions = HashTable::new();
        }
    }
}

#[cfg(test)]
impl KeyedQueue {
    pub(super) fn capacity(&self) -> usize {
        self.entries.capacity().max(self.positions.capacity())
    }
}
