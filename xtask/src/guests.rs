//! The plugins and the test guests, built to components by cargo alone.

use anyhow::{Context, Result};

use crate::{cargo, report, script_runner, workspace, zig};

/// The target plugins are built for.
pub(crate) const TARGET: &str = "wasm32-wasip2";

/// Builds everything that becomes a component, and says what it leaves out for want of a tool.
pub(crate) fn build_all() -> Result<()> {
    build()?;
    match zig::missing() {
        None => script_runner::build(),
        Some(why) => {
            report::left_out("script runner", why);
            Ok(())
        }
    }
}

/// Builds every package in `plugins/` and `tests/guests/`.
pub(crate) fn build() -> Result<()> {
    add_target()?;
    build_packages(
        &[
            workspace::packages_below("plugins", "")?,
            workspace::packages_below("tests/guests", "guest-")?,
        ]
        .concat(),
    )
}

/// Builds some packages.
pub(crate) fn build_packages(packages: &[String]) -> Result<()> {
    let mut command = cargo::cargo()?;
    command.args(["build", "--locked", "--profile", "plugin", "--target", TARGET]);
    for package in packages {
        command.args(["--package", package]);
    }
    cargo::run(&mut command)
}

/// Adds the target to the toolchain in use, if rustup is there; without rustup the distribution must have brought it.
pub(crate) fn add_target() -> Result<()> {
    if !cargo::is_there("rustup", "--version") {
        return Ok(());
    }
    let mut command = std::process::Command::new("rustup");
    command.current_dir(workspace::root()?).args(["target", "add", TARGET]);
    cargo::run(&mut command).context("the WebAssembly target could not be added")
}
