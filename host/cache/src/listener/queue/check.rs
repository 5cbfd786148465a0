//! Checks of the queue's running counts.

use super::Queue;
use crate::delivery::lanes::LaneSet;
use crate::listener::slots::{CallState, Slot};

impl Queue {
    /// Checks the running counts against the slots.
    pub(in crate::listener) fn check(&self) {
        let slots = || self.slots.iter();
        let in_state = |is_it: fn(CallState) -> bool| slots().filter(|slot| is_it(slot.call())).count();
        let counts = self.slots.counts();
        assert_eq!(self.pending(), slots().map(Slot::waiting).sum::<usize>(), "pending");
        assert_eq!(counts.ready, in_state(|call| call == CallState::Ready), "ready");
        assert_eq!(
            counts.in_flight,
            in_state(|call| matches!(call, CallState::InFlight { .. })),
            "in flight"
        );
        assert_eq!(
            counts.backing_off,
            in_state(|call| call == CallState::BackingOff),
            "backing off"
        );
        assert_eq!(counts.spaced, in_state(|call| call == CallState::Spaced), "spaced");
        assert_eq!(
            counts.waiting,
            in_state(|call| matches!(call, CallState::WaitsOn(_))),
            "waiting"
        );
        let is_held = |slot: &&Slot| slot.call().is_held() && slot.retry.is_some();
        assert_eq!(counts.held_retries, slots().filter(is_held).count(), "held retries");
        assert_eq!(counts.suspect, in_state(|call| call == CallState::Suspect), "suspect");
        assert_eq!(
            self.failing,
            slots().filter(|slot| slot.retry.is_some()).count(),
            "failing"
        );
        assert_eq!(
            self.draining,
            slots().filter(|slot| slot.drains_first).count(),
            "draining"
        );
        assert_eq!(
            self.bytes,
            slots().map(|slot| slot.bytes_from(0)).sum::<usize>(),
            "bytes"
        );
        for slot in slots() {
            match slot.call() {
                CallState::BackingOff => assert!(slot.retry.is_some(), "what backs off has failed"),
                CallState::Spaced => assert!(
                    self.spacing.until(slot.hash).is_some(),
                    "the wait of what is spaced ends"
                ),
                _ => {}
            }
            let keys: Vec<_> = slot.states().map(|state| state.key()).collect();
            assert!(
                keys.windows(2).all(|pair| pair[0] == pair[1]),
                "one slot, one subject: {slot:?}"
            );
        }
        for lane in 0..self.slots.lane_map.count() {
            let mut this = LaneSet::default();
            this.insert(lane);
            let mut ready = slots().filter(|slot| slot.call() == CallState::Ready && slot.lane == lane);
            assert_eq!(self.slots.has_ready(this), ready.next().is_some(), "ready in {lane}");
            let mut suspects = slots().filter(|slot| slot.call() == CallState::Suspect && slot.lane == lane);
            let has_suspect = self.slots.first_suspect(lane).is_some();
            assert_eq!(has_suspect, suspects.next().is_some(), "suspect in {lane}");
        }
    }
}
