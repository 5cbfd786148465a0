//! The queue: dirty, queued and processing items.

use std::fmt;
use std::hash::Hash;

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;
use hashbrown::HashMap;

use super::limiter::RateLimiter;
use super::options::{AddOptions, DueTime, WorkQueueOptions};
use super::stats::{Remaining, WorkQueueStats};
use super::waiting::{Delayed, PriorityQueue};
use informant_cache::Moment;

/// A queue of items, each processed by one worker at a time, as plain `&mut` state: time is passed in.
pub(super) struct QueueState<T> {
    /// Items to be processed. An item that is in `processing`, too, is queued once it is done.
    dirty: HashMap<T, Dirty, SeedableRandomState>,
    ready: PriorityQueue<T>,
    /// Items being processed, and since when.
    processing: HashMap<T, Moment, SeedableRandomState>,
    delayed: Delayed<T>,
    limiter: Box<dyn RateLimiter<T>>,
    items_max: usize,
    /// The number of the next arrival in the queue.
    arrivals: u64,
    shutting_down: bool,
    /// The counters; `stats` fills in the current values.
    counted: WorkQueueStats,
}

#[derive(Clone, Copy, Debug)]
struct Dirty {
    priority: i32,
    since: Moment,
    /// Its arrival number in the queue; none while it is processed.
    arrival: Option<u64>,
}

/// The result of adding an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The item is queued now, and was not before. If it is being processed, it is queued after that.
    Waits,
    /// The item is delayed.
    Delayed,
    /// The item was already queued or delayed, and stays so; earlier or with a higher priority, if requested.
    Merged,
    /// The queue is full. Nothing was added.
    Full,
    /// The queue was shut down. Nothing was added.
    ShutDown,
}

/// The result of [`WorkQueue::try_get`](super::WorkQueue::try_get).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Get<T> {
    /// Process this item, then call [`WorkQueue::done`](super::WorkQueue::done).
    Item(T),
    /// Nothing is due before this time, unless an item is added.
    WaitUntil(Moment),
    /// The queue is empty.
    Idle,
    /// The queue is empty and shut down.
    ShutDown,
}

impl<T> fmt::Debug for QueueState<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue")
            .field("dirty", &self.dirty.len())
            .field("processing", &self.processing.len())
            .field("shutting_down", &self.shutting_down)
            .finish_non_exhaustive()
    }
}

/// Adding.
impl<T: Clone + Eq + Hash> QueueState<T> {
    /// An empty queue.
    pub(super) fn new(options: WorkQueueOptions<T>) -> QueueState<T> {
        let hasher = SeedableRandomState::with_seed(options.hash_seed, SharedSeed::global_fixed());
        QueueState {
            dirty: HashMap::with_hasher(hasher.clone()),
            ready: PriorityQueue::new(options.passed_over_max),
            processing: HashMap::with_hasher(hasher.clone()),
            delayed: Delayed::new(hasher),
            limiter: options.limiter,
            items_max: options.items_max,
            arrivals: 0,
            shutting_down: false,
            counted: WorkQueueStats::default(),
        }
    }

    /// Adds `item` with `options`. Source: controller-runtime `AddWithOpts`.
    pub(super) fn add_with(&mut self, item: T, options: AddOptions, now: Moment) -> Admission {
        if self.shutting_down {
            self.counted.ignored += 1;
            return Admission::ShutDown;
        }
        let wait = match options.when {
            DueTime::Now => return self.add_now(item, options.priority, now),
            DueTime::After(wait) => wait,
            DueTime::RateLimited => self.limiter.when(&item, now),
        };
        self.counted.retries += 1;
        if wait.is_zero() {
            return self.add_now(item, options.priority, now);
        }
        if !self.delayed.contains(&item) && self.is_full() {
            self.counted.refused += 1;
            return Admission::Full;
        }
        if self.delayed.set(item, now + wait, options.priority) {
            Admission::Delayed
        } else {
            self.counted.merged += 1;
            Admission::Merged
        }
    }

    /// Forgets the failures of `item`, after success or when giving up. Source: client-go `Forget`.
    pub(super) fn forget(&mut self, item: &T) {
        self.limiter.forget(item);
    }

    /// How often `item` was added rate limited since it was last forgotten. Source: client-go `NumRequeues`.
    pub(super) fn num_requeues(&self, item: &T) -> u32 {
        self.limiter.num_requeues(item)
    }
}

