//! Calls that wait for a source or an index.
//!
//! A call that found a source or an index not ready is no failed attempt. Its key waits until that is ready, at most
//! [`NOT_READY_WAIT_MAX`], and is called again. Until then it is pending, not under retry, and newer states fold in.

use crate::Moment;
use crate::delivery::Awaited;
use crate::delivery::options::NOT_READY_WAIT_MAX;
use crate::listener::Listener;
use crate::listener::slots::{CallState, SlotId};

impl Listener {
    /// The slot's call found `awaited` not ready.
    pub(super) fn wait_for(&mut self, id: SlotId, awaited: Awaited, now: Moment) {
        self.retry_requeue(id);
        self.waits.set(now + NOT_READY_WAIT_MAX, id);
        self.queue.wait(id, awaited);
    }

    /// `awaited` is ready: what waits for it is called, at the end of its key's interval.
    pub(super) fn ready(&mut self, awaited: Awaited) {
        self.queue.wake(awaited);
        self.forget_ended_waits();
    }

    /// Calls again what has waited for too long.
    pub(super) fn end_waits(&mut self, now: Moment) {
        while let Some((_, id)) = self.waits.pop_due(now) {
            self.queue.make_ready(id);
        }
    }

    /// Drops the timers of slots that wait no longer.
    pub(super) fn forget_ended_waits(&mut self) {
        let slots = &self.queue.slots;
        let waits = |id| {
            slots
                .try_get(id)
                .is_some_and(|slot| matches!(slot.call(), CallState::WaitsOn(_)))
        };
        self.waits.retain(waits);
    }
}
