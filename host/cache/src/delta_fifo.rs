//! The queue between the reflector and the informer loop.
//!
//! ```text
//! Reflector ──add/update/delete/replace──▶ DeltaFifo ──pop_batch: all deltas of the oldest keys──▶ informer loop
//! ```
//!
//! Guarantees:
//!
//! - Keys leave in the order in which they first entered.
//! - All deltas of a key leave together, oldest first. Two deletes in a row become one.
//!
//! The queue knows when the initial list has been processed. It is plain `&mut` state: no I/O, no lock, no waiting. It
//! has no size limit, because a list has to fit: the channel in front of it is bounded.
//!
//! Follows client-go's `tools/cache/delta_fifo.go`. Each departure is documented at its item:
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

use informant_object::{KeyRef, ResourceVersion};

use self::keyed_queue::KeyedQueue;
pub use self::replace::ReplaceSummary;
use self::write::HighWater;
use crate::delta::{Delta, Deltas};

/// The options of a [`DeltaFifo`].
#[derive(Clone, Copy, Debug)]
pub struct DeltaFifoOptions {
    /// Whether a replace leaves out items that are the known object itself (`Object::ptr_eq`) and have nothing queued.
    /// client-go repeats them.
    pub skip_unchanged: bool,
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
    high_water: HighWater,
}

impl Default for DeltaFifoOptions {
    fn default() -> DeltaFifoOptions {
        DeltaFifoOptions {
            skip_unchanged: true,
            hash_seed: 0,
        }
    }
}

impl fmt::Debug for DeltaFifo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaFifo")
            .field("keys", &self.queue.len())
            .field("populated", &self.populated)
            .field("initial_population_count", &self.initial_population_count)
            .finish_non_exhaustive()
    }
}

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
            high_water: HighWater::default(),
        }
    }

    /// The present value of [`DeltaFifoOptions::skip_unchanged`].
    #[must_use]
    pub fn skips_unchanged(&self) -> bool {
        self.options.skip_unchanged
    }

    /// Changes [`DeltaFifoOptions::skip_unchanged`] for future replaces.
    pub fn set_skip_unchanged(&mut self, skip_unchanged: bool) {
        self.options.skip_unchanged = skip_unchanged;
    }

    /// Pops keys into `batch`, which is cleared first, until it holds `deltas_max` deltas (a key's deltas stay
    /// together, and the first key is always popped), the queue is empty, or the initial list ends. Returns how many
    /// keys it popped.
    ///
    /// Pass the batch to [`batch_done`](Self::batch_done) once it is processed. Source: client-go `RealFIFO.PopBatch`.
    pub fn pop_batch(&mut self, deltas_max: usize, batch: &mut Batch) -> usize {
        self.batch_done(batch);
        // Keys of the initial list that have not been popped. They are first in the queue.
        let initial = self.initial_population_count - self.initial_keys_out;
        let keys_max = if initial > 0 { initial } else { usize::MAX };
        while batch.len() < keys_max
            && let Some(next) = self.queue.front()
            && (batch.is_empty() || batch.deltas().len() + next.deltas.len() <= deltas_max)
            && let Some(deltas) = self.queue.pop_front()
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

    /// The queued deltas of `key`.
    #[must_use]
    pub fn get_by_key(&self, key: KeyRef<'_>) -> Option<&Deltas> {
        self.queue.find(key).index.map(|index| &self.queue.get(index).deltas)
    }

    /// Whether every key of the first replace, its deletions included, has been processed, or any other write came
    /// first.
    #[must_use]
    pub fn has_synced(&self) -> bool {
        self.populated && self.initial_population_count == 0
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

    /// The version up to which all changes of the source have left the queue; none while unknown.
    ///
    /// This is not the version of the newest popped object: with deltas grouped by key, that one may have overtaken an
    /// older change of another key.
    #[must_use]
    pub fn fresh_as_of(&self) -> Option<ResourceVersion> {
        match self.queue.front() {
            None => self.high_water.version(),
            Some(next) => write::version_of(next.high_water_before),
        }
    }
}

/// The deltas of several distinct keys, in queue order. A reusable buffer.
///
/// Pass it to [`DeltaFifo::batch_done`](crate::DeltaFifo::batch_done) once it is processed: only then do its keys count
/// as processed for the initial list.
#[derive(Debug, Default)]
pub struct Batch {
    deltas: Vec<Delta>,
    keys: usize,
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
        self.keys
    }

    /// Whether it holds none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys == 0
    }

    /// All deltas: key by key, and oldest first within a key.
    #[must_use]
    pub fn deltas(&self) -> &[Delta] {
        &self.deltas
    }

    fn push(&mut self, deltas: Deltas) {
        deltas.drain_into(&mut self.deltas);
        self.keys += 1;
    }

    fn clear(&mut self) {
        self.deltas.clear();
        self.keys = 0;
        self.is_in_initial_list = false;
        self.initial_keys = 0;
    }
}
