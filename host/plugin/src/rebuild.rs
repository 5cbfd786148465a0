//! When an instance that was lost is made again, and when not.
//!
//! A guest that trapped once is back at once: one poisoned object must not delay the others. One that does nothing but
//! trap or overrun costs more and more time between two tries, and is then left alone (quarantine) until somebody
//! resumes it. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use informant_cache::Moment;

use crate::TrapKind;

/// How far back losses count: 60 s.
pub const LOSS_WINDOW: Duration = Duration::from_secs(60);

/// Points of losses within [`LOSS_WINDOW`] that lead to quarantine. A trap is one point, so that is half a trap per
/// second.
pub const LOSS_POINTS_MAX: u32 = 30;

/// Points of a timeout: each has cost a second of a core (`limits.cpu`), so six of them are enough.
pub const TIMEOUT_POINTS: u32 = 5;

/// Losses within [`LOSS_WINDOW`] after which the next instance is made at once.
const FREE_LOSSES: u32 = 3;

/// The first wait; doubles with each loss.
const WAIT_BASE: Duration = Duration::from_millis(10);

/// The longest wait.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The losses of one instance's place.
#[derive(Debug, Default)]
pub(crate) struct Losses {
    recent: VecDeque<(Moment, u32)>,
}

/// What is done about a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    RebuildAfter(Duration),
    Quarantine,
}

impl Losses {
    /// An instance was lost.
    pub(crate) fn note(&mut self, kind: TrapKind, now: Moment) -> Remedy {
        while self.recent.front().is_some_and(|(at, _)| now - *at > LOSS_WINDOW) {
            self.recent.pop_front();
        }
        let points = match kind {
            TrapKind::Timeout => TIMEOUT_POINTS,
            TrapKind::Trap | TrapKind::Aborted => 1,
        };
        self.recent.push_back((now, points));
        if self.recent.iter().map(|(_, points)| points).sum::<u32>() >= LOSS_POINTS_MAX {
            return Remedy::Quarantine;
        }
        let losses = u32::try_from(self.recent.len()).unwrap_or(u32::MAX);
        let wait = match losses.checked_sub(FREE_LOSSES + 1) {
            None => Duration::ZERO,
            Some(doublings) => WAIT_BASE.saturating_mul(2u32.saturating_pow(doublings)).min(WAIT_MAX),
        };
        Remedy::RebuildAfter(wait)
    }

    /// Somebody says that it is well again.
    pub(crate) fn forget(&mut self) {
        self.recent.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment::ZERO + Duration::from_millis(millis)
    }

    fn wait(remedy: Remedy) -> Duration {
        match remedy {
            Remedy::RebuildAfter(wait) => wait,
            Remedy::Quarantine => panic!("quarantine"),
        }
    }

    #[test]
    fn a_few_traps_delay_nobody() {
        let mut losses = Losses::default();
        for minute in 0..100 {
            for trap in 0..3 {
                assert_eq!(
                    wait(losses.note(TrapKind::Trap, at(minute * 60_001 + trap))),
                    Duration::ZERO
                );
            }
        }
    }

    #[test]
    fn waits_double_up_to_a_second() {
        let mut losses = Losses::default();
        let waits: Vec<u128> = (0..14)
            .map(|_| wait(losses.note(TrapKind::Trap, at(0))).as_millis())
            .collect();
        assert_eq!(
            waits,
            [0, 0, 0, 10, 20, 40, 80, 160, 320, 640, 1_000, 1_000, 1_000, 1_000]
        );
    }

    #[test]
    fn one_that_always_traps_is_quarantined_within_half_a_minute() {
        let (mut losses, mut now, mut traps) = (Losses::default(), Moment::ZERO, 0);
        while let Remedy::RebuildAfter(wait) = losses.note(TrapKind::Trap, now) {
            traps += 1;
            now += wait;
        }
        assert_eq!(traps + 1, LOSS_POINTS_MAX);
        assert!(now < at(30_000), "{now}");
    }

    #[test]
    fn one_that_always_loops_is_quarantined_after_six_calls() {
        let (mut losses, mut now, mut timeouts) = (Losses::default(), Moment::ZERO, 1);
        while let Remedy::RebuildAfter(wait) = losses.note(TrapKind::Timeout, now) {
            timeouts += 1;
            now += wait + Duration::from_secs(1);
        }
        assert_eq!(timeouts, 6);
    }

    #[test]
    fn what_lies_back_is_forgotten() {
        let mut losses = Losses::default();
        for second in 0..200 {
            // One trap in four seconds: 15 a minute.
            wait(losses.note(TrapKind::Trap, at(second * 4_000)));
        }
        losses.forget();
        assert_eq!(wait(losses.note(TrapKind::Trap, at(800_000))), Duration::ZERO);
    }
}
