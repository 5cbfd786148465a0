//! Retries: back-off, timers, the limit on their rate, and the list of keys under retry.

use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use informant_object::{Key, KeyRef, SourceId};

use crate::delivery::options::{TIMEOUTS_MAX, TRAPS_MAX};
use crate::listener::slots::{CallState, Slot, SlotId};
use crate::listener::state::What;
use crate::listener::{Listener, RetryOptions};
use crate::{Moment, Reason};

/// How long to wait after failure number `failures` in a row, counted from 1.
///
/// `initial`, doubling, up to `max`. `random` adds up to a quarter. At `max` it takes off up to a fifth instead, so
/// that keys that fail together are not retried together forever.
pub(super) fn back_off(policy: &RetryOptions, failures: u32, random: u64) -> Duration {
    let doublings = failures.saturating_sub(1).min(31);
    let longest = policy
        .initial
        .saturating_mul(1 << doublings)
        .mul_f64(1.25)
        .min(policy.max);
    // The upper 53 bits make a uniform number between 0 and 1.
    let fraction = (random >> 11) as f64 / (1_u64 << 53) as f64;
    longest.mul_f64(0.8 + 0.2 * fraction)
}

/// What is known of a key under retry: its last delivery failed, and it will be delivered again.
#[derive(Debug)]
pub(super) struct RetryState {
    /// When it failed first.
    pub(super) since: Moment,
    /// When its back-off ends.
    pub(super) until: Moment,
    /// Deliveries that failed since then, including those that asked for a retry after some time.
    pub(super) failures: u32,
    /// Failed attempts of the present state: all failures that did not ask for a retry after some time.
    pub(super) attempts: u32,
    /// Crashes among them.
    pub(super) crashes: Crashes,
    /// The handler asked for the wait.
    pub(super) is_requested: bool,
    /// The result and the error of the last delivery.
    pub(super) result: &'static str,
    pub(super) error: Box<str>,
}

/// How often the present state cost the handler its instance, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Crashes {
    pub(super) traps: u32,
    pub(super) timeouts: u32,
}

impl Crashes {
    /// Whether the state is not to be called again.
    pub(super) fn is_exhausted(self) -> bool {
        self.traps >= TRAPS_MAX || self.timeouts >= TIMEOUTS_MAX
    }
}

/// A key under retry: its last delivery failed, and it is delivered again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetriedKey {
    /// The source of the object.
    pub source: SourceId,
    /// The key of the object; none for `Synced` and `Tick`.
    pub key: Option<Key>,
    /// The timer of a `Tick`.
    pub timer: Option<Arc<str>>,
    /// `add`, `update`, `delete`, `sync` or `timer`.
    pub event: &'static str,
    /// The reason of the event.
    pub reason: Reason,
    /// Deliveries that failed since the key last succeeded, including those that asked for a retry after some time.
    pub attempts: u32,
    /// When it failed first since then.
    pub since: Moment,
    /// When its back-off ends; in the past while it waits for its turn or is being delivered.
    pub next: Moment,
    /// The result of the last delivery: `retryable`, `trap` or `timeout`.
    pub result: &'static str,
    /// The error of the last delivery; at most [`RETRY_ERROR_BYTES_MAX`](crate::listener::RETRY_ERROR_BYTES_MAX) bytes.
    pub error: String,
}

impl RetriedKey {
    fn new(slot: &Slot, state: &RetryState) -> RetriedKey {
        RetriedKey {
            source: slot.source,
            key: slot.key().map(KeyRef::to_key),
            timer: match &slot.first.what {
                What::Tick(tick) => Some(Arc::clone(&tick.timer)),
                _ => None,
            },
            event: slot.first.event(&slot.known),
            reason: slot.first.reason,
            attempts: state.failures,
            since: state.since,
            next: state.until,
            result: state.result,
            error: state.error.to_string(),
        }
    }
}

