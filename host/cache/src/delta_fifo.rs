//! The queue between the reflector and the informer loop.
//!
//! ```text
//! Reflector ──add/update/delete/replace──▶ DeltaFifo ──pop, pop_batch: all deltas of the oldest keys──▶ informer loop
//! ```
//!
//! Guarantees:
//!
//! - Keys leave in the order in which they first entered.
//! - All deltas of a key leave together, oldest first. Two deletes in a row become one.
//! - Every delta is either popped or counted in [`DeltaFifoStats`].
//!
//! The queue knows when the initial list has been processed. It is plain `&mut` state: no I/O, no lock, no waiting. It
//! has no size limit, because a list has to fit: its owner checks [`DeltaFifo::bytes`] to know when to stop reading
//! from the reflector.
//!
//! Follows client-go's `tools/cache/delta_fifo.go` (v0.31, which still had AddIfNotPresent). Each departure is
//! documented at its item:
//!
//! - Tombstones come before the other deltas of a replace.
//! - An item that is the known object itself is not repeated.
//! - The initial list counts as synced when it has been processed, not when it was popped.

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

/// The options of a [`DeltaFifo`].
pub struct DeltaFifoOptions {
    /// Whether a replace queues [`Replaced`](crate::DeltaType::Replaced), or [`Sync`](crate::DeltaType::Sync) as
    /// client-go did before `Replaced` existed.
    pub emit_replaced: bool,
    /// Whether a replace leaves out items that are the known object itself (`Object::ptr_eq`) and have nothing queued.
    /// client-go repeats them.
    pub skip_unchanged: bool,
    /// Run on each object that comes from the API server.
    pub transform: Option<Box<dyn Transform>>,
    /// Seed of the key table's hash. It has no visible effect; a random one protects against names crafted to collide.
    pub hash_seed: u64,
}

/// A queue of keys, each with the changes of its object since it was last processed.
pub struct DeltaFifo {
    queue: KeyedQueue,
    options: DeltaFifoOptions,
    /// Whether the first replace was done, or any other write came first.
    populated: bool,
    /// How many keys of the first replace have not been processed yet.
    initial_population_count: usize,
    /// How many of those are in batches that are not done yet.
    initial_keys_out: usize,
    closed: bool,
    bytes: usize,
    high_water: HighWater,
    stats: DeltaFifoStats,
}

/// The result of [`DeltaFifo::pop`].
#[derive(Debug)]
#[must_use = "a failed key has left the queue: put it back with add_if_not_present, or count it as lost"]
pub enum Pop<E> {
    /// The queue is empty.
    Empty,
    /// The queue is empty and closed (client-go's `ErrFIFOClosed`).
    Closed,
    /// The key's deltas were processed.
    Processed(Deltas),
    /// Processing failed. The deltas are returned and no longer in the queue.
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

/// Construction.
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

/// Options.
impl DeltaFifo {
    /// The present value of [`DeltaFifoOptions::skip_unchanged`].
    #[must_use]
    pub fn skips_unchanged(&self) -> bool {
        self.options.skip_unchanged
    }

    /// Changes [`DeltaFifoOptions::skip_unchanged`] for future replaces.
    pub fn set_skip_unchanged(&mut self, skip_unchanged: bool) {
        self.options.skip_unchanged = skip_unchanged;
    }
}

/// Reading.
impl DeltaFifo {
    /// Pops the first key and calls `process` with its deltas; the flag is true for keys of the initial list.
    ///
    /// The key counts as processed after `process`, even if that failed (client-go: before), so that
    /// [`has_synced`](Self::has_synced) is never true while the last key of the list is being processed. client-go
    /// blocks while the queue is empty; here the owning loop waits itself.
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

    /// Pops keys into `batch`, which is cleared first, until it holds `deltas_max` deltas (a key's deltas stay
    /// together, and the first key is always popped), the queue is empty, or the initial list ends. Returns how many
    /// keys it popped.
    ///
    /// Pass the batch to [`batch_done`](Self::batch_done) once it is processed. Source: client-go `RealFIFO.PopBatch`.
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

    /// Marks `batch` as processed, and clears it.
    pub fn batch_done(&mut self, batch: &mut Batch) {
        self.initial_population_count -= batch.initial_keys;
        self.initial_keys_out -= batch.initial_keys;
        batch.clear();
    }

