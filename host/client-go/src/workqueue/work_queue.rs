//! A workqueue for threads and tasks.

use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use informant_cache::Moment;

use super::queue::QueueState;
use super::{AddOptions, Admission, ClockFn, DueTime, Get, Remaining, WorkQueueOptions, WorkQueueStats};
use crate::locks::{lock, wait, wait_for};

/// Which waiters to wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// One waiter: one item was queued.
    One,
    /// All waiters: an item is due earlier than before, or the queue was shut down.
    All,
}

type Waker = Arc<dyn Fn(Wake) + Send + Sync>;

/// A queue of items, each processed by one worker at a time; clones are the same queue. See [the module](super) for its
/// guarantees.
///
/// Threads call [`get`](Self::get), which blocks. Tasks call [`try_get`](Self::try_get) and are woken by
/// [`set_waker`](Self::set_waker)'s callback. The time comes from the clock that was passed in.
///
/// ```
/// # use std::{sync::Arc, time::Instant};
/// # use informant_client_go::Moment;
/// # use informant_client_go::workqueue::{WorkQueue, WorkQueueOptions};
/// let began = Instant::now();
/// let clock = Arc::new(move || Moment::ZERO + began.elapsed());
/// let queue = WorkQueue::new(WorkQueueOptions::default(), clock);
/// let workers = [(); 2].map(|()| {
///     let queue = queue.clone();
///     std::thread::spawn(move || {
///         let mut done = 0;
///         while let Some(key) = queue.get() {
///             if reconcile(&key).is_ok() {
///                 queue.forget(&key);
///             } else {
///                 queue.add_rate_limited(key.clone());
///             }
///             queue.done(&key);
///             done += 1;
///         }
///         done
///     })
/// });
/// # fn reconcile(_key: &String) -> Result<(), ()> { Ok(()) }
/// queue.add("default/web".to_owned());
/// queue.add("default/db".to_owned());
/// let _ = queue.shut_down();
/// let done: u32 = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
/// assert_eq!(done, 2);
/// ```
pub struct WorkQueue<T>(Arc<Shared<T>>);

struct Shared<T> {
    state: Mutex<State<T>>,
    /// An item may be ready, or the queue was shut down.
    changed: Condvar,
    /// No item is being processed, or a later shut-down ended the drain.
    drained: Condvar,
    waker: Mutex<Option<Waker>>,
    clock: ClockFn,
}

struct State<T> {
    queue: QueueState<T>,
    /// Counts shut-downs: each one ends a running drain.
    shut_downs: u64,
}

impl<T> Clone for WorkQueue<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for WorkQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WorkQueue").field(&lock(&self.0.state).queue).finish()
    }
}

/// Adding.
impl<T: Clone + Eq + Hash> WorkQueue<T> {
    /// An empty queue.
    #[must_use]
    pub fn new(options: WorkQueueOptions<T>, clock: ClockFn) -> Self {
        let state = State {
            queue: QueueState::new(options),
            shut_downs: 0,
        };
        Self(Arc::new(Shared {
            state: Mutex::new(state),
            changed: Condvar::new(),
            drained: Condvar::new(),
            waker: Mutex::default(),
            clock,
        }))
    }

    /// Sets the callback that wakes waiters, called without a lock. Replaces an earlier one.
    ///
    /// For tasks: `Notify::notify_one` and `notify_waiters` are [`Wake::One`] and [`Wake::All`].
    pub fn set_waker(&self, waker: impl Fn(Wake) + Send + Sync + 'static) {
        *lock(&self.0.waker) = Some(Arc::new(waker));
    }

    /// Adds `item`. client-go: `Add`.
    pub fn add(&self, item: T) -> Admission {
        self.add_with(item, AddOptions::default())
    }

    /// Adds `item` after the delay `after`. If an item is delayed several times, the earliest time counts. A plain
    /// [`add`](Self::add) meanwhile does not replace the delay: the item may then be processed twice. client-go:
    /// `AddAfter`.
    pub fn add_after(&self, item: T, after: Duration) -> Admission {
        let when = DueTime::After(after);
        self.add_with(item, AddOptions { when, priority: 0 })
    }

    /// Adds `item` after the rate limiter's delay. Call it for a failed item, before [`done`](Self::done). client-go:
    /// `AddRateLimited`.
    pub fn add_rate_limited(&self, item: T) -> Admission {
        let when = DueTime::RateLimited;
        self.add_with(item, AddOptions { when, priority: 0 })
    }

    /// Adds `item` with `options`. controller-runtime: `AddWithOpts`.
    pub fn add_with(&self, item: T, options: AddOptions) -> Admission {
        let now = self.now();
        self.change(|queue| queue.add_with(item, options, now))
    }

