//! What the queue leaves to cursors, what these count on, and what they wait for.

use informant_object::SourceId;

use super::Queue;
use crate::listener::What;
use crate::listener::event::Event;
use crate::listener::slots::State;

impl Queue {
    /// No cursor of `source` counts on its keys any more.
    pub(crate) fn forget_owed(&mut self, source: SourceId) {
        self.unattempted.retain(|other| *other != source);
        for id in self.slots.ids() {
            let slot = self.slots.get_mut(id);
            if slot.source == source {
                slot.head.owed = false;
                slot.rest.iter_mut().for_each(|event| event.owed = false);
            }
        }
    }

    /// Leaves to a cursor what it will show anyway, so that but deletes nothing waits; keys that fail keep their slot
    /// and back-off. Deletes that are ready are marked as what the cursor waits for.
    pub(crate) fn leave_states_to_cursor(&mut self) {
        for id in self.slots.ids() {
            self.fold_slot(id);
            let Some(slot) = self.slots.try_get(id) else { continue };
            let is_delete = slot.head.is_delete();
            let is_failing = slot.failures > 0 && !matches!(slot.head.what, What::Synced);
            let slot = self.slots.get_mut(id);
            slot.head.owed = false;
            slot.rest.iter_mut().for_each(|event| event.owed = false);
            let (waiting, bytes) = (slot.rest.len(), slot.rest_bytes());
            slot.rest.retain(Event::is_delete);
            let left = waiting - slot.rest.len();
            self.pending -= left;
            self.bytes -= bytes - slot.rest_bytes();
            self.counters.coalesced += left as u64;
            match slot.state {
                State::InFlight { .. } => {}
                State::Ready if is_delete => {
                    self.draining += usize::from(!slot.drains);
                    slot.drains = true;
                }
                State::Ready | State::BackingOff if is_failing || is_delete => {}
                State::Ready | State::BackingOff => {
                    self.remove(id);
                    self.counters.coalesced += 1;
                }
            }
        }
    }

    /// Marks the source's deletes that are ready as what cursors wait for.
    pub(crate) fn drain_deletes(&mut self, source: SourceId) {
        for id in self.slots.ids() {
            let slot = self.slots.get_mut(id);
            if slot.source == source && slot.state == State::Ready && slot.head.is_delete() && !slot.drains {
                slot.drains = true;
                self.draining += 1;
            }
        }
    }
}
