//! Changes from the informer loop.

use informant_object::{Key, KeyRef, Object, SourceId};

use crate::listener_oracle::cursor::{CursorKind, DeliveryCursor};
use crate::listener_oracle::event::PendingEvent;
use crate::listener_oracle::{Listener, Notification};
use crate::seeded_bug::{SeededBug, seeded_bug};
use crate::{Moment, Reason, Snapshot};

impl Listener {
    /// Accepts the changes that led to `snapshot`.
    pub(super) fn push(&mut self, source: SourceId, snapshot: &Snapshot, changes: &[ObjectChange]) {
        if self.closed {
            self.queue.counters.refused += changes.len() as u64;
            return;
        }
        let Some(state) = self.sources.get_mut(source) else {
            self.queue.counters.unattached += changes.len() as u64;
            return;
        };
        state.snapshot = snapshot.clone();
        for cursor in state.walks.iter_mut().filter_map(|walk| walk.cursor.as_mut()) {
            cursor.rebase();
        }
        if self.swapping && seeded_bug(SeededBug::SwapDropsEvents) {
            return;
        }
        for change in changes {
            self.push_change(source, change);
        }
    }

    fn push_change(&mut self, source: SourceId, change: &ObjectChange) {
        let ObjectChange { kind, reason, received } = change;
        let (notification, new_incarnation) = match kind {
            ChangeKind::Add(object) => (Notification::Add(object.clone()), None),
            ChangeKind::Update { old, new } if old.uid() != new.uid() && !seeded_bug(SeededBug::UpdateAcrossUids) => {
                // The delete was not observed, or the store could not tell: two incarnations never become one update.
                let key = old.key().to_key();
                let delete = Notification::Delete {
                    last: Some(old.clone()),
                    key,
                    final_state_unknown: true,
                };
                (delete, Some(Notification::Add(new.clone())))
            }
            ChangeKind::Update { old, new } => (
                Notification::Update {
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
                    Notification::Delete {
                        last,
                        key,
                        final_state_unknown,
                    },
                    None,
                )
            }
        };
        if matches!(notification, Notification::Delete { .. }) && seeded_bug(SeededBug::DeleteDeliveredTwice) {
            self.accept(source, notification.clone(), *reason, *received);
        }
        self.accept(source, notification, *reason, *received);
        if let Some(notification) = new_incarnation {
            self.accept(source, notification, *reason, *received);
        }
    }

    fn accept(&mut self, source: SourceId, notification: Notification, reason: Reason, received: Moment) {
        self.queue.counters.accepted += 1;
        let Some(key) = notification.key() else { return };
        let lane = self.queue.slots.lane_map.of(source, key);
        let walk = self.sources.get(source).map(|state| state.walk(lane));
        let cursor = walk.and_then(|walk| walk.cursor.as_ref());
        let covering = cursor
            .filter(|cursor| cursor.covers(key))
            .map(|cursor: &DeliveryCursor| cursor.kind);
        if let Some(kind) = covering
            && self.defer_to_cursor(source, &notification, kind)
        {
            return;
        }
        // WANTED DIFFERENCE 6: before an object that is added, there was none.
        if matches!(notification, Notification::Add(_))
            && let Some(id) = self.queue.find(source, Some(key))
        {
            let slot = self.queue.slots.get_mut(id);
            let newest = slot.following.back_mut().unwrap_or(&mut slot.head);
            newest.next_maybe_seen &= !newest.is_delete();
        }
        let previous_succeeded = self.letters.accepted_last(source, key);
        let mut event = PendingEvent {
            previous_succeeded,
            ..PendingEvent::new(notification, reason, received)
        };
        if covering == Some(CursorKind::Reselection) {
            event.hide_state();
        }
        self.queue.enqueue(source, event);
    }

    /// Leaves a change to the cursor that has not passed its key yet. Returns whether that is possible.
    fn defer_to_cursor(&mut self, source: SourceId, notification: &Notification, kind: CursorKind) -> bool {
        match notification {
            Notification::Add(_) => self.queue.counters.left_to_cursor += 1,
            Notification::Update { .. } => self.queue.counters.coalesced += 1,
            Notification::Delete { key, .. } => {
                // A handler in a replay may have seen the object, unless a delete of its predecessor is still pending.
                if kind.maybe_seen() && !self.queue.ends_with_delete(source, key.as_ref()) {
                    return false;
                }
                // Counted as if the cursor had produced the add that the delete cancels.
                self.queue.counters.shown += 1;
                self.queue.counters.vanished += 1;
            }
            Notification::Synced => return false,
        }
        true
    }
}

/// One change of one object, as the store saw it when it was written.
///
/// Cheap to clone: it shares its objects with the store.
#[derive(Clone, Debug)]
pub struct ObjectChange {
    /// What happened.
    pub kind: ChangeKind,
    /// The reason of the change.
    pub reason: Reason,
    /// When its frame was read.
    pub received: Moment,
}

/// What happened to the object. `old` and `last` are what the store held until then.
#[derive(Clone, Debug)]
pub enum ChangeKind {
    /// The store did not hold it.
    Add(Object),
    /// The store held `old`. If the uids differ, the listener delivers a delete and an add.
    Update {
        /// What the store held.
        old: Object,
        /// What it holds now.
        new: Object,
    },
    /// The store no longer holds it.
    Delete {
        /// The last known state; none only if nothing but the key is known.
        last: Option<Object>,
        /// The key of the deleted object.
        key: Key,
        /// The delete was not observed: `last` may be older than the final state. client-go's
        /// `DeletedFinalStateUnknown`.
        final_state_unknown: bool,
    },
}

impl ObjectChange {
    /// The key of the object.
    #[must_use]
    pub fn key(&self) -> KeyRef<'_> {
        match &self.kind {
            ChangeKind::Add(object) | ChangeKind::Update { new: object, .. } => object.key(),
            ChangeKind::Delete { key, .. } => key.as_ref(),
        }
    }
}
