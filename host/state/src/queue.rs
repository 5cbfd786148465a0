//! What waits to be kept: the informer loop's end of a source.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use informant_cache::listener::Change;
use informant_cache::{Journal, ListenerHandle, Moment, Snapshot};
use informant_object::SourceId;

use crate::metrics::SourceNumbers;

/// How many changes of one source may wait to be kept. Above it they are dropped and counted, and the difference
/// between the snapshots takes their place: handlers miss states in between, never the last one. Metrics
/// `state_queued`, `state_behind`.
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
    Adopt(ListenerHandle, Then),
    Push(Snapshot, Vec<Change>, Moment),
    /// Whatever changed up to this snapshot.
    Difference(Snapshot, Moment),
    Flush(Then),
}

/// What is to be done in its turn.
type Then = Box<dyn FnOnce() + Send>;

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
    numbers: Arc<SourceNumbers>,
}

#[derive(Default)]
struct Orders {
    queue: VecDeque<Order>,
    /// Changes that wait, also those in the place of which a difference stands.
    changes: usize,
    /// Nothing more comes.
    closed: bool,
    /// Nobody carries orders out any more.
    ended: bool,
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
    pub(crate) fn new(high_water: Option<u64>, bell: Arc<Bell>, numbers: Arc<SourceNumbers>) -> Self {
        Self {
            orders: Mutex::default(),
            high_water: AtomicU64::new(high_water.unwrap_or(NONE)),
            bell,
            numbers,
        }
    }

    pub(crate) fn bell(&self) -> Arc<Bell> {
        Arc::clone(&self.bell)
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

    /// Nobody carries orders out from now on, but for those that wait.
    pub(crate) fn end(&self) {
        self.lock().ended = true;
    }

    /// What becomes of an order that nobody carries out: whoever waits is answered, and what is not told is counted.
    pub(crate) fn let_fall(&self, order: Order) {
        match order {
            Order::Flush(then) | Order::Adopt(_, then) => then(),
            Order::Push(_, changes, _) => drop(self.numbers.untold.inc_by(changes.len() as u64)),
            Order::Difference(..) => drop(self.numbers.untold.inc()),
            Order::Begin { .. } | Order::Attach(..) | Order::Detach(_) => {}
        }
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
        let mut orders = self.lock();
        if orders.ended {
            drop(orders);
            return self.let_fall(order);
        }
        orders.queue.push_back(order);
        drop(orders);
        self.bell.ring();
    }

    fn push(&self, snapshot: &Snapshot, changes: &[Change], now: Moment) {
        let mut orders = self.lock();
        if orders.ended {
            self.numbers.untold.inc_by(changes.len() as u64);
            return;
        }
        orders.changes += changes.len();
        if orders.changes > QUEUED_CHANGES_MAX {
            let left_out = orders.fold(snapshot.clone(), now) + changes.len();
            self.numbers.behind.inc_by(left_out as u64);
        } else {
            let order = Order::Push(snapshot.clone(), changes.to_vec(), now);
            orders.queue.push_back(order);
        }
        self.numbers.queued.set(orders.changes);
        drop(orders);
        self.bell.ring();
    }
}

impl Orders {
    /// Puts the difference in the place of what waits: after all that is not about changes, but before whoever waits
    /// for them. What comes before a listener that goes over from other sources is not for it, and stays apart. Returns
    /// how many changes were left out.
    fn fold(&mut self, snapshot: Snapshot, now: Moment) -> usize {
        let adopted = self.queue.iter().rposition(|order| matches!(order, Order::Adopt(..)));
        let mut folded = self.queue.split_off(adopted.map_or(0, |place| place + 1));
        let mut left_out = 0;
        folded.retain(|order| {
            if let Order::Push(_, changes, _) = order {
                left_out += changes.len();
            }
            !matches!(order, Order::Push(..) | Order::Difference(..))
        });
        let place = folded.iter().position(|order| matches!(order, Order::Flush(_)));
        folded.insert(place.unwrap_or(folded.len()), Order::Difference(snapshot, now));
        self.queue.append(&mut folded);
        left_out
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

    fn adopt(&self, listener: &ListenerHandle, inherit: Then) {
        self.0.give(Order::Adopt(listener.clone(), inherit));
    }

    fn push(&self, snapshot: &Snapshot, changes: &[Change], now: Moment) {
        self.0.push(snapshot, changes, now);
    }

    fn seen(&self, high_water: u64) {
        self.0.high_water.store(high_water, Ordering::Release);
    }

    fn flush(&self, done: Then) {
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
