//! Seeds of the simulation: a fixed set, and the replay of a seed.

use informant_tests::simulation::{History, check, run, run_seeds};

/// The number of seeds in the fixed set. `cargo xtask sim` runs others.
const FIXED_SEEDS: u64 = 100;

/// A seed with a durable informer whose process is killed.
const WITH_KILLS: u64 = 22;

/// A seed with a controller.
const WITH_CONTROLLER: u64 = 1;

/// A seed with an index whose values come from outside.
const WITH_FED_INDEX: u64 = 7;

/// A seed with replicas, of which one takes over with a watermark.
const WITH_REPLICAS: u64 = 97;

#[test]
#[expect(clippy::print_stdout, reason = "how long it took is part of the result")]
fn delivery_contract_holds_for_fixed_seeds() {
    let result = run_seeds(&(0..FIXED_SEEDS).collect::<Vec<_>>(), |seed, failure| {
        println!("seed {seed}: {failure}")
    });
    println!("{result}");
    assert!(result.failures.is_empty(), "{result}: {:?}", result.failures);
}

/// Seeds that showed defects no other test shows: a handoff to sources that lag, and children that vanish before the
/// cache has seen them.
const WITH_PAST_DEFECTS: [u64; 4] = [2_220, 1_565, 3_524, 4_911];

#[test]
fn defects_of_the_past_do_not_return() {
    for seed in WITH_PAST_DEFECTS {
        let violations = run(seed).violations;
        assert!(violations.is_empty(), "seed {seed}: {violations:?}");
    }
}

#[test]
fn a_seed_replays_to_the_byte() {
    // The last two have WebAssembly handlers.
    for seed in [WITH_CONTROLLER, WITH_FED_INDEX, WITH_KILLS, WITH_REPLICAS, 42, 20, 40] {
        let (first, second) = (run(seed).history.to_string(), run(seed).history.to_string());
        if seed == WITH_KILLS {
            assert!(first.contains(r#""what":"killed""#), "seed {seed} kills no process");
        }
        if seed == WITH_CONTROLLER {
            assert!(
                first.contains(r#""did":"timer-ended""#),
                "seed {seed} has no controller"
            );
        }
        if seed == WITH_REPLICAS {
            let has_watermark = first.contains(r#""continues":true,"watermarks":{""#);
            assert!(has_watermark, "seed {seed} has no takeover with a watermark");
        }
        if seed == WITH_FED_INDEX {
            let is_ready = first.contains(r#""at_rest":false,"index":["#);
            assert!(is_ready, "seed {seed} queries no index whose values come from outside");
        }
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
