//! Builds programs in Go from their modules, without downloading binaries: the real cluster from `tests/go.mod`, and
//! each other tool from `tests/tools/NAME/go.mod`.
//!
//! A tool has a module of its own, because the modules of several tools disagree about the versions of what they share.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{cargo, workspace};

/// Builds the tool of the module `tests/tools/NAME`, and returns the program. Go caches the build.
pub(crate) fn build(name: &str) -> Result<PathBuf> {
    let folder = std::path::absolute(workspace::target()?.join("tools").join(name))?;
    let arguments: &[&str] = match name {
        // Without service discovery, which brings the clients of all clouds.
        "promtool" => &["-ldflags", "-s -w", "-tags", "remove_all_sd"],
        _ => &["-ldflags", "-s -w"],
    };
    build_module(&workspace::root()?.join("tests/tools").join(name), arguments, &folder)?;
    let program = folder.join(name);
    ensure!(program.is_file(), "go did not build {}", program.display());
    Ok(program)
}

/// Builds all tools below `tests/tools`.
pub(crate) fn build_all() -> Result<()> {
    let modules = workspace::root()?.join("tests/tools");
    let entries = std::fs::read_dir(&modules).with_context(|| format!("failed to read {}", modules.display()))?;
    for entry in entries {
        build(&entry?.file_name().to_string_lossy())?;
    }
    Ok(())
}

/// Builds the tools of a module into `folder`, with `arguments` of `go build`.
pub(crate) fn build_module(module: &Path, arguments: &[&str], folder: &Path) -> Result<()> {
    let folder = std::path::absolute(folder)?;
    std::fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
    let mut command = Command::new("go");
    command.current_dir(module).args(["build", "-mod=readonly"]);
    command.args(arguments).arg("-o").arg(&folder).arg("tool");
    // Modules are checked against go.sum, and no other toolchain is fetched.
    cargo::run(command.env("GOTOOLCHAIN", "local"))
}

/// Whether Go is installed.
pub(crate) fn can_build() -> bool {
    cargo::is_there("go", "version")
}
