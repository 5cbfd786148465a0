//! Resuming a source after a restart: what vanished since, what the handler accepted before, and which keys are still
//! open.

use std::collections::BTreeMap;
use std::sync::Arc;

use informant_object::{AsKey, Key, Object, ResourceVersion, SourceId};

use crate::listener::cursor::CursorKind;
use crate::listener::event::PendingEvent;
use crate::listener::{Listener, Notification};
use crate::{Moment, Reason, Snapshot};

/// What was persisted about a handler and a source by an earlier process.
#[derive(Clone, Debug, Default)]
pub struct ResumeState {
    /// Deletes to deliver before anything else.
    pub deletes: Vec<Vanished>,
    /// States that it accepted before and that are not redelivered. None: everything is redelivered.
    pub accepted: Option<Arc<AcceptedStates>>,
}

/// An object that was deleted while the process was down.
#[derive(Clone, Debug)]
pub struct Vanished {
    /// Its key.
    pub key: Key,
    /// The last known state, or what was kept of it.
    pub last: Option<Object>,
    /// The delete was not observed. client-go's `DeletedFinalStateUnknown`.
    pub final_state_unknown: bool,
}

/// States of objects, by key: uid and version.
#[derive(Debug, Default)]
pub struct AcceptedStates(BTreeMap<Key, (Box<str>, ResourceVersion)>);

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

impl AcceptedStates {
    /// Adds an accepted state of `key`.
    pub fn insert(&mut self, key: Key, uid: &str, version: &str) {
        self.0.insert(key, (uid.into(), ResourceVersion::new(version)));
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `object` is one of them. An object without a version never is.
    pub(super) fn holds(&self, object: &Object) -> bool {
        let accepted = self.0.get(&object.key() as &dyn AsKey);
        let is_it = |(uid, version): &(Box<str>, ResourceVersion)| {
            **uid == *object.uid() && version.as_ref() == object.version() && !version.is_empty()
        };
        accepted.is_some_and(is_it)
    }
}

impl Listener {
    /// Attaches a source that the handler has seen in an earlier process: delivers deletes first, then the rest.
    pub(super) fn attach_resumed(&mut self, source: SourceId, snapshot: &Snapshot, resume: ResumeState, now: Moment) {
        if self.closed || self.sources.get(source).is_some() {
            return;
        }
        let kind = match resume.accepted {
            Some(_) => CursorKind::ResumeUnaccepted,
            None => CursorKind::ResumeAll,
        };
        self.sources.add(source, snapshot.clone(), now);
        self.sources.begin_resumed(source, kind, resume.accepted, now);
        if let Some(period) = self.options.resync {
            self.resync_next.get_or_insert(now + period);
        }
        for Vanished {
            key,
            last,
            final_state_unknown,
        } in resume.deletes
        {
            let notification = Notification::Delete {
                last,
                key,
                final_state_unknown,
            };
            self.queue.counters.accepted += 1;
            self.queue
                .enqueue(source, PendingEvent::of_maybe_seen(notification, Reason::Relist, now));
        }
        self.queue.drain_deletes(source);
    }

    /// Whether changes came after the listener was closed: their keys are unknown.
    fn has_refused(&self) -> bool {
        self.closed && self.queue.counters.refused > 0
    }

    /// Which of `keys` are open: pending, in flight, ahead of a cursor, or dead letters. None for a source that is not
    /// attached, and for a closed listener that refused changes.
    pub(super) fn are_open(&self, source: SourceId, keys: &[Key]) -> Option<Vec<bool>> {
        let state = self.sources.get(source).filter(|_| !self.has_refused())?;
        let is_open = |key: &Key| {
            let key = key.as_ref();
            let is_ahead = || state.cursor.as_ref().is_some_and(|cursor| cursor.covers(key));
            self.is_busy(source, key) || is_ahead() || self.letters.get(source, key).is_some()
        };
        Some(keys.iter().map(is_open).collect())
    }

    /// All open keys.
    pub(super) fn open_keys(&self, source: SourceId, max: usize) -> OpenKeys {
        let Some(state) = self.sources.get(source).filter(|_| !self.has_refused()) else {
            return OpenKeys::Detached;
        };
        if state.syncing.is_some_and(|kind| kind != CursorKind::ResumeUnaccepted) {
            return OpenKeys::All;
        }
        let waiting = self.queue.slots.iter().filter(|slot| slot.source == source);
        let waiting = waiting
            .filter_map(|slot| slot.head.notification.key())
            .map(|key| key.to_key());
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
