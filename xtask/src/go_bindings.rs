//! Generates the Go bindings of the contract, which are committed in `plugin-sdk/go/internal/gen`: users of a Go module
//! get its files as they are in git.
//!
//! The generator is the package `informant-go-bindings`; `Cargo.toml` pins its version.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{cargo, workspace};

/// Generates the bindings into the SDK.
pub(crate) fn generate() -> Result<()> {
    let generated = files_below(&generated()?)?;
    let committed = committed()?;
    if committed.is_dir() {
        std::fs::remove_dir_all(&committed).with_context(|| format!("failed to remove {}", committed.display()))?;
    }
    for (path, content) in generated {
        let path = committed.join(path);
        let folder = path.parent().unwrap_or(&committed);
        std::fs::create_dir_all(folder).with_context(|| format!("failed to create {}", folder.display()))?;
        std::fs::write(&path, content).with_context(|| format!("failed to write {}", path.display()))?;
    }
    Ok(())
}

/// Checks that the committed bindings are those of the contract.
pub(crate) fn check() -> Result<()> {
    let (generated, committed) = (files_below(&generated()?)?, files_below(&committed()?)?);
    let differs = |path: &&PathBuf| generated.get(*path) != committed.get(*path);
    let different: Vec<String> = generated
        .keys()
        .chain(committed.keys())
        .filter(differs)
        .map(|path| path.display().to_string())
        .collect();
    ensure!(
        different.is_empty(),
        "plugin-sdk/go/internal/gen does not have the bindings of the contract: run `cargo xtask go-bindings`; different: {}",
        different.join(", ")
    );
    Ok(())
}

/// Makes a component of a core module that Go has built.
pub(crate) fn component(module: &Path, component: &Path) -> Result<()> {
    let mut command = tool("component")?;
    cargo::run(command.arg(module).arg(component))
}

fn committed() -> Result<PathBuf> {
    Ok(workspace::root()?.join("plugin-sdk/go/internal/gen"))
}

/// Generates the bindings into a folder of the target directory, formatted, and returns it.
fn generated() -> Result<PathBuf> {
    let folder = std::path::absolute(workspace::target()?.join("go-bindings"))?;
    cargo::run(tool("generate")?.arg(&folder))?;
    cargo::run(Command::new("gofmt").arg("-w").arg(&folder))?;
    Ok(folder)
}

/// A command of the package, with the folders that it reads.
fn tool(what: &str) -> Result<Command> {
    let root = workspace::root()?;
    let mut command = cargo::cargo()?;
    command.args([
        "run",
        "--locked",
        "--quiet",
        "--package",
        "informant-go-bindings",
        "--",
        what,
    ]);
    command.arg(root.join("wit")).arg(root.join("plugin-sdk/rust/wit-http"));
    Ok(command)
}

/// The contents of the files below a folder, by their paths in it.
fn files_below(folder: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        let entries = std::fs::read_dir(&next).with_context(|| format!("failed to read {}", next.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let content = std::fs::read(&path).with_context(|| format!("failed to read {}", path.display()))?;
                files.insert(path.strip_prefix(folder)?.to_owned(), content);
            }
        }
    }
    Ok(files)
}
