//! The queue between the reflector and the informer loop.
//!
//! ```text
//! Reflector ──add/update/delete/replace──▶ DeltaFifo ──pop, pop_batch: all deltas of the oldest keys──▶ informer loop
//! ```
//!
//! Promises: keys leave in the order in which they first entered; all deltas of a key leave together, oldest first; two deletes
//! in a row are one; whatever comes in goes out or is in [`DeltaFifoStats`]. Knows when the initial list has been processed.
//! Plain `&mut` state: no I/O, no lock, no waiting. Does not bound itself, since a list has to fit: [`DeltaFifo::bytes`] tells
//! its owner when to stop reading from the reflector.
//!
//! Follows client-go's `tools/cache/delta_fifo.go` (v0.31, which still had AddIfNotPresent); each departure is stated at its
//! item. They are: tombstones come before everything else of a replace; an item that is the known object itself is not
//! repeated; the initial list counts as done when it has been processed, not when it was handed out.

mod batch;
mod keyed_queue;
mod listed;
mod stats;
#[cfg(test)]
mod tests;

use std::fmt;

use informant_object::{KeyRef, Object, ResourceVersion, VersionRef};

pub use self::batch::Batch;
use self::keyed_queue::{KeyedQueue, Place};
use self::listed::Listed;
pub use self::stats::DeltaFifoStats;
use crate::delta::{Delta, DeltaObject, DeltaType, Deltas, Tombstone};
use crate::known_objects::KnownObjects;
use crate::transform::{self, Transform, TransformError};
use crate::{Moment, Reason};

/// How a [`DeltaFifo`] departs from the usual.
pub struct DeltaFifoOptions {
    /// Whether a replace queues [`DeltaType::Replaced`], or [`DeltaType::Sync`] as client-go did before it had the former.
    pub emit_replaced: bool,
    /// Whether a replace leaves out items that are the known object itself (`Object::ptr_eq`) and have nothing queued.
    /// client-go repeats them.
    pub skip_unchanged: bool,
    /// Run on each object that comes from the API server.
    pub transform: Option<Box<dyn Transform>>,
    /// Seed of the key table. Nothing visible depends on it; a random one keeps chosen names from making the table slow.
    pub hash_seed: u64,
}

/// A queue of keys, each with what happened to its object since it was last processed.
pub struct DeltaFifo {
    queue: KeyedQueue,
    options: DeltaFifoOptions,
    /// Whether the first replace was done or anything else came first.
    populated: bool,
    /// How many keys of the first replace have not been processed yet.
    initial_population_count: usize,
    /// How many of those are out in batches that are not done yet.
    initial_keys_out: usize,
    closed: bool,
    bytes: usize,
    newest: Newest,
    stats: DeltaFifoStats,
}

/// The newest version that the source has shown to the queue.
#[derive(Default)]
struct Newest {
    /// As a number; 0 if it is none.
    number: u64,
    /// As a text, if it is no number.
    text: Option<ResourceVersion>,
}

/// What a [`DeltaFifo::pop`] did.
#[derive(Debug)]
#[must_use = "a failed key is out of the queue: put it back with add_if_not_present, or count it as lost"]
pub enum Pop<E> {
    /// Nothing waits.
    Empty,
    /// Nothing waits, and the queue is closed (client-go's `ErrFIFOClosed`).
    Closed,
    /// The key's deltas were processed.
    Processed(Deltas),
    /// Processing failed. The deltas are here and no longer in the queue.
    Failed(Deltas, E),
}

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

impl Default for DeltaFifoOptions {
    fn default() -> DeltaFifoOptions {
        DeltaFifoOptions {
            emit_replaced: true,
            skip_unchanged: true,
            transform: None,
            hash_seed: 0,
        }
    }
}

impl fmt::Debug for DeltaFifo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaFifo")
            .field("keys", &self.queue.len())
            .field("bytes", &self.bytes)
            .field("populated", &self.populated)
            .field("initial_population_count", &self.initial_population_count)
            .field("closed", &self.closed)
            .finish_non_exhaustive()
    }
}

/// Writing.
impl DeltaFifo {
    /// An empty queue.
    #[must_use]
    pub fn new(options: DeltaFifoOptions) -> DeltaFifo {
        DeltaFifo {
            queue: KeyedQueue::new(options.hash_seed),
            options,
            populated: false,
            initial_population_count: 0,
            initial_keys_out: 0,
            closed: false,
            bytes: 0,
            newest: Newest::default(),
            stats: DeltaFifoStats::default(),
        }
    }

