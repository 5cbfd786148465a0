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
pub(super) struct Queued {
    pub(super) deltas: Deltas,
    /// The newest version that the source had shown before this key came; 0 if unknown. See `DeltaFifo::fresh_as_of`.
    pub(super) shown_before: u64,
    pub(super) hash: u64,
}

#[derive(Debug)]
pub(super) struct KeyedQueue {
    line: VecDeque<Queued>,
    /// The running number of the first in line. Wraps; no more than 2^32 keys wait at once.
    first: u32,
    places: HashTable<u32>,
    hasher: SeedableRandomState,
}

/// Where a key is, or would be: its hash, and its index in line if it is there. Valid until the queue changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) hash: u64,
    pub(super) index: Option<usize>,
}

impl KeyedQueue {
    pub(super) fn new(hash_seed: u64) -> KeyedQueue {
        let hasher = SeedableRandomState::with_seed(hash_seed, SharedSeed::global_fixed());
        KeyedQueue {
            line: VecDeque::new(),
            first: 0,
            places: HashTable::new(),
            hasher,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.line.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    pub(super) fn hash(&self, key: KeyRef<'_>) -> u64 {
        self.hasher.hash_one(key)
    }

    pub(super) fn find(&self, key: KeyRef<'_>) -> Place {
        self.find_hashed(self.hash(key), key)
    }

    pub(super) fn find_hashed(&self, hash: u64, key: KeyRef<'_>) -> Place {
        let place = self
            .places
            .find(hash, |&place| self.line[self.index(place)].deltas.key() == key);
        Place {
            hash,
            index: place.map(|&place| self.index(place)),
        }
    }

    pub(super) fn get(&self, index: usize) -> &Queued {
        &self.line[index]
    }

    /// Appends to the deltas of a key in line; see [`Deltas::push`].
    pub(super) fn append(&mut self, index: usize, delta: Delta) -> Option<Delta> {
        self.line[index].deltas.push(delta)
    }

    /// Puts a key that is not in line at its end.
    pub(super) fn push_back(&mut self, hash: u64, deltas: Deltas, shown_before: u64) {
        let index = u32::try_from(self.line.len()).expect("fewer than 2^32 keys wait");
        let place = self.first.wrapping_add(index);
        self.line.push_back(Queued {
            deltas,
            shown_before,
            hash,
        });
        let (line, first) = (&self.line, self.first);
        self.places
            .insert_unique(hash, place, |&place| line[place.wrapping_sub(first) as usize].hash);
    }

    pub(super) fn front(&self) -> Option<&Queued> {
        self.line.front()
    }

    /// Takes the first key out of line.
    pub(super) fn pop_front(&mut self) -> Option<Deltas> {
        let queued = self.line.pop_front()?;
        let first = self.first;
        if let Ok(entry) = self.places.find_entry(queued.hash, |&place| place == first) {
            entry.remove();
        }
        self.first = first.wrapping_add(1);
        self.give_back_when_empty();
        Some(queued.deltas)
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &Deltas> {
        self.line.iter().map(|queued| &queued.deltas)
    }

    /// Forgets for all keys in line what the source had shown before them.
    pub(super) fn forget_shown(&mut self) {
        self.line.iter_mut().for_each(|queued| queued.shown_before = 0);
    }

    /// Room for `more` keys at once.
    pub(super) fn reserve(&mut self, more: usize) {
        self.line.reserve(more);
        let (line, first) = (&self.line, self.first);
        self.places
            .reserve(more, |&place| line[place.wrapping_sub(first) as usize].hash);
    }

    fn index(&self, place: u32) -> usize {
        place.wrapping_sub(self.first) as usize
    }

    fn give_back_when_empty(&mut self) {
        if self.line.is_empty() && self.line.capacity() > KEYS_KEPT_WHEN_EMPTY {
            self.line = VecDeque::new();
            self.places = HashTable::new();
        }
    }
}

#[cfg(test)]
impl KeyedQueue {
    pub(super) fn capacity(&self) -> usize {
        self.line.capacity().max(self.places.capacity())
    }
}
