//! The limit on bytes of states that only the queue keeps in memory.

use informant_object::{KeyRef, SourceId};

use super::Queue;
use crate::Snapshot;
use crate::delivery::dead_letters::metadata_only;
use crate::listener::state::{State, What};

impl Queue {
    /// Cuts `state`, which keeps `size` bytes, if needed to stay within the limit. Returns whether slots were folded.
    pub(super) fn apply_bytes_limit(&mut self, state: &mut State, size: usize) -> bool {
        if self.over_bytes_limit && self.bytes < self.pending_bytes_max / 2 {
            self.over_bytes_limit = false;
        }
        let is_reached = !self.over_bytes_limit && self.bytes + size > self.pending_bytes_max;
        if is_reached {
            self.over_bytes_limit = true;
            self.fold_all();
            self.drop_olds();
        }
        if !self.over_bytes_limit || size == 0 {
            return is_reached;
        }
        match &mut state.what {
            What::Is(_) => {
                let has_old = size > state.unstored_bytes();
                self.counters.bodies_dropped += u64::from(state.drop_body());
                state.drops_old |= has_old;
                self.counters.olds_dropped += u64::from(has_old);
            }
            What::Ended(end) if self.bytes + size > self.pending_bytes_max => {
                end.last = end.last.as_ref().map(metadata_only);
                self.counters.deletes_cut += 1;
            }
            What::Ended(_) | What::Synced | What::Tick(_) => {}
        }
        is_reached
    }

    /// Counts the objects of `namespaces` of which `snapshot` of `source` has only the heads from now on; those of all
    /// namespaces if none is named.
    pub(in crate::listener) fn count_unstored(
        &mut self,
        source: SourceId,
        snapshot: &Snapshot,
        namespaces: &[Box<str>],
    ) {
        let is_shed = |key: KeyRef<'_>| namespaces.is_empty() || namespaces.iter().any(|shed| **shed == *key.namespace);
        for id in self.slots.ids() {
            let slot = self.slots.get_mut(id);
            if slot.source == source && slot.key().is_some_and(is_shed) {
                self.bytes -= slot.bytes_from(0);
                slot.states_mut()
                    .for_each(|state| state.is_unstored |= state.is_unstored_in(snapshot));
                self.bytes += slot.bytes_from(0);
            }
        }
        if self.bytes > self.pending_bytes_max {
            self.over_bytes_limit = true;
            self.fold_all();
            self.drop_olds();
        }
    }

    /// Drops the old state before every pending state, and what the store does not keep of them.
    fn drop_olds(&mut self) {
        for id in self.slots.ids() {
            let slot = self.slots.get_mut(id);
            self.bytes -= slot.bytes_from(0);
            self.counters.olds_dropped += slot.drop_olds();
            self.counters.bodies_dropped += slot.drop_bodies();
            self.bytes += slot.bytes_from(0);
        }
    }
}
