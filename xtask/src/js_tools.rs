//! Installs the tools for tests of plugins in JavaScript from npm: esbuild, which `informant plugin build` calls, the
//! TypeScript compiler, which checks the declarations of the API, and the parser of YAML of the test kit. Tests that
//! kit.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{cargo, workspace};

/// The files that pin the versions.
const PACKAGE: [&str; 3] = ["package.json", "package-lock.json", ".npmrc"];

/// The programs.
const TOOLS: [&str; 2] = ["esbuild", "tsc"];

/// Why the tools cannot be installed, if a tool is missing.
pub(crate) fn missing() -> Option<&'static str> {
    (!cargo::is_there("npm", "--version") || !cargo::is_there("node", "--version"))
        .then_some("npm is not installed; it installs esbuild and TypeScript for the tests")
}

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
    let (sdk, folder) = (sdk()?, folder()?);
    let is_present = |file: &str| {
        std::fs::read(sdk.join(file))
            .is_ok_and(|wanted| std::fs::read(folder.join(file)).is_ok_and(|found| found == wanted))
    };
    let tools = TOOLS.map(|tool| folder.join("node_modules").join(".bin").join(tool));
    if PACKAGE.iter().all(|file| is_present(file)) && tools.iter().all(|tool| tool.exists()) {
        return Ok(());
    }
    std::fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
    copy(&sdk, &folder)?;
    let mut command = Command::new("npm");
    // Install scripts of packages do not run.
    command.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    cargo::run(command.current_dir(&folder))?;
    let absent: Vec<&PathBuf> = tools.iter().filter(|tool| !tool.exists()).collect();
    ensure!(absent.is_empty(), "npm did not install {absent:?}");
    Ok(())
}

fn sdk() -> Result<PathBuf> {
    Ok(workspace::root()?.join("plugin-sdk").join("javascript"))
}

fn folder() -> Result<PathBuf> {
    Ok(workspace::target()?.join("tools").join("javascript"))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    for file in PACKAGE {
        std::fs::copy(from.join(file), to.join(file))
            .with_context(|| format!("failed to copy {file} to {}", to.display()))?;
    }
    Ok(())
}
