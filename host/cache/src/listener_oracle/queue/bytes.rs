//! The limit on bytes of states that only events of the queue keep in memory.

use super::Queue;
use crate::listener_oracle::Notification;
use crate::listener_oracle::event::{PendingEvent, metadata_only};

impl Queue {
    /// Cuts `event` if needed to stay within the limit on bytes.
    pub(super) fn apply_bytes_limit(&mut self, event: &mut PendingEvent) {
        if self.is_blocking {
            return;
        }
        let size = event.kept_bytes();
        if self.over_bytes_limit && self.bytes < self.pending_bytes_max / 2 {
            self.over_bytes_limit = false;
        }
        if !self.over_bytes_limit && self.bytes + size > self.pending_bytes_max {
            self.over_bytes_limit = true;
            self.fold_all();
            self.drop_olds();
        }
        if !self.over_bytes_limit || size == 0 {
            return;
        }
        match &mut event.notification {
            Notification::Update { old, .. } => {
                *old = None;
                self.counters.olds_dropped += 1;
            }
            Notification::Delete { last: Some(last), .. } if self.bytes + size > self.pending_bytes_max => {
                *last = metadata_only(last);
                self.counters.deletes_cut += 1;
            }
            _ => {}
        }
    }

    /// Drops the `old` state of every pending event.
    fn drop_olds(&mut self) {
        for id in self.slots.ids() {
            let slot = self.slots.get_mut(id);
            let in_flight = usize::from(slot.is_in_flight());
            for event in std::iter::once(&mut slot.head)
                .chain(&mut slot.following)
                .skip(in_flight)
            {
                let bytes = event.kept_bytes();
                if let Notification::Update { old, .. } = &mut event.notification {
                    self.counters.olds_dropped += u64::from(old.take().is_some());
                }
                self.bytes -= bytes - event.kept_bytes();
            }
        }
    }
}
