//! Runs many seeds on all cores.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::run::run;
use super::world::locked;

/// The result of many seeds.
pub struct SeedsRun {
    /// The number of seeds.
    pub seeds: usize,
    /// How long they took, on all cores.
    pub lasted: Duration,
    /// Each seed that broke the contract or panicked, with what was seen first.
    pub failures: Vec<(u64, String)>,
}

/// Runs `seeds`. Calls `failed` for each failure at once.
pub fn run_seeds(seeds: &[u64], failed: impl Fn(u64, &str) + Sync) -> SeedsRun {
    let (begin, next, failures) = (Instant::now(), AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed)).copied() {
                    if let Some(failure) = failure_of(seed) {
                        failed(seed, &failure);
                        locked(&failures).push((seed, failure));
                    }
                }
            });
        }
    });
    let mut failures = std::mem::take(&mut *locked(&failures));
    failures.sort();
    SeedsRun {
        seeds: seeds.len(),
        lasted: begin.elapsed(),
        failures,
    }
}

/// The first violation of a seed.
fn failure_of(seed: u64) -> Option<String> {
    let Ok(violations) = std::panic::catch_unwind(|| run(seed).violations) else {
        return Some("the run panicked".to_owned());
    };
    let first = violations.first()?;
    Some(format!("{first} ({} in all)", violations.len()))
}

impl fmt::Display for SeedsRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.lasted.as_secs_f64();
        let rate = self.seeds as f64 / seconds;
        write!(f, "{} seeds in {seconds:.1} s, {rate:.1} per second: ", self.seeds)?;
        match self.failures.first() {
            None => f.write_str("no violation"),
            Some((seed, _)) => write!(
                f,
                "{} broke the contract; `cargo xtask sim --seed {seed}` replays the first and prints its history",
                self.failures.len()
            ),
        }
    }
}
