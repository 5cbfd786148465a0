//! How long events waited, from the write to the handler.

use super::control::Stalls;
use super::figure::median;

/// One event, in microseconds since 1970.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
pub(super) struct Handled {
    pub(super) written_us: u64,
    pub(super) handled_us: u64,
}

/// The waits of a measurement, without those of intervals in which the machine stalled.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Waits {
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) p999_us: f64,
    pub(super) max_us: f64,
    /// The share of events that waited less than the target.
    pub(super) in_time: f64,
    /// The share of intervals that were excluded.
    pub(super) excluded: f64,
}

impl Handled {
    pub(super) fn wait_us(&self) -> u64 {
        self.handled_us.saturating_sub(self.written_us)
    }
}

impl Waits {
    pub(super) fn of(events: &[Handled], stalls: &Stalls, target_us: f64) -> Waits {
        let kept = events
            .iter()
            .filter(|event| !stalls.touch(event.written_us, event.handled_us));
        let mut waits: Vec<u64> = kept.map(Handled::wait_us).collect();
        waits.sort_unstable();
        let at = |per_mille: usize| match waits.len() {
            0 => f64::NAN,
            count => waits[(count - 1) * per_mille / 1_000] as f64,
        };
        let in_time = waits.partition_point(|wait| (*wait as f64) < target_us);
        let from = events.iter().map(|event| event.written_us).min().unwrap_or_default();
        let until = events.iter().map(|event| event.handled_us).max().unwrap_or_default();
        Waits {
            p50_us: at(500),
            p99_us: at(990),
            p999_us: at(999),
            max_us: at(1_000),
            in_time: in_time as f64 / waits.len().max(1) as f64,
            excluded: stalls.share(from, until),
        }
    }

    /// The median of each number.
    pub(super) fn median(rounds: &[Waits]) -> Waits {
        let of = |pick: fn(&Waits) -> f64| median(rounds.iter().map(pick).collect()).unwrap_or(f64::NAN);
        Waits {
            p50_us: of(|waits| waits.p50_us),
            p99_us: of(|waits| waits.p99_us),
            p999_us: of(|waits| waits.p999_us),
            max_us: of(|waits| waits.max_us),
            in_time: of(|waits| waits.in_time),
            excluded: of(|waits| waits.excluded),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_a_thousand_may_wait_longer() {
        let event = |number: u64| Handled {
            written_us: number * 1_000,
            handled_us: number * 1_000 + if number.is_multiple_of(1_000) { 25_000 } else { 500 },
        };
        let events: Vec<Handled> = (1..=2_000).map(event).collect();
        let waits = Waits::of(&events, &Stalls::default(), 20_000.0);
        assert_eq!((waits.p50_us, waits.p99_us, waits.max_us), (500.0, 500.0, 25_000.0));
        assert!((waits.in_time - 0.999).abs() < 1e-9, "{}", waits.in_time);
        assert_eq!(waits.excluded, 0.0);
    }
}
