//! Installs the tools for tests of plugins in JavaScript from npm: esbuild, which `informant plugin build` calls, the
//! TypeScript compiler, which checks the declarations of the API, and the parser of YAML of the test kit. Then tests
//! the kit.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::{cargo, npm, workspace};

/// The programs.
const TOOLS: [&str; 2] = ["esbuild", "tsc"];

/// Installs the tools, and tests the kit for tests of scripts.
pub(crate) fn install_and_test() -> Result<()> {
    install()?;
    let mut command = Command::new("node");
    command.arg("--test");
    for entry in std::fs::read_dir(sdk()?.join("tests"))? {
        let file = entry?.path();
        if file.to_string_lossy().ends_with(".test.js") {
            command.arg(std::path::absolute(file)?);
        }
    }
    // The kit looks for its packages where the tests run.
    cargo::run(command.current_dir(folder()?))
}

/// Installs the packages in the lock file, unless they are present.
pub(crate) fn install() -> Result<()> {
    npm::install(&sdk()?, &folder()?, &TOOLS)
}

fn sdk() -> Result<PathBuf> {
    Ok(workspace::root()?.join("plugin-sdk").join("javascript"))
}

fn folder() -> Result<PathBuf> {
    Ok(workspace::target()?.join("tools").join("javascript"))
}
