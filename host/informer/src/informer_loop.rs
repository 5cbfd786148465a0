//! The informer loop: one task per source that owns its DeltaFIFO and the writing side of its store.
//!
//! ```text
//! channel ─▶ DeltaFIFO ─▶ batch of keys ─▶ store and indexes updated ─▶ root published ─▶ listeners notified
//! ```
//!
//! Guarantees: handlers only receive what a reader can already look up; one root per batch; a list becomes visible as a
//! whole; at most one batch ([`BATCH_DELTAS_MAX`]) between two points at which other tasks get a turn. A single queued
//! event is processed at once; events that arrived meanwhile form one batch. The loop waits for no handler.
//!
//! Follows client-go's `controller.go` (`processDeltas`) and `shared_informer.go`; departures are noted where they
//! occur.

mod apply;
mod candidate;
mod catch_up;
mod control;
mod handoff;
mod index_feeds;
mod replace;
mod shedding;

use std::sync::Arc;

use informant_cache::listener::{Beginning, ObjectChange};
use informant_cache::seeded_bug::{SeededBug, seeded_bug};
use informant_cache::{
    Batch, DeltaFifo, Environment, KeptDeletes, ListenerHandle, Moment, ShardFilter, StoreWriter, VersionGuard,
};
use informant_object::{Key, Object, SourceId, VersionRef};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub(crate) use candidate::Candidate;
use catch_up::WaitingList;
pub(crate) use control::{Control, IndexersChange};
pub(crate) use handoff::SourceHandoff;
use index_feeds::{IndexFeeds, IndexWarnings};
use shedding::Shedding;

use crate::bodies::BodyParts;
use crate::cache_share::{CacheShare, Membership};
use crate::durable_source::DurableSource;
use crate::environment::BackgroundDropper;
use crate::metrics::SourceMetrics;
use crate::source_name::{SourceName, log};
use crate::spec::SourceSpec;
use crate::status::StatusTracker;
use crate::update_channel::{EventKind, Update, UpdateReceiver, Updates};

/// Deltas per batch: one root is published for them, and other tasks get a turn afterwards. At about 4 us each, a
/// millisecond. client-go uses 1,000.
pub(crate) const BATCH_DELTAS_MAX: usize = 256;

/// Bytes of objects per batch. Events of large objects would fill memory while they wait for their turn.
const BATCH_BYTES_MAX: usize = 8 * 1_024 * 1_024;

pub(crate) struct LoopParts {
    pub(crate) name: Arc<SourceName>,
    pub(crate) source: SourceId,
    /// `None` for all namespaces.
    pub(crate) namespace: Option<String>,
    /// What the reflector requests that sends `updates`.
    pub(crate) spec: Arc<SourceSpec>,
    pub(crate) fifo: DeltaFifo,
    pub(crate) store: StoreWriter,
    pub(crate) updates: UpdateReceiver,
    pub(crate) control: mpsc::UnboundedReceiver<Control>,
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) status: Arc<StatusTracker>,
    pub(crate) metrics: Arc<SourceMetrics>,
    pub(crate) dropper: BackgroundDropper,
    /// Its part in the budget of all caches.
    pub(crate) cache: Arc<CacheShare>,
    /// Reads what the store has only the heads of.
    pub(crate) bodies: BodyParts,
    /// Native indexes, and how many failures of each were counted.
    pub(crate) native_indexes: Vec<(String, u64)>,
    /// Persists what is published, and delivers to the listeners instead of the loop.
    pub(crate) durable: Option<DurableSource>,
    /// Keeps deletes for handlers that another process calls.
    pub(crate) kept_deletes: KeptDeletes,
    /// Ends the reflector that sends `updates`.
    pub(crate) reflector: CancellationToken,
}

pub(crate) struct InformerLoop {
    parts: LoopParts,
    batch: Batch,
    /// Bytes of the objects that were queued since the last batch.
    queued_bytes: usize,
    shedding: Shedding,
    _membership: Membership,
    /// What to deliver to listeners once the root is published.
    changes: Vec<ObjectChange>,
    /// How many of `changes` were sent to index plugins.
    fed_changes: usize,
    listeners: Vec<ListenerHandle>,
    /// How the listeners begin once the first list is there.
    beginnings: Vec<(ListenerHandle, Beginning)>,
    /// The shards that were read until the list that is being applied.
    shards_before: Option<ShardFilter>,
    /// The version of the list that is being applied.
    listing: Option<u64>,
    feeds: IndexFeeds,
    index_warnings: IndexWarnings,
    guard: VersionGuard,
    synced: bool,
    /// A reflector with another request, until its first list is accepted.
    candidate: Option<Candidate>,
    /// That list, while the reflector before sends what precedes it.
    waiting_list: Option<WaitingList>,
    /// Updates of the reflector wait while its candidate is listing, until that list waits itself.
    paused: bool,
    /// Another source is about to replace it: it reads nothing, nor does a candidate.
    quiesced: bool,
    /// Removed sources with the same scope, whose deletes may still be queued in listeners.
    predecessors: Vec<SourceId>,
    has_reflector: bool,
}

