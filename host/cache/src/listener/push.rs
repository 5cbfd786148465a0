//! What the informer loop hands in.

use informant_object::SourceId;

use crate::listener::cursor::{Cursor, CursorKind};
use crate::listener::event::Event;
use crate::listener::{Change, ChangeKind, Listener, What};
use crate::seeded_bug::{SeededBug, seeded_bug};
use crate::{Moment, Reason, Snapshot};

impl Listener {
    /// Takes the changes that led to `snapshot`.
    pub(super) fn push(&mut self, source: SourceId, snapshot: &Snapshot, changes: &[Change]) {
        if self.closed {
            self.queue.counters.refused += changes.len() as u64;
            return;
        }
        let Some(state) = self.sources.get_mut(source) else {
            self.queue.counters.unattached += changes.len() as u64;
            return;
        };
        state.snapshot = snapshot.clone();
        if let Some(cursor) = &mut state.cursor {
            cursor.rebase();
        }
        if self.swapping && seeded_bug(SeededBug::SwapDropsEvents) {
            return;
        }
        for change in changes {
            self.push_change(source, change);
        }
    }

    fn push_change(&mut self, source: SourceId, change: &Change) {
        let Change { kind, reason, received } = change;
        let (what, new_incarnation) = match kind {
            ChangeKind::Add(object) => (What::Add(object.clone()), None),
            ChangeKind::Update { old, new } if old.uid() != new.uid() && !seeded_bug(SeededBug::UpdateAcrossUids) => {
                // The delete was not seen, or the store could not tell: two incarnations never become one update.
                let key = old.key().to_key();
                let delete = What::Delete {
                    last: Some(old.clone()),
                    key,
                    final_state_unknown: true,
                };
                (delete, Some(What::Add(new.clone())))
            }
            ChangeKind::Update { old, new } => (
                What::Update {
                    old: Some(old.clone()),
                    new: new.clone(),
                },
                None,
            ),
            ChangeKind::Delete {
                last,
                key,
                final_state_unknown,
            } => {
                let (last, key, final_state_unknown) = (last.clone(), key.clone(), *final_state_unknown);
                (
                    What::Delete {
                        last,
                        key,
                        final_state_unknown,
                    },
                    None,
                )
            }
        };
        if matches!(what, What::Delete { .. }) && seeded_bug(SeededBug::DeleteToldTwice) {
            self.accept(source, what.clone(), *reason, *received);
        }
        self.accept(source, what, *reason, *received);
        if let Some(what) = new_incarnation {
            self.accept(source, what, *reason, *received);
        }
    }

    fn accept(&mut self, source: SourceId, what: What, reason: Reason, received: Moment) {
        self.queue.counters.accepted += 1;
        let Some(key) = what.key() else { return };
        let cursor = self.sources.get(source).and_then(|state| state.cursor.as_ref());
        let covering = cursor
            .filter(|cursor| cursor.covers(key))
            .map(|cursor: &Cursor| cursor.kind);
        if let Some(kind) = covering
            && self.leave_to_cursor(source, &what, kind)
        {
            return;
        }
        let sound = self.letters.accepted(source, key);
        self.queue.offer(
            source,
            Event {
                sound,
                ..Event::new(what, reason, received)
            },
        );
    }

    /// Leaves a change to the cursor that has yet to pass its key. Returns whether it can be.
    fn leave_to_cursor(&mut self, source: SourceId, what: &What, kind: CursorKind) -> bool {
        match what {
            What::Add(_) => self.queue.counters.left_to_cursor += 1,
            What::Update { .. } => self.queue.counters.coalesced += 1,
            What::Delete { key, .. } => {
                // A handler that is shown everything again may know the object; unless it has yet to be told of the
                // delete of an earlier one.
                if kind.is_again() && !self.queue.ends_with_delete(source, key.as_ref()) {
                    return false;
                }
                // Counted as if the cursor had made the add that the delete cancels.
                self.queue.counters.shown += 1;
                self.queue.counters.vanished += 1;
            }
            What::Synced => return false,
        }
        true
    }
}
