//! Telling again what was told: everything, or one key.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use informant_object::{KeyRef, SourceId};

use crate::listener::cursor::CursorKind;
use crate::listener::event::Event;
use crate::listener::slots::State;
use crate::listener::{Listener, What};
use crate::{Moment, Reason};

/// What became of a request to tell a key again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requeue {
    /// Its current state, or its last known delete, waits to be delivered.
    Queued,
    /// Something of the key waits, is in flight or will be shown by a cursor anyway.
    Waiting,
    /// No such source, or neither an object nor a dead letter of that key.
    Unknown,
    /// The listener is closed.
    Closed,
}

/// Called when a source is to be shown again that somebody keeps.
pub(super) type Wanted = Arc<dyn Fn() + Send + Sync>;

/// The sources of which is kept what the handler has acknowledged, and who is told of replays of theirs.
#[derive(Default)]
pub(super) struct Keepers(BTreeMap<SourceId, Wanted>);

impl fmt::Debug for Keepers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Listener {
    /// Holds replays of `source` from now on until they are noted.
    pub(super) fn keep(&mut self, source: SourceId, wanted: Wanted) {
        self.keepers.0.insert(source, wanted);
    }

    /// That `source` is to be shown again is noted.
    pub(super) fn begin_replay(&mut self, source: SourceId) {
        self.sources.let_go(source);
    }

    /// Holds replays of `source` no more.
    pub(super) fn keep_no_more(&mut self, source: SourceId) {
        self.keepers.0.remove(&source);
        self.sources.let_go(source);
    }

    /// As [`keep_no_more`](Self::keep_no_more), of all sources.
    pub(super) fn keep_none(&mut self) {
        while let Some((source, _)) = self.keepers.0.pop_first() {
            self.sources.let_go(source);
        }
    }

    /// Shows every source again, by a cursor of that kind. Deletes that wait go first; adds and updates that wait are
    /// left to the cursors. Of a source that is kept nothing is shown before that is noted: who has to note it is
    /// returned, to be called.
    pub(super) fn replay(&mut self, now: Moment, kind: CursorKind) -> Vec<Wanted> {
        if self.closed {
            return Vec::new();
        }
        self.queue.leave_states_to_cursor();
        self.queue.unattempted.clear();
        let slots = &self.queue.slots;
        self.timers
            .retain(|id| slots.try_get(id).is_some_and(|slot| slot.state == State::BackingOff));
        self.letters.replayed();
        for source in self.sources.ids() {
            let untouched = |source: SourceId| {
                let cursor = self.sources.get(source).and_then(|state| state.cursor.as_ref());
                cursor.is_some_and(|cursor| cursor.kind == CursorKind::Initial && cursor.is_at_start())
            };
            if !untouched(source) {
                self.sources.begin(source, kind, now);
                if self.keepers.0.contains_key(&source) {
                    self.sources.hold(source);
                }
            }
        }
        self.keepers.0.values().cloned().collect()
    }

    /// Tells the current state of `key` again, or its last known delete while it is absent.
    pub(super) fn requeue(&mut self, source: SourceId, key: KeyRef<'_>, now: Moment) -> Requeue {
        if self.closed {
            return Requeue::Closed;
        }
        let Some(state) = self.sources.get(source) else {
            return Requeue::Unknown;
        };
        let object = state.snapshot.get(key);
        let covered = object.is_some() && state.cursor.as_ref().is_some_and(|cursor| cursor.covers(key));
        if covered || self.is_busy(source, key) {
            return Requeue::Waiting;
        }
        let what = match (object, self.letters.get(source, key)) {
            (Some(object), _) => What::Add(object.clone()),
            (None, None) => return Requeue::Unknown,
            (None, Some(letter)) => {
                let (last, final_state_unknown) = match &letter.delete {
                    Some(delete) => (delete.last.clone(), delete.final_state_unknown),
                    None => (None, true),
                };
                What::Delete {
                    last,
                    key: letter.key.clone(),
                    final_state_unknown,
                }
            }
        };
        self.queue.counters.accepted += 1;
        self.queue.offer(source, Event::of_known(what, Reason::Requeue, now));
        Requeue::Queued
    }
}
