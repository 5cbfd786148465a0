//! The script runner: a component like the plugins, with C in it, and built into `informant`.

use std::path::PathBuf;

use anyhow::Result;

use crate::{cargo, guests, workspace, zig};

/// The package.
const PACKAGE: &str = "informant-script-runner";

/// Builds it.
pub(crate) fn build() -> Result<()> {
    guests::add_target()?;
    let zig = zig::install()?;
    let mut command = cargo::cargo()?;
    command.args(["build", "--locked", "--profile", "plugin", "--target", guests::TARGET]);
    cargo::run(zig::for_cargo(command.args(["--package", PACKAGE]), &zig)?)
}

/// The built component, if it is there.
pub(crate) fn built() -> Option<PathBuf> {
    let file = workspace::target()
        .ok()?
        .join(guests::TARGET)
        .join("plugin")
        .join("informant_script_runner.wasm");
    // Cargo runs build scripts in the package's folder.
    std::path::absolute(file).ok().filter(|file| file.is_file())
}
