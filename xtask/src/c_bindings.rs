//! Generates the C bindings of the contract into `plugin-sdk/c/gen` and `gen-http`, which git ignores.
//!
//! The generator is the package `informant-c-bindings`; `Cargo.toml` pins its version.

use std::path::PathBuf;

use anyhow::Result;

use crate::{cargo, workspace};

/// The folder with the bindings of every plugin, and the one for plugins that send HTTP requests.
pub(crate) const FOLDERS: [&str; 2] = ["gen", "gen-http"];

/// Generates the bindings and returns the folder of the SDK.
pub(crate) fn generate() -> Result<PathBuf> {
    let root = workspace::root()?;
    let sdk = root.join("plugin-sdk").join("c");
    let mut command = cargo::cargo()?;
    command.args(["run", "--locked", "--quiet", "--package", "informant-c-bindings", "--"]);
    command.arg(root.join("wit")).arg(root.join("plugin-sdk/rust/wit-http"));
    cargo::run(command.arg(&sdk))?;
    Ok(sdk)
}
