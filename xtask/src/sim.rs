//! Runs the simulation by seed, on all cores.

use std::process::ExitCode;

use anyhow::Result;

use crate::cargo;

/// Which histories to run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The number of seeds to run, starting with `--first`.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// Run only this seed and print its history.
    #[arg(long, conflicts_with_all = ["seeds", "first"])]
    seed: Option<u64>,
}

/// Runs the simulation's test with the seeds in its environment.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let (first, seeds) = match args.seed {
        Some(seed) => (seed, 1),
        None => (args.first, args.seeds),
    };
    let mut command = cargo::cargo()?;
    command.args([
        "test",
        "--locked",
        "--package",
        "informant-tests",
        "--test",
        "simulation",
        "--",
        "--exact",
        "delivery_contract_holds_for_fixed_seeds",
        "--nocapture",
    ]);
    command
        .env("INFORMANT_SIM_FIRST", first.to_string())
        .env("INFORMANT_SIM_SEEDS", seeds.to_string());
    if args.seed.is_some() {
        command.env("INFORMANT_SIM_PRINT", "1");
    }
    let status = cargo::status(&mut command)?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
