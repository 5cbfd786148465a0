//! Compiles a script runner ahead of time, for an image: [`precompile_runner`].

use std::path::{Path, PathBuf};

use informant_spec::Digest;

use crate::artifacts::precompiled;
use crate::component::binary;
use crate::component::runner;
use crate::engine;
use crate::error::RunnerProblem;

/// An architecture to compile for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    /// x86-64.
    Amd64,
    /// 64-bit ARM.
    Arm64,
}

impl Architecture {
    /// That of this machine, if Informant is released for it.
    #[must_use]
    pub fn of_this_machine() -> Option<Architecture> {
        match std::env::consts::ARCH {
            "x86_64" => Some(Architecture::Amd64),
            "aarch64" => Some(Architecture::Arm64),
            _ => None,
        }
    }

    /// Rust's name of Linux on it.
    fn target(self) -> &'static str {
        match self {
            Architecture::Amd64 => "x86_64-unknown-linux-gnu",
            Architecture::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }
}

/// Why a runner was not compiled ahead of time.
#[derive(Debug, thiserror::Error)]
pub enum PrecompileError {
    #[error("it cannot be compiled: {0}")]
    Runner(#[from] RunnerProblem),
    #[error("{runner} cannot be compiled for {target}: {cause}")]
    Compile {
        runner: PathBuf,
        target: &'static str,
        cause: String,
    },
    #[error("cannot write its native code next to {runner}: {cause}")]
    NotWritten { runner: PathBuf, cause: std::io::Error },
}

/// Compiles a script runner for every processor of an architecture. Where its file is one of the release, Informant
/// then uses the result instead of compiling the runner. Returns the path of the result, which is below the runner's
/// folder. Takes seconds, and some 350 MiB for that of Python.
///
/// # Errors
/// The file is no script runner, this build of Informant has no compiler for the architecture, or nothing can be
/// written there.
pub fn precompile_runner(file: &Path, architecture: Architecture) -> Result<PathBuf, PrecompileError> {
    let runner = || file.to_owned();
    let bytes = runner::read_bytes(file)?;
    let surface = binary::surface(&bytes).map_err(|problem| RunnerProblem::Refused {
        runner: runner(),
        problem: Box::new(problem),
    })?;
    if surface.runner.is_none() {
        return Err(RunnerProblem::NoSection { runner: runner() }.into());
    }
    let target = architecture.target();
    let compiled = engine::for_target(target).and_then(|engine| engine.precompile_component(&bytes));
    let artifact = compiled.map_err(|error| PrecompileError::Compile {
        runner: runner(),
        target,
        cause: format!("{error:#}"),
    })?;
    let written = precompiled::keep(file, Digest::of(&bytes), &artifact);
    written.map_err(|cause| PrecompileError::NotWritten {
        runner: runner(),
        cause,
    })
}
