//! The demo: builds what it shows and hands over to the `demo` program of `tests/`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use crate::{cargo, guests, report, script_runner, workspace, zig};

/// How the demo runs.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Ends after the last step instead of staying up.
    #[arg(long)]
    once: bool,
    /// Shows this component instead of the crash-loop handler.
    #[arg(long, value_name = "FILE")]
    handler: Option<PathBuf>,
}

/// Builds and runs. The exit code is 0 only if every step was seen to hold, and 3 if one was not.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    report::step("building the plugins");
    guests::add_target()?;
    let mut packages = workspace::packages_below("plugins", "")?;
    // What the handler is swapped for.
    packages.push("guest-crash-loop-next".to_owned());
    guests::build_packages(&packages)?;
    match zig::missing() {
        None => script_runner::build()?,
        Some(why) => report::left_out("scripts", why),
    }
    report::step("building informant (the first time takes some minutes)");
    // All at once, and as `cargo xtask test` does: nothing is compiled twice.
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
