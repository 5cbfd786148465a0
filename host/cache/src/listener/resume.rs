//! A source that a handler knows from an earlier process: what vanished since, what it accepted then, and what is still
//! open now.

use std::collections::BTreeMap;
use std::sync::Arc;

use informant_object::{AsKey, Key, Object, ResourceVersion, SourceId};

use crate::listener::cursor::CursorKind;
use crate::listener::event::Event;
use crate::listener::{Listener, What};
use crate::{Moment, Reason, Snapshot};

/// What is remembered of a handler and a source from an earlier process.
#[derive(Clone, Debug, Default)]
pub struct Resume {
    /// What the handler is to be told is gone, before it is shown anything.
    pub deletes: Vec<Vanished>,
    /// What it accepted then, and is not shown again. None: it is shown everything.
    pub accepted: Option<Arc<AcceptedStates>>,
}

/// An object that is gone.
#[derive(Clone, Debug)]
pub struct Vanished {
    /// Which.
    pub key: Key,
    /// The last known state, or what was kept of it.
    pub last: Option<Object>,
    /// It vanished unseen. client-go's `DeletedFinalStateUnknown`.
    pub final_state_unknown: bool,
}

/// States of objects, by key: uid and version.
#[derive(Debug, Default)]
pub struct AcceptedStates(BTreeMap<Key, (Box<str>, ResourceVersion)>);

/// Which keys of a source a handler has not done with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenKeys {
    /// The source is not attached, or changes came after the listener was closed: nobody knows.
    Detached,
    /// All may be: the source is being shown whole.
    All,
    /// More than were asked for.
    Many,
    /// These.
    Keys(Vec<Key>),
}

impl AcceptedStates {
    /// Notes that this state of `key` was accepted.
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
    /// Begins to show a source that the handler knows from an earlier process: deletes first, then the rest.
    pub(super) fn attach_resumed(&mut self, source: SourceId, snapshot: &Snapshot, resume: Resume, now: Moment) {
        if self.closed || self.sources.get(source).is_some() {
            return;
        }
        let kind = match resume.accepted {
            Some(_) => CursorKind::Resume,
            None => CursorKind::Return,
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
            let what = What::Delete {
                last,
                key,
                final_state_unknown,
            };
            self.queue.counters.accepted += 1;
            self.queue.offer(source, Event::of_known(what, Reason::Relist, now));
        }
        self.queue.drain_deletes(source);
    }

    /// Whether the handler was to be told of something after the listener was closed: of what then, nobody knows.
    fn has_refused(&self) -> bool {
        self.closed && self.queue.counters.refused > 0
    }

    /// Which of `keys` the handler has not done with: they wait, are in flight, have yet to be shown, or are dead
    /// letters. None for a source that is not attached, and for a closed listener that refused anything.
    pub(super) fn are_open(&self, source: SourceId, keys: &[Key]) -> Option<Vec<bool>> {
        let state = self.sources.get(source).filter(|_| !self.has_refused())?;
        let is_open = |key: &Key| {
            let key = key.as_ref();
            let to_be_shown = || state.cursor.as_ref().is_some_and(|cursor| cursor.covers(key));
            self.is_busy(source, key) || to_be_shown() || self.letters.get(source, key).is_some()
        };
        Some(keys.iter().map(is_open).collect())
    }

    /// All keys that the handler has not done with.
    pub(super) fn open_keys(&self, source: SourceId, max: usize) -> OpenKeys {
        let Some(state) = self.sources.get(source).filter(|_| !self.has_refused()) else {
            return OpenKeys::Detached;
        };
        if state.syncing.is_some_and(|kind| kind != CursorKind::Resume) {
            return OpenKeys::All;
        }
        let waiting = self.queue.slots.iter().filter(|slot| slot.source == source);
        let waiting = waiting.filter_map(|slot| slot.head.what.key()).map(|key| key.to_key());
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
