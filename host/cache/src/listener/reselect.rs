//! A handler's selection of objects changes: it receives the difference.
//!
//! A cursor walks every source, and leaves out what the handler has received and needs no call for. Pending states are
//! left to the cursor, as for a replay; pending deletes stay, because the handler may have received their objects under
//! the earlier selection.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use informant_object::{AsKey, Key, Object, SourceId};

use crate::delivery::lanes::Lane;
use crate::listener::Listener;
use crate::listener::replay::ReplayRequested;
use crate::listener::slots::Slot;
use crate::listener::sources::AttachedSource;
use crate::listener::state::Known;
use crate::{Moment, Snapshot};

/// A changed selection of one source's objects.
pub trait ChangedSelection: fmt::Debug + Send + Sync {
    /// Whether the handler selects `object`. Must be quick: it is called under the listener's lock.
    fn selects(&self, object: &Object) -> Selected;
}

/// Which selections contain an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selected {
    /// The one before the change.
    pub before: bool,
    /// That one, or any earlier one whose events may still be pending.
    pub ever: bool,
    /// The new one.
    pub now: bool,
}

/// What a cursor needs to know for the difference.
#[derive(Debug)]
pub(super) struct Reselection {
    selection: Arc<dyn ChangedSelection>,
    /// The objects when the selection changed.
    snapshot: Snapshot,
    /// The keys of which the handler had not received all of that, and what it will have received before the cursor
    /// reaches them.
    open: BTreeMap<Key, Received>,
    /// Whether the handler had received the source completely, and by one selection.
    was_complete: bool,
}

/// The newest state of a key that a handler has received, if its selection contained it.
#[derive(Clone, Debug)]
enum Received {
    Nothing,
    State(Object),
    Unknown,
}

impl Reselection {
    /// Whether the handler needs no call for `object`, which is the newest state.
    pub(super) fn leaves_out(&self, object: &Object) -> bool {
        let received = match self.open.get(&object.key() as &dyn AsKey) {
            Some(Received::Unknown) => return false,
            Some(Received::Nothing) => None,
            Some(Received::State(was)) => Some(was),
            None => self.snapshot.get(object.key()),
        };
        let received = received.filter(|was| was.uid() == object.uid());
        let was_selected = received.is_some_and(|was| match self.selection.selects(was) {
            selected if self.was_complete => selected.before,
            selected => selected.ever,
        });
        let is_selected = self.selection.selects(object).now;
        match self.was_complete && received.is_some_and(|was| was.is_same_state(object)) {
            true => was_selected == is_selected,
            false => !was_selected && !is_selected,
        }
    }
}

impl Received {
    /// What the handler will have received of a key when the states in its slot are left to a cursor.
    fn of(slot: &Slot) -> Received {
        let known = match slot.ends().last() {
            Some(end) => &end.then,
            None => &slot.known,
        };
        let was_called = slot.is_in_flight() || slot.retry.is_some();
        match known {
            Known::Nothing if slot.ends().last().is_some() || !was_called => Received::Nothing,
            // After `Maybe(Some)` it may have received a newer state.
            Known::Exactly(state) if slot.ends().last().is_none() && !was_called => Received::State(state.clone()),
            _ => Received::Unknown,
        }
    }
}

impl Listener {
    /// Delivers the difference between two selections of the objects of `changed`, to one lane or to all: what is
    /// selected now as adds; and what no longer is as adds that [may hide a state](super::Delivery::seen_unknown),
    /// which the consumer delivers as deletes. A gated source is held until it is recorded: returns the callbacks that
    /// request it.
    pub(super) fn reselect(
        &mut self,
        changed: Vec<(SourceId, Arc<dyn ChangedSelection>)>,
        only: Option<Lane>,
        now: Moment,
    ) -> Vec<ReplayRequested> {
        if self.closed {
            return Vec::new();
        }
        let count = self.queue.slots.lane_map.count();
        let lanes = only.map_or(0..count, |lane| lane..lane + 1);
        let mut requested = Vec::new();
        for (source, selection) in changed {
            let Some(state) = self.sources.get(source) else {
                continue;
            };
            let begun: Vec<Lane> = lanes.clone().filter(|lane| !state.walk(*lane).is_untouched()).collect();
            let reselection = Arc::new(self.reselection(source, state, selection));
            // A pending `Synced` stays: a replay sends another one, a reselection does not.
            let is_begun = |slot: &Slot| slot.source == source && slot.key().is_some() && begun.contains(&slot.lane);
            self.queue.defer_states_to_cursor(is_begun);
            self.queue
                .vanished_unattempted
                .retain(|(of, lane)| *of != source || !begun.contains(lane));
            self.queue.hide_states(is_begun);
            self.look_at_idle_requeues(source);
            let gate = self.replay_gate.get(source);
            for lane in &begun {
                self.sources.begin_reselection((source, *lane), &reselection, now);
                if gate.is_some() {
                    self.sources.hold(source, *lane);
                }
            }
            requested.extend(gate);
        }
        self.forget_ended_back_offs();
        requested
    }

    /// What the handler knows of a source.
    fn reselection(
        &self,
        source: SourceId,
        state: &AttachedSource,
        selection: Arc<dyn ChangedSelection>,
    ) -> Reselection {
        let slots = self.queue.slots.iter().filter(|slot| slot.source == source);
        let open = slots.filter_map(|slot| Some((slot.key()?.to_key(), Received::of(slot))));
        Reselection {
            selection,
            snapshot: state.snapshot.clone(),
            open: open.collect(),
            was_complete: state.syncing().is_none() && !state.is_reselected(),
        }
    }
}