    /// The newest object of each queued key, in queue order. (client-go's order is random.)
    pub fn list(&self) -> impl ExactSizeIterator<Item = &DeltaObject> {
        self.queue.iter().map(|deltas| &deltas.newest().object)
    }

    /// The queued keys, in queue order.
    pub fn list_keys(&self) -> impl ExactSizeIterator<Item = KeyRef<'_>> {
        self.queue.iter().map(Deltas::key)
    }

    /// The queued deltas of `object`'s key.
    #[must_use]
    pub fn get(&self, object: &Object) -> Option<&Deltas> {
        self.get_by_key(object.key())
    }

    /// The queued deltas of `key`.
    #[must_use]
    pub fn get_by_key(&self, key: KeyRef<'_>) -> Option<&Deltas> {
        self.queue.find(key).index.map(|index| &self.queue.get(index).deltas)
    }

    /// Whether [`close`](Self::close) was called.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether every key of the first replace, its deletions included, has been processed, or any other write came
    /// first.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.populated && self.initial_population_count == 0
    }

    /// Whether the first replace was done, or any other write came first. client-go: `populated`.
    #[must_use]
    pub fn is_populated(&self) -> bool {
        self.populated
    }

    /// How many keys are queued.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether no key is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Bytes of the queued objects, including those that the store holds, too.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The counters of the queue.
    #[must_use]
    pub fn stats(&self) -> &DeltaFifoStats {
        &self.stats
    }

    /// The version up to which all changes of the source have left the queue; none while unknown.
    ///
    /// This is not the version of the newest popped object: with deltas grouped by key, that one may have overtaken an
    /// older change of another key. Deltas put back by [`add_if_not_present`](Self::add_if_not_present) do not count.
    #[must_use]
    pub fn fresh_as_of(&self) -> Option<ResourceVersion> {
        match self.queue.front() {
            None => self.high_water.version(),
            Some(next) => write::version_of(next.high_water_before),
        }
    }
}

/// Internals.
impl DeltaFifo {
    fn take_first(&mut self) -> Option<Deltas> {
        let deltas = self.queue.pop_front()?;
        self.bytes -= bytes_of(&deltas);
        self.stats.popped_deltas += deltas.len() as u64;
        Some(deltas)
    }

    /// Keys of the initial list that have not been popped. They are first in the queue.
    fn initial_keys_queued(&self) -> usize {
        self.initial_population_count - self.initial_keys_out
    }
}

fn bytes_of(deltas: &Deltas) -> usize {
    deltas.iter().map(|delta| delta.object.size_bytes()).sum()
}

/// The deltas of several distinct keys, in queue order. A reusable buffer.
///
/// Pass it to [`DeltaFifo::batch_done`](crate::DeltaFifo::batch_done) once it is processed: only then do its keys count
/// as processed for the initial list.
#[derive(Debug, Default)]
pub struct Batch {
    deltas: Vec<Delta>,
    /// The end of each key's deltas.
    ends: Vec<usize>,
    is_in_initial_list: bool,
    initial_keys: usize,
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Whether these keys belong to the initial list. Either all keys of a batch do, or none.
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

    /// All deltas: key by key, and oldest first within a key.
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

/// Counters of one [`DeltaFifo`]. Each only grows. Every delta that came in and was not popped is in
/// one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeltaFifoStats {
    /// Deltas that were queued, except requeued ones.
    pub queued_deltas: u64,
    /// Deltas returned by `pop` and `pop_batch`.
    pub popped_deltas: u64,
    /// Deletes queued by a replace for objects that its list lacked.
    pub tombstones: u64,
    /// Items of a replace that were the known object itself, with nothing queued: nothing to deliver.
    pub unchanged: u64,
    /// Deletes of objects that were neither queued nor known.
    pub deletes_ignored: u64,
    /// Deletes merged with the delete before them.
    pub deletes_collapsed: u64,
    /// Objects whose new version was withheld because the transform failed.
    pub transforms_failed: u64,
    /// Deltas whose processing failed. Those put back are counted in `requeued`, too.
    pub failed_deltas: u64,
    /// Deltas put back by `add_if_not_present`.
    pub requeued: u64,
    /// Deltas not put back by `add_if_not_present`, because newer ones of their key were queued.
    pub requeues_superseded: u64,
    /// Look-ups of known objects that failed.
    pub lookups_failed: u64,
}