/// Processing.
impl<T: Clone + Eq + Hash> QueueState<T> {
    /// The next item to process, which the caller has until [`done`](Self::done). Source: client-go `Get`, which
    /// blocks.
    pub(super) fn get(&mut self, now: Moment) -> Get<T> {
        self.admit_due(now);
        let Some(item) = self.ready.pop() else {
            return match self.delayed.next() {
                _ if self.shutting_down => Get::ShutDown,
                Some(next) => Get::WaitUntil(next),
                None => Get::Idle,
            };
        };
        if let Some(dirty) = self.dirty.remove(&item) {
            self.counted.queue_duration.observe(now - dirty.since);
        }
        self.processing.insert(item.clone(), now);
        Get::Item(item)
    }

    /// Marks `item` as processed, successfully or not. If it was added meanwhile, it is queued again; returns whether
    /// it is.
    ///
    /// Does nothing for an item that is not being processed. Source: client-go `Done`.
    pub(super) fn done(&mut self, item: &T, now: Moment) -> bool {
        let Some(since) = self.processing.remove(item) else {
            return false;
        };
        self.counted.work_duration.observe(now - since);
        let Some(dirty) = self.dirty.get_mut(item) else {
            return false;
        };
        dirty.arrival = Some(self.arrivals);
        self.ready.push(self.arrivals, dirty.priority, item.clone());
        self.arrivals += 1;
        true
    }

    /// Queues the delayed items that are due, as [`get`](Self::get) does; returns how many.
    pub(super) fn admit_due(&mut self, now: Moment) -> usize {
        let mut admitted = 0;
        while let Some((item, priority)) = self.delayed.pop_due(now) {
            self.add_now(item, priority, now);
            admitted += 1;
        }
        admitted
    }

    /// When the next delayed item is due.
    pub(super) fn next_due(&self) -> Option<Moment> {
        self.delayed.next()
    }
}

/// Shutting down, and reading.
impl<T: Clone + Eq + Hash> QueueState<T> {
    /// No longer accepts items. Queued items are still handed out, including those added while they are processed;
    /// delayed items are dropped and counted (client-go drops them silently). Source: client-go `ShutDown`.
    pub(super) fn shut_down(&mut self) -> Remaining {
        self.shutting_down = true;
        self.counted.delayed_dropped += self.delayed.clear() as u64;
        self.remaining()
    }

    /// The remaining items after a shut-down.
    pub(super) fn remaining(&self) -> Remaining {
        Remaining {
            queued: self.ready.len(),
            processing: self.processing.len(),
            delayed_dropped: self.counted.delayed_dropped,
        }
    }

    /// Whether the queue was shut down. Source: client-go `ShuttingDown`.
    pub(super) fn is_shutting_down(&self) -> bool {
        self.shutting_down
    }

    /// Whether no item is being processed, which client-go's `ShutDownWithDrain` waits for. Items may still be queued.
    pub(super) fn is_drained(&self) -> bool {
        self.processing.is_empty()
    }

    /// Whether [`get`](Self::get) can return an item, not counting those that became due since its last call.
    pub(super) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// How many items are queued. Source: client-go `Len`.
    pub(super) fn len(&self) -> usize {
        self.ready.len()
    }

    /// Statistics of the queue now. Visits every item that is being processed.
    pub(super) fn stats(&self, now: Moment) -> WorkQueueStats {
        let running = self.processing.values().map(|&since| now - since);
        WorkQueueStats {
            depth: self.dirty.len(),
            delayed: self.delayed.len(),
            processing: self.processing.len(),
            failing: self.limiter.failing(),
            unfinished_work: running.clone().sum(),
            longest_running: running.max().unwrap_or_default(),
            ..self.counted
        }
    }
}

/// Internals.
impl<T: Clone + Eq + Hash> QueueState<T> {
    /// Source: client-go `Add` and, for a queued item, `Touch`.
    fn add_now(&mut self, item: T, priority: i32, now: Moment) -> Admission {
        if let Some(dirty) = self.dirty.get_mut(&item) {
            if priority > dirty.priority {
                let from = std::mem::replace(&mut dirty.priority, priority);
                if let Some(arrival) = dirty.arrival {
                    self.ready.move_to(arrival, from, priority);
                }
            }
            self.counted.merged += 1;
            return Admission::Merged;
        }
        if self.is_full() {
            self.counted.refused += 1;
            return Admission::Full;
        }
        self.counted.adds += 1;
        let mut dirty = Dirty {
            priority,
            since: now,
            arrival: None,
        };
        if !self.processing.contains_key(&item) {
            dirty.arrival = Some(self.arrivals);
            self.ready.push(self.arrivals, priority, item.clone());
            self.arrivals += 1;
        }
        self.dirty.insert(item, dirty);
        Admission::Waits
    }

    fn is_full(&self) -> bool {
        self.dirty.len() + self.delayed.len() >= self.items_max
    }
}
