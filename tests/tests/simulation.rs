//! Seeds of the simulation: a fixed set, and the replay of a seed.

use informant_tests::simulation::{History, check, run, run_seeds};

/// The number of seeds in the fixed set. `cargo xtask sim` runs others.
const FIXED_SEEDS: u64 = 100;

#[test]
#[expect(clippy::print_stdout, reason = "how long it took is part of the result")]
fn delivery_contract_holds_for_fixed_seeds() {
    let result = run_seeds(0, FIXED_SEEDS, |seed, failure| println!("seed {seed}: {failure}"));
    println!("{result}");
    assert!(result.failures.is_empty(), "{result}: {:?}", result.failures);
}

#[test]
fn a_seed_replays_to_the_byte() {
    // The last two have WebAssembly handlers.
    for seed in [1, 7, 42, 20, 40] {
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
