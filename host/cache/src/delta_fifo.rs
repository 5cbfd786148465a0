//! The queue between the reflector and the informer loop.
//!
//! ```text
//! Reflector ──add/update/delete/replace──▶ DeltaFifo ──pop, pop_batch: all deltas of the oldest keys──▶ informer loop
//! ```
//!
//! Promises: keys leave in the order in which they first entered; all deltas of a key leave together, oldest first; two
//! deletes in a row are one; whatever comes in goes out or is in [`DeltaFifoStats`]. Knows when the initial list has
//! been processed. Plain `&mut` state: no I/O, no lock, no waiting. Does not bound itself, since a list has to fit:
//! [`DeltaFifo::bytes`] tells its owner when to stop reading from the reflector.
//!
//! Follows client-go's `tools/cache/delta_fifo.go` (v0.31, which still had AddIfNotPresent); each departure is stated
//! at its item. They are: tombstones come before everything else of a replace; an item that is the known object itself
//! is not repeated; the initial list counts as done when it has been processed, not when it was handed out.

mod keyed_queue;
mod replace;
#[cfg(test)]
mod tests;
mod write;

use std::fmt;

use informant_object::{KeyRef, Object, ResourceVersion};

use self::keyed_queue::KeyedQueue;
pub use self::replace::ReplaceSummary;
use self::write::HighWater;
use crate::delta::{Delta, DeltaObject, Deltas};
use crate::transform::Transform;

/// How a [`DeltaFifo`] departs from the usual.
pub struct DeltaFifoOptions {
    /// Whether a replace queues [`Replaced`](crate::DeltaType::Replaced), or [`Sync`](crate::DeltaType::Sync) as
    /// client-go did before it had the former.
    pub emit_replaced: bool,
    /// Whether a replace leaves out items that are the known object itself (`Object::ptr_eq`) and have nothing queued.
    /// client-go repeats them.
    pub skip_unchanged: bool,
    /// Run on each object that comes from the API server.
    pub transform: Option<Box<dyn Transform>>,
    /// Seed of the key table. Nothing visible depends on it; a random one keeps chosen names from making the table
    /// slow.
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
    high_water: HighWater,
    stats: DeltaFifoStats,
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

/// Making.
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
            high_water: HighWater::default(),
            stats: DeltaFifoStats::default(),
        }
    }
}

/// Changing.
impl DeltaFifo {
    /// [`DeltaFifoOptions::skip_unchanged`], as it is now.
    #[must_use]
    pub fn skips_unchanged(&self) -> bool {
        self.options.skip_unchanged
    }

    /// Changes [`DeltaFifoOptions::skip_unchanged`] for the replaces to come.
    pub fn set_skip_unchanged(&mut self, skip_unchanged: bool) {
        self.options.skip_unchanged = skip_unchanged;
    }
}

