//! What one source's reflector and loop report about its status.
//!
//! The tracker combines what its two writers report (is a watch open? is the first list in the store?) into one
//! [`SourceState`], which the catalog and metrics show too. Times are stored as moments and converted to ages on read.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use informant_cache::{Environment, LogThrottle, Moment, Source, SourceState};
use informant_object::{Key, KeyRef, ResourceVersion};
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, watch};

use super::{OUTDATED_KEYS_MAX, Reconfiguring, ReflectorStatus, WatchListUse};
use crate::metrics::{CounterFamily, SourceMetrics};
use crate::source_name::{SourceName, log};

/// The shortest time between two warnings about invalid lines of a watch and invalid items of a list; those meanwhile
/// are counted in the next one.
const SKIPPED_WARNING_PERIOD: Duration = Duration::from_secs(60);

/// The source's state as its reflector sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReflectorState {
    /// No watch is open: not yet, or not at the moment.
    Disconnected,
    /// A watch is open.
    Watching,
    /// The resource does not exist (404).
    ResourceMissing,
    /// Reading it is not allowed (401, 403).
    Forbidden,
    /// The API server does not support the request (400).
    Refused,
    /// The reflector is over.
    Stopped,
}

/// Written by one source's reflector and loop, read by everything else.
pub(crate) struct StatusTracker {
    name: Arc<SourceName>,
    source: Arc<Source>,
    metrics: Arc<SourceMetrics>,
    environment: Arc<dyn Environment>,
    /// Nanoseconds of the last frame's moment plus one; 0 is never.
    last_event: AtomicU64,
    last_bookmark: AtomicU64,
    rejected: AtomicU64,
    skipped: AtomicU64,
    inner: Mutex<Inner>,
    synced: watch::Sender<bool>,
    /// The number of the current reflector.
    generation: AtomicU64,
    reconfiguring: watch::Sender<Option<Reconfiguring>>,
    pub(crate) published: PublishNotifier,
}

#[derive(Debug)]
struct Inner {
    reflector: ReflectorState,
    state: SourceState,
    version: ResourceVersion,
    epoch: u64,
    guarded: bool,
    last_error: Option<(String, Moment)>,
    lists: u64,
    relists: u64,
    watches: u64,
    watch_list: WatchListUse,
    outdated: BTreeSet<Key>,
    skip_warnings: LogThrottle,
}

/// A counter of the reflector's requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestCounter {
    Lists,
    Relists,
    Watches,
}

impl StatusTracker {
    pub(crate) fn new(
        name: Arc<SourceName>,
        source: Arc<Source>,
        metrics: Arc<SourceMetrics>,
        environment: Arc<dyn Environment>,
    ) -> Self {
        let inner = Inner {
            reflector: ReflectorState::Disconnected,
            state: SourceState::Syncing,
            version: ResourceVersion::default(),
            epoch: 0,
            guarded: true,
            last_error: None,
            lists: 0,
            relists: 0,
            watches: 0,
            watch_list: WatchListUse::Untried,
            outdated: BTreeSet::new(),
            skip_warnings: LogThrottle::new(1, SKIPPED_WARNING_PERIOD),
        };
        metrics.set_state(SourceState::Syncing);
        Self {
            name,
            source,
            metrics,
            environment,
            last_event: AtomicU64::new(0),
            last_bookmark: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            inner: Mutex::new(inner),
            synced: watch::Sender::new(false),
            generation: AtomicU64::new(0),
            reconfiguring: watch::Sender::new(None),
            published: PublishNotifier::default(),
        }
    }

    pub(crate) fn set_reflector_state(&self, reflector: ReflectorState) {
        let mut inner = self.lock();
        inner.reflector = reflector;
        self.update_state(&mut inner);
    }

    /// The first list is in the store.
    pub(crate) fn set_synced(&self) {
        let mut inner = self.lock();
        if !self.synced.send_replace(true) {
            self.source.set_synced();
            self.metrics.set_synced();
            self.update_state(&mut inner);
        }
    }

