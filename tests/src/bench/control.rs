//! StallMonitor threads: they only detect when they are kept from running. Then the machine stalled, not the subject.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};

use super::cores::Cores;
use super::since_1970_us;

/// How long a control thread sleeps.
const SLEEP: Duration = Duration::from_millis(1);

/// A sleep that takes this much longer is a stall.
const STALL_MIN: Duration = Duration::from_millis(10);

/// Time is divided into intervals; an interval with a stall is excluded as a whole.
const INTERVAL_US: u64 = 50_000;

/// A stall, in microseconds since 1970.
type Stall = (u64, u64);

/// The running control threads: one next to the load, one next to the subject.
pub(super) struct StallMonitor {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<Vec<Stall>>>>,
}

/// The intervals in which a control thread was kept from running.
#[derive(Debug, Default)]
pub(super) struct Stalls(BTreeSet<u64>);

impl StallMonitor {
    pub(super) fn start(cores: &Cores) -> StallMonitor {
        let over = Arc::new(AtomicBool::new(false));
        let threads = [None, Some(cores.clone())].map(|beside_subject| {
            let over = Arc::clone(&over);
            std::thread::spawn(move || {
                if let Some(cores) = beside_subject {
                    cores.join_subject()?;
                }
                Ok(notice(&over))
            })
        });
        StallMonitor {
            over,
            threads: threads.into(),
        }
    }

    pub(super) fn end(self) -> Result<Stalls> {
        self.over.store(true, Ordering::Relaxed);
        let mut stalls = Stalls::default();
        for thread in self.threads {
            let detected = thread.join().map_err(|_| anyhow!("a control thread panicked"))?;
            for stall in detected? {
                stalls.add(stall);
            }
        }
        Ok(stalls)
    }
}

fn notice(over: &AtomicBool) -> Vec<Stall> {
    let mut stalls = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let (began, from) = (Instant::now(), since_1970_us());
        std::thread::sleep(SLEEP);
        if began.elapsed() > SLEEP + STALL_MIN {
            stalls.push((from, since_1970_us()));
        }
    }
    stalls
}

impl Stalls {
    fn add(&mut self, (from, until): Stall) {
        self.0.extend(from / INTERVAL_US..=until / INTERVAL_US);
    }

    /// Whether an interval that overlaps this time span had a stall.
    pub(super) fn touch(&self, from_us: u64, until_us: u64) -> bool {
        let last = (until_us / INTERVAL_US).max(from_us / INTERVAL_US);
        self.0.range(from_us / INTERVAL_US..=last).next().is_some()
    }

    /// The share of the time span's intervals that had a stall.
    pub(super) fn share(&self, from_us: u64, until_us: u64) -> f64 {
        let intervals = from_us / INTERVAL_US..=(until_us / INTERVAL_US).max(from_us / INTERVAL_US);
        let all = intervals.end() - intervals.start() + 1;
        self.0.range(intervals).count() as f64 / all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_with_a_stall_is_excluded_as_a_whole() {
        let mut stalls = Stalls::default();
        stalls.add((100_020, 112_000));
        assert!(stalls.touch(140_000, 141_000));
        assert!(stalls.touch(90_000, 160_000));
        assert!(!stalls.touch(90_000, 99_999));
        assert!(!stalls.touch(150_000, 160_000));
        assert!((stalls.share(0, 499_999) - 0.1).abs() < 1e-9);
    }

    #[test]
    fn stall_across_a_border_counts_for_both_intervals() {
        let mut stalls = Stalls::default();
        stalls.add((40_000, 60_000));
        assert!(stalls.touch(1_000, 2_000) && stalls.touch(98_000, 99_000));
    }
}
