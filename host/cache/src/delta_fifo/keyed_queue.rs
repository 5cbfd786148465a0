//! A queue of keys in order of first appearance, each with its deltas, with constant-time look-up.
//!
//! Keys leave only at the front, so a position is a sequence number: the table from key to position holds these numbers
//! (4 bytes per key) and reads the keys themselves from the queued objects. Nothing is copied per key, nothing iterates
//! over the table, and the hash is seeded from outside, to protect against names crafted to collide.

use std::collections::VecDeque;
use std::hash::BuildHasher;

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;
use hashbrown::HashTable;
use informant_object::KeyRef;

use crate::delta::{Delta, Deltas};

/// Capacity in keys that an empty queue keeps. Memory above it, from a first list or a relist, is freed.
const KEYS_KEPT_WHEN_EMPTY: usize = 4_096;

/// One queued key.
#[derive(Debug)]
pub(super) struct QueuedKey {
    pub(super) deltas: Deltas,
    /// The source's high-water version before this key was queued; 0 if unknown. See `DeltaFifo::fresh_as_of`.
    pub(super) high_water_before: u64,
    pub(super) hash: u64,
}

#[derive(Debug)]
pub(super) struct KeyedQueue {
    entries: VecDeque<QueuedKey>,
    /// The position of the first key. Wraps; at most 2^32 keys are queued at once.
    first: u32,
    positions: HashTable<u32>,
    hasher: SeedableRandomState,
}

/// Where a key is or would be: its hash, and its index in the queue if it is queued. Valid until the queue changes.
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
        let is_meant = |&position: &u32| {
            let entry = &self.entries[self.index(position)];
            // The hash first: the key is in the object, which is rarely in the processor's cache.
            entry.hash == hash && entry.deltas.key() == key
        };
        let position = self.positions.find(hash, is_meant);
        KeySlot {
            hash,
            index: position.map(|&position| self.index(position)),
        }
    }

    pub(super) fn get(&self, index: usize) -> &QueuedKey {
        &self.entries[index]
    }

    /// Appends to the deltas of a queued key; see [`Deltas::push`].
    pub(super) fn append(&mut self, index: usize, delta: Delta) {
        self.entries[index].deltas.push(delta);
    }

    /// Adds a key that is not queued at the end.
    pub(super) fn push_back(&mut self, hash: u64, deltas: Deltas, high_water_before: u64) {
        let index = u32::try_from(self.entries.len()).expect("fewer than 2^32 keys are queued");
        let position = self.first.wrapping_add(index);
        self.entries.push_back(QueuedKey {
            deltas,
            high_water_before,
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

    /// Pops the first key.
    pub(super) fn pop_front(&mut self) -> Option<Deltas> {
        let queued = self.entries.pop_front()?;
        let first = self.first;
        if let Ok(entry) = self.positions.find_entry(queued.hash, |&position| position == first) {
            entry.remove();
        }
        self.first = first.wrapping_add(1);
        self.shrink_when_empty();
        Some(queued.deltas)
    }

    /// Clears the high-water version of all queued keys.
    pub(super) fn clear_high_water(&mut self) {
        self.entries.iter_mut().for_each(|queued| queued.high_water_before = 0);
    }

    /// Reserves capacity for `more` keys.
    pub(super) fn reserve(&mut self, more: usize) {
        self.entries.reserve(more);
        let (entries, first) = (&self.entries, self.first);
        self.positions
            .reserve(more, |&position| entries[position.wrapping_sub(first) as usize].hash);
    }

    fn index(&self, position: u32) -> usize {
        position.wrapping_sub(self.first) as usize
    }

    fn shrink_when_empty(&mut self) {
        if self.entries.is_empty() && self.entries.capacity() > KEYS_KEPT_WHEN_EMPTY {
            self.entries = VecDeque::new();
            self.positions = HashTable::new();
        }
    }
}

#[cfg(test)]
impl KeyedQueue {
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &Deltas> {
        self.entries.iter().map(|queued| &queued.deltas)
    }

    pub(super) fn capacity(&self) -> usize {
        self.entries.capacity().max(self.positions.capacity())
    }
}
