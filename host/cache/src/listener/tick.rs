//! Runs of timers: calls that no change leads to.
//!
//! The consumer knows when they are due and adds them. Of each timer, one run is in flight and one is pending; the
//! pending one stands for all that are due meanwhile. A run that fails is retried as events are; one that is given up
//! is no dead letter, since the next one follows.

use std::sync::Arc;

use crate::delivery::tick::TIMER_SOURCE;
use crate::listener::slots::SlotId;
use crate::listener::state::{Known, State, What, Why};
use crate::listener::subject::{Subject, TIMER_LANE};
use crate::listener::{Listener, Tick};
use crate::{Moment, Reason};

/// Called when a run has ended: with whether the handler accepted it.
pub(super) type TickEnded = Arc<dyn Fn(&Tick, bool) + Send + Sync>;

impl Listener {
    /// Adds a run that is due.
    pub(super) fn tick(&mut self, tick: Tick, now: Moment) {
        if self.closed {
            return;
        }
        self.queue.counters.accepted += 1;
        let state = State::new(What::Tick(Arc::new(tick)), Why::Asked, Reason::Trigger, now);
        self.queue.enqueue((TIMER_SOURCE, TIMER_LANE), Known::Nothing, state);
    }

    /// Whether a run of the timer is pending or in flight.
    pub(super) fn is_ticking(&self, timer: &str) -> bool {
        let subject = Subject::Timer(timer);
        let slots = &self.queue.slots;
        slots.find(slots.hash(subject), subject).is_some()
    }

    /// The slot's first state ends. If it is a run of a timer, that is to be reported.
    pub(super) fn note_tick(&mut self, id: SlotId, accepted: bool) {
        if let What::Tick(tick) = &self.queue.slots.get(id).first.what {
            self.ended_ticks.push((Arc::clone(tick), accepted));
        }
    }
}
