//! Resuming a source after a restart, or in place of another process: what vanished since, what the handler accepted
//! before, and which keys are still open.

use std::collections::BTreeSet;
use std::sync::Arc;

use informant_object::{Key, Object, SourceId};

use crate::listener::cursor::CursorKind;
use crate::listener::slots::Slot;
use crate::listener::state::{End, Known, State, What, Why};
use crate::listener::{AcceptedStates, DeadLetter, Listener, RequeueTimer, TAKEOVER_LAG_MAX, Takeover};
use crate::seeded_bug::{SeededBug, seeded_bug};
use crate::{KeptDelete, Moment, Reason, Snapshot};

/// What is known of a handler and a source from an earlier process or from another one.
#[derive(Clone, Debug, Default)]
pub struct ResumeState {
    /// Deletes to deliver before anything else; those of one key oldest first.
    pub deletes: Vec<Vanished>,
    /// States that it accepted before and that are not redelivered. None: everything is redelivered.
    pub accepted: Option<Arc<AcceptedStates>>,
    /// Its dead letters, oldest first; none: it is not known which. Their source and times are set when they are
    /// restored.
    pub dead_letters: Option<Vec<DeadLetter>>,
    /// The calls that it asked for.
    pub requeues: Vec<RequeueTimer>,
    /// Present if another process has called the handler until now.
    pub takeover: Option<Takeover>,
}

/// An object that was deleted while the handler was not called by this process.
#[derive(Clone, Debug)]
pub struct Vanished {
    /// Its key.
    pub key: Key,
    /// The last known state, or what was kept of it.
    pub last: Option<Object>,
    /// The delete was not observed. client-go's `DeletedFinalStateUnknown`.
    pub final_state_unknown: bool,
    /// A version at which the object is known to be gone. None: unknown.
    pub gone_by: Option<u64>,
    /// When the delete was received. None: before this process.
    pub received: Option<Moment>,
}

/// What of one key a handler has not finished with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenKey {
    /// The incarnations whose deletes are pending, in flight or dead letters, by uid; `None` if the uid is unknown. The
    /// handler needs no delete of other incarnations that were deleted: it has accepted it, or never received them.
    pub deletes: Vec<Option<Box<str>>>,
}

/// The open keys of a source: those a handler has not finished with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenKeys {
    /// Unknown: the source is not attached, or changes came after the listener was closed.
    Detached,
    /// Any key may be open: an initial list or replay is running.
    All,
    /// More than the requested maximum.
    Many,
    /// These keys.
    Keys(Vec<Key>),
}

impl ResumeState {
    /// What another process has left of a source of which this one has `kept` deletes, oldest first.
    #[must_use]
    pub fn of_takeover(takeover: Takeover, kept: Vec<KeptDelete>) -> ResumeState {
        let Takeover { watermark, all_objects } = takeover;
        let watermark = watermark.filter(|_| !seeded_bug(SeededBug::WatermarkNotApplied));
        let is_accepted = |delete: &KeptDelete| {
            let is_covered = watermark.zip(delete.gone_by).is_some_and(|(all, gone)| gone <= all);
            is_covered || seeded_bug(SeededBug::DeleteLostAtTakeover)
        };
        let open = kept.into_iter().filter(|delete| !is_accepted(delete));
        let mut deletes: Vec<Vanished> = open.map(Vanished::from).collect();
        // Those of one key follow each other, the oldest first.
        deletes.sort_by(|one, other| one.key.cmp(&other.key));
        // Two watches may have shown one.
        let mut shown = BTreeSet::new();
        let is_first = |delete: &Vanished| match &delete.last {
            Some(last) => shown.insert((delete.key.clone(), last.uid().to_owned())),
            None => true,
        };
        deletes.retain(is_first);
        ResumeState {
            deletes,
            accepted: (!all_objects).then(|| Arc::new(AcceptedStates::default().up_to(watermark))),
            takeover: Some(takeover),
            ..ResumeState::default()
        }
    }

