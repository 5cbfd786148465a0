//! What the queue leaves to cursors, and what it counts for them.

use informant_object::SourceId;

use super::Queue;
use crate::listener::slots::{CallState, Slot, SlotId};
use crate::listener::state::What;

impl Queue {
    /// The keys of `source` no longer count for its sync.
    pub(in crate::listener) fn forget_sync_counts(&mut self, source: SourceId) {
        self.vanished_unattempted.retain(|(other, _)| *other != source);
        self.forget_sync_counts_of(|slot| slot.source == source);
    }

    /// The keys of these slots no longer count for the sync of their sources.
    pub(in crate::listener) fn forget_sync_counts_of(&mut self, of: impl Fn(&Slot) -> bool) {
        for id in self.slots.ids() {
            if of(self.slots.get(id)) {
                let states = self.slots.get_mut(id).states_mut();
                states.for_each(|state| state.owed_to_sync = false);
            }
        }
    }

    /// Drops the states that a cursor will deliver anyway, leaving only ends queued; failing keys keep their slot and
    /// back-off, and what waits for an interval keeps waiting. Marks ready ends to go before the cursors. `of`: for
    /// these slots.
    pub(in crate::listener) fn defer_states_to_cursor(&mut self, of: impl Fn(&Slot) -> bool) {
        for id in self.slots.ids() {
            let slot = self.slots.get(id);
            // No cursor delivers a timer.
            if matches!(slot.first.what, What::Tick(_)) || !of(slot) {
                continue;
            }
            self.fold_slot(id);
            if self.slots.try_get(id).is_none() {
                continue;
            }
            let slot = self.slots.get_mut(id);
            slot.states_mut().for_each(|state| state.owed_to_sync = false);
            let (states, bytes) = (slot.rest.len(), slot.bytes_from(1));
            slot.rest.retain(|state| state.end().is_some());
            let left = states - slot.rest.len();
            self.states -= left;
            self.bytes -= bytes - slot.bytes_from(1);
            self.counters.coalesced += left as u64;
            let is_end = slot.first.end().is_some();
            let is_failing = slot.retry.is_some() && slot.key().is_some();
            match slot.call() {
                CallState::InFlight { .. } | CallState::Spaced => {}
                CallState::Ready if is_end => self.set_drains_first(id, true),
                _ if is_failing || is_end => {}
                _ => {
                    self.drop_first_state(id);
                    self.counters.coalesced += 1;
                }
            }
        }
    }

    /// The handler may have seen the objects in another state that the pending ends in these slots are about.
    pub(in crate::listener) fn hide_states(&mut self, of: impl Fn(&Slot) -> bool) {
        for id in self.slots.ids() {
            if !of(self.slots.get(id)) {
                continue;
            }
            let ends = self
                .slots
                .get_mut(id)
                .states_mut()
                .filter(|state| state.end().is_some());
            ends.for_each(|state| state.was_selected = true);
        }
    }

    /// Drops every `Synced` that is not in flight: others will follow.
    pub(in crate::listener) fn drop_synced(&mut self) {
        for id in self.slots.ids() {
            let slot = self.slots.get_mut(id);
            if !matches!(slot.first.what, What::Synced) {
                continue;
            }
            let following = std::mem::take(&mut slot.rest).len();
            self.states -= following;
            let removed = match slot.is_in_flight() {
                true => 0,
                false => self.remove(id),
            };
            self.counters.coalesced += (following + removed) as u64;
        }
    }

    /// Drops a slot's first state, which is not in flight, before the ends behind it.
    fn drop_first_state(&mut self, id: SlotId) {
        let slot = self.slots.get_mut(id);
        let Some(end) = slot.rest.pop_front() else {
            self.remove(id);
            return;
        };
        self.states -= 1;
        self.bytes -= slot.first.kept_bytes(&slot.known);
        slot.first = end;
        slot.keep_known();
        if slot.call() != CallState::Ready {
            self.slots.set_state(id, CallState::Ready);
        }
        self.set_drains_first(id, true);
    }

    /// Marks the source's ready ends to be delivered before the cursors.
    pub(in crate::listener) fn drain_deletes(&mut self, source: SourceId) {
        for id in self.slots.ids() {
            let slot = self.slots.get(id);
            if slot.source == source && slot.call() == CallState::Ready && slot.first.end().is_some() {
                self.set_drains_first(id, true);
            }
        }
    }
}
