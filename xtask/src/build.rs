//! Builds `informant` with the script runner and the dashboard, and generates the bindings of the C SDK.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::{c_bindings, cargo, dashboard, report, script_runner, workspace, zig};

/// How to build.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Build with optimizations, for production.
    #[arg(long)]
    release: bool,
    /// Build without the script runner if Python is missing. The program then refuses `script = …`.
    #[arg(long)]
    without_scripts: bool,
}

/// Builds the program and prints its path.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match zig::missing() {
        None => {
            report::step("building the script runner");
            script_runner::build()?;
        }
        Some(why) if args.without_scripts => report::skipped("scripts", why),
        Some(why) => {
            bail!("cannot build the script runner: {why}; use --without-scripts to build informant without it")
        }
    }
    dashboard::build_if_possible()?;
    report::step("building informant (the first build takes several minutes)");
    let mut command = cargo::cargo()?;
    command.args(["build", "--locked", "--package", "informant"]);
    if args.release {
        command.arg("--release");
    }
    cargo::run(&mut command)?;
    report::step("generating the bindings of the C SDK");
    c_bindings::generate()?;
    let profile = if args.release { "release" } else { "debug" };
    let program = workspace::target()?.join(profile).join("informant");
    report::step(&program.display().to_string());
    Ok(ExitCode::SUCCESS)
}