    /// What is left after this, which an earlier process persisted, and a takeover since. The watermark is newer than
    /// what was persisted: deletes of that are left out if they were observed up to it.
    #[must_use]
    pub fn then(mut self, takeover: ResumeState) -> ResumeState {
        let watermark = takeover.takeover.and_then(|takeover| takeover.watermark);
        let identity = |delete: &Vanished| {
            (
                delete.key.clone(),
                delete.last.as_ref().map(|last| last.uid().to_owned()),
            )
        };
        let kept: BTreeSet<_> = takeover.deletes.iter().map(identity).collect();
        self.deletes.retain(|delete| {
            let gone = delete.last.as_ref().filter(|_| !delete.final_state_unknown);
            let gone = gone.and_then(|last| last.version().number());
            let is_accepted = watermark.zip(gone).is_some_and(|(all, gone)| gone <= all);
            !is_accepted && !kept.contains(&identity(delete))
        });
        self.deletes.extend(takeover.deletes);
        self.deletes.sort_by(|one, other| one.key.cmp(&other.key));
        let with_own = |of_takeover| match self.accepted {
            Some(own) => Arc::new(Arc::unwrap_or_clone(own).up_to(watermark)),
            None => of_takeover,
        };
        ResumeState {
            accepted: takeover.accepted.map(with_own),
            dead_letters: takeover.dead_letters.or(self.dead_letters),
            takeover: takeover.takeover,
            ..self
        }
    }
}

impl From<KeptDelete> for Vanished {
    fn from(delete: KeptDelete) -> Vanished {
        Vanished {
            key: delete.key,
            last: delete.last,
            final_state_unknown: delete.final_state_unknown,
            gone_by: delete.gone_by,
            received: Some(delete.received),
        }
    }
}

impl Listener {
    /// Attaches a source that the handler has seen in another process: delivers deletes first, then the rest.
    pub(super) fn attach_resumed(&mut self, source: SourceId, snapshot: &Snapshot, resume: ResumeState, now: Moment) {
        if self.closed || self.sources.get(source).is_some() || self.attach_related(source, snapshot, now) {
            return;
        }
        let kind = match resume.accepted {
            _ if resume.takeover.is_some() => CursorKind::Takeover,
            Some(_) => CursorKind::ResumeUnaccepted,
            None => CursorKind::ResumeAll,
        };
        let reason = match resume.takeover {
            Some(_) => Reason::Takeover,
            None => Reason::Relist,
        };
        self.queue.slots.lane_map.attached(source);
        self.sources.add(source, snapshot.clone(), now);
        self.sources.begin_resumed(source, kind, resume.accepted, now);
        if let Some(state) = self.sources.get_mut(source).filter(|_| resume.takeover.is_some()) {
            state.maybe_seen_until = now + TAKEOVER_LAG_MAX;
        }
        if let Some(period) = self.options.resync {
            self.resync_next.get_or_insert(now + period);
        }
        // After a takeover, one of an earlier state than the present one is out of date: that state is delivered, or
        // was accepted.
        let is_present = |letter: &DeadLetter| {
            let present = snapshot.get(letter.key.as_ref());
            present.is_some_and(|object| letter.resource_version.as_deref() == Some(object.version().as_str()))
        };
        let is_kept = |letter: &DeadLetter| resume.takeover.is_none() || letter.delete.is_some() || is_present(letter);
        for letter in resume.dead_letters.into_iter().flatten().filter(is_kept) {
            self.queue.counters.dead_letters_evicted += self.letters.insert(DeadLetter {
                source,
                received: now,
                given_up: now,
                ..letter
            });
        }
        self.restore_requeues(source, resume.requeues, now);
        let mut deletes = resume.deletes;
        if let Some(shards) = self.shard_filter(source).or(snapshot.shards().copied()) {
            // Those that the source does not read yet come with the list of these.
            deletes
                .retain(|delete| shards.includes(delete.key.as_ref()) && !self.was_deleted_elsewhere(source, delete));
        }
        self.push_vanished(source, deletes, reason, now);
        // After the deletes: what has their names follows them.
        self.await_shards(source, resume.takeover, now);
    }