    pub(crate) fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Turns true once the first list is in the store.
    pub(crate) fn synced(&self) -> watch::Receiver<bool> {
        self.synced.subscribe()
    }

    /// From now on the reflector with this number is the source's current one.
    pub(crate) fn begin_generation(&self, generation: u64) {
        self.generation.store(generation, Ordering::SeqCst);
    }

    /// Whether that reflector is the current one: neither on probation nor replaced.
    pub(crate) fn is_current(&self, generation: u64) -> bool {
        self.generation.load(Ordering::SeqCst) == generation
    }

    /// A candidate with another request has started.
    pub(crate) fn set_reconfiguring(&self, generation: u64) {
        self.reconfiguring.send_replace(Some(Reconfiguring {
            last_error: None,
            generation,
        }));
    }

    /// The candidate's request was refused or failed.
    pub(crate) fn set_reconfigure_error(&self, generation: u64, text: String) {
        self.reconfiguring.send_if_modified(|state| {
            let state = state.as_mut().filter(|state| state.generation == generation);
            state.map(|state| state.last_error = Some(text)).is_some()
        });
    }

    /// The candidate has replaced the previous reflector. Another change may have begun since.
    pub(crate) fn set_reconfigured(&self, generation: u64) {
        let is_it = |state: &mut Reconfiguring| state.generation == generation;
        self.reconfiguring
            .send_if_modified(|state| state.take_if(is_it).is_some());
    }

    /// `None` while no change is in progress.
    pub(crate) fn reconfiguring(&self) -> watch::Receiver<Option<Reconfiguring>> {
        self.reconfiguring.subscribe()
    }

    /// The store has seen everything up to `version`.
    pub(crate) fn set_version(&self, version: &ResourceVersion) {
        self.metrics.set_version(version);
        self.lock().version = version.clone();
    }

    pub(crate) fn set_error(&self, text: String) {
        let now = self.environment.now();
        self.source.set_last_error(&text);
        self.lock().last_error = Some((text, now));
    }

    pub(crate) fn count(&self, step: RequestCounter) {
        let mut inner = self.lock();
        match step {
            RequestCounter::Lists => inner.lists += 1,
            RequestCounter::Relists => inner.relists += 1,
            RequestCounter::Watches => inner.watches += 1,
        }
    }

    /// The cluster was rolled back.
    pub(crate) fn begin_epoch(&self) {
        self.metrics.source_epochs.inc();
        self.lock().epoch += 1;
    }

    pub(crate) fn set_guarded(&self, guarded: bool) {
        self.metrics.guard_off.set(usize::from(!guarded));
        self.lock().guarded = guarded;
    }

    /// How the state is fetched from now on.
    pub(crate) fn set_watch_list(&self, usage: WatchListUse) {
        let refused = matches!(usage, WatchListUse::Refused(_));
        self.metrics.watch_list_refused.set(usize::from(refused));
        self.lock().watch_list = usage;
    }

    pub(crate) fn record_frame(&self, received: Moment, bookmark: bool) {
        let stamp = received.as_nanos().saturating_add(1);
        self.last_event.store(stamp, Ordering::Relaxed);
        if bookmark {
            self.last_bookmark.store(stamp, Ordering::Relaxed);
        }
    }

    /// A `list` or an `event` was older than the known state.
    pub(crate) fn count_rejected(&self, kind: &'static str) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
        self.metrics.count(CounterFamily::Rejected, kind);
    }

    /// Something invalid was skipped.
    pub(crate) fn count_skipped(&self, reason: &'static str) {
        self.skipped.fetch_add(1, Ordering::Relaxed);
        self.metrics.count(CounterFamily::Skipped, reason);
    }

    /// Something invalid was skipped. Returns how many were since the last warning, if another one is due.
    pub(crate) fn count_skipped_to_warn(&self, reason: &'static str) -> Option<u64> {
        self.count_skipped(reason);
        let now = self.environment.now();
        self.lock().skip_warnings.shared_line(1, now)
    }

