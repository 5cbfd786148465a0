//! What waits to be kept: the informer loop's end of a source.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use informant_cache::listener::Change;
use informant_cache::{Journal, ListenerHandle, Moment, Snapshot};
use informant_object::SourceId;

use crate::metrics::SourceNumbers;

/// How many changes of one source may wait to be kept. Above it they are dropped, and the difference between the snapshots takes their place: handlers
/// miss states in between, never the last one. Metrics `state_queued`, `state_behind`.
pub const QUEUED_CHANGES_MAX: usize = 16_384;

/// `high_water` of a source that has shown nothing.
const NONE: u64 = u64::MAX;

/// What the loop says.
pub(crate) enum Order {
    Begin {
        source: SourceId,
        snapshot: Snapshot,
        restored: bool,
    },
    Attach(ListenerHandle, Moment),
    Detach(ListenerHandle),
    Adopt(ListenerHandle),
    Push(Snapshot, Vec<Change>, Moment),
    /// Whatever changed up to this snapshot.
    Difference(Snapshot, Moment),
    Flush(Box<dyn FnOnce() + Send>),
}

/// Wakes the recorder.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: Mutex<bool>,
    condition: Condvar,
}

/// A durable source, as its informer loop knows it. Dropped, it is over: what it gave is still kept and handed on.
pub struct SourceState(Arc<Inbox>);

/// What both ends share.
pub(crate) struct Inbox {
    orders: Mutex<Orders>,
    high_water: AtomicU64,
    bell: Arc<Bell>,
    numbers: SourceNumbers,
}

#[derive(Default)]
struct Orders {
    queue: VecDeque<Order>,
    /// Changes in it.
    changes: usize,
    closed: bool,
}

impl Bell {
    pub(crate) fn ring(&self) {
        *self.rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.condition.notify_one();
    }

    /// Waits until it rings, at most so long.
    pub(crate) fn wait(&self, at_most: std::time::Duration) {
        let rung = self.rung.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.condition.wait_timeout_while(rung, at_most, |rung| !*rung);
        let (mut rung, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *rung = false;
    }
}

impl SourceState {
    pub(crate) fn new(inbox: Arc<Inbox>) -> Self {
        Self(inbox)
    }

    /// The highest version that an earlier process had seen.
    #[must_use]
    pub fn high_water(&self) -> Option<u64> {
        self.0.high_water()
    }
}

impl Inbox {
    pub(crate) fn new(high_water: Option<u64>, bell: Arc<Bell>, numbers: SourceNumbers) -> Self {
        Self {
            orders: Mutex::default(),
            high_water: AtomicU64::new(high_water.unwrap_or(NONE)),
            bell,
            numbers,
        }
    }

    pub(crate) fn high_water(&self) -> Option<u64> {
        let high_water = self.high_water.load(Ordering::Acquire);
        (high_water != NONE).then_some(high_water)
    }

    /// All that waits.
    pub(crate) fn take(&self) -> Vec<Order> {
        let mut orders = self.lock();
        orders.changes = 0;
        self.numbers.queued.set(0);
        orders.queue.drain(..).collect()
    }

    /// Changes that wait, and whether anything does.
    pub(crate) fn waiting(&self) -> (usize, bool) {
        let orders = self.lock();
        (orders.changes, !orders.queue.is_empty())
    }

    /// Whether nothing comes any more.
    pub(crate) fn is_over(&self) -> bool {
        let orders = self.lock();
        orders.closed && orders.queue.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give(&self, order: Order) {
        self.lock().queue.push_back(order);
        self.bell.ring();
    }
}

impl Orders {
    /// Puts the difference in the place of what waits: after all that is not about changes, but before whoever waits for them.
    fn fold(&mut self, snapshot: Snapshot, now: Moment) {
        self.queue
            .retain(|order| !matches!(order, Order::Push(..) | Order::Difference(..)));
        let place = self.queue.iter().position(|order| matches!(order, Order::Flush(_)));
        let place = place.unwrap_or(self.queue.len());
        self.queue.insert(place, Order::Difference(snapshot, now));
    }
}

impl Journal for SourceState {
    fn begin(&self, source: SourceId, snapshot: &Snapshot, restored: bool) {
        self.0.give(Order::Begin {
            source,
            snapshot: snapshot.clone(),
            restored,
        });
    }

    fn attach(&self, listener: &ListenerHandle, now: Moment) {
        self.0.give(Order::Attach(listener.clone(), now));
    }

    fn detach(&self, listener: &ListenerHandle) {
        self.0.give(Order::Detach(listener.clone()));
    }

    fn adopt(&self, listener: &ListenerHandle) {
        self.0.give(Order::Adopt(listener.clone()));
    }

    fn push(&self, snapshot: &Snapshot, changes: &[Change], now: Moment) {
        let mut orders = self.0.lock();
        orders.changes += changes.len();
        if orders.changes > QUEUED_CHANGES_MAX {
            self.0.numbers.behind.inc();
            orders.fold(snapshot.clone(), now);
        } else {
            orders
                .queue
                .push_back(Order::Push(snapshot.clone(), changes.to_vec(), now));
        }
        self.0
            .numbers
            .queued
            .set(i64::try_from(orders.changes).unwrap_or(i64::MAX));
        drop(orders);
        self.0.bell.ring();
    }

    fn seen(&self, high_water: u64) {
        self.0.high_water.store(high_water, Ordering::Release);
    }

    fn flush(&self, done: Box<dyn FnOnce() + Send>) {
        self.0.give(Order::Flush(done));
    }
}

impl Drop for SourceState {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.bell.ring();
    }
}

impl fmt::Debug for SourceState {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("SourceState")
            .field("waiting", &self.0.waiting())
            .finish_non_exhaustive()
    }
}
