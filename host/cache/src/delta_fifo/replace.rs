//! Replace: applies a complete list of the source.

use hashbrown::HashTable;
use informant_object::{KeyRef, Object, ResourceVersion};

use super::DeltaFifo;
use super::keyed_queue::{KeySlot, KeyedQueue};
use super::write::HighWater;
use crate::delta::{Delta, DeltaType, Tombstone};
use crate::seeded_bug::{SeededBug, seeded_bug};
use crate::store::StoreWriter;
use crate::{Moment, Reason};

/// The result of [`DeltaFifo::replace`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplaceSummary {
    /// Objects that vanished: stored or queued, and not in the list.
    pub vanished: usize,
    /// Items queued.
    pub queued: usize,
    /// Items that were the stored object itself.
    pub unchanged: usize,
}

/// The values that all deltas of one replace share.
#[derive(Clone, Copy)]
struct ReplaceContext {
    reason: Reason,
    received: Moment,
}

/// Replace.
impl DeltaFifo {
    /// Applies `objects`, a complete list of the source at `version`.
    ///
    /// First queues a [`DeltaType::Deleted`] with a [`Tombstone`] for each key that the list lacks: for queued keys
    /// with the newest queued state, then for other keys in `store` with the stored state. Then queues each object in
    /// list order as [`DeltaType::Replaced`], except those that are the stored object itself and have nothing queued
    /// ([`DeltaFifoOptions::skip_unchanged`](super::DeltaFifoOptions::skip_unchanged)). The first call, if no other
    /// write came before, determines the initial list ([`has_synced`](Self::has_synced)).
    ///
    /// Source: client-go `DeltaFIFO.Replace`, which queues the deletions last and repeats unchanged objects.
    pub fn replace(
        &mut self,
        objects: Vec<Object>,
        version: &ResourceVersion,
        store: &StoreWriter,
        reason: Reason,
        received: Moment,
    ) -> ReplaceSummary {
        let context = ReplaceContext { reason, received };
        if reason == Reason::Restored {
            // Versions of the previous epoch mean nothing in the new one.
            self.high_water = HighWater::default();
            self.queue.clear_high_water();
        }
        let mut is_unchanged = vec![false; objects.len()];
        let mut vanished = 0;
        let hashes = if self.queue.is_empty() && store.is_empty() {
            // Nothing can have vanished or be unchanged. Apart from queueing, so that the processor reads several
            // objects at once.
            objects.iter().map(|object| self.queue.hash(object.key())).collect()
        } else {
            let listed = ListIndex::new(&self.queue, &objects);
            // The order matters: the second step must see only keys that were not queued in the first.
            let had_queued = !self.queue.is_empty();
            vanished += self.enqueue_queued_tombstones(&listed, context);
            vanished += self.enqueue_stored_tombstones(&listed, store, had_queued, &mut is_unchanged, context);
            listed.hashes
        };

        let summary = ReplaceSummary {
            vanished,
            ..self.queue_listed(objects, &hashes, &is_unchanged, context)
        };
        self.high_water = HighWater::of(version.as_ref()).unwrap_or_default();
        if !self.populated {
            self.populated = true;
            self.initial_population_count = self.queue.len();
        }
        summary
    }

    /// Enqueues tombstones for queued keys that the list lacks.
    fn enqueue_queued_tombstones(&mut self, listed: &ListIndex<'_>, context: ReplaceContext) -> usize {
        let mut tombstones = 0;
        for index in 0..self.queue.len() {
            let queued = self.queue.get(index);
            let key = queued.deltas.key();
            if listed.find(queued.hash, key).is_some() {
                continue;
            }
            let object = queued.deltas.newest().object.object().cloned();
            let tombstone = Tombstone {
                key: key.to_key(),
                object,
            };
            let slot = KeySlot {
                hash: queued.hash,
                index: Some(index),
            };
            self.enqueue_tombstone(slot, tombstone, context);
            tombstones += 1;
        }
        tombstones
    }

    /// Enqueues tombstones for stored keys that are neither queued nor in the list; and marks the items that are the
    /// stored object itself and have nothing queued.
    fn enqueue_stored_tombstones(
        &mut self,
        listed: &ListIndex<'_>,
        store: &StoreWriter,
        had_queued: bool,
        is_unchanged: &mut [bool],
        context: ReplaceContext,
    ) -> usize {
        let mut tombstones = 0;
        for object in store.list() {
            let key = object.key();
            let hash = self.queue.hash(key);
            if had_queued && self.queue.find_hashed(hash, key).index.is_some() {
                continue;
            }
            if let Some(item) = listed.find(hash, key) {
                is_unchanged[item] = listed.objects[item].ptr_eq(object);
                continue;
            }
            let tombstone = Tombstone {
                key: key.to_key(),
                object: Some(object.clone()),
            };
            self.enqueue_tombstone(KeySlot { hash, index: None }, tombstone, context);
            tombstones += 1;
        }
        tombstones
    }

    fn enqueue_tombstone(
        &mut self,
        slot: KeySlot,
        tombstone: Tombstone,
        ReplaceContext { reason, received }: ReplaceContext,
    ) {
        if seeded_bug(SeededBug::RelistMissesDeletes) {
            return;
        }
        self.push(
            slot,
            Delta {
                kind: DeltaType::Deleted,
                object: tombstone.into(),
                reason,
                received,
            },
        );
    }

    /// Queues the items, except unchanged ones. `hashes` are those of their keys.
    fn queue_listed(
        &mut self,
        objects: Vec<Object>,
        hashes: &[u64],
        is_unchanged: &[bool],
        ReplaceContext { reason, received }: ReplaceContext,
    ) -> ReplaceSummary {
        let unchanged = match self.options.skip_unchanged {
            true => is_unchanged.iter().filter(|&&unchanged| unchanged).count(),
            false => 0,
        };
        let mut summary = ReplaceSummary {
            unchanged,
            ..ReplaceSummary::default()
        };
        self.queue.reserve(objects.len() - unchanged);
        for ((object, &hash), &is_unchanged) in objects.into_iter().zip(hashes).zip(is_unchanged) {
            if is_unchanged && self.options.skip_unchanged {
                continue;
            }
            let slot = self.queue.find_hashed(hash, object.key());
            self.push(
                slot,
                Delta {
                    kind: DeltaType::Replaced,
                    object: object.into(),
                    reason,
                    received,
                },
            );
            summary.queued += 1;
        }
        summary
    }
}

/// The items of a list by key, for the duration of one replace.
struct ListIndex<'a> {
    objects: &'a [Object],
    items: HashTable<u32>,
    /// The hash of each item's key, in list order, so that it is computed only once.
    hashes: Vec<u64>,
}

impl<'a> ListIndex<'a> {
    fn new(queue: &KeyedQueue, objects: &'a [Object]) -> ListIndex<'a> {
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
        ListIndex { objects, items, hashes }
    }

    /// The index of the first item with `key`.
    fn find(&self, hash: u64, key: KeyRef<'_>) -> Option<usize> {
        let item = self
            .items
            .find(hash, |&item| self.objects[item as usize].key() == key)?;
        Some(*item as usize)
    }
}
