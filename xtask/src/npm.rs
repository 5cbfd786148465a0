//! Packages from npm, in the versions of a lock file, in a folder of their own below the target folder: nothing is
//! installed next to sources.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cargo;

/// The files that pin the versions.
const PACKAGE: [&str; 3] = ["package.json", "package-lock.json", ".npmrc"];

/// Why packages cannot be installed, if a tool is missing.
pub(crate) fn missing() -> Option<&'static str> {
    (!cargo::is_there("npm", "--version") || !cargo::is_there("node", "--version"))
        .then_some("npm is not installed; it installs esbuild and TypeScript")
}

/// Installs the packages that `package` pins into `folder`, unless they are present. `programs` must be among them.
pub(crate) fn install(package: &Path, folder: &Path, programs: &[&str]) -> Result<()> {
    let is_present = |file: &str| {
        std::fs::read(package.join(file))
            .is_ok_and(|wanted| std::fs::read(folder.join(file)).is_ok_and(|found| found == wanted))
    };
    let programs: Vec<PathBuf> = programs.iter().map(|name| program(folder, name)).collect();
    if PACKAGE.iter().all(|file| is_present(file)) && programs.iter().all(|program| program.exists()) {
        return Ok(());
    }
    std::fs::create_dir_all(folder).with_context(|| format!("failed to create {}", folder.display()))?;
    for file in PACKAGE {
        std::fs::copy(package.join(file), folder.join(file))
            .with_context(|| format!("failed to copy {file} to {}", folder.display()))?;
    }
    let mut command = Command::new("npm");
    // Install scripts of packages do not run.
    command.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    cargo::run(command.current_dir(folder))?;
    let absent: Vec<&PathBuf> = programs.iter().filter(|program| !program.exists()).collect();
    ensure!(absent.is_empty(), "npm did not install {absent:?}");
    Ok(())
}

/// A program of a package in `folder`.
pub(crate) fn program(folder: &Path, name: &str) -> PathBuf {
    folder.join("node_modules").join(".bin").join(name)
}
