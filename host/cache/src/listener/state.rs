//! What a handler knows of a subject, the states that follow, and the event that each becomes.
//!
//! | what is due | and the handler knows | event |
//! |---|---|---|
//! | `Is`, shown again, or changed | nothing, or no state for certain | add |
//! | `Is`, changed or resync | a state | update with that state as `old` |
//! | `Is`, asked for, or above the limit on bytes | – | update without `old` |
//! | `Ended` | – | delete |
//! | `Synced`, `Tick` | – | sync, timer |
//!
//! These are the only rules about events. A state does not change while it is in flight.

use std::borrow::Cow;
use std::sync::Arc;

use informant_object::{Key, KeyRef, Object, Projection};

use crate::listener::{Notification, Tick};
use crate::seeded_bug::{SeededBug, seeded_bug};
use crate::{Moment, Reason, Snapshot};

/// What a handler knows of an object.
#[derive(Clone, Debug)]
pub(super) enum Known {
    /// It was never called for this incarnation, or received the end of the one before.
    Nothing,
    /// It accepted exactly this state last.
    Exactly(Object),
    /// It may have received a state: a call failed, or was made by an earlier process or version. With the last state
    /// whose delivery ended, if there is one.
    Maybe(Option<Object>),
    /// A state that is not kept, because of the limit on bytes.
    Unkept,
}

/// One state of an object that follows what the handler knows.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) what: What,
    pub(super) why: Why,
    /// The reason of the newest change in it.
    pub(super) reason: Reason,
    /// When the frame of the oldest change in it was read.
    pub(super) received: Moment,
    /// Other states were folded in.
    pub(super) hides: bool,
    /// An earlier selection may have shown the handler a state that neither this queue nor what it knows shows.
    pub(super) was_selected: bool,
    /// The source syncs only after this state was attempted.
    pub(super) owed_to_sync: bool,
    /// What the handler knows before it is not kept, because of the limit on bytes.
    pub(super) drops_old: bool,
    /// The store keeps only the head of its object.
    pub(super) is_unstored: bool,
    /// A related object has changed, too: a call is due whatever has changed in this one.
    pub(super) has_cause: bool,
}

/// What a state is.
#[derive(Clone, Debug)]
pub(super) enum What {
    /// The object is like this.
    Is(Object),
    /// The object was deleted.
    Ended(End),
    /// Every key of a source was attempted.
    Synced,
    /// A run of a timer is due.
    Tick(Arc<Tick>),
}

/// The end of an incarnation.
#[derive(Clone, Debug)]
pub(super) struct End {
    pub(super) key: Key,
    pub(super) last: Option<Object>,
    pub(super) final_state_unknown: bool,
    /// An earlier process persisted it.
    pub(super) resumed: bool,
    /// What the handler knows of the next incarnation once it has received this end: something, if it may have received
    /// that already.
    pub(super) then: Known,
}

/// Why a call is due. A state that folds into another one keeps the greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Why {
    /// The object has changed.
    Changed,
    /// The handler or an operator asked for the call.
    Asked,
    /// Nothing has changed, and the handler is called again.
    Resync,
    /// The handler is shown the object as if for the first time: a list, a replay, a dead letter again.
    Shown,
}

/// The result of folding in a newer state.
#[derive(Debug)]
pub(super) enum Folded {
    /// It is now part of the older state.
    Merged,
    /// Both cancel out: an object that the handler knows nothing of, and its end.
    Vanished { owed_to_sync: bool },
    /// It must follow the older state: the next incarnation, or its end.
    Apart(State),
}

impl Known {
    pub(super) fn is_nothing(&self) -> bool {
        matches!(self, Known::Nothing)
    }

    /// The state that is `old` of the next update.
    fn object(&self) -> Option<&Object> {
        match self {
            Known::Exactly(object) | Known::Maybe(Some(object)) => Some(object),
            Known::Nothing | Known::Maybe(None) | Known::Unkept => None,
        }
    }

    /// After a call that failed: it may have received more.
    pub(super) fn uncertain(self) -> Known {
        match self {
            Known::Nothing => Known::Maybe(None),
            Known::Exactly(object) => Known::Maybe(Some(object)),
            known => known,
        }
    }

    /// Without its state.
    fn forgotten(self) -> Known {
        match self {
            Known::Exactly(_) | Known::Maybe(Some(_)) => Known::Maybe(None),
            known => known,
        }
    }
}

impl State {
    pub(super) fn new(what: What, why: Why, reason: Reason, received: Moment) -> State {
        State {
            what,
            why,
            reason,
            received,
            hides: false,
            was_selected: false,
            owed_to_sync: false,
            drops_old: false,
            is_unstored: false,
            has_cause: false,
        }
    }

