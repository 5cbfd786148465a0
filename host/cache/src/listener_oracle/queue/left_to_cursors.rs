//! What the queue leaves to cursors, and what it counts for them.

use informant_object::SourceId;

use super::Queue;
use crate::listener_oracle::Notification;
use crate::listener_oracle::event::PendingEvent;
use crate::listener_oracle::slots::{Slot, SlotId, SlotState};

impl Queue {
    /// The keys of `source` no longer count for its sync.
    pub(in crate::listener_oracle) fn forget_sync_counts(&mut self, source: SourceId) {
        self.vanished_unattempted.retain(|(other, _)| *other != source);
        for id in self.slots.ids() {
            let slot = self.slots.get_mut(id);
            if slot.source == source {
                slot.head.counts_for_sync = false;
                slot.following
                    .iter_mut()
                    .for_each(|event| event.counts_for_sync = false);
            }
        }
    }

    /// Drops the events that a cursor will deliver anyway, leaving only deletes queued; failing keys keep their slot
    /// and back-off, and what waits for an interval keeps waiting. Marks ready deletes to go before the cursors. `of`:
    /// for these slots.
    pub(in crate::listener_oracle) fn defer_states_to_cursor(&mut self, of: impl Fn(&Slot) -> bool) {
        for id in self.slots.ids() {
            if !of(self.slots.get(id)) {
                continue;
            }
            self.fold_slot(id);
            let Some(slot) = self.slots.try_get(id) else { continue };
            let is_delete = slot.head.is_delete();
            let is_failing = slot.retry.is_some() && !matches!(slot.head.notification, Notification::Synced);
            let slot = self.slots.get_mut(id);
            slot.head.counts_for_sync = false;
            slot.following
                .iter_mut()
                .for_each(|event| event.counts_for_sync = false);
            let (waiting, bytes) = (slot.following.len(), slot.following_bytes());
            slot.following.retain(PendingEvent::is_delete);
            let left = waiting - slot.following.len();
            self.pending -= left;
            self.bytes -= bytes - slot.following_bytes();
            self.counters.coalesced += left as u64;
            match slot.state {
                SlotState::InFlight { .. } | SlotState::Spaced => {}
                SlotState::Ready if is_delete => {
                    self.draining += usize::from(!slot.drains_first);
                    slot.drains_first = true;
                }
                SlotState::Ready | SlotState::BackingOff if is_failing || is_delete => {}
                SlotState::Ready | SlotState::BackingOff => {
                    self.drop_head_state(id);
                    self.counters.coalesced += 1;
                }
            }
        }
    }

    /// The handler may have seen the objects in another state that the pending deletes in these slots are about.
    pub(in crate::listener_oracle) fn hide_states(&mut self, of: impl Fn(&Slot) -> bool) {
        for id in self.slots.ids() {
            if !of(self.slots.get(id)) {
                continue;
            }
            let slot = self.slots.get_mut(id);
            let events = std::iter::once(&mut slot.head).chain(&mut slot.following);
            events
                .filter(|event| event.is_delete())
                .for_each(PendingEvent::hide_state);
        }
    }

    /// Drops every `Synced` that is not in flight: others will follow.
    pub(in crate::listener_oracle) fn drop_synced(&mut self) {
        for id in self.slots.ids() {
            let slot = self.slots.get_mut(id);
            if slot.head.notification.key().is_some() {
                continue;
            }
            let following = std::mem::take(&mut slot.following).len();
            self.pending -= following;
            let removed = match slot.is_in_flight() {
                true => 0,
                false => self.remove(id),
            };
            self.counters.coalesced += (following + removed) as u64;
        }
    }

    /// Drops a slot's head, a ready state, before the deletes behind it.
    fn drop_head_state(&mut self, id: SlotId) {
        let slot = self.slots.get_mut(id);
        let Some(delete) = slot.following.pop_front() else {
            self.remove(id);
            return;
        };
        self.pending -= 1;
        self.bytes -= slot.head.kept_bytes();
        slot.head = delete;
        slot.drains_first = true;
        self.draining += 1;
    }

    /// Marks the source's ready deletes to be delivered before the cursors.
    pub(in crate::listener_oracle) fn drain_deletes(&mut self, source: SourceId) {
        for id in self.slots.ids() {
            let slot = self.slots.get_mut(id);
            if slot.source == source && slot.state == SlotState::Ready && slot.head.is_delete() && !slot.drains_first {
                slot.drains_first = true;
                self.draining += 1;
            }
        }
    }
}
