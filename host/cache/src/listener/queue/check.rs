//! Checks of the queue's running counts.

use super::Queue;
use crate::listener::event::PendingEvent;
use crate::listener::lanes::LaneSet;
use crate::listener::slots::{Slot, SlotState};

impl Queue {
    /// Checks the running counts against the slots.
    pub(in crate::listener) fn check(&self) {
        let slots = || self.slots.iter();
        assert_eq!(self.pending, slots().map(Slot::waiting).sum::<usize>(), "pending");
        assert_eq!(
            self.in_flight,
            slots().filter(|slot| slot.is_in_flight()).count(),
            "in flight"
        );
        assert_eq!(
            self.failing,
            slots().filter(|slot| slot.retry.is_some()).count(),
            "failing"
        );
        let backing_off = || slots().filter(|slot| slot.state == SlotState::BackingOff);
        assert_eq!(self.backing_off, backing_off().count(), "backing off");
        assert!(
            backing_off().all(|slot| slot.retry.is_some()),
            "what backs off has failed"
        );
        let spaced = || slots().filter(|slot| slot.state == SlotState::Spaced);
        assert_eq!(self.spaced, spaced().count(), "spaced");
        assert!(
            spaced().all(|slot| slot.retry.is_none() && self.spacing.until(slot.hash).is_some()),
            "what is spaced is not under retry, and its wait ends"
        );
        assert_eq!(
            self.draining,
            slots().filter(|slot| slot.drains_first).count(),
            "draining"
        );
        assert_eq!(
            self.bytes,
            slots()
                .flat_map(Slot::events)
                .map(PendingEvent::kept_bytes)
                .sum::<usize>(),
            "bytes"
        );
        for lane in 0..self.slots.lane_map.count() {
            let mut this = LaneSet::default();
            this.insert(lane);
            let mut ready = slots().filter(|slot| slot.state == SlotState::Ready && slot.lane == lane);
            assert_eq!(self.slots.has_ready(this), ready.next().is_some(), "ready in {lane}");
        }
        for slot in slots() {
            let keys: Vec<_> = slot.events().map(|event| event.notification.key()).collect();
            assert!(
                keys.windows(2).all(|pair| pair[0] == pair[1]),
                "one slot, one key: {slot:?}"
            );
        }
    }
}
