//! Timers of slots, and the limit on the rate of retries.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use crate::Moment;

/// The index of a slot in its table.
pub(crate) type SlotId = u32;

/// Which slots are in back-off, and until when. Holds exactly one entry for each.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    /// Ties fire in the order in which they were set.
    heap: BinaryHeap<Reverse<(Moment, u64, SlotId)>>,
    set: u64,
}

impl Timers {
    pub(crate) fn set(&mut self, until: Moment, id: SlotId) {
        self.set += 1;
        self.heap.push(Reverse((until, self.set, id)));
    }

    /// When the next one is due.
    pub(crate) fn next(&self) -> Option<Moment> {
        self.heap.peek().map(|Reverse((until, ..))| *until)
    }

    /// Removes one that is due. Returns since when it is.
    pub(crate) fn pop_due(&mut self, now: Moment) -> Option<(Moment, SlotId)> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((until, _, id))| (until, id))
    }

    /// Drops the entries of removed slots.
    pub(crate) fn retain(&mut self, stays: impl Fn(SlotId) -> bool) {
        self.heap.retain(|Reverse((_, _, id))| stays(*id));
    }

    /// Sets all entries to what `until` returns for them.
    pub(crate) fn reset(&mut self, until: impl Fn(SlotId, Moment) -> Moment) {
        let entries = std::mem::take(&mut self.heap).into_iter();
        self.heap = entries
            .map(|Reverse((was, set, id))| Reverse((until(id, was), set, id)))
            .collect();
    }
}

/// Limits the retries that start within any second.
#[derive(Debug, Default)]
pub(crate) struct RetryRate {
    /// The starts of the last retries, at most as many as may start within a second.
    recent: VecDeque<Moment>,
    /// When due retries were last held up.
    held_up: Option<Moment>,
}

impl RetryRate {
    /// From when on the next retry may start.
    pub(crate) fn next(&self, per_second_max: usize) -> Moment {
        let nth_last = self.recent.len().checked_sub(per_second_max.max(1));
        nth_last.map_or(Moment::ZERO, |at| self.recent[at] + Duration::from_secs(1))
    }

    /// Due retries have to wait.
    pub(crate) fn hold_up(&mut self, now: Moment) {
        self.held_up = Some(now);
    }

    /// Records the start of a retry that was due at `due`. Returns whether it was held up.
    pub(crate) fn start(&mut self, due: Moment, now: Moment, per_second_max: usize) -> bool {
        while self.recent.len() >= per_second_max.max(1) {
            self.recent.pop_front();
        }
        self.recent.push_back(now);
        self.held_up.is_some_and(|held_up| due <= held_up)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_fire_in_order_of_time_then_insertion() {
        let mut timers = Timers::default();
        for (until, id) in [(5, 1), (3, 2), (5, 3), (9, 4)] {
            timers.set(Moment::from_nanos(until), id);
        }
        timers.retain(|id| id != 4);
        let due: Vec<SlotId> = std::iter::from_fn(|| timers.pop_due(Moment::from_nanos(9)))
            .map(|(_, id)| id)
            .collect();
        assert_eq!(due, [2, 1, 3]);
    }

    #[test]
    fn at_most_the_limit_start_within_any_second() {
        let mut rate = RetryRate::default();
        let at = |millis: u64| Moment::ZERO + Duration::from_millis(millis);
        let mut starts = Vec::new();
        for millis in 5_000..9_000 {
            while rate.next(3) <= at(millis) {
                rate.start(at(0), at(millis), 3);
                starts.push(millis);
            }
        }
        assert_eq!(starts[..6], [5_000, 5_000, 5_000, 6_000, 6_000, 6_000]);
        assert_eq!(starts.len(), 12);
        assert_eq!(rate.next(1), at(9_000), "a lower limit applies at once");
    }
}
