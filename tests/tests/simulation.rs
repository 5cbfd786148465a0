//! A hundred seeds of the simulation, and that a seed replays.

use std::time::Instant;

use informant_tests::simulation::run;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|value| value.parse().ok())
        .unwrap_or(default)
}

#[test]
#[expect(clippy::print_stdout, reason = "`cargo xtask sim` shows what a seed did")]
fn the_delivery_contract_holds_over_a_hundred_seeds() {
    let first = setting("INFORMANT_SIM_FIRST", 0);
    let seeds = setting("INFORMANT_SIM_SEEDS", 100);
    let print = std::env::var_os("INFORMANT_SIM_PRINT").is_some();
    let begin = Instant::now();
    let mut broken = Vec::new();
    for seed in first..first + seeds {
        let run = run(seed);
        if print {
            println!("{}", run.history);
        }
        if let Some(violation) = run.violations.first() {
            broken.push(format!("seed {seed}: {violation} ({} in all)", run.violations.len()));
        }
    }
    println!(
        "{seeds} seeds, {:.1} ms each",
        begin.elapsed().as_secs_f64() * 1_000.0 / seeds as f64
    );
    assert!(
        broken.is_empty(),
        "{} of {seeds} seeds:\n{}",
        broken.len(),
        broken.join("\n")
    );
}

#[test]
fn a_seed_replays_exactly() {
    for seed in [1, 7, 42] {
        let (first, second) = (run(seed).history.to_string(), run(seed).history.to_string());
        assert!(
            first == second,
            "seed {seed} took another course: {}",
            first_difference(&first, &second)
        );
    }
}

fn first_difference(first: &str, second: &str) -> String {
    let difference = first
        .lines()
        .zip(second.lines())
        .find(|(first, second)| first != second);
    format!("{difference:?}")
}
