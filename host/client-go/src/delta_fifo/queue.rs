//! The delta queue without a lock: plain `&mut` state.
//!
//! Keys leave in the order in which they first entered, all deltas of a key leave together, oldest first, and two
//! deletes in a row become one. It never waits.

use std::collections::{HashMap, VecDeque};

use informant_cache::{DeltaObject, Tombstone};
use informant_object::{AsKey, Key, KeyRef, Object};

use super::{DeltaFifoOptions, DeltaFifoStats};
use crate::delta::{Delta, DeltaType, Deltas};
use crate::known_objects::KnownObjects;
use crate::transform::{self, TransformError};

type Known<'a> = &'a (dyn KnownObjects + Send + Sync);

/// A queue of keys, each with the changes of its object since it was last popped. client-go: `DeltaFIFO`, without its
/// lock.
pub(super) struct Queue {
    items: HashMap<Key, Deltas>,
    order: VecDeque<Key>,
    options: DeltaFifoOptions,
    /// Whether the first replace was done, or any other write came first.
    populated: bool,
    /// How many keys of the first replace have not been processed yet. They are first in the queue.
    initial_population_count: usize,
    closed: bool,
    bytes: usize,
    stats: DeltaFifoStats,
}

/// A key that has left the queue, and has to be [`processed`](Queue::processed).
pub(super) struct Popped {
    pub(super) deltas: Deltas,
    pub(super) is_in_initial_list: bool,
}

/// Writing.
impl Queue {
    pub(super) fn new(options: DeltaFifoOptions) -> Queue {
        Queue {
            items: HashMap::default(),
            order: VecDeque::new(),
            options,
            populated: false,
            initial_population_count: 0,
            closed: false,
            bytes: 0,
            stats: DeltaFifoStats::default(),
        }
    }

    pub(super) fn add(&mut self, object: Object) -> Result<(), TransformError> {
        self.queue_change(DeltaType::Added, object.into())
    }

    pub(super) fn update(&mut self, object: Object) -> Result<(), TransformError> {
        self.queue_change(DeltaType::Updated, object.into())
    }

    pub(super) fn delete(&mut self, object: DeltaObject, known: Known<'_>) -> Result<(), TransformError> {
        if !self.items.contains_key(&object.key() as &dyn AsKey) && !self.may_be_known(object.key(), known) {
            self.populated = true;
            self.stats.deletes_ignored += 1;
            return Ok(());
        }
        self.queue_change(DeltaType::Deleted, object)
    }

    /// Deletions first: those of queued keys, then those of known ones. Then the objects in their order.
    pub(super) fn replace(&mut self, objects: Vec<Object>, known: Known<'_>) {
        let is_unchanged = self.enqueue_tombstones(&objects, known);
        let kind = match self.options.emit_replaced {
            true => DeltaType::Replaced,
            false => DeltaType::Sync,
        };
        for (object, is_unchanged) in objects.into_iter().zip(is_unchanged) {
            if is_unchanged && self.options.skip_unchanged {
                self.stats.unchanged += 1;
                continue;
            }
            // A known object was transformed when it arrived.
            let transformed = match is_unchanged {
                true => Ok(object.into()),
                false => self.transformed(object.into()),
            };
            if let Ok(object) = transformed {
                self.push(Delta { kind, object });
            }
        }
        if !self.populated {
            self.populated = true;
            self.initial_population_count = self.order.len();
        }
    }

    pub(super) fn resync(&mut self, known: Known<'_>) {
        known.visit(&mut |key, object| match object {
            _ if self.items.contains_key(&key as &dyn AsKey) => {}
            Some(object) => self.push(Delta {
                kind: DeltaType::Sync,
                object: object.clone().into(),
            }),
            None => self.stats.lookups_failed += 1,
        });
    }

    pub(super) fn add_if_not_present(&mut self, deltas: Deltas) -> bool {
        self.populated = true;
        if self.items.contains_key(&deltas.key() as &dyn AsKey) {
            self.stats.requeues_superseded += deltas.len() as u64;
            return false;
        }
        self.stats.requeued += deltas.len() as u64;
        self.bytes += bytes_of(&deltas);
        self.order.push_back(deltas.key().to_key());
        self.items.insert(deltas.key().to_key(), deltas);
        true
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
    }
}

/// Popping, and reading.
impl Queue {
    pub(super) fn pop(&mut self) -> Option<Popped> {
        let key = self.order.pop_front()?;
        let deltas = self.items.remove(&key).expect("every key in the order has deltas");
        self.bytes -= bytes_of(&deltas);
        self.stats.popped_deltas += deltas.len() as u64;
        Some(Popped {
            deltas,
            is_in_initial_list: self.initial_population_count > 0,
        })
    }

