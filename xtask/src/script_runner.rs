//! Builds the script runner: a component like the plugins, but with C code, which is embedded in `informant`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::{cargo, guests, workspace, zig};

/// The name of the package.
const PACKAGE: &str = "informant-script-runner";

/// Builds the component.
pub(crate) fn build() -> Result<()> {
    guests::add_target(guests::TARGET)?;
    build_with(&mut cargo::cargo()?)
}

/// Builds the component with this cargo command, which has no arguments yet.
pub(crate) fn build_with(command: &mut Command) -> Result<()> {
    let zig = zig::install()?;
    command.args(["build", "--locked", "--profile", "plugin", "--target", guests::TARGET]);
    cargo::run(zig::for_cargo(command.args(["--package", PACKAGE]), &zig)?)
}

/// The path of the built component, if it exists.
pub(crate) fn built() -> Option<PathBuf> {
    built_below(&workspace::target().ok()?)
}

/// The path of the component that was built with the target folder `target`, if it exists.
pub(crate) fn built_below(target: &Path) -> Option<PathBuf> {
    let file = target
        .join(guests::TARGET)
        .join("plugin")
        .join("informant_script_runner.wasm");
    // Absolute, because cargo runs build scripts in the package's folder.
    std::path::absolute(file).ok().filter(|file| file.is_file())
}
