//! The queue of changes to persist: the informer loop's end of a source.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use informant_cache::listener::{ObjectChange, ResumeState};
use informant_cache::{Journal, ListenerHandle, Moment, Snapshot};
use informant_object::SourceId;

use crate::metrics::DurableSourceMetrics;

/// How many changes of one source may wait to be persisted. Above it they are dropped and counted, and the difference
/// between the snapshots takes their place: handlers miss intermediate states, never the last one. Metrics
/// `state_queued`, `state_behind`.
pub const QUEUED_CHANGES_MAX: usize = 16_384;

/// `high_water` of a source that has seen nothing.
const NONE: u64 = u64::MAX;

/// An entry from the informer loop.
pub(crate) enum JournalEntry {
    Begin {
        source: SourceId,
        snapshot: Snapshot,
        restored: bool,
    },
    /// With what another process has left, if that called the handler until now.
    Attach(ListenerHandle, Option<ResumeState>, Moment),
    Detach(ListenerHandle),
    /// Another process calls the handler from now on.
    HandOver(ListenerHandle),
    Transfer(ListenerHandle, Then),
    Push(Snapshot, Vec<ObjectChange>, Moment),
    /// All changes up to this snapshot.
    Difference(Snapshot, Moment),
    Flush(Then),
}

/// A callback that is called in its turn.
type Then = Box<dyn FnOnce() + Send>;

#[derive(Default)]
pub(crate) struct RecorderWaker {
    notified: Mutex<bool>,
    condition: Condvar,
    /// Called instead of waking the thread.
    pub(crate) callback: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// A durable source as its informer loop sees it. Dropping it ends the source: its entries are still persisted and
/// delivered.
pub struct SourceJournal(pub(crate) Arc<SourceQueue>);

/// State shared by both ends.
pub(crate) struct SourceQueue {
    entries: Mutex<QueuedEntries>,
    high_water: AtomicU64,
    waker: Arc<RecorderWaker>,
    metrics: Arc<DurableSourceMetrics>,
}

#[derive(Default)]
struct QueuedEntries {
    queue: VecDeque<JournalEntry>,
    /// Pending changes, including those that a snapshot difference replaced.
    changes: usize,
    /// The informer loop has dropped its end.
    closed: bool,
    /// The recorder has ended.
    ended: bool,
}

impl RecorderWaker {
    pub(crate) fn notify(&self) {
        if let Some(callback) = self.callback.get() {
            return callback();
        }
        *self.notified.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.condition.notify_one();
    }

    /// Waits for a notification, at most this long.
    pub(crate) fn wait(&self, at_most: std::time::Duration) {
        let notified = self.notified.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .condition
            .wait_timeout_while(notified, at_most, |notified| !*notified);
        let (mut notified, _) = waited.unwrap_or_else(PoisonError::into_inner);
        *notified = false;
    }
}

impl SourceJournal {
    /// The highest version that an earlier process saw.
    #[must_use]
    pub fn high_water(&self) -> Option<u64> {
        self.0.high_water()
    }
}

impl SourceQueue {
    pub(crate) fn new(high_water: Option<u64>, waker: Arc<RecorderWaker>, metrics: Arc<DurableSourceMetrics>) -> Self {
        Self {
            entries: Mutex::default(),
            high_water: AtomicU64::new(high_water.unwrap_or(NONE)),
            waker,
            metrics,
        }
    }

    pub(crate) fn waker(&self) -> Arc<RecorderWaker> {
        Arc::clone(&self.waker)
    }

    pub(crate) fn high_water(&self) -> Option<u64> {
        let high_water = self.high_water.load(Ordering::Acquire);
        (high_water != NONE).then_some(high_water)
    }

    pub(crate) fn take(&self) -> Vec<JournalEntry> {
        let mut entries = self.lock();
        entries.changes = 0;
        self.metrics.queued.set(0);
        entries.queue.drain(..).collect()
    }

    /// Marks the recorder as ended; pending entries may still be processed.
    pub(crate) fn end(&self) {
        self.lock().ended = true;
    }

