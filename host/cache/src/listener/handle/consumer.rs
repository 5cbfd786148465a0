//! What the one consumer of a listener calls: it pulls deliveries and reports their outcomes.

use std::sync::Arc;

use informant_object::{KeyRef, SourceId};

use super::{Shared, lock};
use crate::Moment;
use crate::listener::cursor::CursorKind;
use crate::listener::tick::TickEnded;
use crate::listener::wake::Waker;
use crate::listener::{
    Delivery, DeliveryOutcome, DeliveryToken, Lane, LaneSet, NextBatch, NextDelivery, ResourceIdentities, Tick,
};

/// Pulls deliveries and reports their outcomes. One consumer per listener.
#[derive(Clone, Debug)]
pub struct Consumer(pub(super) Arc<Shared>);

impl Consumer {
    /// Sets the callback that wakes a waiting consumer. Replaces an earlier one.
    ///
    /// Called without any lock, from the thread that made the change; at most once until the consumer waits again.
    pub fn set_waker(&self, waker: Waker) {
        self.0.listener.set_waker(waker);
    }

    /// Divides the keys among `count` lanes from now on, at most [`LANES_MAX`](crate::listener::LANES_MAX), for one
    /// consumer
    /// that handles each lane apart; and [replays](super::Control::replay) all sources, since each lane has lost what
    /// it had
    /// seen. `identity` says which sources deliver the same objects. While the consumer makes no call.
    pub fn set_lanes(&self, count: Lane, identity: ResourceIdentities, now: Moment) {
        self.0
            .change_and_request(|listener| listener.set_lanes(count, identity, now));
    }

    /// The next delivery.
    #[must_use]
    pub fn next(&self, now: Moment) -> NextDelivery {
        self.0.lock().next(now)
    }

    /// Appends up to `max` deliveries of one of `lanes`, each of a different key. For a consumer of several
    /// [lanes](Self::set_lanes), which are served by turns if it asks for those whose deliveries it has handled.
    pub fn next_batch(&self, lanes: LaneSet, now: Moment, max: usize, out: &mut Vec<Delivery>) -> NextBatch {
        self.0.lock().next_batch(now, lanes, max, out)
    }

    /// Adds a run of a timer, which is delivered in the first lane. One that is pending becomes part of it.
    pub fn tick(&self, tick: Tick, now: Moment) {
        self.0.change(|listener| listener.tick(tick, now));
    }

    /// Whether a run of the timer is pending or in flight.
    #[must_use]
    pub fn is_ticking(&self, timer: &str) -> bool {
        self.0.lock().is_ticking(timer)
    }

    /// Sets what is called, without any lock, when a run of a timer has ended: with whether the handler accepted it.
    pub fn set_tick_callback(&self, callback: TickEnded) {
        *lock(&self.0.ticks) = Some(callback);
    }

    /// Reports the outcome of one delivery.
    pub fn done(&self, token: DeliveryToken, outcome: DeliveryOutcome, now: Moment) {
        self.0.change(|listener| listener.done(token, outcome, now));
    }

    /// Reports the outcomes of several deliveries. Returns how many of them became dead letters.
    pub fn done_batch(&self, outcomes: impl IntoIterator<Item = (DeliveryToken, DeliveryOutcome)>, now: Moment) -> u64 {
        self.0.change(|listener| {
            let before = listener.queue.counters.dead_lettered;
            outcomes
                .into_iter()
                .for_each(|(token, outcome)| listener.done(token, outcome, now));
            listener.queue.counters.dead_lettered - before
        })
    }

    /// The call of a delivery [about a suspect](Delivery::is_suspect) took from `began` until `now`. Without this, it
    /// took until [`done`](Self::done).
    pub fn took(&self, token: DeliveryToken, began: Moment, now: Moment) {
        self.0
            .change(|listener| listener.queue.suspects.took(token, began, now));
    }

    /// The object at `key` has held up the handler from `began` until `now` without a call: its namespace is suspect
    /// from now on, if the handler limits those, and is charged for the time.
    pub fn held_up(&self, source: SourceId, key: KeyRef<'_>, began: Moment, now: Moment) {
        self.0.change(|listener| listener.held_up(source, key, began, now));
    }

    /// A call about a suspect has cost the handler the time from `began` until `now` besides the call, to replace its
    /// instance.
    pub fn charge_suspects(&self, began: Moment, now: Moment) {
        self.0.change(|listener| {
            let suspects = &mut listener.queue.suspects;
            if !suspects.is_empty() {
                suspects.charge(began, now);
            }
        });
    }

    /// Takes back deliveries whose calls were never made: they are delivered next, as if for the first time.
    ///
    /// For an instance that stops or traps before the end of a batch. Pass the tokens in the order in which they came.
    pub fn give_back(&self, tokens: impl IntoIterator<Item = DeliveryToken, IntoIter: DoubleEndedIterator>) {
        self.0
            .change(|listener| tokens.into_iter().rev().for_each(|token| listener.give_back(token)));
    }

    /// The call of a delivery was begun, and what it did was dropped, because another replica acts. It is delivered
    /// again, whatever the failure policy is, and was no attempt.
    pub fn interrupted(&self, token: DeliveryToken, now: Moment) {
        self.0.change(|listener| listener.interrupted(token, now));
    }

    /// The handler stands by, and is not being called: all deliveries in flight were [interrupted](Self::interrupted).
    /// Drops the runs of timers, and counts them as discarded. Pauses nothing.
    pub fn stand_by(&self, now: Moment) {
        self.0.change(|listener| listener.stand_by(now));
    }

    /// Like [`replay`](super::Control::replay), for a handler whose instance was lost because of an event. Delivers
    /// the keys of
    /// that instance's lane only; with several lanes, the intervals of all keys end. Skips dead-lettered states,
    /// because they would crash the next instance, too. A newer state of such a key is delivered as usual.
    pub fn recover(&self, lane: Lane, now: Moment) {
        self.0.start_replay(now, CursorKind::Recovery, Some(lane));
    }

    /// Like [`replay`](super::Control::replay), of the keys of one lane.
    pub fn replay_lane(&self, lane: Lane, now: Moment) {
        self.0.start_replay(now, CursorKind::Replay, Some(lane));
    }

    /// How many deliveries are in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.0.lock().queue.in_flight()
    }
}
