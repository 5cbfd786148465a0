//! Retries: back-off, timers, the limit on their rate, and the list of keys under retry.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use informant_object::{Key, KeyRef, SourceId};

use crate::listener_oracle::slots::{Slot, SlotId, SlotState};
use crate::listener_oracle::{Listener, RetryOptions};
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

/// Which slots are in back-off, and until when. Holds exactly one entry for each.
#[derive(Debug, Default)]
pub(super) struct Timers {
    /// Ties fire in the order in which they were set.
    heap: BinaryHeap<Reverse<(Moment, u64, SlotId)>>,
    set: u64,
}

impl Timers {
    pub(super) fn set(&mut self, until: Moment, id: SlotId) {
        self.set += 1;
        self.heap.push(Reverse((until, self.set, id)));
    }

    /// When the next one is due.
    pub(super) fn next(&self) -> Option<Moment> {
        self.heap.peek().map(|Reverse((until, ..))| *until)
    }

    /// Removes one that is due. Returns since when it is.
    pub(super) fn pop_due(&mut self, now: Moment) -> Option<(Moment, SlotId)> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((until, _, id))| (until, id))
    }

    /// Drops the entries of removed slots.
    pub(super) fn retain(&mut self, stays: impl Fn(SlotId) -> bool) {
        self.heap.retain(|Reverse((_, _, id))| stays(*id));
    }

    /// Sets all entries to what `until` returns for them.
    pub(super) fn reset(&mut self, until: impl Fn(SlotId, Moment) -> Moment) {
        let entries = std::mem::take(&mut self.heap).into_iter();
        self.heap = entries
            .map(|Reverse((was, set, id))| Reverse((until(id, was), set, id)))
            .collect();
    }
}

/// Limits the retries that start within any second.
#[derive(Debug, Default)]
pub(super) struct RetryRate {
    /// The starts of the last retries, at most as many as may start within a second.
    recent: VecDeque<Moment>,
    /// When due retries were last held up.
    held_up: Option<Moment>,
}

impl RetryRate {
    /// From when on the next retry may start.
    pub(super) fn next(&self, per_second_max: usize) -> Moment {
        let nth_last = self.recent.len().checked_sub(per_second_max.max(1));
        nth_last.map_or(Moment::ZERO, |at| self.recent[at] + Duration::from_secs(1))
    }

    /// Due retries have to wait.
    pub(super) fn hold_up(&mut self, now: Moment) {
        self.held_up = Some(now);
    }

    /// Records the start of a retry that was due at `due`. Returns whether it was held up.
    pub(super) fn start(&mut self, due: Moment, now: Moment, per_second_max: usize) -> bool {
        while self.recent.len() >= per_second_max.max(1) {
            self.recent.pop_front();
        }
        self.recent.push_back(now);
        self.held_up.is_some_and(|held_up| due <= held_up)
    }
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
    /// Traps and timeouts among them.
    pub(super) crashes: u32,
    /// The handler asked for the wait.
    pub(super) is_requested: bool,
    /// The result and the error of the last delivery.
    pub(super) result: &'static str,
    pub(super) error: Box<str>,
}

/// A key under retry: its last delivery failed, and it is delivered again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetriedKey {
    /// The source of the object.
    pub source: SourceId,
    /// The key of the object; none for `Synced`.
    pub key: Option<Key>,
    /// `add`, `update`, `delete` or `sync`.
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
    /// The error of the last delivery; at most [`RETRY_ERROR_BYTES_MAX`](crate::listener_oracle::RETRY_ERROR_BYTES_MAX) bytes.
    pub error: String,
}

impl RetriedKey {
    fn new(slot: &Slot, state: &RetryState) -> RetriedKey {
        let event = &slot.head;
        RetriedKey {
            source: slot.source,
            key: event.notification.key().map(KeyRef::to_key),
            event: event.notification.as_str(),
            reason: event.reason,
            attempts: state.failures,
            since: state.since,
            next: state.until,
            result: state.result,
            error: state.error.to_string(),
        }
    }
}

impl Listener {
    /// How many keys are under retry, and the `max` of them that failed first, oldest first. Visits every slot.
    pub(super) fn retried_keys(&self, max: usize) -> (usize, Vec<RetriedKey>) {
        if self.queue.failing == 0 {
            return (0, Vec::new());
        }
        let of_slot = |slot: &Slot| slot.retry.as_ref().map(|state| state.since);
        let mut oldest = BinaryHeap::new();
        for (at, slot) in self.queue.slots.iter().enumerate() {
            if let Some(since) = of_slot(slot) {
                oldest.push((since, at));
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
        (self.queue.failing, listed.collect())
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
        let is_waiting = |slot: &Slot| slot.state == SlotState::BackingOff;
        self.timers.retain(|id| slots.try_get(id).is_some_and(is_waiting));
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