    /// Discards an entry that is not processed: calls its callback, and counts undelivered changes.
    pub(crate) fn discard(&self, entry: JournalEntry) {
        match entry {
            JournalEntry::Flush(then) | JournalEntry::Transfer(_, then) => then(),
            JournalEntry::Push(_, changes, _) => drop(self.metrics.untold.inc_by(changes.len() as u64)),
            JournalEntry::Difference(..) => drop(self.metrics.untold.inc()),
            JournalEntry::Begin { .. }
            | JournalEntry::Attach(..)
            | JournalEntry::Detach(_)
            | JournalEntry::HandOver(_) => {}
        }
    }

    /// The number of pending changes, and whether any entry is pending.
    pub(crate) fn waiting(&self) -> (usize, bool) {
        let entries = self.lock();
        (entries.changes, !entries.queue.is_empty())
    }

    /// Whether the source has ended and nothing is pending.
    pub(crate) fn is_finished(&self) -> bool {
        let entries = self.lock();
        entries.closed && entries.queue.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, QueuedEntries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enqueue(&self, entry: JournalEntry) {
        let mut entries = self.lock();
        if entries.ended {
            drop(entries);
            return self.discard(entry);
        }
        entries.queue.push_back(entry);
        drop(entries);
        self.waker.notify();
    }

    fn push(&self, snapshot: &Snapshot, changes: &[ObjectChange], now: Moment) {
        let mut entries = self.lock();
        if entries.ended {
            self.metrics.untold.inc_by(changes.len() as u64);
            return;
        }
        entries.changes += changes.len();
        if entries.changes > QUEUED_CHANGES_MAX {
            let left_out = entries.fold(snapshot.clone(), now) + changes.len();
            self.metrics.behind.inc_by(left_out as u64);
        } else {
            let entry = JournalEntry::Push(snapshot.clone(), changes.to_vec(), now);
            entries.queue.push_back(entry);
        }
        self.metrics.queued.set(entries.changes);
        drop(entries);
        self.waker.notify();
    }
}

impl QueuedEntries {
    /// Replaces pending changes by a snapshot difference, which goes after the other entries but before flushes.
    /// Entries before a listener that moves here from other sources are not meant for it and stay apart. Returns how
    /// many changes were dropped.
    fn fold(&mut self, snapshot: Snapshot, now: Moment) -> usize {
        let transferred = self
            .queue
            .iter()
            .rposition(|entry| matches!(entry, JournalEntry::Transfer(..)));
        let mut folded = self.queue.split_off(transferred.map_or(0, |place| place + 1));
        let mut left_out = 0;
        folded.retain(|entry| {
            if let JournalEntry::Push(_, changes, _) = entry {
                left_out += changes.len();
            }
            !matches!(entry, JournalEntry::Push(..) | JournalEntry::Difference(..))
        });
        let place = folded.iter().position(|entry| matches!(entry, JournalEntry::Flush(_)));
        folded.insert(place.unwrap_or(folded.len()), JournalEntry::Difference(snapshot, now));
        self.queue.append(&mut folded);
        left_out
    }
}

impl Journal for SourceJournal {
    fn begin(&self, source: SourceId, snapshot: &Snapshot, restored: bool) {
        self.0.enqueue(JournalEntry::Begin {
            source,
            snapshot: snapshot.clone(),
            restored,
        });
    }

    fn attach(&self, listener: &ListenerHandle, takeover: Option<ResumeState>, now: Moment) {
        self.0.enqueue(JournalEntry::Attach(listener.clone(), takeover, now));
    }

    fn detach(&self, listener: &ListenerHandle) {
        self.0.enqueue(JournalEntry::Detach(listener.clone()));
    }

    fn hand_over(&self, listener: &ListenerHandle) {
        self.0.enqueue(JournalEntry::HandOver(listener.clone()));
    }

    fn transfer(&self, listener: &ListenerHandle, apply: Then) {
        self.0.enqueue(JournalEntry::Transfer(listener.clone(), apply));
    }

    fn push(&self, snapshot: &Snapshot, changes: &[ObjectChange], now: Moment) {
        self.0.push(snapshot, changes, now);
    }

    fn set_high_water(&self, high_water: u64) {
        self.0.high_water.store(high_water, Ordering::Release);
    }

    fn flush(&self, done: Then) {
        self.0.enqueue(JournalEntry::Flush(done));
    }
}

impl Drop for SourceJournal {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.waker.notify();
    }
}

impl fmt::Debug for SourceJournal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("SourceJournal")
            .field("waiting", &self.0.waiting())
            .finish_non_exhaustive()
    }
}
