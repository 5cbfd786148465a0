//! Runs the simulation by seed, on all cores.

use std::process::ExitCode;

use anyhow::Result;

use crate::{cargo, workspace};

/// Arguments of the simulation.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which seeds to run (`--seeds N --first SEED`, or `--seed SEED`; `-- --help` lists all).
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

impl Args {
    /// These arguments.
    pub(crate) fn of(rest: &[&str]) -> Args {
        Args {
            rest: rest.iter().map(ToString::to_string).collect(),
        }
    }
}

/// Builds the simulation as the tests do, with debug assertions, and runs it.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    cargo::run(cargo::cargo()?.args(["build", "--locked", "--workspace", "--bin", "sim"]))?;
    let mut command = std::process::Command::new(workspace::target()?.join("debug").join("sim"));
    let status = cargo::status(command.args(&args.rest))?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
