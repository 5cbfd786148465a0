//! Back-off and retry timers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use crate::Moment;
use crate::listener::RetryPolicy;
use crate::listener::slots::SlotId;

/// How long to wait after failure number `failures` in a row, counted from 1.
///
/// `base`, doubling, up to `max`. `random` adds up to a quarter. At `max` it takes off up to a fifth instead, so that
/// keys that fail together are not retried together forever.
pub(super) fn back_off(policy: &RetryPolicy, failures: u32, random: u64) -> Duration {
    let doublings = failures.saturating_sub(1).min(31);
    let longest = policy.base.saturating_mul(1 << doublings).mul_f64(1.25).min(policy.max);
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

    /// Removes one that is due.
    pub(super) fn pop_due(&mut self, now: Moment) -> Option<SlotId> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((_, _, id))| id)
    }

    /// Drops the entries of removed slots.
    pub(super) fn retain(&mut self, stays: impl Fn(SlotId) -> bool) {
        self.heap.retain(|Reverse((_, _, id))| stays(*id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(failures: u32, random: u64) -> f64 {
        back_off(&RetryPolicy::default(), failures, random).as_secs_f64()
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

    #[test]
    fn timers_fire_in_order_of_time_then_insertion() {
        let mut timers = Timers::default();
        for (until, id) in [(5, 1), (3, 2), (5, 3), (9, 4)] {
            timers.set(Moment::from_nanos(until), id);
        }
        timers.retain(|id| id != 4);
        let due: Vec<SlotId> = std::iter::from_fn(|| timers.pop_due(Moment::from_nanos(9))).collect();
        assert_eq!(due, [2, 1, 3]);
    }
}
