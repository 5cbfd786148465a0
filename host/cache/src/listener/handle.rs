//! A listener shared between the informer loop and its consumer, in four parts, one for each audience.

mod consumer;
mod control;
mod feed;
mod ledger;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use informant_object::SourceId;

pub use self::consumer::Consumer;
pub use self::control::Control;
pub use self::feed::Feed;
pub use self::ledger::Ledger;
use crate::Moment;
use crate::listener::cursor::CursorKind;
use crate::listener::replay::ReplayRequested;
use crate::listener::tick::TickEnded;
use crate::listener::wake::WakingLock;
use crate::listener::{Lane, Listener, ListenerOptions};

/// One handler's listener; clones are the same listener. See [the module](super) for what it promises.
///
/// Every call takes one lock for a short time (well below a microsecond per event of a batch), and callbacks run after
/// it is released.
#[derive(Clone)]
pub struct ListenerHandle {
    feed: Feed,
    consumer: Consumer,
    control: Control,
    ledger: Ledger,
}

type SyncedCallback = Arc<dyn Fn(SourceId) + Send + Sync>;

struct Shared {
    listener: WakingLock<Listener>,
    synced: Mutex<Option<SyncedCallback>>,
    ticks: Mutex<Option<TickEnded>>,
    /// The handler, for log lines; empty if it has no name.
    name: Box<str>,
}

impl ListenerHandle {
    /// A listener without sources.
    #[must_use]
    pub fn new(options: ListenerOptions) -> ListenerHandle {
        Self::named("", options)
    }

    /// A listener without sources, of the handler `name`.
    #[must_use]
    pub fn named(name: &str, options: ListenerOptions) -> ListenerHandle {
        let shared = Arc::new(Shared {
            listener: WakingLock::new(Listener::new(options)),
            synced: Mutex::default(),
            ticks: Mutex::default(),
            name: name.into(),
        });
        ListenerHandle {
            feed: Feed(Arc::clone(&shared)),
            consumer: Consumer(Arc::clone(&shared)),
            control: Control(Arc::clone(&shared)),
            ledger: Ledger(shared),
        }
    }

    /// The handler's name, for log lines.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        Some(&*self.ledger.0.name).filter(|name| !name.is_empty())
    }

    /// What informer loops call.
    #[must_use]
    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// What the consumer calls.
    #[must_use]
    pub fn consumer(&self) -> &Consumer {
        &self.consumer
    }

    /// What the supervisor of the handler and operators call.
    #[must_use]
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// What the journal and those who list calls.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Whether both are the same listener.
    #[must_use]
    pub fn ptr_eq(&self, other: &ListenerHandle) -> bool {
        Arc::ptr_eq(&self.feed.0, &other.feed.0)
    }
}

impl Shared {
    /// The listener, to read it or to begin to wait for it.
    fn lock(&self) -> MutexGuard<'_, Listener> {
        self.listener.lock()
    }

    /// Changes the listener under the lock, then runs the callbacks.
    fn change<T>(&self, change: impl FnOnce(&mut Listener) -> T) -> T {
        let (result, synced, ticks) = self.listener.change(|listener| {
            let result = change(listener);
            let ended = std::mem::take(&mut listener.ended_ticks);
            (result, std::mem::take(&mut listener.newly_synced), ended)
        });
        if !ticks.is_empty() {
            let callback = lock(&self.ticks).clone();
            for (tick, accepted) in ticks {
                callback.iter().for_each(|callback| callback(&tick, accepted));
            }
        }
        if !synced.is_empty()
            && let Some(callback) = lock(&self.synced).clone()
        {
            synced.into_iter().for_each(|source| callback(source));
        }
        result
    }

    /// As [`change`](Self::change), then requests to record the replays that were begun.
    fn change_and_request(&self, change: impl FnOnce(&mut Listener) -> Vec<ReplayRequested>) {
        self.change(change).iter().for_each(|requested| requested());
    }

    fn start_replay(&self, now: Moment, kind: CursorKind, only: Option<Lane>) {
        self.change_and_request(|listener| {
            let has_lanes = listener.queue.slots.lane_map.count() > 1;
            listener.replay(now, kind, only.filter(|_| has_lanes))
        });
    }
}

#[cfg(test)]
impl ListenerHandle {
    /// Checks the running counts against the slots.
    pub(super) fn check(&self) {
        let listener = self.feed.0.lock();
        listener.queue.check();
        listener.requeues.check();
    }
}

impl fmt::Debug for ListenerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.feed.0.fmt(f)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenerHandle")
            .field("stats", &self.lock().stats())
            .finish_non_exhaustive()
    }
}

/// The listener is consistent between calls; callbacks panic outside the lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