    /// Queues an [`DeltaType::Added`]. A key in line keeps its place, another goes to the end.
    ///
    /// # Errors
    /// [`TransformError`]; the queue is then as before, and the event counted.
    pub fn add(&mut self, object: Object, received: Moment) -> Result<(), TransformError> {
        self.queue_change(DeltaType::Added, object, received)
    }

    /// Queues an [`DeltaType::Updated`], as [`add`](Self::add) does.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn update(&mut self, object: Object, received: Moment) -> Result<(), TransformError> {
        self.queue_change(DeltaType::Updated, object, received)
    }

    /// Queues a [`DeltaType::Deleted`] with the object's last state (or a [`Tombstone`]), if the key is in line or known; a
    /// delete of an object that nobody has heard of is ignored and counted. Where the look-up fails it is queued.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn delete(
        &mut self,
        object: impl Into<DeltaObject>,
        known: &impl KnownObjects,
        received: Moment,
    ) -> Result<(), TransformError> {
        let object = object.into();
        self.populated = true;
        let place = self.queue.find(object.key());
        let is_news = place.index.is_some() || self.may_be_known(object.key(), known);
        if let DeltaObject::Object(object) = &object {
            self.newest.shown(object.version());
        }
        if !is_news {
            self.stats.deletes_ignored += 1;
            return Ok(());
        }
        let object = self.transformed(object)?;
        self.push(
            place,
            Delta {
                kind: DeltaType::Deleted,
                object,
                reason: Reason::Watch,
                received,
            },
        );
        Ok(())
    }

    /// Takes `objects`, a complete list of the source at `version`, for all there is.
    ///
    /// What the list lacks is queued first, as [`DeltaType::Deleted`] with a [`Tombstone`]: for each key in line the newest
    /// state queued, then for each other known key the known one. Then each object in list order as [`DeltaType::Replaced`],
    /// except those that are the known object itself and have nothing queued ([`DeltaFifoOptions::skip_unchanged`]). The
    /// first call, if nothing came before, fixes how many keys make up the initial list ([`has_synced`](Self::has_synced)).
    ///
    /// Source: client-go `DeltaFIFO.Replace`, which queues the deletions last and repeats unchanged objects. Its transform
    /// error fails the whole replace; here it withholds one object.
    pub fn replace(
        &mut self,
        objects: Vec<Object>,
        version: &ResourceVersion,
        known: &impl KnownObjects,
        reason: Reason,
        received: Moment,
    ) -> ReplaceSummary {
        let listed = Listed::new(&self.queue, &objects);
        let had_queued = !self.queue.is_empty();
        let mut summary = ReplaceSummary::default();
        if had_queued {
            summary.vanished += self.bury_queued(&listed, reason, received);
        }
        let mut unchanged = vec![false; if self.options.skip_unchanged { objects.len() } else { 0 }];
        summary.vanished += self.bury_known(&listed, known, had_queued, &mut unchanged, reason, received);
        let hashes = listed.into_hashes();

        let kind = if self.options.emit_replaced {
            DeltaType::Replaced
        } else {
            DeltaType::Sync
        };
        self.queue.reserve(
            objects
                .len()
                .saturating_sub(unchanged.iter().filter(|&&unchanged| unchanged).count()),
        );
        for (index, object) in objects.into_iter().enumerate() {
            if unchanged.get(index) == Some(&true) {
                summary.unchanged += 1;
                continue;
            }
            let Ok(object) = self.transformed(object.into()) else {
                summary.withheld += 1;
                continue;
            };
            let place = self.queue.find_hashed(hashes[index], object.key());
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
        self.stats.unchanged += summary.unchanged as u64;
        self.newest.shown(version.as_ref());
        if !self.populated {
            self.populated = true;
            self.initial_population_count = self.queue.len();
        }
        summary
    }

    /// Queues a [`DeltaType::Sync`] for each known key that has nothing queued. A key whose look-up fails is left out.
    pub fn resync(&mut self, known: &impl KnownObjects, received: Moment) {
        known.visit(&mut |key, object| {
            let place = self.queue.find(key);
            if place.index.is_some() {
                return;
            }
            let Some(object) = object else {
                self.stats.lookups_failed += 1;
                return;
            };
            let object = DeltaObject::Object(object.clone());
            self.push(
                place,
                Delta {
                    kind: DeltaType::Sync,
                    object,
                    reason: Reason::Resync,
                    received,
                },
            );
        });
    }

    /// Puts back what [`pop`](Self::pop) handed out, at the end of the line; returns whether it did. If the key is in line
    /// again, newer news wins and nothing is put back.
    pub fn add_if_not_present(&mut self, deltas: Deltas) -> bool {
        self.populated = true;
        let place = self.queue.find(deltas.key());
        if place.index.is_some() {
            self.stats.requeues_superseded += deltas.len() as u64;
            return false;
        }
        self.stats.requeued += deltas.len() as u64;
        self.bytes += bytes_of(&deltas);
        self.queue.push_back(place.hash, deltas, self.newest.number);
        true
    }

    /// Notes that the source has shown all up to `version`, without an object: a bookmark.
    pub fn bookmark(&mut self, version: VersionRef<'_>) {
        self.newest.shown(version);
    }

    /// Closes the queue. What waits can still be popped, and writing is not refused, as in client-go; once nothing waits,
    /// [`pop`](Self::pop) says [`Pop::Closed`].
    pub fn close(&mut self) {
        self.closed = true;
    }
}

