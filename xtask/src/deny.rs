//! Checks the dependencies with cargo-deny: which crates, licenses and sources, by deny.toml.

use anyhow::Result;

use crate::{cargo, report, workspace};

/// Pinned, so that a new version does not fail a build that did not change.
const VERSION: &str = "0.20.2";

/// Checks the workspace. Advisories are not checked: their database changes, and needs the network.
pub(crate) fn check() -> Result<()> {
    run(&["bans", "licenses", "sources"])
}

/// Checks the dependencies for known vulnerabilities. Fetches the database with git.
pub(crate) fn advisories() -> Result<()> {
    run(&["advisories"])
}

/// Builds cargo-deny if necessary, and runs these checks.
fn run(checks: &[&str]) -> Result<()> {
    let folder = std::path::absolute(workspace::target()?.join("tools").join("cargo-deny"))?;
    let program = folder.join(VERSION).join("bin").join("cargo-deny");
    if !program.is_file() {
        report::step("building cargo-deny");
        let mut command = cargo::cargo()?;
        command.args([
            "install",
            "cargo-deny",
            "--version",
            VERSION,
            "--locked",
            "--debug",
            "--quiet",
        ]);
        command.arg("--root").arg(folder.join(VERSION));
        let build = folder.join("build");
        cargo::run(command.arg("--target-dir").arg(&build))?;
        std::fs::remove_dir_all(build)?;
    }
    let mut command = std::process::Command::new(program);
    command.current_dir(workspace::root()?).arg("--locked");
    cargo::run(command.args(["check", "--hide-inclusion-graph"]).args(checks))
}