    /// Forgets the failures of `item`. client-go: `Forget`.
    pub fn forget(&self, item: &T) {
        lock(&self.0.state).queue.forget(item);
    }

    /// How often `item` was added rate limited since it was last forgotten. client-go: `NumRequeues`.
    #[must_use]
    pub fn num_requeues(&self, item: &T) -> u32 {
        lock(&self.0.state).queue.num_requeues(item)
    }
}

/// Processing.
impl<T: Clone + Eq + Hash> WorkQueue<T> {
    /// The next item to process, which the caller has until [`done`](Self::done); blocks while there is none. None once
    /// the queue is shut down and empty. client-go: `Get`.
    #[must_use]
    pub fn get(&self) -> Option<T> {
        let mut state = lock(&self.0.state);
        loop {
            let now = self.now();
            match state.queue.get(now) {
                Get::Item(item) => {
                    // Several items may have become due at once, but only one waiter was woken.
                    if state.queue.is_ready() {
                        self.0.changed.notify_one();
                    }
                    return Some(item);
                }
                Get::WaitUntil(due) => state = wait_for(&self.0.changed, state, due - now),
                Get::Idle => state = wait(&self.0.changed, state),
                Get::ShutDown => return None,
            }
        }
    }

    /// As [`get`](Self::get), but returns how long to wait instead of blocking.
    #[must_use]
    pub fn try_get(&self) -> Get<T> {
        let now = self.now();
        lock(&self.0.state).queue.get(now)
    }

    /// Marks `item` as processed, successfully or not. client-go: `Done`.
    pub fn done(&self, item: &T) {
        let now = self.now();
        self.change(|queue| queue.done(item, now));
    }
}

/// Shutting down, and reading.
impl<T: Clone + Eq + Hash> WorkQueue<T> {
    /// No longer accepts items; queued items are still handed out, then [`get`](Self::get) returns none. Ends a running
    /// [`shut_down_with_drain`](Self::shut_down_with_drain). client-go: `ShutDown`.
    pub fn shut_down(&self) -> Remaining {
        let remaining = {
            let mut state = lock(&self.0.state);
            state.shut_downs += 1;
            state.queue.shut_down()
        };
        self.0.drained.notify_all();
        self.wake(Wake::All);
        remaining
    }

    /// As [`shut_down`](Self::shut_down), then blocks until no item is being processed. Items still queued are in the
    /// result, and still handed out. client-go: `ShutDownWithDrain`.
    pub fn shut_down_with_drain(&self) -> Remaining {
        let _ = self.shut_down();
        let mut state = lock(&self.0.state);
        let own = state.shut_downs;
        while !state.queue.is_drained() && state.shut_downs == own {
            state = wait(&self.0.drained, state);
        }
        state.queue.remaining()
    }

    /// Whether the queue was shut down. client-go: `ShuttingDown`.
    #[must_use]
    pub fn is_shutting_down(&self) -> bool {
        lock(&self.0.state).queue.is_shutting_down()
    }

    /// How many items are queued. client-go: `Len`.
    #[must_use]
    pub fn len(&self) -> usize {
        lock(&self.0.state).queue.len()
    }

    /// Whether no item is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Statistics of the queue now.
    #[must_use]
    pub fn stats(&self) -> WorkQueueStats {
        let now = self.now();
        lock(&self.0.state).queue.stats(now)
    }
}

/// Internals.
impl<T: Clone + Eq + Hash> WorkQueue<T> {
    fn now(&self) -> Moment {
        (self.0.clock)()
    }

    /// Changes the queue, then wakes waiters.
    fn change<R>(&self, change: impl FnOnce(&mut QueueState<T>) -> R) -> R {
        let (result, came, is_earlier, is_drained) = {
            let queue = &mut lock(&self.0.state).queue;
            let (before, due) = (queue.len(), queue.next_due());
            let result = change(queue);
            let is_earlier = queue.next_due().is_some_and(|next| due.is_none_or(|due| next < due));
            (result, queue.len() > before, is_earlier, queue.is_drained())
        };
        if is_drained {
            self.0.drained.notify_all();
        }
        // All: any waiter may be busy at that time, so all must know it.
        if is_earlier {
            self.wake(Wake::All);
        } else if came {
            self.wake(Wake::One);
        }
        result
    }

    fn wake(&self, wake: Wake) {
        match wake {
            Wake::One => self.0.changed.notify_one(),
            Wake::All => self.0.changed.notify_all(),
        }
        let waker = lock(&self.0.waker).clone();
        if let Some(waker) = waker {
            waker(wake);
        }
    }
}
