//! Delivers a batch after its transaction; records what could not be persisted.

use informant_cache::listener::{ObjectChange, ResumeState, Vanished};
use informant_cache::{ListenerHandle, Moment, Snapshot};
use informant_object::SourceId;

use crate::batch::SourceBatch;
use crate::handler_state::HandlerState;
use crate::journal::JournalEntry;
use crate::reconcile::{difference, for_each_change};
use crate::source::{ListenerNames, PersistedSource};

impl PersistedSource {
    /// Invalidates what could not be persisted, to be read again later. Attached listeners are recorded nevertheless.
    pub(crate) fn persist_failed(&mut self, batch: &mut SourceBatch, names: &ListenerNames) {
        self.invalidate();
        if !self.is_transient {
            self.record_deletes(&batch.entries);
        }
        for (place, entry) in batch.entries.iter().enumerate() {
            match entry {
                JournalEntry::Begin { restored, .. } => self.versions_incomparable |= *restored,
                JournalEntry::Push(_, changes, _) => {
                    // What is about to be deleted is not missed.
                    if !self.is_transient {
                        self.metrics.unkept.inc_by(changes.len() as u64);
                    }
                }
                JournalEntry::Attach(listener, ..) => {
                    if self.record_attach(listener, names) && !self.is_transient {
                        // It may know anything from before.
                        batch.resumes.insert(place, ResumeState::default());
                    }
                }
                JournalEntry::Transfer(listener, _) => drop(self.record_attach(listener, names)),
                JournalEntry::Detach(listener) => drop(self.remove_listener(listener)),
                JournalEntry::HandOver(listener) => self.release_listener(listener),
                JournalEntry::Difference(..) | JournalEntry::Flush(_) => {}
            }
        }
    }

    /// Records the deletes in `entries`, which are not persisted one by one.
    pub(crate) fn record_deletes(&mut self, entries: &[JournalEntry]) {
        let mut deletes = Vec::new();
        for_each_change(&self.current, entries, |_, change| deletes.extend(self.ended(change)));
        for ended in deletes {
            let uid = ended.uid.clone();
            let Err(limit) = self.unpersisted_deletes.add(ended) else {
                continue;
            };
            for (name, handler) in &mut self.handlers {
                let metrics = handler.metrics.get_or_insert_with(|| self.metrics.handler(name));
                metrics.dropped(limit, uid.as_deref());
            }
        }
    }

    /// Whether the listener is new and has a name.
    fn record_attach(&mut self, listener: &ListenerHandle, names: &ListenerNames) -> bool {
        if self.listeners().any(|known| known.ptr_eq(listener)) {
            return false;
        }
        let Some((name, on_start)) = self.claim(listener, names) else {
            return false;
        };
        let handler = self.handlers.entry(name).or_default();
        handler.listener = Some(listener.clone());
        handler.on_start = on_start;
        handler.attached_unread = true;
        handler.all_open = true;
        handler.is_elsewhere = false;
        true
    }

