//! One event that waits in a listener, and how a newer event of its key folds into it.

use crate::listener::What;
use crate::seeded_bug::{SeededBug, seeded_bug};
use crate::{Moment, Reason};

/// One event of one key.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) what: What,
    pub(super) reason: Reason,
    /// When the frame of the oldest event in it was read.
    pub(super) received: Moment,
    /// The handler may have seen the key before, so that a delete must be told even if this add never is.
    pub(super) known: bool,
    /// It was handed out before and not given back.
    pub(super) tried: bool,
    /// Newer events were folded into it.
    pub(super) folded: bool,
    /// The delivery of the key's state before this one ended well.
    pub(super) sound: bool,
    /// The source's cursor counts it among the keys that are to be attempted.
    pub(super) owed: bool,
}

/// What became of a newer event.
#[derive(Debug)]
pub(super) enum Folded {
    /// It is part of the older one now.
    Merged,
    /// It and the older one cancel each other: an add that was never told, and its delete. `owed` if a cursor counted
    /// on them.
    Vanished { owed: bool },
    /// It has to follow the older one: a delete, then an add.
    Apart(Event),
}

impl Event {
    pub(super) fn new(what: What, reason: Reason, received: Moment) -> Event {
        Event {
            what,
            reason,
            received,
            known: false,
            tried: false,
            folded: false,
            sound: false,
            owed: false,
        }
    }

    /// An event of a key that the handler may have seen before.
    pub(super) fn of_known(what: What, reason: Reason, received: Moment) -> Event {
        Event {
            known: true,
            ..Event::new(what, reason, received)
        }
    }

    pub(super) fn kept_bytes(&self) -> usize {
        self.what.kept_bytes()
    }

    /// Whether it shows the very state that `older`, of the same key, shows: a replay or a reminder, nothing new.
    pub(super) fn repeats(&self, older: &Event) -> bool {
        match (self.what.object(), older.what.object()) {
            (Some(this), Some(other)) => {
                this.ptr_eq(other) || (this.uid() == other.uid() && this.version() == other.version())
            }
            _ => false,
        }
    }

    pub(super) fn is_delete(&self) -> bool {
        matches!(self.what, What::Delete { .. })
    }

    /// Whether `old` is exactly what the handler accepted last (see [`Delivery::fresh`](super::Delivery::fresh)).
    pub(super) fn is_fresh(&self) -> bool {
        let told_by_change = !matches!(self.reason, Reason::Resync | Reason::Replay | Reason::Requeue);
        let has_old = matches!(self.what, What::Update { old: Some(_), .. });
        self.sound && !self.tried && !self.folded && told_by_change && has_old
    }

    /// Folds `newer` into this event, which is the one before it of the same key and not in flight.
    ///
    /// The newer state, reason and tombstone mark win; `old` and `received` stay, because they say where the handler
    /// is.
    pub(super) fn fold(&mut self, newer: Event) -> Folded {
        match (&self.what, &newer.what) {
            (What::Add(_), What::Delete { .. }) if !self.known && !self.tried && !newer.known => {
                return Folded::Vanished {
                    owed: self.owed || newer.owed,
                };
            }
            (What::Delete { .. }, What::Add(_) | What::Update { .. }) => return Folded::Apart(newer),
            _ => {}
        }
        // Whoever is told of an update was told of the key before.
        self.known |= newer.known || matches!(self.what, What::Update { .. });
        self.owed |= newer.owed;
        self.folded = true;
        self.reason = newer.reason;
        let older = std::mem::replace(&mut self.what, What::Synced);
        self.what = merged(older, newer.what);
        Folded::Merged
    }
}

/// What tells both, for a handler that was told neither.
fn merged(older: What, newer: What) -> What {
    match (older, newer) {
        (What::Add(_), What::Update { new, .. }) => What::Add(new),
        (older @ What::Update { .. }, What::Update { .. }) if seeded_bug(SeededBug::FoldLosesLastState) => older,
        (What::Update { .. }, newer @ What::Update { .. }) if seeded_bug(SeededBug::FoldTakesNewerOld) => newer,
        (What::Update { old, .. }, What::Update { new, .. }) => What::Update { old, new },
        // The handler knows the incarnation that was deleted first; of that one, a final state that was seen says more.
        (older @ What::Delete { .. }, newer @ What::Delete { .. }) => match (&older, &newer) {
            (
                What::Delete {
                    final_state_unknown: true,
                    ..
                },
                _,
            ) if older.uid() == newer.uid() => newer,
            _ => older,
        },
        // A delete undoes what came before it. An add on top of an add or update is a replay or a requeue: it shows the
        // state to a handler as if it knew none.
        (_, newer) => newer,
    }
}