impl InformerLoop {
    pub(crate) fn new(parts: LoopParts) -> Self {
        let mut guard = VersionGuard::new();
        if let Some(high_water) = parts.durable.as_ref().and_then(|durable| durable.high_water) {
            guard.resume_from(high_water);
        }
        parts.cache.set_head_fields(parts.store.head_fields().cloned());
        Self {
            batch: Batch::new(),
            queued_bytes: 0,
            shedding: Shedding::default(),
            _membership: Membership(Arc::clone(&parts.cache)),
            changes: Vec::with_capacity(BATCH_DELTAS_MAX),
            listeners: Vec::new(),
            beginnings: Vec::new(),
            shards_before: parts.store.shards(),
            listing: None,
            fed_changes: 0,
            feeds: IndexFeeds::default(),
            index_warnings: IndexWarnings::default(),
            guard,
            synced: false,
            candidate: None,
            waiting_list: None,
            paused: false,
            quiesced: false,
            predecessors: Vec::new(),
            has_reflector: true,
            parts,
        }
    }

    /// Runs until it receives a stop, or until all senders are gone.
    pub(crate) async fn run(mut self) {
        loop {
            self.shed_step();
            tokio::select! {
                biased;
                control = self.parts.control.recv() => match control {
                    Some(control) => if self.handle(control).await.is_break() { break },
                    None => break,
                },
                () = self.parts.cache.asked() => self.begin_to_free(),
                first = candidate::first_message(&mut self.candidate), if self.awaits_list() => self.candidate_listed(first).await,
                updates = self.parts.updates.recv(), if self.reads() => match updates {
                    Some(updates) if self.waiting_list.is_some() => self.catch_up(updates).await,
                    Some(updates) => self.receive(updates).await,
                    None => self.has_reflector = false,
                },
                () = catch_up::is_over(self.waiting_list.as_ref(), &*self.parts.environment), if !self.quiesced => self.end_catch_up().await,
                news = self.shedding.news(&*self.parts.environment) => self.handle_shedding(news),
                () = self.feeds.woken(&*self.parts.environment, self.parts.source) => self.handle_feed_news(),
                () = tokio::task::yield_now(), if self.shedding.is_freeing() => {}
            }
        }
        self.end();
    }

    /// Whether a candidate's first list may come.
    fn awaits_list(&self) -> bool {
        self.candidate.is_some() && self.waiting_list.is_none() && !self.quiesced
    }

    /// Whether the reflector's updates are read.
    fn reads(&self) -> bool {
        let is_paused = self.paused && self.waiting_list.is_none();
        self.has_reflector && !is_paused && !self.quiesced
    }

    /// Processes a message, and further ones that are ready, as far as they fit into one batch. After a full batch,
    /// commands and index feeds are handled before the next message.
    async fn receive(&mut self, first: Updates) {
        let mut next = Some(first);
        while let Some(updates) = next {
            let (updates, received) = updates.into_parts();
            let mut was_full = false;
            for update in updates {
                was_full |= self.receive_one(update, received).await;
            }
            next = if was_full {
                None
            } else {
                self.parts.updates.try_recv().ok()
            };
        }
        self.process_queued().await;
    }

    /// Returns whether a batch became full and was processed.
    async fn receive_one(&mut self, update: Update, received: Moment) -> bool {
        match update {
            Update::Event {
                kind: EventKind::Deleted,
                object,
            } if self.is_of_other_shard(object.key()) => {
                self.see(object.version());
                self.keep_others_delete(object, received);
                false
            }
            Update::Event { kind, object } => {
                self.queued_bytes += object.size_bytes();
                self.queue(kind, object, received);
                if self.parts.fifo.len() < BATCH_DELTAS_MAX && self.queued_bytes < BATCH_BYTES_MAX {
                    return false;
                }
                self.process_queued().await;
                tokio::task::yield_now().await;
                true
            }
            Update::DeletedUnread(head) => {
                self.queue_unread_delete(head, received);
                false
            }
            Update::Bookmark(version) => {
                self.see(version.as_ref());
                // Wrong: an event after the bookmark may be older, where the progress is ahead of the events.
                if let (true, Some(number)) = (seeded_bug(SeededBug::BookmarkHidesEvents), version.as_ref().number()) {
                    self.guard.resume_from(number);
                }
                false
            }
            Update::Replace(list) => {
                self.process_queued().await;
                self.replace(list, received).await;
                true
            }
        }
    }

