//! A list's result, found by key in constant time, for as long as one replace takes.

use hashbrown::HashTable;
use informant_object::{KeyRef, Object};

use super::keyed_queue::KeyedQueue;

pub(super) struct Listed<'a> {
    objects: &'a [Object],
    items: HashTable<u32>,
    hashes: Vec<u64>,
}

impl<'a> Listed<'a> {
    pub(super) fn new(queue: &KeyedQueue, objects: &'a [Object]) -> Listed<'a> {
        let mut items = HashTable::with_capacity(objects.len());
        let mut hashes: Vec<u64> = Vec::with_capacity(objects.len());
        for (index, object) in objects.iter().enumerate() {
            let (key, hash) = (object.key(), queue.hash(object.key()));
            hashes.push(hash);
            if items
                .find(hash, |&item: &u32| objects[item as usize].key() == key)
                .is_none()
            {
                let item = u32::try_from(index).expect("a list has fewer than 2^32 items");
                items.insert_unique(hash, item, |&item| hashes[item as usize]);
            }
        }
        Listed { objects, items, hashes }
    }

    /// The index of the first item under `key`.
    pub(super) fn find(&self, hash: u64, key: KeyRef<'_>) -> Option<usize> {
        let item = self
            .items
            .find(hash, |&item| self.objects[item as usize].key() == key)?;
        Some(*item as usize)
    }

    pub(super) fn object(&self, item: usize) -> &Object {
        &self.objects[item]
    }

    /// The hash of each item's key, in list order, so that queueing needs no second one.
    pub(super) fn into_hashes(self) -> Vec<u64> {
        self.hashes
    }
}
