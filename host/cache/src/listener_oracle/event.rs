//! One pending event of a listener, and how a newer event of its key folds into it.

use informant_object::{Object, Payload, Shape};

use crate::listener_oracle::Notification;
use crate::listener_oracle::lanes::Lane;
use crate::seeded_bug::{SeededBug, seeded_bug};
use crate::{Moment, Reason};

/// One event of one key.
#[derive(Clone, Debug)]
pub(super) struct PendingEvent {
    pub(super) notification: Notification,
    pub(super) reason: Reason,
    /// When the frame of the oldest event in it was read.
    pub(super) received: Moment,
    /// The handler may have seen the key before, so a delete must be delivered even if this add never is.
    pub(super) maybe_seen: bool,
    /// WANTED DIFFERENCE 3: the same, not only because an update was folded in.
    pub(super) seen_before: bool,
    /// It was delivered before and not given back.
    pub(super) tried: bool,
    /// It follows a state that was not delivered, or events were folded into it; updates by changes of the object do
    /// not count in an update, whose `old` is what was delivered before them.
    pub(super) folded: bool,
    /// The delivery of the key's previous state succeeded.
    pub(super) previous_succeeded: bool,
    /// The source syncs only after this event was attempted.
    pub(super) counts_for_sync: bool,
    /// Of `Synced`: the lane that receives it.
    pub(super) synced_lane: Lane,
    /// A delete that an earlier process persisted.
    pub(super) resumed: bool,
    /// A delete from an earlier process, or one that is called again: the object that is there now may have been
    /// delivered already.
    pub(super) next_maybe_seen: bool,
}

/// The result of folding in a newer event.
#[derive(Debug)]
pub(super) enum Folded {
    /// It is now part of the older event.
    Merged,
    /// It and the older event cancel out: an add that was never delivered, and its delete. `counts_for_sync` if the
    /// source waits for one of them.
    Vanished { counts_for_sync: bool },
    /// It must follow the older event: a delete, then an add, or the delete of another incarnation.
    Apart(PendingEvent),
}

impl PendingEvent {
    pub(super) fn new(notification: Notification, reason: Reason, received: Moment) -> PendingEvent {
        PendingEvent {
            notification,
            reason,
            received,
            maybe_seen: false,
            seen_before: false,
            tried: false,
            folded: false,
            previous_succeeded: false,
            counts_for_sync: false,
            synced_lane: 0,
            resumed: false,
            next_maybe_seen: false,
        }
    }

    /// An event of a key that the handler may have seen before.
    pub(super) fn of_maybe_seen(notification: Notification, reason: Reason, received: Moment) -> PendingEvent {
        PendingEvent {
            maybe_seen: true,
            seen_before: true,
            ..PendingEvent::new(notification, reason, received)
        }
    }

    /// `Synced`, for the consumer of `lane`.
    pub(super) fn synced(lane: Lane, reason: Reason, now: Moment) -> PendingEvent {
        PendingEvent {
            synced_lane: lane,
            ..PendingEvent::of_maybe_seen(Notification::Synced, reason, now)
        }
    }

    /// The handler may have seen a state of the key that the event does not show.
    pub(super) fn hide_state(&mut self) {
        self.maybe_seen = true;
        self.seen_before = true;
        self.folded = true;
    }

    pub(super) fn kept_bytes(&self) -> usize {
        self.notification.kept_bytes()
    }

    /// Whether it carries the same state as `older`, an event of the same key: a replay or a resync, nothing new.
    pub(super) fn repeats(&self, older: &PendingEvent) -> bool {
        match (self.notification.object(), older.notification.object()) {
            (Some(this), Some(other)) => {
                this.ptr_eq(other) || (this.uid() == other.uid() && this.version() == other.version())
            }
            _ => false,
        }
    }

    pub(super) fn is_delete(&self) -> bool {
        matches!(self.notification, Notification::Delete { .. })
    }

    /// Whether both are deletes of one incarnation.
    pub(super) fn is_same_delete(&self, other: &PendingEvent) -> bool {
        self.is_delete() && other.is_delete() && self.notification.uid() == other.notification.uid()
    }

    /// Whether `newer` ends another incarnation than the one this event is about. A handler that received both has to
    /// receive both ends.
    pub(super) fn is_ended_by_other(&self, newer: &PendingEvent) -> bool {
        match (&self.notification, &newer.notification) {
            (Notification::Delete { .. }, Notification::Delete { .. }) => !self.is_same_delete(newer),
            (Notification::Add(object), Notification::Delete { last: Some(last), .. }) => object.uid() != last.uid(),
            _ => false,
        }
    }

    /// See [`Delivery::exact_old`](super::Delivery::exact_old).
    pub(super) fn has_exact_old(&self) -> bool {
        let has_old = matches!(self.notification, Notification::Update { old: Some(_), .. });
        self.previous_succeeded && !self.tried && !self.folded && self.reason.is_change() && has_old
    }

