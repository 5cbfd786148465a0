//! Builds everything for the demo and runs the `demo` program of `tests/`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use crate::{cargo, guests, report, script_runner, workspace, zig};

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

/// Builds and runs the demo. The exit code is 0 if every step succeeded, and 3 if one failed.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    report::step("building the plugins");
    guests::add_target(guests::TARGET)?;
    let mut packages = workspace::packages_below("plugins", "")?;
    // The next version of the handler, for the swap.
    packages.push("guest-crash-loop-next".to_owned());
    guests::build_packages(&packages)?;
    match zig::missing() {
        None => script_runner::build()?,
        Some(why) => report::skipped("scripts", why),
    }
    report::step("building informant (the first build takes several minutes)");
    // With the same arguments as `cargo xtask test`, so that nothing is compiled twice.
    cargo::run(cargo::cargo()?.args(["build", "--locked", "--workspace", "--bins"]))?;
    let mut command = std::process::Command::new(workspace::target()?.join("debug").join("demo"));
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