/// Reading.
impl DeltaFifo {
    /// Takes the first key out of line and has `process` work on its deltas; the flag says whether they are of the initial
    /// list.
    ///
    /// The key counts as processed after `process`, even if that failed (client-go: before), so that
    /// [`has_synced`](Self::has_synced) is never true while the last of the list is still being worked on. client-go blocks
    /// here while nothing waits; the loop that owns this queue waits itself.
    pub fn pop<E>(&mut self, process: impl FnOnce(&Deltas, bool) -> Result<(), E>) -> Pop<E> {
        let is_in_initial_list = self.initial_keys_in_line() > 0;
        let Some(deltas) = self.take_first() else {
            return if self.closed { Pop::Closed } else { Pop::Empty };
        };
        let outcome = process(&deltas, is_in_initial_list);
        self.initial_population_count -= usize::from(is_in_initial_list);
        match outcome {
            Ok(()) => Pop::Processed(deltas),
            Err(error) => {
                self.stats.failed_deltas += deltas.len() as u64;
                Pop::Failed(deltas, error)
            }
        }
    }

    /// Takes keys out of line into `batch`, which is emptied first, until it holds `deltas_max` deltas (a key's deltas stay
    /// together, and the first key is always taken), nothing waits, or the end of the initial list is reached. Returns how
    /// many keys it took.
    ///
    /// Hand the batch to [`batch_done`](Self::batch_done) once it is processed. Source: client-go `RealFIFO.PopBatch`.
    pub fn pop_batch(&mut self, deltas_max: usize, batch: &mut Batch) -> usize {
        self.batch_done(batch);
        let initial = self.initial_keys_in_line();
        let keys_max = if initial > 0 { initial } else { usize::MAX };
        while batch.len() < keys_max
            && let Some(next) = self.queue.front()
            && (batch.is_empty() || batch.deltas().len() + next.deltas.len() <= deltas_max)
            && let Some(deltas) = self.take_first()
        {
            batch.push(deltas);
        }
        if initial > 0 {
            batch.is_in_initial_list = true;
            batch.initial_keys = batch.len();
            self.initial_keys_out += batch.len();
        }
        batch.len()
    }

    /// Says that `batch` has been processed, and empties it.
    pub fn batch_done(&mut self, batch: &mut Batch) {
        self.initial_population_count -= batch.initial_keys;
        self.initial_keys_out -= batch.initial_keys;
        batch.clear();
    }

    /// The newest object of each key in line, in line order. (client-go's order is random.)
    pub fn list(&self) -> impl ExactSizeIterator<Item = &DeltaObject> {
        self.queue.iter().map(|deltas| &deltas.newest().object)
    }

    /// The keys in line, first to leave first.
    pub fn list_keys(&self) -> impl ExactSizeIterator<Item = KeyRef<'_>> {
        self.queue.iter().map(Deltas::key)
    }

    /// The deltas that wait under `object`'s key.
    #[must_use]
    pub fn get(&self, object: &Object) -> Option<&Deltas> {
        self.get_by_key(object.key())
    }

    /// The deltas that wait under `key`.
    #[must_use]
    pub fn get_by_key(&self, key: KeyRef<'_>) -> Option<&Deltas> {
        self.queue.find(key).index.map(|index| &self.queue.get(index).deltas)
    }

    /// Whether [`close`](Self::close) was called.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether every key of the first replace, its deletions included, has been processed; or anything else came before it.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.populated && self.initial_population_count == 0
    }

    /// How many keys wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether no key waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Bytes of the objects that wait, those that the store holds too included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What the queue has done so far.
    #[must_use]
    pub fn stats(&self) -> &DeltaFifoStats {
        &self.stats
    }

    /// The version up to which all that the source showed has left the queue; none while that is unknown.
    ///
    /// Not the version of the newest object popped: with deltas grouped by key, that one may have overtaken an older change of
    /// another key. Deltas put back by [`add_if_not_present`](Self::add_if_not_present) are not waited for.
    #[must_use]
    pub fn fresh_as_of(&self) -> Option<ResourceVersion> {
        match self.queue.front() {
            None => self.newest.version(),
            Some(next) => (next.shown_before > 0).then(|| number_version(next.shown_before)),
        }
    }
}

