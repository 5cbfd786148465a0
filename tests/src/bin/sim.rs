//! Runs the simulation by seed, for `cargo xtask sim`.

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Parser;
use informant_tests::simulation::{has_shards, run, run_seeds};

/// Fresh seeds start above those that people choose.
const FRESH_FIRST: u64 = 1 << 32;

/// Which seeds to run.
#[derive(Parser)]
struct Args {
    /// The number of seeds.
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// The first seed. Without it, seeds that were never run before.
    #[arg(long)]
    first: Option<u64>,
    /// Only seeds whose replicas divide the objects into shards.
    #[arg(long)]
    shards: bool,
    /// Run only this seed and print its history.
    #[arg(long, conflicts_with_all = ["seeds", "first", "shards"])]
    seed: Option<u64>,
}

#[expect(clippy::print_stdout, reason = "the result of this program")]
fn main() -> ExitCode {
    let args = Args::parse();
    if let Some(seed) = args.seed {
        return replay(seed);
    }
    let first = args.first.unwrap_or_else(fresh_seed);
    let seeds: Vec<u64> = (first..)
        .filter(|seed| !args.shards || has_shards(*seed))
        .take(args.seeds as usize)
        .collect();
    println!("seeds {first} to {}", seeds.last().unwrap_or(&first));
    let result = run_seeds(&seeds, |seed, failure| println!("seed {seed}: {failure}"));
    println!("{result}");
    match result.failures.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "the result of this program")]
fn replay(seed: u64) -> ExitCode {
    let run = run(seed);
    print!("{}", run.history);
    run.violations.iter().for_each(|violation| eprintln!("{violation}"));
    match run.violations.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// A seed that was never run before.
fn fresh_seed() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    FRESH_FIRST + since_1970.as_millis() as u64 * 1_000
}
