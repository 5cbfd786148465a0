//! `informant` itself, with the script runner in it.

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::{cargo, report, script_runner, workspace, zig};

/// How it is built.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Optimized, as it is to be run.
    #[arg(long)]
    release: bool,
    /// Goes on without Python, which the script runner needs: the program refuses `script = …` then.
    #[arg(long)]
    without_scripts: bool,
}

/// Builds, and says where the program is.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match zig::missing() {
        None => {
            report::step("building the script runner");
            script_runner::build()?;
        }
        Some(why) if args.without_scripts => report::left_out("scripts", why),
        Some(why) => bail!("the script runner cannot be built: {why}; --without-scripts goes on without it"),
    }
    report::step("building informant (the first time takes some minutes)");
    let mut command = cargo::cargo()?;
    command.args(["build", "--locked", "--package", "informant"]);
    if args.release {
        command.arg("--release");
    }
    cargo::run(&mut command)?;
    let profile = if args.release { "release" } else { "debug" };
    let program = workspace::target()?.join(profile).join("informant");
    report::step(&program.display().to_string());
    Ok(ExitCode::SUCCESS)
}
