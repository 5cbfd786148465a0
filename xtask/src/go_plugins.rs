//! Checks the Go SDK and the plugins in Go, and builds these: the examples and the test guests of the SDK, and the
//! modules in `plugins/`. Go compiles them, and `informant-go-bindings` turns them into components.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{cargo, go_bindings, guests, workspace};

/// The flags in `plugin-sdk/go/README.md`. The SDK calls `runtime.sbrk`, which `-checklinkname=0` allows.
const FLAGS: [&str; 2] = ["-buildmode=c-shared", "-ldflags=-s -w -checklinkname=0"];

/// What the SDK offers, and its examples. `internal` is not vetted as a component: its unsafe and generated code does
/// what vet warns of.
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

/// Checks and tests the SDK and the modules in `plugins/`, and builds every plugin in Go.
pub(crate) fn build() -> Result<()> {
    go_bindings::check()?;
    let sdk = sdk()?;
    check(&sdk, &VETTED)?;
    test_scenarios()?;
    for module in modules()? {
        check(&module, &["./..."])?;
    }
    build_components()
}

/// Checks and tests a module. `vetted` is vetted as components, too.
fn check(module: &Path, vetted: &[&str]) -> Result<()> {
    formatted(module)?;
    cargo::run(go(module).args(["vet", "./..."]))?;
    cargo::run(for_wasm(&mut go(module)).arg("vet").args(vetted))?;
    cargo::run(go(module).args(["test", "./..."]))
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
    let sdk = sdk()?;
    for (parent, prefix) in [("examples", ""), ("tests", "guest_")] {
        for entry in std::fs::read_dir(sdk.join(parent))? {
            build_one(&sdk, &entry?.path(), &out, prefix)?;
        }
    }
    for module in modules()? {
        build_one(&module, &module, &out, "")?;
    }
    Ok(())
}

/// Builds the package in `folder` of a module as `NAME_go.wasm` in `out`, with `prefix` in front of the name.
fn build_one(module: &Path, folder: &Path, out: &Path, prefix: &str) -> Result<()> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let component = out.join(format!("{prefix}{}_go.wasm", name.replace('-', "_")));
    let core = component.with_extension("core.wasm");
    let mut command = go(module);
    for_wasm(&mut command).arg("build").args(FLAGS);
    cargo::run(command.arg("-o").arg(&core).arg(folder))
        .and_then(|()| go_bindings::component(&core, &component))
        .with_context(|| format!("failed to build {}", folder.display()))
}

fn formatted(module: &Path) -> Result<()> {
    let output = Command::new("gofmt").arg("-l").arg(module).output()?;
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

/// The modules below `plugins/`, sorted.
fn modules() -> Result<Vec<PathBuf>> {
    let folder = workspace::root()?.join("plugins");
    let entries = std::fs::read_dir(&folder).with_context(|| format!("failed to read {}", folder.display()))?;
    let mut modules = Vec::new();
    for entry in entries {
        let module = entry?.path();
        if module.join("go.mod").is_file() {
            modules.push(module);
        }
    }
    modules.sort();
    Ok(modules)
}

/// A command of Go in a module. It fetches nothing: neither modules nor another toolchain.
fn go(module: &Path) -> Command {
    let mut command = Command::new("go");
    command
        .current_dir(module)
        .env("GOTOOLCHAIN", "local")
        .env("GOPROXY", "off");
    command
}

fn for_wasm(command: &mut Command) -> &mut Command {
    command.env("GOOS", "wasip1").env("GOARCH", "wasm")
}