    /// The key counts as processed from now on, also if that failed. client-go counts it when it is popped.
    pub(super) fn processed(&mut self, popped: &Popped, failed: bool) {
        self.initial_population_count -= usize::from(popped.is_in_initial_list);
        if failed {
            self.stats.failed_deltas += popped.deltas.len() as u64;
        }
    }

    pub(super) fn list(&self) -> impl Iterator<Item = &DeltaObject> {
        self.list_keys().map(|key| &self.items[key].newest().object)
    }

    pub(super) fn list_keys(&self) -> impl Iterator<Item = &Key> {
        self.order.iter()
    }

    pub(super) fn get_by_key(&self, key: KeyRef<'_>) -> Option<&Deltas> {
        self.items.get(&key as &dyn AsKey)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    pub(super) fn has_synced(&self) -> bool {
        self.populated && self.initial_population_count == 0
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn stats(&self) -> &DeltaFifoStats {
        &self.stats
    }
}

/// Internals.
impl Queue {
    fn queue_change(&mut self, kind: DeltaType, object: DeltaObject) -> Result<(), TransformError> {
        self.populated = true;
        let object = self.transformed(object)?;
        self.push(Delta { kind, object });
        Ok(())
    }

    /// Queues a tombstone for each queued or known key that `objects` lacks. Returns which of the objects are the known
    /// object itself and have nothing queued.
    fn enqueue_tombstones(&mut self, objects: &[Object], known: Known<'_>) -> Vec<bool> {
        let mut is_unchanged = vec![false; objects.len()];
        let mut listed: HashMap<KeyRef<'_>, usize> = HashMap::default();
        for (item, object) in objects.iter().enumerate() {
            listed.entry(object.key()).or_insert(item);
        }
        let queued = self.items.iter().map(|(key, deltas)| (key, deltas.newest()));
        let mut gone: Vec<Tombstone> = queued
            .filter(|(key, _)| !listed.contains_key(&key.as_ref()))
            .map(|(key, newest)| Tombstone {
                key: key.clone(),
                object: newest.object.object().cloned(),
            })
            .collect();
        known.visit(&mut |key, object| {
            if self.items.contains_key(&key as &dyn AsKey) {
                return;
            }
            if let Some(&item) = listed.get(&key) {
                is_unchanged[item] = object.is_some_and(|object| objects[item].ptr_eq(object));
                return;
            }
            self.stats.lookups_failed += u64::from(object.is_none());
            gone.push(Tombstone {
                key: key.to_key(),
                object: object.cloned(),
            });
        });
        self.stats.tombstones += gone.len() as u64;
        for tombstone in gone {
            self.push(Delta {
                kind: DeltaType::Deleted,
                object: tombstone.into(),
            });
        }
        is_unchanged
    }

    /// A look-up that fails may hide an object: then the path is taken that loses no event.
    fn may_be_known(&mut self, key: KeyRef<'_>, known: Known<'_>) -> bool {
        match known.get_by_key(key) {
            Ok(object) => object.is_some(),
            Err(_) => {
                self.stats.lookups_failed += 1;
                true
            }
        }
    }

    /// Appends to the key's deltas, or adds the key at the end of the queue.
    fn push(&mut self, delta: Delta) {
        self.stats.queued_deltas += 1;
        self.bytes += size_of_state(&delta);
        let key = delta.key().to_key();
        if let Some(deltas) = self.items.get_mut(&key) {
            if let Some(dropped) = deltas.push(delta) {
                self.stats.deletes_collapsed += 1;
                self.bytes -= size_of_state(&dropped);
            }
            return;
        }
        self.order.push_back(key.clone());
        self.items.insert(key, Deltas::new(delta));
    }

    fn transformed(&mut self, object: DeltaObject) -> Result<DeltaObject, TransformError> {
        match (&mut self.options.transform, object) {
            (Some(transform), DeltaObject::Object(object)) => {
                let transformed = transform::apply(transform.as_mut(), object);
                self.stats.transforms_failed += u64::from(transformed.is_err());
                transformed.map(DeltaObject::Object)
            }
            (_, object) => Ok(object),
        }
    }
}

fn bytes_of(deltas: &Deltas) -> usize {
    deltas.iter().map(size_of_state).sum()
}

fn size_of_state(delta: &Delta) -> usize {
    delta.object.object().map_or(0, Object::size_bytes)
}
