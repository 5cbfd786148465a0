//! Runs the simulation by seed, on all cores.

use std::process::ExitCode;

use anyhow::Result;

use crate::{cargo, workspace};

/// The crates that a simulation runs in, besides libraries.
const HOT: [&str; 8] = [
    "apiserver",
    "cache",
    "informer",
    "lease",
    "object",
    "spec",
    "state",
    "tests",
];

/// Arguments of the simulation.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Twice as fast, after some more minutes of building: for thousands of seeds.
    #[arg(long)]
    optimized: bool,
    /// Which seeds to run (`--seeds N --first SEED`, or `--seed SEED`; `-- --help` lists all).
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

impl Args {
    /// These arguments, for many seeds.
    pub(crate) fn of(rest: &[&str]) -> Args {
        Args {
            optimized: true,
            rest: rest.iter().map(ToString::to_string).collect(),
        }
    }
}

/// Builds the simulation as the tests do, with debug assertions, and runs it.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let mut build = cargo::cargo()?;
    build.args(["build", "--locked", "--workspace", "--bin", "sim"]);
    for name in HOT.iter().filter(|_| args.optimized) {
        build.arg(format!("--config=profile.dev.package.informant-{name}.opt-level=3"));
    }
    cargo::run(&mut build)?;
    let mut command = std::process::Command::new(workspace::target()?.join("debug").join("sim"));
    let status = cargo::status(command.args(&args.rest))?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