/// Reading.
impl DeltaFifo {
    /// Takes the first key out of line and has `process` work on its deltas; the flag says whether they are of the
    /// initial list.
    ///
    /// The key counts as processed after `process`, even if that failed (client-go: before), so that
    /// [`has_synced`](Self::has_synced) is never true while the last of the list is still being worked on. client-go
    /// blocks here while nothing waits; the loop that owns this queue waits itself.
    pub fn pop<E>(&mut self, process: impl FnOnce(&Deltas, bool) -> Result<(), E>) -> Pop<E> {
        let is_in_initial_list = self.initial_keys_queued() > 0;
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

    /// Takes keys out of line into `batch`, which is emptied first, until it holds `deltas_max` deltas (a key's deltas
    /// stay together, and the first key is always taken), nothing waits, or the end of the initial list is reached.
    /// Returns how many keys it took.
    ///
    /// Hand the batch to [`batch_done`](Self::batch_done) once it is processed. Source: client-go `RealFIFO.PopBatch`.
    pub fn pop_batch(&mut self, deltas_max: usize, batch: &mut Batch) -> usize {
        self.batch_done(batch);
        let initial = self.initial_keys_queued();
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

    /// Whether every key of the first replace, its deletions included, has been processed; or anything else came before
    /// it.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.populated && self.initial_population_count == 0
    }

    /// Whether the first replace was done, or anything else came first. client-go: `populated`.
    #[must_use]
    pub fn is_populated(&self) -> bool {
        self.populated
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
    /// Not the version of the newest object popped: with deltas grouped by key, that one may have overtaken an older
    /// change of another key. Deltas put back by [`add_if_not_present`](Self::add_if_not_present) are not waited for.
    #[must_use]
    pub fn fresh_as_of(&self) -> Option<ResourceVersion> {
        match self.queue.front() {
            None => self.high_water.version(),
            Some(next) => write::version_of(next.shown_before),
        }
    }
}

/// Steps.
impl DeltaFifo {
    fn take_first(&mut self) -> Option<Deltas> {
        let deltas = self.queue.pop_front()?;
        self.bytes -= bytes_of(&deltas);
        self.stats.popped_deltas += deltas.len() as u64;
        Some(deltas)
    }

    /// Keys of the initial list that have not been handed out. They are the first in line.
    fn initial_keys_queued(&self) -> usize {
        self.initial_population_count - self.initial_keys_out
    }
}

fn bytes_of(deltas: &Deltas) -> usize {
    deltas.iter().map(|delta| delta.object.size_bytes()).sum()
}

/// The deltas of several distinct keys, in the order of the queue. A buffer: keep it and hand it in again.
///
/// Goes back to [`DeltaFifo::batch_done`](crate::DeltaFifo::batch_done) once it is processed: only then do its keys
/// count as processed for the initial list.
#[derive(Debug, Default)]
pub struct Batch {
    deltas: Vec<Delta>,
    /// For each key the end of its deltas.
    ends: Vec<usize>,
    is_in_initial_list: bool,
    initial_keys: usize,
}

impl Batch {
    /// An empty one.
    #[must_use]
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Whether these keys are of the initial list. A batch is wholly or not at all.
    #[must_use]
    pub fn is_in_initial_list(&self) -> bool {
        self.is_in_initial_list
    }

    /// How many keys it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All deltas: key after key, and of each key oldest first.
    #[must_use]
    pub fn deltas(&self) -> &[Delta] {
        &self.deltas
    }

    /// The deltas of each key, oldest first, never empty.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &[Delta]> {
        self.ends.iter().enumerate().map(|(index, &end)| {
            let start = if index == 0 { 0 } else { self.ends[index - 1] };
            &self.deltas[start..end]
        })
    }

    fn push(&mut self, deltas: Deltas) {
        deltas.drain_into(&mut self.deltas);
        self.ends.push(self.deltas.len());
    }

    fn clear(&mut self) {
        self.deltas.clear();
        self.ends.clear();
        self.is_in_initial_list = false;
        self.initial_keys = 0;
    }
}

/// Counters of one [`DeltaFifo`](crate::DeltaFifo). Each only grows. Whatever came in and did not go out is in one of
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeltaFifoStats {
    /// Deltas that came in and were queued, requeued ones aside.
    pub queued_deltas: u64,
    /// Deltas handed out by `pop` and `pop_batch`.
    pub popped_deltas: u64,
    /// Deletes queued by a replace for objects that its list lacked.
    pub tombstones: u64,
    /// Items of a replace that were the known object itself, with nothing queued: seen, and nothing to tell.
    pub unchanged: u64,
    /// Deletes of objects that were neither queued nor known.
    pub deletes_ignored: u64,
    /// Deletes that went into one with the delete before them.
    pub deletes_collapsed: u64,
    /// Objects whose new version was withheld because the transform failed on them.
    pub transforms_failed: u64,
    /// Deltas whose processing failed. What the consumer put back is in `requeued` too.
    pub failed_deltas: u64,
    /// Deltas put back by `add_if_not_present`.
    pub requeued: u64,
    /// Deltas not put back by `add_if_not_present`, because their key was in line again with newer ones.
    pub requeues_superseded: u64,
    /// Look-ups of known objects that failed.
    pub lookups_failed: u64,
}
