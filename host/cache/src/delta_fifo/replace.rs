//! Taking a complete list of the source: what vanished, what came, what stayed.

use informant_object::{Object, ResourceVersion};

use super::DeltaFifo;
use super::keyed_queue::Place;
use super::listed::Listed;
use super::newest::Newest;
use crate::delta::{Delta, DeltaType, Tombstone};
use crate::known_objects::KnownObjects;
use crate::seeded_bug::{SeededBug, seeded_bug};
use crate::{Moment, Reason};

/// What a [`DeltaFifo::replace`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplaceSummary {
    /// Objects that vanished: known or queued, and not in the list.
    pub vanished: usize,
    /// Items queued.
    pub queued: usize,
    /// Items that were the known object itself.
    pub unchanged: usize,
    /// Items whose transform failed. They count as present: what was known of them stays.
    pub withheld: usize,
}

/// What all deltas of one replace have in common.
#[derive(Clone, Copy)]
struct Occasion {
    reason: Reason,
    received: Moment,
}

/// Replacing.
impl DeltaFifo {
    /// Takes `objects`, a complete list of the source at `version`, for all there is.
    ///
    /// What the list lacks is queued first, as [`DeltaType::Deleted`] with a [`Tombstone`]: for each key in line the
    /// newest state queued, then for each other known key the known one. Then each object in list order as
    /// [`DeltaType::Replaced`], except those that are the known object itself and have nothing queued
    /// ([`DeltaFifoOptions::skip_unchanged`](super::DeltaFifoOptions::skip_unchanged)). The first call, if nothing came
    /// before, fixes how many keys make up the initial list ([`has_synced`](Self::has_synced)).
    ///
    /// Source: client-go `DeltaFIFO.Replace`, which queues the deletions last and repeats unchanged objects. Its
    /// transform error fails the whole replace; here it withholds one object.
    pub fn replace(
        &mut self,
        objects: Vec<Object>,
        version: &ResourceVersion,
        known: &(impl KnownObjects + ?Sized),
        reason: Reason,
        received: Moment,
    ) -> ReplaceSummary {
        let occasion = Occasion { reason, received };
        if reason == Reason::Restored {
            // Versions of the epoch that ends say nothing about how fresh anything is in the next.
            self.newest = Newest::default();
            self.queue.forget_shown();
        }
        let mut is_unchanged = vec![false; objects.len()];
        let mut vanished = 0;
        let hashes = if self.queue.is_empty() && known.is_empty() {
            // Nothing can have vanished, and nothing can be unchanged.
            Vec::new()
        } else {
            let listed = Listed::new(&self.queue, &objects);
            // In this order: what gets a tombstone in the second step was not in line in the first.
            let had_queued = !self.queue.is_empty();
            vanished += self.bury_queued(&listed, occasion);
            vanished += self.bury_known(&listed, known, had_queued, &mut is_unchanged, occasion);
            listed.into_hashes()
        };

        let summary = ReplaceSummary {
            vanished,
            ..self.queue_listed(objects, &hashes, &is_unchanged, occasion)
        };
        self.newest = Newest::of(version.as_ref()).unwrap_or_default();
        if !self.populated {
            self.populated = true;
            self.initial_population_count = self.queue.len();
        }
        summary
    }

    /// Tombstones for keys in line that the list lacks.
    fn bury_queued(&mut self, listed: &Listed<'_>, occasion: Occasion) -> usize {
        let mut buried = 0;
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
            let place = Place {
                hash: queued.hash,
                index: Some(index),
            };
            self.bury(place, tombstone, occasion);
            buried += 1;
        }
        buried
    }

    /// Tombstones for known keys that are neither in line nor in the list; and marks the items that are the known
    /// object itself and have nothing queued.
    fn bury_known(
        &mut self,
        listed: &Listed<'_>,
        known: &(impl KnownObjects + ?Sized),
        had_queued: bool,
        is_unchanged: &mut [bool],
        occasion: Occasion,
    ) -> usize {
        let mut buried = 0;
        known.visit(&mut |key, object| {
            let hash = self.queue.hash(key);
            if had_queued && self.queue.find_hashed(hash, key).index.is_some() {
                return;
            }
            if let Some(item) = listed.find(hash, key) {
                is_unchanged[item] = object.is_some_and(|object| listed.object(item).ptr_eq(object));
                return;
            }
            self.stats.lookups_failed += u64::from(object.is_none());
            let tombstone = Tombstone {
                key: key.to_key(),
                object: object.cloned(),
            };
            self.bury(Place { hash, index: None }, tombstone, occasion);
            buried += 1;
        });
        buried
    }

    fn bury(&mut self, place: Place, tombstone: Tombstone, Occasion { reason, received }: Occasion) {
        if seeded_bug(SeededBug::RelistForgetsVanished) {
            return;
        }
        self.stats.tombstones += 1;
        self.push(
            place,
            Delta {
                kind: DeltaType::Deleted,
                object: tombstone.into(),
                reason,
                received,
            },
        );
    }

    /// Queues the items, less the unchanged ones. `hashes` are those of their keys, or none if they are not known yet.
    fn queue_listed(
        &mut self,
        objects: Vec<Object>,
        hashes: &[u64],
        is_unchanged: &[bool],
        Occasion { reason, received }: Occasion,
    ) -> ReplaceSummary {
        let kind = if self.options.emit_replaced {
            DeltaType::Replaced
        } else {
            DeltaType::Sync
        };
        let unchanged = match self.options.skip_unchanged {
            true => is_unchanged.iter().filter(|&&unchanged| unchanged).count(),
            false => 0,
        };
        let mut summary = ReplaceSummary {
            unchanged,
            ..ReplaceSummary::default()
        };
        self.stats.unchanged += unchanged as u64;
        self.queue.reserve(objects.len() - unchanged);
        for (item, (object, &is_unchanged)) in objects.into_iter().zip(is_unchanged).enumerate() {
            if is_unchanged && self.options.skip_unchanged {
                continue;
            }
            let hash = hashes.get(item).copied();
            let hash = hash.unwrap_or_else(|| self.queue.hash(object.key()));
            // What is known was transformed when it came.
            let transformed = match is_unchanged {
                true => Ok(object.into()),
                false => self.transformed(object.into()),
            };
            let Ok(object) = transformed else {
                summary.withheld += 1;
                continue;
            };
            let place = self.queue.find_hashed(hash, object.key());
            self.push(
                place,
                Delta {
                    kind,
                    object,
                    reason,
                    received,
                },
            );
            summary.queued += 1;
        }
        summary
    }
}
