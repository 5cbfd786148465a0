//! The queue: dirty, queued and processing items.

use std::fmt;
use std::hash::Hash;
use std::time::Duration;

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;
use hashbrown::HashMap;

use super::limiter::RateLimiter;
use super::options::{AddOptions, DueTime, WorkQueueOptions};
use super::stats::{Remaining, WorkQueueStats};
use super::waiting::{Delayed, PriorityQueue};
use crate::Moment;

/// A queue of items, each processed by one worker at a time. See [the module](super) for its guarantees.
///
/// ```
/// use std::time::Duration;
/// use informant_cache::Moment;
/// use informant_cache::workqueue::{Get, WorkQueue, WorkQueueOptions};
///
/// let mut queue = WorkQueue::new(WorkQueueOptions::default());
/// let now = Moment::ZERO;
/// queue.add("default/web", now);
/// queue.add("default/web", now); // already queued
/// assert_eq!(queue.get(now), Get::Item("default/web"));
/// // The work failed: retry after 5 ms at first.
/// queue.add_rate_limited("default/web", now);
/// queue.done(&"default/web", now);
/// let again = now + Duration::from_millis(5);
/// assert_eq!(queue.get(now), Get::WaitUntil(again));
/// assert_eq!(queue.get(again), Get::Item("default/web"));
/// // Success.
/// queue.forget(&"default/web");
/// queue.done(&"default/web", again);
/// ```
pub struct WorkQueue<T> {
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

/// The result of [`WorkQueue::get`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Get<T> {
    /// Process this item, then call [`WorkQueue::done`].
    Item(T),
    /// Nothing is due before this time, unless an item is added.
    WaitUntil(Moment),
    /// The queue is empty.
    Idle,
    /// The queue is empty and shut down.
    ShutDown,
}

impl<T> fmt::Debug for WorkQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue")
            .field("dirty", &self.dirty.len())
            .field("processing", &self.processing.len())
            .field("shutting_down", &self.shutting_down)
            .finish_non_exhaustive()
    }
}

/// Adding.
impl<T: Clone + Eq + Hash> WorkQueue<T> {
    /// An empty queue.
    #[must_use]
    pub fn new(options: WorkQueueOptions<T>) -> WorkQueue<T> {
        let hasher = SeedableRandomState::with_seed(options.hash_seed, SharedSeed::global_fixed());
        WorkQueue {
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

    /// Adds `item`. Source: client-go `Add`.
    pub fn add(&mut self, item: T, now: Moment) -> Admission {
        self.add_with(item, AddOptions::default(), now)
    }

    /// Adds `item` after the delay `after`. If an item is delayed several times, the earliest time counts. A plain
    /// [`add`](Self::add) meanwhile does not replace the delay: the item may then be processed twice. Source: client-go
    /// `AddAfter`.
    pub fn add_after(&mut self, item: T, after: Duration, now: Moment) -> Admission {
        let when = DueTime::After(after);
        self.add_with(item, AddOptions { when, priority: 0 }, now)
    }

    /// Adds `item` after the rate limiter's delay. Call it for a failed item, before [`done`](Self::done). Source:
    /// client-go `AddRateLimited`.
    pub fn add_rate_limited(&mut self, item: T, now: Moment) -> Admission {
        let when = DueTime::RateLimited;
        self.add_with(item, AddOptions { when, priority: 0 }, now)
    }

    /// Adds `item` with `options`. Source: controller-runtime `AddWithOpts`.
    pub fn add_with(&mut self, item: T, options: AddOptions, now: Moment) -> Admission {
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
    pub fn forget(&mut self, item: &T) {
        self.limiter.forget(item);
    }

    /// How often `item` was added rate limited since it was last forgotten. Source: client-go `NumRequeues`.
    #[must_use]
    pub fn num_requeues(&self, item: &T) -> u32 {
        self.limiter.num_requeues(item)
    }
}

/// Processing.
impl<T: Clone + Eq + Hash> WorkQueue<T> {
    /// The next item to process, which the caller has until [`done`](Self::done). Source: client-go `Get`, which
    /// blocks.
    #[must_use]
    pub fn get(&mut self, now: Moment) -> Get<T> {
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
    pub fn done(&mut self, item: &T, now: Moment) -> bool {
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
    pub fn admit_due(&mut self, now: Moment) -> usize {
        let mut admitted = 0;
        while let Some((item, priority)) = self.delayed.pop_due(now) {
            self.add_now(item, priority, now);
            admitted += 1;
        }
        admitted
    }

    /// When the next delayed item is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Moment> {
        self.delayed.next()
    }
}

/// Shutting down, and reading.
impl<T: Clone + Eq + Hash> WorkQueue<T> {
    /// No longer accepts items. Queued items are still handed out, including those added while they are processed;
    /// delayed items are dropped and counted (client-go drops them silently). Source: client-go `ShutDown`.
    pub fn shut_down(&mut self) -> Remaining {
        self.shutting_down = true;
        self.counted.delayed_dropped += self.delayed.clear() as u64;
        self.remaining()
    }

    /// The remaining items after a shut-down.
    pub fn remaining(&self) -> Remaining {
        Remaining {
            queued: self.ready.len(),
            processing: self.processing.len(),
            delayed_dropped: self.counted.delayed_dropped,
        }
    }

    /// Whether the queue was shut down. Source: client-go `ShuttingDown`.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.shutting_down
    }

    /// Whether no item is being processed, which client-go's `ShutDownWithDrain` waits for. Items may still be queued.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.processing.is_empty()
    }

    /// Whether [`get`](Self::get) can return an item, not counting those that became due since its last call.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// How many items are queued. Source: client-go `Len`.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ready.len()
    }

    /// Whether no item is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// Statistics of the queue now. Visits every item that is being processed.
    #[must_use]
    pub fn stats(&self, now: Moment) -> WorkQueueStats {
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
impl<T: Clone + Eq + Hash> WorkQueue<T> {
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