    /// The source has sent everything up to this version.
    fn see(&mut self, version: VersionRef<'_>) {
        self.guard.bookmark(version);
        self.parts.fifo.bookmark(version);
    }

    /// Processes everything in the queue, batch by batch.
    async fn process_queued(&mut self) {
        self.queued_bytes = 0;
        loop {
            let more = self.process_batch();
            if seeded_bug(SeededBug::NotifiedBeforePublish) {
                self.notify_listeners();
                tokio::task::yield_now().await;
            }
            self.feed_indexes().await;
            self.publish();
            self.notify_listeners();
            // Freeing what one batch replaced takes less time than sending it elsewhere.
            drop(self.parts.store.take_garbage());
            self.count_bytes();
            if !more {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Writes one batch to the store; returns whether more is queued.
    fn process_batch(&mut self) -> bool {
        let mut batch = std::mem::take(&mut self.batch);
        self.parts.fifo.pop_batch(BATCH_DELTAS_MAX, &mut batch);
        for delta in batch.deltas() {
            self.apply(delta);
        }
        self.parts.fifo.batch_done(&mut batch);
        self.batch = batch;
        !self.parts.fifo.is_empty()
    }

    /// Makes the written state visible to readers.
    fn publish(&mut self) {
        let LoopParts {
            store,
            fifo,
            metrics,
            status,
            durable,
            ..
        } = &mut self.parts;
        if let Some(version) = fifo.fresh_as_of() {
            status.set_version(&version);
            store.set_version(version, self.guard.epoch());
        }
        if fifo.is_empty() {
            store.set_complete_through(self.guard.seen_through());
        }
        store.publish();
        status.published.notify();
        if let (Some(durable), Some(high_water)) = (durable, self.guard.high_water()) {
            durable.journal.set_high_water(high_water);
        }
        metrics.store_objects.set(store.len());
        metrics.store_bytes.set(store.bytes());
        metrics.delta_fifo_keys.set(fifo.len());
        self.count_index_failures();
        self.begin_backfills();
    }

    /// Counts the failures of native indexes since the last publish.
    fn count_index_failures(&mut self) {
        let LoopParts {
            name,
            store,
            metrics,
            environment,
            native_indexes,
            ..
        } = &mut self.parts;
        for (index, counted) in native_indexes {
            let Some(failures) = store.index_failures(index) else {
                continue;
            };
            let new = failures.total().saturating_sub(*counted);
            let Some((key, error)) = failures.last().filter(|_| new > 0) else {
                continue;
            };
            metrics.count_index_errors(index, new);
            *counted = failures.total();
            if let Some(count) = self.index_warnings.count(index, new, environment.now()) {
                warn_index_failure(name, index, key, error, count);
            }
        }
    }

    /// Delivers the changes of the batch to every listener. After [`publish`](Self::publish), never before.
    fn notify_listeners(&mut self) {
        self.fed_changes = 0;
        if !self.changes.is_empty() {
            self.push_changes();
        }
    }

    fn push_changes(&mut self) {
        let now = self.parts.environment.now();
        let snapshot = self.parts.store.published();
        match &self.parts.durable {
            Some(durable) => durable.journal.push(snapshot, &self.changes, now),
            None => {
                for listener in &self.listeners {
                    listener.feed().push(self.parts.source, snapshot, &self.changes);
                }
            }
        }
        self.changes.clear();
    }

    fn queue(&mut self, kind: EventKind, object: Object, received: Moment) {
        if self.is_stale(kind == EventKind::Deleted, object.key(), object.version()) {
            return self.parts.status.count_rejected("event");
        }
        let LoopParts { fifo, store, .. } = &mut self.parts;
        match kind {
            EventKind::Added => fifo.add(object, received),
            EventKind::Modified => fifo.update(object, received),
            EventKind::Deleted => fifo.delete(object, store, received),
        }
    }
}

/// Warns that `index` failed, `failures` times since the last warning; `key` and `error` are of the last failure.
fn warn_index_failure(source: &SourceName, index: &str, key: &Key, error: &str, failures: u64) {
    log!(warn, *source, index, %key, error, failures, code = "index-not-ready", "index function failed; the object is not in the index");
}