    /// Executes the entries in order.
    pub(crate) fn deliver(&mut self, batch: SourceBatch) {
        let SourceBatch {
            entries,
            mut resumes,
            late,
            ..
        } = batch;
        for (listener, gone) in late {
            self.deliver_late_deletes(&listener, gone);
        }
        // A listener that is attached in this batch is registered already, but receives nothing from before.
        let comes = |entry: &JournalEntry| match entry {
            JournalEntry::Attach(listener, ..) | JournalEntry::Transfer(listener, _) => Some(listener.clone()),
            _ => None,
        };
        let mut later: Vec<ListenerHandle> = entries.iter().filter_map(comes).collect();
        for (place, entry) in entries.into_iter().enumerate() {
            if let Some(listener) = comes(&entry) {
                later.retain(|other| !other.ptr_eq(&listener));
            }
            match (entry, self.id) {
                (JournalEntry::Begin { source, snapshot, .. }, _) => {
                    self.id = Some(source);
                    self.current = snapshot;
                }
                (JournalEntry::Push(snapshot, changes, now), Some(id)) => {
                    self.push(id, snapshot, &changes, now, &later)
                }
                (JournalEntry::Difference(snapshot, now), Some(id)) => {
                    let changes = difference(&self.current, &snapshot, now);
                    self.push(id, snapshot, &changes, now, &later);
                }
                (JournalEntry::Attach(listener, takeover, now), Some(id)) => {
                    self.delivered(now);
                    self.gate_replays(&listener, id);
                    let resume = match (resumes.remove(&place), takeover) {
                        (Some(resume), Some(takeover)) => Some(resume.then(takeover)),
                        (resume, takeover) => resume.or(takeover),
                    };
                    match resume {
                        Some(resume) => {
                            listener
                                .feed()
                                .attach_resumed(id, &self.current, self.drop_obsolete_deletes(resume), now)
                        }
                        None => listener.feed().attach(id, &self.current, now),
                    }
                }
                (JournalEntry::Detach(listener), Some(id)) => listener.feed().detach(id),
                (JournalEntry::HandOver(listener), Some(id)) => listener.feed().hand_over(id),
                (JournalEntry::Transfer(listener, then), Some(id)) => {
                    self.gate_replays(&listener, id);
                    then();
                }
                (entry, _) => self.queue.discard(entry),
            }
        }
        self.begin_replays();
    }

    /// Lets replays of a persisted handler wait until they are persisted.
    fn gate_replays(&self, listener: &ListenerHandle, id: SourceId) {
        let is_kept = |handler: &HandlerState| handler.listener.as_ref().is_some_and(|own| own.ptr_eq(listener));
        if self.handlers.values().any(is_kept) {
            let waker = self.queue.waker();
            listener.ledger().gate_replays(id, move || waker.notify());
        }
    }

    /// Starts the replays that are persisted by now. Those that could not be persisted start too: they are delivered
    /// unpersisted, like everything else.
    fn begin_replays(&mut self) {
        let Some(id) = self.id else { return };
        for handler in self.handlers.values_mut() {
            if std::mem::take(&mut handler.replay_seen)
                && let Some(listener) = &handler.listener
            {
                listener.ledger().begin_replay(id);
            }
        }
        self.others
            .iter()
            .for_each(|listener| listener.ledger().begin_replay(id));
    }

    /// Releases gated replays, because the source is no longer persisted.
    pub(crate) fn release_replays(&self) {
        if let Some(id) = self.id {
            self.listeners()
                .for_each(|listener| listener.ledger().ungate_replays(id));
        }
    }

    fn push(
        &mut self,
        id: SourceId,
        snapshot: Snapshot,
        changes: &[ObjectChange],
        now: Moment,
        later: &[ListenerHandle],
    ) {
        self.delivered(now);
        let is_here = |listener: &&ListenerHandle| !later.iter().any(|other| other.ptr_eq(listener));
        for listener in self.listeners().filter(is_here) {
            listener.feed().push(id, &snapshot, changes);
        }
        self.current = snapshot;
    }

    /// Delivers late deletes: the handler has already received the present objects. An object with the name of a
    /// deleted one is delivered again after the delete.
    fn deliver_late_deletes(&self, listener: &ListenerHandle, gone: Vec<Vanished>) {
        let Some(id) = self.id else { return };
        let resume = ResumeState {
            deletes: gone,
            ..ResumeState::default()
        };
        listener
            .feed()
            .push_vanished(id, self.drop_obsolete_deletes(resume).deletes, self.now());
    }

    /// Removes deletes of objects that exist (again). The delete stays unless the object is known to be the same.
    fn drop_obsolete_deletes(&self, mut resume: ResumeState) -> ResumeState {
        let before = resume.deletes.len();
        resume.deletes.retain(|gone| {
            let now = self.current.get(gone.key.as_ref());
            let is_same = gone
                .last
                .as_ref()
                .zip(now)
                .is_some_and(|(last, now)| last.uid() == now.uid());
            !is_same
        });
        let void = before - resume.deletes.len();
        self.metrics.void_deletes.inc_by(void as u64);
        resume
    }
}