    /// The key of the object; none for `Synced` and `Tick`.
    pub(super) fn key(&self) -> Option<KeyRef<'_>> {
        match &self.what {
            What::Is(object) => Some(object.key()),
            What::Ended(end) => Some(end.key.as_ref()),
            What::Synced | What::Tick(_) => None,
        }
    }

    /// The object, unless it was deleted.
    pub(super) fn object(&self) -> Option<&Object> {
        match &self.what {
            What::Is(object) => Some(object),
            What::Ended(_) | What::Synced | What::Tick(_) => None,
        }
    }

    pub(super) fn end(&self) -> Option<&End> {
        match &self.what {
            What::Ended(end) => Some(end),
            What::Is(_) | What::Synced | What::Tick(_) => None,
        }
    }

    /// Whether it is a run of a timer.
    pub(super) fn is_tick(&self) -> bool {
        matches!(self.what, What::Tick(_))
    }

    /// Whether it shows the same as `older`: a replay or a resync, nothing new.
    pub(super) fn repeats(&self, older: &State) -> bool {
        match (self.object(), older.object()) {
            (Some(this), Some(other)) => {
                this.ptr_eq(other) || (this.uid() == other.uid() && this.version() == other.version())
            }
            _ => false,
        }
    }

    /// What the handler knows once it has accepted this state.
    pub(super) fn accepted(&self) -> Cow<'_, Known> {
        match &self.what {
            What::Is(object) => Cow::Owned(Known::Exactly(object.clone())),
            What::Ended(end) => Cow::Borrowed(&end.then),
            What::Synced | What::Tick(_) => Cow::Owned(Known::Nothing),
        }
    }

    /// What the handler knows once this state was delivered, which it did not accept.
    pub(super) fn given_up(&self) -> Known {
        match self.accepted().into_owned() {
            Known::Nothing => Known::Nothing,
            known => known.uncertain(),
        }
    }

    /// Whether it is an add for a handler that knows `known`.
    fn is_add(&self, known: &Known) -> bool {
        let is_first = matches!(known, Known::Nothing | Known::Maybe(None)) && self.why != Why::Asked;
        matches!(self.what, What::Is(_)) && (self.why == Why::Shown || is_first)
    }

    /// Whether it repeats a state that the handler has accepted or that is a dead letter, because somebody asked for
    /// the call or a period passed; and nothing else was folded in.
    pub(super) fn is_only_asked(&self) -> bool {
        let is_repetition = matches!(
            self.reason,
            Reason::Resync | Reason::Requeue | Reason::RequeueAfter | Reason::Trigger
        );
        self.object().is_some() && is_repetition && !self.hides
    }

    /// The `old` of its update, for a handler that knows `known`.
    fn old<'a>(&self, known: &'a Known) -> Option<&'a Object> {
        let is_update = matches!(self.what, What::Is(_)) && self.why != Why::Asked && !self.is_add(known);
        known.object().filter(|_| is_update && !self.drops_old)
    }

    /// Whether it is an update with the state before, for a handler that knows `known`.
    pub(super) fn has_old(&self, known: &Known) -> bool {
        self.old(known).is_some()
    }

    /// What a handler receives that knows `known`.
    pub(super) fn notification(&self, known: &Known) -> Notification {
        match &self.what {
            What::Is(object) if self.is_add(known) => Notification::Add(object.clone()),
            What::Is(object) => Notification::Update {
                old: self.old(known).cloned(),
                new: object.clone(),
            },
            What::Ended(end) => Notification::Delete {
                last: end.last.clone(),
                key: end.key.clone(),
                final_state_unknown: end.final_state_unknown,
            },
            What::Synced => Notification::Synced,
            What::Tick(tick) => Notification::Tick(Arc::clone(tick)),
        }
    }

    /// See [`Delivery::exact_old`](super::Delivery::exact_old).
    pub(super) fn has_exact_old(&self, known: &Known) -> bool {
        let is_exact = matches!(known, Known::Exactly(_)) && self.has_old(known);
        is_exact && self.why == Why::Changed && self.reason.is_change() && !self.has_cause
    }

    /// See [`Delivery::seen_unknown`](super::Delivery::seen_unknown).
    pub(super) fn has_hidden_state(&self, known: &Known) -> bool {
        let is_update = matches!(self.what, What::Is(_)) && !self.is_add(known);
        (self.hides || self.was_selected) && !is_update && !known.is_nothing()
    }

    /// The name of its event: `add`, `update`, `delete`, `sync` or `timer`.
    pub(super) fn event(&self, known: &Known) -> &'static str {
        match &self.what {
            What::Is(_) if self.is_add(known) => "add",
            What::Is(_) => "update",
            What::Ended(_) => "delete",
            What::Synced => "sync",
            What::Tick(_) => "timer",
        }
    }

    /// Bytes of states that the store no longer holds, so that only this one and what is known before it keep them in
    /// memory.
    pub(super) fn kept_bytes(&self, known: &Known) -> usize {
        let kept = match &self.what {
            What::Is(object) => self.old(known).filter(|old| !old.ptr_eq(object)),
            What::Ended(end) => end.last.as_ref(),
            What::Synced | What::Tick(_) => None,
        };
        kept.map_or(0, Object::size_bytes) + self.unstored_bytes()
    }

    /// Bytes of an object that the store does not keep whole.
    pub(super) fn unstored_bytes(&self) -> usize {
        let unstored = self.object().filter(|_| self.is_unstored);
        unstored.map_or(0, Object::size_bytes)
    }

    /// Whether `snapshot` has only the head of its object.
    pub(super) fn is_unstored_in(&self, snapshot: &Snapshot) -> bool {
        let object = self.object().filter(|object| snapshot.heads() > 0 && !object.is_head());
        object.is_some_and(|object| snapshot.get(object.key()).is_some_and(Object::is_head))
    }

    /// Keeps only the head of an object that the store does not keep whole. Returns whether that is a change.
    pub(super) fn drop_body(&mut self) -> bool {
        let is_unstored = std::mem::take(&mut self.is_unstored);
        if let (What::Is(object), true) = (&mut self.what, is_unstored) {
            *object = object.to_head(&Projection::of_head(&[]));
        }
        is_unstored
    }

    /// What is kept of `known` until this state is delivered.
    pub(super) fn keeps(&self, known: Known) -> Known {
        match &self.what {
            What::Is(_) if self.drops_old && !self.is_add(&known) => Known::Unkept,
            What::Is(_) if self.has_old(&known) => known,
            // An earlier process persisted it because the handler may have received its object.
            What::Ended(end) if end.resumed && known.is_nothing() => Known::Maybe(None),
            _ => known.forgotten(),
        }
    }

    /// Whether `newer` is the end of another incarnation than the one that this state is about, so that a handler that
    /// received both has to receive both ends.
    pub(super) fn is_ended_by_other(&self, known: &Known, newer: &State) -> bool {
        let (this, Some(newer)) = (&self.what, newer.end()) else {
            return false;
        };
        match (this, &newer.last) {
            (What::Ended(end), _) => !end.is_same(newer),
            (What::Is(object), Some(last)) => self.is_add(known) && object.uid() != last.uid(),
            _ => false,
        }
    }

    /// Whether `newer` can fold into this state.
    pub(super) fn takes(&self, known: &Known, newer: &State) -> bool {
        let is_next_incarnation = self.end().is_some() && newer.end().is_none();
        !is_next_incarnation && !self.is_ended_by_other(known, newer)
    }

    /// Folds `newer` into this state, which it follows and which is not in flight. Before this state, the handler knows
    /// `known`.
    ///
    /// The newer state and reason win; `received` stays, as it describes what the handler waits for.
    pub(super) fn fold(&mut self, known: &mut Known, newer: State) -> Folded {
        if !self.takes(known, &newer) {
            return Folded::Apart(newer);
        }
        let is_resumed = newer.end().is_some_and(|end| end.resumed);
        if (newer.was_selected || is_resumed) && known.is_nothing() {
            *known = Known::Maybe(None);
        }
        let is_older_update = self.reason.is_change() && !self.is_add(known);
        match (&self.what, &newer.what) {
            (What::Is(_), What::Ended(_)) if known.is_nothing() => {
                let owed_to_sync = self.owed_to_sync || newer.owed_to_sync;
                return Folded::Vanished { owed_to_sync };
            }
            (What::Is(_), What::Is(_)) => {
                let is_newer_update = newer.reason.is_change() && newer.why != Why::Shown;
                self.hides |= !(is_older_update && is_newer_update);
            }
            (What::Is(_), What::Ended(_)) => self.hides = true,
            _ => self.hides |= newer.hides,
        }
        self.was_selected |= newer.was_selected;
        self.owed_to_sync |= newer.owed_to_sync;
        self.reason = newer.reason;
        match (&mut self.what, newer.what) {
            (What::Is(_), What::Is(_)) if seeded_bug(SeededBug::FoldLosesLastState) && is_older_update => {}
            (What::Is(older), What::Is(object)) => {
                self.is_unstored = newer.is_unstored;
                if seeded_bug(SeededBug::FoldTakesNewerOld) && is_older_update && newer.why == Why::Changed {
                    *known = Known::Exactly(older.clone());
                }
                *older = object;
                self.why = self.why.max(newer.why);
            }
            // Both are of one incarnation: an observed final state is better.
            (What::Ended(older), What::Ended(end)) => {
                older.then = end.then;
                if older.final_state_unknown {
                    (older.last, older.final_state_unknown) = (end.last, end.final_state_unknown);
                }
            }
            (What::Tick(older), What::Tick(tick)) => *older = Arc::new(older.then(&tick)),
            (what, newest) => {
                self.is_unstored = newer.is_unstored;
                *what = newest;
            }
        }
        Folded::Merged
    }
}

impl End {
    pub(super) fn new(key: Key, last: Option<Object>, final_state_unknown: bool) -> End {
        End {
            key,
            last,
            final_state_unknown,
            resumed: false,
            then: Known::Nothing,
        }
    }

    /// Whether both are the end of one incarnation.
    pub(super) fn is_same(&self, other: &End) -> bool {
        self.last.as_ref().map(Object::uid) == other.last.as_ref().map(Object::uid)
    }
}
