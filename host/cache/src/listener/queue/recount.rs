//! The queue's running counts, counted again.

use super::Queue;
use crate::listener::event::Event;
use crate::listener::slots::{Slot, State};

impl Queue {
    /// Counts everything again.
    pub(crate) fn check(&self) {
        let slots = || self.slots.iter();
        assert_eq!(self.pending, slots().map(Slot::waiting).sum::<usize>(), "pending");
        assert_eq!(
            self.in_flight,
            slots().filter(|slot| slot.is_in_flight()).count(),
            "in flight"
        );
        assert_eq!(
            self.failing,
            slots().filter(|slot| slot.state == State::BackingOff).count(),
            "failing"
        );
        assert_eq!(self.draining, slots().filter(|slot| slot.drains).count(), "draining");
        assert_eq!(
            self.bytes,
            slots().flat_map(Slot::events).map(Event::kept_bytes).sum::<usize>(),
            "bytes"
        );
        let ready = slots().filter(|slot| slot.state == State::Ready).count();
        assert_eq!(self.slots.has_ready(), ready > 0, "ready");
        for slot in slots() {
            let keys: Vec<_> = slot.events().map(|event| event.what.key()).collect();
            assert!(
                keys.windows(2).all(|pair| pair[0] == pair[1]),
                "one slot, one key: {slot:?}"
            );
        }
    }
}
