//! A journal that persists nothing, and delivers on request.

use std::sync::{Arc, Mutex, MutexGuard};

use informant_cache::listener::{ObjectChange, ResumeState};
use informant_cache::{Journal, ListenerHandle, Moment, Snapshot};
use informant_object::SourceId;

use crate::{DurableSource, DurableSources, SourceSpec};

/// Holds everything back until it is opened. Flushes open it, unless configured to wait too.
#[derive(Default)]
pub(crate) struct ManualJournal {
    held: Mutex<Held>,
    flushes_wait: bool,
}

#[derive(Default)]
struct Held {
    source: Option<SourceId>,
    snapshot: Snapshot,
    listeners: Vec<ListenerHandle>,
    waiting: Vec<Waiting>,
    restored: bool,
    seen: Option<u64>,
}

enum Waiting {
    Push(Snapshot, Vec<ObjectChange>),
    Adopt(ListenerHandle, Box<dyn FnOnce() + Send>),
    Flush(Box<dyn FnOnce() + Send>),
}

impl ManualJournal {
    /// A journal whose flushes wait until it is opened.
    fn with_waiting_flushes() -> Self {
        Self {
            flushes_wait: true,
            ..Self::default()
        }
    }

    /// Delivers everything it holds.
    pub(crate) fn open(&self) {
        let waiting = std::mem::take(&mut self.held().waiting);
        for one in waiting {
            match one {
                Waiting::Push(snapshot, changes) => self.deliver(snapshot, &changes),
                Waiting::Adopt(listener, inherit) => {
                    inherit();
                    self.held().listeners.push(listener);
                }
                Waiting::Flush(done) => done(),
            }
        }
    }

    fn deliver(&self, snapshot: Snapshot, changes: &[ObjectChange]) {
        let mut held = self.held();
        let source = held.source.expect("the source has begun");
        for listener in &held.listeners {
            listener.feed().push(source, &snapshot, changes);
        }
        held.snapshot = snapshot;
    }

    pub(crate) fn high_water(&self) -> Option<u64> {
        self.held().seen
    }

    pub(crate) fn was_restored(&self) -> bool {
        self.held().restored
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().expect("no test panics while it holds the journal")
    }

    fn wait(&self, waiting: Waiting) {
        self.held().waiting.push(waiting);
    }
}

impl Journal for ManualJournal {
    fn begin(&self, source: SourceId, snapshot: &Snapshot, restored: bool) {
        let mut held = self.held();
        (held.source, held.snapshot, held.restored) = (Some(source), snapshot.clone(), restored);
    }

    fn attach(&self, listener: &ListenerHandle, takeover: Option<ResumeState>, now: Moment) {
        let mut held = self.held();
        let (feed, source) = (listener.feed(), held.source.expect("the source has begun"));
        match takeover {
            Some(takeover) => feed.attach_resumed(source, &held.snapshot, takeover, now),
            None => feed.attach(source, &held.snapshot, now),
        }
        held.listeners.push(listener.clone());
    }

    fn detach(&self, listener: &ListenerHandle) {
        self.held().listeners.retain(|known| !known.ptr_eq(listener));
    }

    fn hand_over(&self, listener: &ListenerHandle) {
        let mut held = self.held();
        held.listeners.retain(|known| !known.ptr_eq(listener));
        held.source.iter().for_each(|source| listener.feed().hand_over(*source));
    }

    fn transfer(&self, listener: &ListenerHandle, inherit: Box<dyn FnOnce() + Send>) {
        self.wait(Waiting::Adopt(listener.clone(), inherit));
    }

    fn push(&self, snapshot: &Snapshot, changes: &[ObjectChange], _now: Moment) {
        self.wait(Waiting::Push(snapshot.clone(), changes.to_vec()));
    }

    fn set_high_water(&self, high_water: u64) {
        self.held().seen = Some(high_water);
    }

    fn flush(&self, done: Box<dyn FnOnce() + Send>) {
        self.wait(Waiting::Flush(done));
        if !self.flushes_wait {
            self.open();
        }
    }
}

impl std::fmt::Debug for ManualJournal {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("ManualJournal")
    }
}

/// One journal per source, in the order in which they start.
#[derive(Debug, Default)]
pub(crate) struct ManualJournals(Mutex<Vec<Arc<ManualJournal>>>);

impl ManualJournals {
    fn journals(&self) -> MutexGuard<'_, Vec<Arc<ManualJournal>>> {
        self.0.lock().expect("no test panics while it holds the journals")
    }

    pub(crate) fn open(&self, index: usize) {
        let journal = Arc::clone(&self.journals()[index]);
        journal.open();
    }
}

impl DurableSources for ManualJournals {
    fn open(&self, _spec: &SourceSpec) -> Result<Option<DurableSource>, Box<dyn std::error::Error + Send + Sync>> {
        let journal = Arc::new(ManualJournal::with_waiting_flushes());
        self.journals().push(Arc::clone(&journal));
        let journal: Arc<dyn Journal> = journal;
        Ok(Some(DurableSource::new(journal, None)))
    }
}

/// Storage that cannot be opened.
#[derive(Debug)]
pub(crate) struct FailingStorage;

impl DurableSources for FailingStorage {
    fn open(&self, _spec: &SourceSpec) -> Result<Option<DurableSource>, Box<dyn std::error::Error + Send + Sync>> {
        Err("the disk is on fire".into())
    }
}
