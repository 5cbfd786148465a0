//! Runs the simulation by seed, on all cores.

use std::process::ExitCode;

use anyhow::Result;

use crate::{cargo, workspace};

/// Which seeds to run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The number of seeds.
    #[arg(long, default_value_t = 1_000)]
    seeds: u64,
    /// The first seed. Without it, seeds that were never run before.
    #[arg(long)]
    first: Option<u64>,
    /// Run only this seed and print its history.
    #[arg(long, conflicts_with_all = ["seeds", "first"])]
    seed: Option<u64>,
}

/// Builds the simulation as the tests do, with debug assertions, and runs it.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    cargo::run(cargo::cargo()?.args(["build", "--locked", "--package", "informant-tests", "--bin", "sim"]))?;
    let mut command = std::process::Command::new(workspace::target()?.join("debug").join("sim"));
    match args.seed {
        Some(seed) => command.arg("--seed").arg(seed.to_string()),
        None => command.arg("--seeds").arg(args.seeds.to_string()),
    };
    if let Some(first) = args.first {
        command.arg("--first").arg(first.to_string());
    }
    let status = cargo::status(&mut command)?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
