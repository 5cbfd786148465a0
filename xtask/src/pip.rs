//! Installs programs from PyPI: packages with a program in them, for every system, without root.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::cargo;

/// Whether packages can be installed.
pub(crate) fn is_there() -> bool {
    let output = Command::new("python3").args(["-m", "pip", "--version"]).output();
    output.is_ok_and(|output| output.status.success())
}

/// Installs `package` (`NAME==VERSION`) into a folder of its own, without a virtual environment.
///
/// # Errors
/// If pip cannot install it.
pub(crate) fn install(package: &str, folder: &Path) -> Result<()> {
    cargo::run(pip(folder).arg(package))
}

/// Installs what a file of requirements lists, as [`install`] does.
///
/// # Errors
/// If pip cannot install it.
pub(crate) fn install_all(requirements: &Path, folder: &Path) -> Result<()> {
    cargo::run(pip(folder).arg("--requirement").arg(requirements))
}

fn pip(folder: &Path) -> Command {
    let mut command = Command::new("python3");
    command.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--root-user-action=ignore",
    ]);
    command.args(["--no-deps", "--only-binary", ":all:", "--upgrade", "--target"]);
    command.arg(folder);
    command
}