    /// Queues the deletes of objects that the handler received in another process; those of one key follow each other.
    /// The handler may have received what is there now under the same name, too: it receives that again.
    pub(super) fn push_vanished(&mut self, source: SourceId, deletes: Vec<Vanished>, reason: Reason, now: Moment) {
        if self.closed {
            self.queue.counters.refused += deletes.len() as u64;
            return;
        }
        if self.relation(source).is_some() {
            self.queue.counters.unrelated += deletes.len() as u64;
            return;
        }
        let count = deletes.len();
        let here = deletes
            .into_iter()
            .filter(|delete| !self.is_elsewhere(source, delete.key.as_ref()));
        let deletes: Vec<Vanished> = here.collect();
        self.queue.counters.accepted += (count - deletes.len()) as u64;
        self.queue.counters.handed_over += (count - deletes.len()) as u64;
        let Some(state) = self.sources.get(source) else {
            self.queue.counters.unattached += deletes.len() as u64;
            return;
        };
        // What is there now comes with the next list.
        let is_listed_later = self.is_divided_otherwise(source);
        let mut deletes = deletes.into_iter().peekable();
        while let Some(vanished) = deletes.next() {
            let present = state.snapshot.get(vanished.key.as_ref());
            let lane = self.queue.slots.lane_map.of(source, vanished.key.as_ref());
            let is_last = deletes.peek().is_none_or(|next| next.key != vanished.key);
            let again = present
                .filter(|object| is_last && !is_listed_later && !state.will_show(lane, object))
                .cloned();
            let received = vanished.received.unwrap_or(now);
            let end = End {
                resumed: true,
                then: match present.is_some() || reason == Reason::Takeover {
                    true => Known::Maybe(None),
                    false => Known::Nothing,
                },
                ..End::new(vanished.key, vanished.last, vanished.final_state_unknown)
            };
            for what in std::iter::once(What::Ended(end)).chain(again.map(What::Is)) {
                self.queue.counters.accepted += 1;
                let state = State::new(what, Why::Shown, reason, received);
                self.queue.enqueue((source, lane), Known::Maybe(None), state);
            }
        }
        self.queue.drain_deletes(source);
    }

    /// Whether changes came after the listener was closed: their keys are unknown.
    pub(super) fn has_refused(&self) -> bool {
        self.closed && self.queue.counters.refused > 0
    }

    /// What is open of each of `keys`: pending, in flight, ahead of a cursor, or dead letters. None for a source that
    /// is not attached, and for a closed listener that refused changes.
    pub(super) fn are_open(&self, source: SourceId, keys: &[Key]) -> Option<Vec<Option<OpenKey>>> {
        let state = self.sources.get(source).filter(|_| !self.has_refused())?;
        let open = |key: &Key| {
            let key = key.as_ref();
            let slot = self.queue.find(source, key).map(|id| self.queue.slots.get(id));
            let letter = self.letters.get(source, key);
            let is_ahead = || state.is_ahead(self.queue.slots.lane_map.of(source, key), key);
            if slot.is_none() && letter.is_none() && !is_ahead() {
                return None;
            }
            let ends = slot.into_iter().flat_map(Slot::ends);
            let pending = ends.map(|end| end.last.as_ref().map(Object::uid));
            let failed = letter.and_then(|letter| letter.delete.as_ref());
            let failed = failed.map(|delete| delete.last.as_ref().map(Object::uid));
            let deletes = pending.chain(failed).map(|uid| uid.map(Box::from)).collect();
            Some(OpenKey { deletes })
        };
        Some(keys.iter().map(open).collect())
    }

    /// All open keys.
    pub(super) fn open_keys(&self, source: SourceId, max: usize) -> OpenKeys {
        let Some(state) = self.sources.get(source).filter(|_| !self.has_refused()) else {
            return OpenKeys::Detached;
        };
        if state.is_reselected() || state.syncing().is_some_and(|kind| kind != CursorKind::ResumeUnaccepted) {
            return OpenKeys::All;
        }
        let waiting = self.queue.slots.iter().filter(|slot| slot.source == source);
        let waiting = waiting.filter_map(|slot| slot.key()).map(|key| key.to_key());
        let failed = self.letters.list().into_iter().filter(|letter| letter.source == source);
        let mut keys: Vec<Key> = waiting.take(max + 1).collect();
        keys.extend(failed.map(|letter| letter.key).take(max + 1));
        if keys.len() > max {
            OpenKeys::Many
        } else {
            OpenKeys::Keys(keys)
        }
    }
}
