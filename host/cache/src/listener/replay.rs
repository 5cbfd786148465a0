//! Telling again what was told: everything, or one key.

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

impl Listener {
    /// Shows every source again, by a cursor of that kind. Deletes that wait go first; adds and updates that wait are left to the cursors.
    pub(super) fn replay(&mut self, now: Moment, kind: CursorKind) {
        if self.closed {
            return;
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
            }
        }
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