    /// The store has an older state of `key` than the cluster. Returns how many such keys there are.
    pub(crate) fn add_outdated(&self, key: Key) -> usize {
        let mut inner = self.lock();
        if inner.outdated.len() < OUTDATED_KEYS_MAX {
            inner.outdated.insert(key);
        }
        self.metrics.outdated_keys.set(inner.outdated.len());
        inner.outdated.len()
    }

    /// A list is complete: these are the keys with an older state in the store.
    pub(crate) fn set_outdated(&self, keys: BTreeSet<Key>) {
        self.metrics.outdated_keys.set(keys.len());
        self.lock().outdated = keys;
    }

    /// A newer state of `key` arrived. Returns how many outdated keys are left.
    pub(crate) fn remove_outdated(&self, key: KeyRef<'_>) -> usize {
        let mut inner = self.lock();
        inner.outdated.remove(&key.to_key());
        self.metrics.outdated_keys.set(inner.outdated.len());
        inner.outdated.len()
    }

    pub(crate) fn read(&self) -> ReflectorStatus {
        let now = self.environment.now();
        let age = |stamp: &AtomicU64| match stamp.load(Ordering::Relaxed) {
            0 => None,
            nanos => Some(now - Moment::from_nanos(nanos - 1)),
        };
        let inner = self.lock();
        ReflectorStatus {
            source: self.source.id(),
            state: inner.state,
            synced: self.is_synced(),
            version: inner.version.clone(),
            epoch: inner.epoch,
            guarded: inner.guarded,
            last_error: inner
                .last_error
                .as_ref()
                .map(|(text, when)| (text.clone(), now - *when)),
            last_event_age: age(&self.last_event),
            bookmark_age: age(&self.last_bookmark),
            lists: inner.lists,
            relists: inner.relists,
            watches: inner.watches,
            changes: self.metrics.changes(),
            watch_list: inner.watch_list.clone(),
            reconfiguring: self.reconfiguring.borrow().clone(),
            staged_bytes: self.metrics.staged_bytes.get(),
            channel_bytes: self.metrics.channel_bytes.get(),
            skipped: self.skipped.load(Ordering::Relaxed),
            rejected: self.rejected.load(Ordering::Relaxed),
            outdated: inner.outdated.iter().cloned().collect(),
        }
    }

    fn update_state(&self, inner: &mut Inner) {
        let state = match (inner.reflector, self.is_synced()) {
            (ReflectorState::Stopped, _) => SourceState::Stopped,
            (ReflectorState::ResourceMissing, _) => SourceState::WaitingForResource,
            (ReflectorState::Forbidden, _) => SourceState::Forbidden,
            (ReflectorState::Refused, _) => SourceState::Refused,
            (_, false) => SourceState::Syncing,
            (ReflectorState::Watching, true) => SourceState::Live,
            (ReflectorState::Disconnected, true) => SourceState::Stale,
        };
        if state != inner.state {
            log!(debug, *self.name, from = %inner.state, to = %state, "source state changed");
            inner.state = state;
            self.source.set_state(state);
            self.metrics.set_state(state);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notifies waiters for a version that a new state was published. Costs the loop one load while there is no waiter.
#[derive(Debug, Default)]
pub(crate) struct PublishNotifier {
    waiting: AtomicUsize,
    published: Notify,
}

impl PublishNotifier {
    /// A new state was published.
    pub(crate) fn notify(&self) {
        // A waiter that subscribes after this load takes the store's lock after the publish did, and finds the new
        // state.
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.published.notify_waiters();
        }
    }

    pub(crate) fn subscribe(&self) -> PublishWaiter<'_> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        PublishWaiter(self)
    }
}

/// A subscription to published states, until it is dropped.
pub(crate) struct PublishWaiter<'a>(&'a PublishNotifier);

impl PublishWaiter<'_> {
    /// Resolves once a new state is published; states published before it is enabled do not count.
    pub(crate) fn published(&self) -> Notified<'_> {
        self.0.published.notified()
    }
}

impl Drop for PublishWaiter<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
