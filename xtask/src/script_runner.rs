//! Builds the script runner: a component like the plugins, but with C code, which is embedded in `informant`.

use std::path::PathBuf;

use anyhow::Result;

use crate::{cargo, guests, workspace, zig};

/// The name of the package.
const PACKAGE: &str = "informant-script-runner";

/// Builds the component.
pub(crate) fn build() -> Result<()> {
    guests::add_target()?;
    let zig = zig::install()?;
    let mut command = cargo::cargo()?;
    command.args(["build", "--locked", "--profile", "plugin", "--target", guests::TARGET]);
    cargo::run(zig::for_cargo(command.args(["--package", PACKAGE]), &zig)?)
}

/// The path of the built component, if it exists.
pub(crate) fn built() -> Option<PathBuf> {
    let file = workspace::target()
        .ok()?
        .join(guests::TARGET)
        .join("plugin")
        .join("informant_script_runner.wasm");
    // Absolute, because cargo runs build scripts in the package's folder.
    std::path::absolute(file).ok().filter(|file| file.is_file())
}
