//! Builds everything for the demo and runs the `demo` program of `tests/`.

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::Result;

use crate::{cargo, guests, report, script_runner, workspace, zig};

/// The plugins of the demo: the handler and its next version, for the swap, and an index.
const PLUGINS: [&str; 3] = ["crash-loop", "guest-crash-loop-next", "who-runs"];

/// Only the programs of the demo, as the rest of the workspace brings further libraries. `host/informant/Cargo.toml`
/// sees to it that `cargo xtask test` needs not compile these again.
const PROGRAMS: [&str; 10] = [
    "build",
    "--locked",
    "--package",
    "informant",
    "--bin",
    "informant",
    "--package",
    "informant-tests",
    "--bin",
    "demo",
];

/// How to run the demo.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Exit after the last step instead of staying up.
    #[arg(long)]
    once: bool,
    /// Use this component instead of the crash-loop handler.
    #[arg(long, value_name = "FILE")]
    handler: Option<PathBuf>,
}

/// Builds and runs the demo. The exit code is 0 if every step succeeded, otherwise 1.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    build()?;
    let mut command = program()?;
    if args.once {
        command.arg("--once");
    }
    if let Some(handler) = &args.handler {
        command.arg("--handler").arg(handler);
    }
    let status = cargo::status(&mut command)?;
    Ok(if status.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The program that demonstrates Informant.
pub(crate) fn program() -> Result<Command> {
    Ok(Command::new(workspace::target()?.join("debug").join("demo")))
}

/// Builds all that the demo needs.
pub(crate) fn build() -> Result<()> {
    report::step("building the plugins");
    guests::add_target(guests::TARGET)?;
    guests::build_packages(&PLUGINS.map(str::to_owned))?;
    match zig::missing() {
        None => script_runner::build()?,
        Some(why) => report::skipped("scripts", why),
    }
    report::step("building informant (the first build takes several minutes)");
    build_programs()
}

/// Builds Informant and the program that demonstrates it.
pub(crate) fn build_programs() -> Result<()> {
    cargo::run(cargo::cargo()?.args(PROGRAMS))
}
