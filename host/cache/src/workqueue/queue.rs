//! The queue itself: what is dirty, what is in line, what is worked on.

use std::fmt;
use std::hash::Hash;
use std::time::Duration;

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;
use hashbrown::HashMap;

use super::limiter::RateLimiter;
use super::options::{AddOptions, When, WorkQueueOptions};
use super::stats::{Remaining, WorkQueueStats};
use super::waiting::{Delayed, PriorityQueue};
use crate::Moment;

/// Items to be worked on, each by one worker at a time. See [the module](super) for what it promises.
///
/// ```
/// use std::time::Duration;
/// use informant_cache::Moment;
/// use informant_cache::workqueue::{Get, WorkQueue, WorkQueueOptions};
///
/// let mut queue = WorkQueue::new(WorkQueueOptions::default());
/// let now = Moment::ZERO;
/// queue.add("default/web", now);
/// queue.add("default/web", now); // waits already
/// assert_eq!(queue.get(now), Get::Item("default/web"));
/// // The work failed: again, 5 ms later at first.
/// queue.add_rate_limited("default/web", now);
/// queue.done(&"default/web", now);
/// let again = now + Duration::from_millis(5);
/// assert_eq!(queue.get(now), Get::WaitUntil(again));
/// assert_eq!(queue.get(again), Get::Item("default/web"));
/// // It worked.
/// queue.forget(&"default/web");
/// queue.done(&"default/web", again);
/// ```
pub struct WorkQueue<T> {
    /// What is to be worked on. An item that is in `processing` too is put in line once it is done.
    dirty: HashMap<T, Dirty, SeedableRandomState>,
    ready: PriorityQueue<T>,
    /// What workers have, and since when.
    processing: HashMap<T, Moment, SeedableRandomState>,
    delayed: Delayed<T>,
    limiter: Box<dyn RateLimiter<T>>,
    items_max: usize,
    /// The number of the next arrival in line.
    arrivals: u64,
    shutting_down: bool,
    /// The counters; what can be counted at any time is filled in by `stats`.
    counted: WorkQueueStats,
}

#[derive(Clone, Copy, Debug)]
struct Dirty {
    priority: i32,
    since: Moment,
    /// Where it is in line; none while it is worked on.
    arrival: Option<u64>,
}

/// What became of an addition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It waits now, and did not before. If it is worked on, it waits for that to end.
    Waits,
    /// It waits until its time has come.
    Delayed,
    /// It waited already, and goes on doing so; earlier or with a higher priority, if that was asked.
    Merged,
    /// Too many items wait. Nothing was added.
    Full,
    /// The queue was shut down. Nothing was added.
    ShutDown,
}

/// The answer to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Get<T> {
    /// Work on this one, then call [`WorkQueue::done`].
    Item(T),
    /// Nothing may be handed out before then, unless something is added.
    WaitUntil(Moment),
    /// Nothing waits.
    Idle,
    /// Nothing waits, and nothing will.
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

    /// Has `item` worked on. Source: client-go `Add`.
    pub fn add(&mut self, item: T, now: Moment) -> Admission {
        self.add_with(item, AddOptions::default(), now)
    }

    /// Has `item` worked on once `after` has passed. Of several such wishes for one item the earliest counts. It may be
    /// worked on before, too: what is added meanwhile does not take the delay's place. Source: client-go `AddAfter`.
    pub fn add_after(&mut self, item: T, after: Duration, now: Moment) -> Admission {
        let when = When::After(after);
        self.add_with(item, AddOptions { when, priority: 0 }, now)
    }

    /// Has `item` worked on when the limiter says. To be called for an item that failed, before [`done`](Self::done).
    /// Source: client-go `AddRateLimited`.
    pub fn add_rate_limited(&mut self, item: T, now: Moment) -> Admission {
        let when = When::RateLimited;
        self.add_with(item, AddOptions { when, priority: 0 }, now)
    }

    /// Has `item` worked on as `options` say. Source: controller-runtime `AddWithOpts`.
    pub fn add_with(&mut self, item: T, options: AddOptions, now: Moment) -> Admission {
        if self.shutting_down {
            self.counted.ignored += 1;
            return Admission::ShutDown;
        }
        let wait = match options.when {
            When::Now => return self.add_now(item, options.priority, now),
            When::After(wait) => wait,
            When::RateLimited => self.limiter.when(&item, now),
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

    /// Forgets how often `item` failed: it worked, or it is given up. Source: client-go `Forget`.
    pub fn forget(&mut self, item: &T) {
        self.limiter.forget(item);
    }

    /// How often `item` was added rate limited since it was forgotten. Source: client-go `NumRequeues`.
    #[must_use]
    pub fn num_requeues(&self, item: &T) -> u32 {
        self.limiter.num_requeues(item)
    }
}

/// Working.
impl<T: Clone + Eq + Hash> WorkQueue<T> {
    /// The next item to work on, which the caller has until [`done`](Self::done). Source: client-go `Get`, which
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

    /// Says that work on `item` has ended, well or not. If it was added meanwhile it is in line again; returns whether
    /// it is.
    ///
    /// Nothing happens for an item that nobody has. Source: client-go `Done`.
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

    /// Has what is due wait in line, as [`get`](Self::get) does; returns how many that were.
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

/// Ending, and reading.
impl<T: Clone + Eq + Hash> WorkQueue<T> {
    /// Takes nothing more. What is in line is still handed out, as is what was added again before while it was worked
    /// on; what is delayed is dropped and counted (client-go drops it silently). Source: client-go `ShutDown`.
    pub fn shut_down(&mut self) -> Remaining {
        self.shutting_down = true;
        self.counted.delayed_dropped += self.delayed.clear() as u64;
        self.remaining()
    }

    /// What is still to be done after a shut-down.
    pub fn remaining(&self) -> Remaining {
        Remaining {
            queued: self.ready.len(),
            processing: self.processing.len(),
            delayed_dropped: self.counted.delayed_dropped,
        }
    }

    /// Whether the queue takes nothing more. Source: client-go `ShuttingDown`.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        self.shutting_down
    }

    /// Whether workers have nothing, which is what client-go's `ShutDownWithDrain` waits for. Items may be in line all
    /// the same.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.processing.is_empty()
    }

    /// Whether [`get`](Self::get) has something to hand out, but for what has become due since it was asked.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// How many items are in line. Source: client-go `Len`.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ready.len()
    }

    /// Whether no item is in line.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// The queue at this moment. Looks at every item that is worked on.
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

/// Steps.
impl<T: Clone + Eq + Hash> WorkQueue<T> {
    /// Source: client-go `Add` and, for an item that waits, `Touch`.
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
