//! Calls that wait for a source or an index.
//!
//! A call that found a source or an index not ready is no failed attempt. Its key waits until that is ready, at most
//! [`NOT_READY_WAIT_MAX`], and is called again. Until then it is pending, and newer states fold in. Earlier failures of
//! the state still count.

use std::collections::BTreeMap;

use crate::Moment;
use crate::delivery::options::NOT_READY_WAIT_MAX;
use crate::delivery::timers::Timers;
use crate::delivery::{Awaited, DeliveryToken};
use crate::listener::Listener;
use crate::listener::slots::SlotId;

/// What waits for sources and indexes, and what became ready while calls were made.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// Until when a slot waits at most.
    timers: Timers,
    /// What became ready while deliveries are in flight, with the number of the next delivery then: one with a smaller
    /// number may have found it not ready before.
    readied: BTreeMap<Awaited, u64>,
}

impl Waits {
    pub(super) fn next(&self) -> Option<Moment> {
        self.timers.next()
    }
}

impl Listener {
    /// The slot's call, delivery `token`, found `awaited` not ready.
    pub(super) fn wait_for(&mut self, id: SlotId, token: DeliveryToken, awaited: Awaited, now: Moment) {
        self.retry_requeue(id);
        self.waits.timers.set(now + NOT_READY_WAIT_MAX, id);
        self.queue.wait(id, awaited);
        let readied = self.waits.readied.iter();
        let mut since = readied.filter(|(_, next)| token.number < **next);
        if since.any(|(ready, _)| awaited.is_ready_with(*ready)) {
            // It became ready between the call's read and its answer.
            self.queue.wake(|other| other == awaited);
            self.forget_ended_waits();
        }
    }

    /// `ready` is ready: what waits for it is called, at the end of its key's interval.
    pub(super) fn ready(&mut self, ready: Awaited) {
        match self.queue.oldest_in_flight() {
            Some(oldest) => {
                self.waits.readied.retain(|_, next| *next > oldest);
                self.waits.readied.insert(ready, self.queue.next_number());
            }
            None => self.waits.readied.clear(),
        }
        self.queue.wake(|awaited| awaited.is_ready_with(ready));
        self.forget_ended_waits();
    }

    /// Calls again what has waited for too long.
    pub(super) fn end_waits(&mut self, now: Moment) {
        while let Some((_, id)) = self.waits.timers.pop_due(now) {
            // The wait for a body ends with a newer state.
            if self.queue.is_waiting(id) {
                self.queue.make_ready(id);
            }
        }
    }

    /// Calls again everything that waits.
    pub(super) fn wake_all(&mut self) {
        self.queue.wake(|_| true);
        self.forget_ended_waits();
    }

    /// Drops the timers of slots that wait no longer.
    pub(super) fn forget_ended_waits(&mut self) {
        let queue = &self.queue;
        self.waits.timers.retain(|id| queue.is_waiting(id));
    }
}