/// Steps.
impl DeltaFifo {
    fn queue_change(&mut self, kind: DeltaType, object: Object, received: Moment) -> Result<(), TransformError> {
        self.populated = true;
        let version = object.clone();
        let transformed = self.transformed(object.into());
        if let Ok(object) = transformed {
            let place = self.queue.find(object.key());
            self.push(
                place,
                Delta {
                    kind,
                    object,
                    reason: Reason::Watch,
                    received,
                },
            );
            self.newest.shown(version.version());
            return Ok(());
        }
        self.newest.shown(version.version());
        transformed.map(|_| ())
    }

    fn may_be_known(&mut self, key: KeyRef<'_>, known: &impl KnownObjects) -> bool {
        match known.get_by_key(key) {
            Ok(object) => object.is_some(),
            Err(_) => {
                self.stats.lookups_failed += 1;
                true
            }
        }
    }

    /// Tombstones for keys in line that the list lacks. Source: client-go `DeltaFIFO.Replace`, its first loop.
    fn bury_queued(&mut self, listed: &Listed<'_>, reason: Reason, received: Moment) -> usize {
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
            self.bury(place, tombstone, reason, received);
            buried += 1;
        }
        buried
    }

    /// Tombstones for known keys that are neither in line nor in the list; and marks the items that are the known object itself
    /// and have nothing queued.
    fn bury_known(
        &mut self,
        listed: &Listed<'_>,
        known: &impl KnownObjects,
        had_queued: bool,
        unchanged: &mut [bool],
        reason: Reason,
        received: Moment,
    ) -> usize {
        let mut buried = 0;
        known.visit(&mut |key, object| {
            let hash = self.queue.hash(key);
            let place = if had_queued {
                self.queue.find_hashed(hash, key)
            } else {
                Place { hash, index: None }
            };
            if place.index.is_some() {
                return;
            }
            if let Some(item) = listed.find(hash, key) {
                if let (Some(mark), Some(object)) = (unchanged.get_mut(item), object) {
                    *mark = listed.object(item).ptr_eq(object);
                }
                return;
            }
            self.stats.lookups_failed += u64::from(object.is_none());
            self.bury(
                place,
                Tombstone {
                    key: key.to_key(),
                    object: object.cloned(),
                },
                reason,
                received,
            );
            buried += 1;
        });
        buried
    }

    fn bury(&mut self, place: Place, tombstone: Tombstone, reason: Reason, received: Moment) {
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

    fn push(&mut self, place: Place, delta: Delta) {
        self.stats.queued_deltas += 1;
        self.bytes += delta.object.size_bytes();
        let Some(index) = place.index else {
            self.queue.push_back(place.hash, Deltas::new(delta), self.newest.number);
            return;
        };
        if let Some(collapsed) = self.queue.append(index, delta) {
            self.stats.deletes_collapsed += 1;
            self.bytes -= collapsed.object.size_bytes();
        }
    }

    fn transformed(&mut self, object: DeltaObject) -> Result<DeltaObject, TransformError> {
        match (&mut self.options.transform, object) {
            (Some(transform), DeltaObject::Object(object)) => match transform::apply(transform.as_mut(), object) {
                Ok(object) => Ok(object.into()),
                Err(error) => {
                    self.stats.transforms_failed += 1;
                    Err(error)
                }
            },
            (_, object) => Ok(object),
        }
    }

    fn take_first(&mut self) -> Option<Deltas> {
        let deltas = self.queue.pop_front()?;
        self.bytes -= bytes_of(&deltas);
        self.stats.popped_deltas += deltas.len() as u64;
        Some(deltas)
    }

    /// Keys of the initial list that have not been handed out. They are the first in line.
    fn initial_keys_in_line(&self) -> usize {
        self.initial_population_count - self.initial_keys_out
    }
}

impl Newest {
    fn shown(&mut self, version: VersionRef<'_>) {
        match version.number() {
            Some(number) => *self = Newest { number, text: None },
            None if version.is_empty() => {}
            None => {
                *self = Newest {
                    number: 0,
                    text: Some(version.to_version()),
                }
            }
        }
    }

    fn version(&self) -> Option<ResourceVersion> {
        self.text
            .clone()
            .or_else(|| (self.number > 0).then(|| number_version(self.number)))
    }
}

fn number_version(number: u64) -> ResourceVersion {
    ResourceVersion::new(&number.to_string())
}

fn bytes_of(deltas: &Deltas) -> usize {
    deltas.iter().map(|delta| delta.object.size_bytes()).sum()
}