impl Listener {
    /// How many keys are under retry that `selects` selects, and the `max` of them that failed first, oldest first.
    /// Visits every slot, and copies those `max`.
    pub(super) fn retried_keys(
        &self,
        max: usize,
        selects: impl Fn(SourceId, Option<KeyRef<'_>>) -> bool,
    ) -> (usize, Vec<RetriedKey>) {
        if self.queue.failing == 0 {
            return (0, Vec::new());
        }
        let (mut count, mut oldest) = (0, BinaryHeap::new());
        for (at, slot) in self.queue.slots.iter().enumerate() {
            if let Some(state) = slot.retry.as_ref().filter(|_| selects(slot.source, slot.key())) {
                count += 1;
                oldest.push((state.since, at));
                if oldest.len() > max {
                    oldest.pop();
                }
            }
        }
        let wanted = oldest.into_sorted_vec();
        let slots: Vec<&Slot> = self.queue.slots.iter().collect();
        let listed = wanted.into_iter().filter_map(|(_, at)| {
            let slot = slots.get(at)?;
            slot.retry.as_ref().map(|state| RetriedKey::new(slot, state))
        });
        (count, listed.collect())
    }

    /// How many keys are under retry whose last delivery had `result`, and the one that failed first. Visits every
    /// slot.
    pub(super) fn retried_after(&self, result: &str) -> (usize, Option<RetriedKey>) {
        let (mut count, mut oldest) = (0, None::<(&Slot, &RetryState)>);
        for slot in self.queue.slots.iter().filter(|_| self.queue.failing > 0) {
            if let Some(state) = slot.retry.as_deref().filter(|state| state.result == result) {
                count += 1;
                oldest = oldest
                    .filter(|(_, other)| other.since <= state.since)
                    .or(Some((slot, state)));
            }
        }
        (count, oldest.map(|(slot, state)| RetriedKey::new(slot, state)))
    }

    /// How many retries may be ready or in flight. With several lanes more, so that one that waits leaves some to
    /// others.
    fn retries_started_max(&self) -> usize {
        self.options.retries_per_second_max.max(1) * usize::from(self.queue.slots.lane_map.count())
    }

    /// Makes retries ready that are due and within the limits.
    pub(super) fn start_retries(&mut self, now: Moment) {
        let max = self.options.retries_per_second_max;
        while self.timers.next().is_some_and(|due| due <= now) {
            if self.queue.retries_started() >= self.retries_started_max() || self.retry_rate.next(max) > now {
                return self.retry_rate.hold_up(now);
            }
            let Some((due, id)) = self.timers.pop_due(now) else {
                return;
            };
            if self.waits_for_interval(id) {
                continue;
            }
            self.queue.counters.retries_limited += u64::from(self.retry_rate.start(due, now, max));
            self.queue.retry(id);
        }
    }

    /// When the next retry may start. None while as many as may be are ready or in flight: the end of one is the next
    /// occasion.
    pub(super) fn next_retry(&self) -> Option<Moment> {
        let max = self.options.retries_per_second_max;
        let due = self
            .timers
            .next()
            .filter(|_| self.queue.retries_started() < self.retries_started_max())?;
        Some(due.max(self.retry_rate.next(max)))
    }

    /// Ends every back-off: failed events are retried now, without a limit on their rate, or at the end of their key's
    /// interval. Attempts keep counting.
    pub(super) fn retry_now(&mut self) {
        let mut due = Vec::new();
        while let Some((_, id)) = self.timers.pop_due(Moment::NEVER) {
            due.push(id);
        }
        for id in due {
            if !self.waits_for_interval(id) {
                self.queue.retry(id);
            }
        }
        self.wake_all();
    }

    /// Extends the back-off of a slot to the end of its key's interval. Returns whether it has to wait for that.
    fn waits_for_interval(&mut self, id: SlotId) -> bool {
        let slot = self.queue.slots.get_mut(id);
        let Some(until) = self.queue.spacing.until(slot.hash) else {
            return false;
        };
        if let Some(state) = &mut slot.retry {
            state.until = until;
        }
        self.timers.set(until, id);
        true
    }

    /// Drops the timers of slots that were removed.
    pub(super) fn forget_ended_back_offs(&mut self) {
        let slots = &self.queue.slots;
        let is_waiting = |slot: &Slot| slot.call() == CallState::BackingOff;
        self.timers.retain(|id| slots.try_get(id).is_some_and(is_waiting));
        self.forget_ended_waits();
    }

    /// Shortens back-offs to what a changed policy allows, except those that the handler asked for.
    pub(super) fn shorten_back_offs(&mut self, now: Moment) {
        let latest = now + self.options.retry.max;
        for id in self.queue.slots.ids() {
            if let Some(state) = &mut self.queue.slots.get_mut(id).retry
                && !state.is_requested
            {
                state.until = state.until.min(latest);
            }
        }
        let slots = &self.queue.slots;
        self.timers.reset(|id, was| {
            let state = slots.try_get(id).and_then(|slot| slot.retry.as_ref());
            state.map_or(was, |state| state.until)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(failures: u32, random: u64) -> f64 {
        back_off(&RetryOptions::default(), failures, random).as_secs_f64()
    }

    #[test]
    fn back_off_doubles_from_base_to_max() {
        let shortest: Vec<f64> = (1..=10).map(|failures| seconds(failures, 0)).collect();
        assert_eq!(shortest, [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 240.0, 240.0]);
        assert_eq!(seconds(u32::MAX, 0), 240.0);
    }

    #[test]
    fn jitter_adds_up_to_a_quarter_within_max() {
        assert!((1.249..=1.25).contains(&seconds(1, u64::MAX)));
        assert!((299.9..=300.0).contains(&seconds(30, u64::MAX)));
    }
}
