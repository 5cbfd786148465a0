//! The informer loop: one task per source that owns its DeltaFIFO and the writing end of its store.
//!
//! ```text
//! channel ─▶ DeltaFIFO ─▶ batch of keys ─▶ store written, indexes fed ─▶ root published ─▶ listeners told
//! ```
//!
//! Promises: a handler is told nothing that a reader could not look up already; one root per batch; a list becomes
//! visible as a whole; at most a batch ([`BATCH_DELTAS_MAX`]) between two points where other tasks get their turn. What
//! is queued alone is processed at once; what has come meanwhile makes one batch. Nothing here waits for a handler, but
//! for one that has its informer to itself and asked for that.
//!
//! Follows client-go's `controller.go` (`processDeltas`) and `shared_informer.go`; where it departs, the item says so.

mod apply;
mod control;
mod feeds;
mod hand_over;
mod index_warnings;
mod replace;
mod successor;

use std::sync::Arc;

use informant_cache::listener::Change;
use informant_cache::seeded_bug::{SeededBug, seeded_bug};
use informant_cache::{Batch, DeltaFifo, Environment, ListenerHandle, Moment, StoreWriter, VersionGuard};
use informant_object::{Key, Object, SourceId};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub(crate) use control::{Control, Gate, IndexersChange};
use feeds::Feeds;
pub(crate) use hand_over::{Neighbor, TakeOver};
use index_warnings::IndexWarnings;
pub(crate) use successor::Successor;

use crate::garbage::GarbageBin;
use crate::metrics::SourceMetrics;
use crate::shared_informer::Durable;
use crate::status::StatusCell;
use crate::updates::{EventKind, Update, UpdateReceiver, Updates};

/// How many deltas make a batch: one root is published for them, and other tasks get their turn after it. At about 4 us
/// each, a millisecond. client-go takes 1,000.
pub(crate) const BATCH_DELTAS_MAX: usize = 256;

/// What a loop is made of.
pub(crate) struct LoopParts {
    pub(crate) name: String,
    pub(crate) source: SourceId,
    /// `None` is all of them.
    pub(crate) namespace: Option<String>,
    pub(crate) fifo: DeltaFifo,
    pub(crate) store: StoreWriter,
    pub(crate) updates: UpdateReceiver,
    pub(crate) control: mpsc::UnboundedReceiver<Control>,
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) status: Arc<StatusCell>,
    pub(crate) metrics: Arc<SourceMetrics>,
    pub(crate) garbage: GarbageBin,
    /// Native indexes, and how many failures of each have been counted.
    pub(crate) native_indexes: Vec<(String, u64)>,
    /// Keeps what is shown, and tells listeners in the loop's place.
    pub(crate) durable: Option<Durable>,
    /// Ends the reflector that `updates` come from.
    pub(crate) reflector: CancellationToken,
}

/// One source's loop.
pub(crate) struct InformerLoop {
    parts: LoopParts,
    batch: Batch,
    /// What listeners are to be told once the root is published.
    changes: Vec<Change>,
    /// How many of `changes` index plugins have been handed.
    fed: usize,
    listeners: Vec<ListenerHandle>,
    /// The listener that is waited for.
    gate: Option<Gate>,
    feeds: Feeds,
    index_warnings: IndexWarnings,
    guard: VersionGuard,
    synced: bool,
    /// A reflector with another request, until its first list is taken.
    successor: Option<Successor>,
    /// What the reflector brings waits: its successor is listing.
    held: bool,
    /// Sources that left this one's place a while ago, whose deletes listeners may still be busy with.
    follows: Vec<SourceId>,
    has_reflector: bool,
}

impl InformerLoop {
    pub(crate) fn new(parts: LoopParts) -> Self {
        let mut guard = VersionGuard::new();
        if let Some(high_water) = parts.durable.as_ref().and_then(|durable| durable.high_water) {
            guard.resume_from(high_water);
        }
        Self {
            batch: Batch::new(),
            changes: Vec::with_capacity(BATCH_DELTAS_MAX),
            listeners: Vec::new(),
            gate: None,
            fed: 0,
            feeds: Feeds::new(),
            index_warnings: IndexWarnings::default(),
            guard,
            synced: false,
            successor: None,
            held: false,
            follows: Vec::new(),
            has_reflector: true,
            parts,
        }
    }

    /// Runs until it is told to stop, or until nobody is left who could tell.
    pub(crate) async fn run(mut self) {
        loop {
            tokio::select! {
                biased;
                control = self.parts.control.recv() => match control {
                    Some(control) => if self.obey(control).await.is_break() { break },
                    None => break,
                },
                first = successor::first_message(&mut self.successor), if self.successor.is_some() => self.succeed(first).await,
                updates = self.parts.updates.recv(), if self.has_reflector && !self.held => match updates {
                    Some(updates) => self.take(updates).await,
                    None => self.has_reflector = false,
                },
                () = self.feeds.woken(&*self.parts.environment, self.parts.source) => self.tend_feeds(),
            }
        }
        self.end();
    }

