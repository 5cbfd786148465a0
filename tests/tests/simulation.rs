//! Seeds of the simulation: a fixed set, fresh ones, and the replay of a seed.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use informant_tests::simulation::{History, check, run};

/// The number of seeds in the fixed set.
const FIXED_SEEDS: u64 = 100;

/// The number of new seeds in each test run.
const FRESH_SEEDS: u64 = 300;

/// Fresh seeds start above those that people choose.
const FRESH_FIRST: u64 = 1 << 32;

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
#[expect(clippy::print_stdout, reason = "`cargo xtask sim` shows what a seed did")]
fn delivery_contract_holds_for_fixed_seeds() {
    let first = setting("INFORMANT_SIM_FIRST").unwrap_or(0);
    let seeds = setting("INFORMANT_SIM_SEEDS").unwrap_or(FIXED_SEEDS);
    if std::env::var_os("INFORMANT_SIM_PRINT").is_some() {
        println!("{}", run(first).history);
    }
    hold(first, seeds);
}

#[test]
fn delivery_contract_holds_for_fresh_seeds() {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    hold(FRESH_FIRST + since_1970.as_millis() as u64, FRESH_SEEDS);
}

/// Runs the seeds on all cores. A failure names its seed.
#[expect(clippy::print_stdout, reason = "which seeds were run is part of the result")]
fn hold(first: u64, seeds: u64) {
    println!("seeds {first} to {}", first + seeds - 1);
    let (begin, next, broken) = (Instant::now(), AtomicU64::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(seed) = take(&next, seeds).map(|at| first + at) {
                    if let Some(failure) = failure_of(seed) {
                        broken
                            .lock()
                            .expect("no thread panics while holding the lock")
                            .push(failure);
                    }
                }
            });
        }
    });
    let per_seed = begin.elapsed().as_secs_f64() * 1_000.0 / seeds as f64;
    println!("{seeds} seeds, {per_seed:.1} ms each on all cores");
    let mut broken = broken.into_inner().expect("no thread panics while holding the lock");
    broken.sort();
    assert!(
        broken.is_empty(),
        "{} of {seeds} seeds broke the contract; `cargo xtask sim --seed S` replays one and prints its history:\n{}",
        broken.len(),
        broken.join("\n")
    );
}

fn take(next: &AtomicU64, end: u64) -> Option<u64> {
    Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| *at < end)
}

fn failure_of(seed: u64) -> Option<String> {
    let violations = match std::panic::catch_unwind(|| run(seed).violations) {
        Ok(violations) => violations,
        Err(_) => return Some(format!("seed {seed}: the run panicked")),
    };
    let first = violations.first()?;
    Some(format!("seed {seed}: {first} ({} in all)", violations.len()))
}

#[test]
fn a_seed_replays_to_the_byte() {
    for seed in [1, 7, 42] {
        let (first, second) = (run(seed).history.to_string(), run(seed).history.to_string());
        assert!(
            first == second,
            "seed {seed} replayed differently: {}",
            first_difference(&first, &second)
        );
    }
}

#[test]
fn parsed_history_yields_the_same_violations() {
    let history = run(3).history;
    let read = History::parse(&history.to_string()).expect("a written history can be parsed");
    assert_eq!(read.to_string(), history.to_string());
    assert_eq!(check(&read), check(&history));
}

fn first_difference(first: &str, second: &str) -> String {
    let difference = first
        .lines()
        .zip(second.lines())
        .find(|(first, second)| first != second);
    format!("{difference:?}")
}
