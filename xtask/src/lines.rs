//! Counts the lines of the host crates.

use anyhow::Result;

use crate::cargo;

/// Prints the lines of each crate below `host/` and their sum.
pub(crate) fn run() -> Result<()> {
    cargo::run(cargo::cargo()?.args([
        "run",
        "--quiet",
        "--locked",
        "--package",
        "informant-structure",
        "--bin",
        "lines",
    ]))
}