    /// Takes what a frame brought, and what came meanwhile as far as it fits into one batch. Once a batch was full,
    /// orders and feeds get their turn before the next message.
    async fn take(&mut self, first: Updates) {
        let mut next = Some(first);
        while let Some(updates) = next {
            let (updates, received) = updates.into_parts();
            let mut was_full = false;
            for update in updates {
                was_full |= self.take_one(update, received).await;
            }
            next = if was_full {
                None
            } else {
                self.parts.updates.try_recv().ok()
            };
        }
        self.process_queued().await;
    }

    /// Whether a batch was full, and so processed, on the way.
    async fn take_one(&mut self, update: Update, received: Moment) -> bool {
        match update {
            Update::Event { kind, object } => {
                self.queue(kind, object, received);
                if self.parts.fifo.len() < BATCH_DELTAS_MAX {
                    return false;
                }
                self.process_queued().await;
                tokio::task::yield_now().await;
                true
            }
            Update::Bookmark(version) => {
                // Nor may it: what comes after it may be older, where the API server's progress is ahead of its events.
                if let (true, Some(number)) = (seeded_bug(SeededBug::BookmarkHidesEvents), version.as_ref().number()) {
                    self.guard.resume_from(number);
                }
                self.parts.fifo.bookmark(version.as_ref());
                false
            }
            Update::Replace(list) => {
                self.process_queued().await;
                self.replace(list, received).await;
                true
            }
        }
    }

    /// Processes all that waits in the queue, batch by batch.
    async fn process_queued(&mut self) {
        loop {
            self.wait_for_room().await;
            let more = self.process_batch();
            if seeded_bug(SeededBug::ToldBeforePublished) {
                self.tell_listeners();
                tokio::task::yield_now().await;
            }
            self.feed_indexes().await;
            self.publish();
            self.tell_listeners();
            // What one batch replaced is freed in less time than it takes to have it freed elsewhere.
            drop(self.parts.store.take_garbage());
            if !more {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Waits until the handler that wants to be waited for can take more. Meanwhile nothing is read: in the end the
    /// socket is full.
    async fn wait_for_room(&mut self) {
        if let Some(Gate { listener, room }) = &self.gate {
            while !listener.has_room() {
                room.notified().await;
            }
        }
    }

    /// Writes one batch to the store; whether more waits.
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

    /// Shows what was written to readers.
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
        store.publish();
        status.tell_published();
        if let (Some(durable), Some(high_water)) = (durable, self.guard.high_water()) {
            durable.journal.seen(high_water);
        }
        metrics.store_objects.set(store.len());
        metrics.store_bytes.set(store.bytes());
        metrics.delta_fifo_keys.set(fifo.len());
        self.count_index_failures();
        self.begin_backfills();
    }

    /// Counts what the native indexes failed on since the last publish.
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
                warn_of_index(name, index, key, error, count);
            }
        }
    }

    /// Tells every listener what the batch changed. After [`publish`](Self::publish), never before.
    fn tell_listeners(&mut self) {
        self.fed = 0;
        if self.changes.is_empty() {
            return;
        }
        let now = self.parts.environment.now();
        let snapshot = self.parts.store.published();
        match &self.parts.durable {
            Some(durable) => durable.journal.push(snapshot, &self.changes, now),
            None => {
                for listener in &self.listeners {
                    listener.push(self.parts.source, snapshot, &self.changes, now);
                }
            }
        }
        self.changes.clear();
    }

    fn queue(&mut self, kind: EventKind, object: Object, received: Moment) {
        if self.is_stale(kind, &object) {
            return self.parts.status.count_rejected("event");
        }
        let LoopParts { fifo, store, .. } = &mut self.parts;
        let queued = match kind {
            EventKind::Added => fifo.add(object, received),
            EventKind::Modified => fifo.update(object, received),
            EventKind::Deleted => fifo.delete(object, &*store, received),
        };
        if let Err(error) = queued {
            self.parts.status.count_skipped("transform");
            tracing::warn!("{}: {error}; the state before is kept", self.parts.name);
        }
    }
}

/// Says that `index` failed, `count` times since it was said last.
fn warn_of_index(informer: &str, index: &str, key: &Key, error: &str, count: u64) {
    let times = match count {
        1 => String::new(),
        _ => format!(" ({count} failures, this is the last)"),
    };
    tracing::warn!("{informer}: {key} is not in index {index}: {error}{times}");
}
