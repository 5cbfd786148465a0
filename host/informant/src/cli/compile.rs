//! `informant plugin compile`: native code of a script runner, for an image.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use informant_plugin_host::{Architecture, precompile_runner};

use super::{Exit, output};
use crate::status_line::{self, StatusLine};

/// `informant plugin compile`.
#[derive(Debug, Args)]
pub(super) struct CompileArgs {
    /// File of a script runner, such as informant-runner-python.wasm
    runner: PathBuf,
    /// Architecture of the image [default: that of this machine]
    #[arg(long, value_name = "NAME", value_enum)]
    target: Option<Target>,
}

/// The architectures that Informant is released for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Target {
    /// x86-64
    Amd64,
    /// 64-bit ARM
    Arm64,
}

pub(super) fn run(args: &CompileArgs) -> Result<Exit> {
    let architecture = match args.target {
        Some(Target::Amd64) => Architecture::Amd64,
        Some(Target::Arm64) => Architecture::Arm64,
        None => Architecture::of_this_machine()
            .context("Informant is not released for the architecture of this machine: choose one with --target")?,
    };
    let line = StatusLine::begin();
    status_line::show(&format!("compiling {}", args.runner.display()));
    let written = precompile_runner(&args.runner, architecture)?;
    drop(line);
    output::to_stdout(|out| output::line(out, &written.display().to_string())).context("cannot print the result")?;
    Ok(Exit::Done)
}
