//! Checks the Go SDK, and builds its plugins: the examples and the test guests. Go compiles them, and
//! `informant-go-bindings` turns them into components.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{cargo, go_bindings, guests, workspace};

/// The flags in `plugin-sdk/go/README.md`. The SDK calls `runtime.sbrk`, which `-checklinkname=0` allows.
const FLAGS: [&str; 2] = ["-buildmode=c-shared", "-ldflags=-s -w -checklinkname=0"];

/// What the SDK offers, and its examples. `internal/gen` is not vetted: generated code does what vet warns of.
const VETTED: [&str; 5] = [
    "./informant",
    "./informanttest",
    "./wasihttp",
    "./examples/...",
    "./tests/...",
];

/// Why the plugins in Go cannot be built.
pub(crate) fn missing() -> Option<&'static str> {
    (!cargo::is_there("go", "version")).then_some("Go is not installed; it builds the plugins in Go")
}

/// Checks and tests the SDK, and builds every plugin in Go.
pub(crate) fn build() -> Result<()> {
    go_bindings::check()?;
    formatted()?;
    cargo::run(go()?.args(["vet", "./..."]))?;
    // As components. The SDK's own unsafe code is in internal/.
    cargo::run(for_wasm(&mut go()?).arg("vet").args(VETTED))?;
    cargo::run(go()?.args(["test", "./..."]))?;
    test_scenarios()?;
    build_components()
}

/// Tests that the test kit runs the scenarios of all languages. It is a module of its own, and fetches a package that
/// reads YAML unless the module cache has it.
fn test_scenarios() -> Result<()> {
    for command in ["vet", "test"] {
        let mut go = Command::new("go");
        go.current_dir(sdk()?.join("scribe")).env("GOTOOLCHAIN", "local");
        cargo::run(go.args([command, "."]))?;
    }
    Ok(())
}

/// Builds every plugin in Go.
pub(crate) fn build_components() -> Result<()> {
    let out = std::path::absolute(workspace::target()?.join(guests::TARGET).join("plugin"))?;
    std::fs::create_dir_all(&out).with_context(|| format!("failed to create {}", out.display()))?;
    for (parent, prefix) in [("examples", ""), ("tests", "guest_")] {
        for entry in std::fs::read_dir(sdk()?.join(parent))? {
            let folder = entry?.path();
            let name = folder
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .replace('-', "_");
            build_one(&folder, &out.join(format!("{prefix}{name}_go.wasm")))
                .with_context(|| format!("failed to build {}", folder.display()))?;
        }
    }
    Ok(())
}

fn build_one(folder: &Path, component: &Path) -> Result<()> {
    let module = component.with_extension("core.wasm");
    let mut command = go()?;
    for_wasm(&mut command).arg("build").args(FLAGS);
    cargo::run(command.arg("-o").arg(&module).arg(folder))?;
    go_bindings::component(&module, component)
}

fn formatted() -> Result<()> {
    let output = Command::new("gofmt").arg("-l").arg(sdk()?).output()?;
    let files = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success() && files.is_empty(),
        "files that gofmt would change: {files}"
    );
    Ok(())
}

fn sdk() -> Result<PathBuf> {
    Ok(workspace::root()?.join("plugin-sdk/go"))
}

/// A command of Go in the SDK's module. It fetches nothing: neither modules nor another toolchain.
fn go() -> Result<Command> {
    let mut command = Command::new("go");
    command
        .current_dir(sdk()?)
        .env("GOTOOLCHAIN", "local")
        .env("GOPROXY", "off");
    Ok(command)
}

fn for_wasm(command: &mut Command) -> &mut Command {
    command.env("GOOS", "wasip1").env("GOARCH", "wasm")
}