    /// Whether it is the update of an object that has changed, rather than a call that somebody asked for.
    fn is_changed_update(&self) -> bool {
        self.reason.is_change() && matches!(self.notification, Notification::Update { .. })
    }

    /// See [`Delivery::seen_unknown`](super::Delivery::seen_unknown). Before the event is delivered again.
    pub(super) fn has_hidden_state(&self) -> bool {
        let has_old = matches!(self.notification, Notification::Update { .. });
        // WANTED DIFFERENCE 7: nothing is hidden by the end of a list.
        let is_synced = matches!(self.notification, Notification::Synced);
        !is_synced && self.folded && !has_old && (self.maybe_seen || self.tried)
    }

    /// Folds `newer` into this event, its predecessor of the same key, which is not in flight.
    ///
    /// The newer state, reason and `final_state_unknown` win; `old` and `received` stay, because they describe what the
    /// handler has seen.
    pub(super) fn fold(&mut self, newer: PendingEvent) -> Folded {
        if self.is_ended_by_other(&newer) {
            return Folded::Apart(newer);
        }
        match (&self.notification, &newer.notification) {
            (Notification::Add(_), Notification::Delete { .. })
                if !self.maybe_seen && !self.tried && !newer.seen_before =>
            {
                return Folded::Vanished {
                    counts_for_sync: self.counts_for_sync || newer.counts_for_sync,
                };
            }
            (Notification::Delete { .. }, Notification::Add(_) | Notification::Update { .. }) => {
                return Folded::Apart(newer);
            }
            _ => {}
        }
        // A handler that receives an update has seen the key before.
        // WANTED DIFFERENCE 1: an add that was never delivered stays the first call if a replay shows it again.
        // WANTED DIFFERENCE 3: so does one that was given back uncalled, after updates behind it were folded.
        let is_shown_again = matches!(self.notification, Notification::Add(_))
            && (matches!(newer.notification, Notification::Update { .. })
                || matches!(newer.notification, Notification::Add(_)) && !(newer.folded && newer.seen_before));
        self.maybe_seen |=
            (newer.maybe_seen && !is_shown_again) || matches!(self.notification, Notification::Update { .. });
        self.seen_before |= newer.seen_before && !is_shown_again;
        self.counts_for_sync |= newer.counts_for_sync;
        // WANTED DIFFERENCE 5: two ends of one incarnation hide nothing.
        self.folded |= match self.is_delete() {
            true => newer.folded,
            false => !(self.is_changed_update() && newer.is_changed_update()),
        };
        self.reason = newer.reason;
        // WANTED DIFFERENCE 4: an end from an earlier process stays one when it folds into an update.
        if newer.is_delete() && !self.is_delete() {
            (self.resumed, self.next_maybe_seen) = (newer.resumed, newer.next_maybe_seen);
        }
        // WANTED DIFFERENCE 9: after two ends of one incarnation, the handler knows what the newer one says.
        if newer.is_delete() && self.is_delete() {
            self.next_maybe_seen = newer.next_maybe_seen;
        }
        let older = std::mem::replace(&mut self.notification, Notification::Synced);
        self.notification = merged(older, newer.notification);
        Folded::Merged
    }
}

/// One notification for both, for a handler that received neither.
fn merged(older: Notification, newer: Notification) -> Notification {
    match (older, newer) {
        (Notification::Add(_), Notification::Update { new, .. }) => Notification::Add(new),
        (older @ Notification::Update { .. }, Notification::Update { .. })
            if seeded_bug(SeededBug::FoldLosesLastState) =>
        {
            older
        }
        (Notification::Update { .. }, newer @ Notification::Update { .. })
            if seeded_bug(SeededBug::FoldTakesNewerOld) =>
        {
            newer
        }
        (Notification::Update { old, .. }, Notification::Update { new, .. }) => Notification::Update { old, new },
        // Both are of one incarnation: an observed final state is better.
        (
            older @ Notification::Delete {
                final_state_unknown: false,
                ..
            },
            Notification::Delete { .. },
        ) => older,
        // A delete replaces whatever came before it. An add on top of an add or update is a replay or a requeue: it
        // delivers the state as if the handler had seen none.
        (_, newer) => newer,
    }
}

/// The object with apiVersion, kind and metadata only, for deletes above the limit on bytes. Falls back to the whole
/// object if that does not parse, which takes malformed metadata that the scanner let pass: too much is better than
/// nothing.
pub(super) fn metadata_only(object: &Object) -> Object {
    let mut json = Vec::with_capacity(object.metadata().len() + 128);
    Payload::Metadata.write(object, &mut json);
    Object::parse(&json, &Shape::verbatim()).unwrap_or_else(|_| object.clone())
}
