//! A component of a crate, by cargo. The linker of the target makes the component.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail, ensure};
use serde_json::Value;

use super::source::Source;
use super::tool::{Tool, ToolUnusable, read_result};

const TARGET: &str = "wasm32-wasip2";

/// 1.82 is the first release with the target.
const CARGO: Tool = Tool {
    name: "cargo",
    purpose: "compiles",
    install: "install Rust with rustup (https://rustup.rs), then run `rustup target add wasm32-wasip2`",
    oldest: (1, 82),
};

/// # Errors
/// If cargo or the target is missing, or the crate does not compile to one component.
pub(super) fn build(source: &Source) -> Result<Vec<u8>> {
    let manifest = source.folder.join("Cargo.toml");
    // In the folder, whose rust-toolchain.toml applies.
    let program = |name: &str| {
        let mut command = Command::new(name);
        command.current_dir(&source.folder);
        command
    };
    CARGO.check_version(program("cargo").arg("--version"), &manifest)?;
    check_target(&mut program("rustc"), &manifest)?;
    let mut command = program("cargo");
    command.args([
        "build",
        "--release",
        "--target",
        TARGET,
        "--message-format",
        "json-render-diagnostics",
    ]);
    let messages = CARGO.run(&mut command, &manifest, "")?;
    let manifest_path = manifest.canonicalize().unwrap_or_else(|_| manifest.clone());
    let file = artifact(&String::from_utf8_lossy(&messages), &manifest_path, &manifest)?;
    read_result(&file, &CARGO)
}

/// Checks that the toolchain has the target's standard library.
fn check_target(rustc: &mut Command, manifest: &Path) -> Result<()> {
    let output = rustc.args(["--print", "target-libdir", "--target", TARGET]).output();
    // Without rustc, cargo says what is missing.
    let Ok(output) = output else { return Ok(()) };
    let folder = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    ensure!(
        !output.status.success() || folder.is_dir(),
        ToolUnusable(format!(
            "the Rust toolchain of {} lacks the target {TARGET}: run `rustup target add {TARGET}`",
            manifest.display()
        ))
    );
    Ok(())
}

/// The component among cargo's messages that belongs to the crate at `manifest_path`.
fn artifact(messages: &str, manifest_path: &Path, manifest: &Path) -> Result<PathBuf> {
    let messages = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of_crate = messages.filter(|message| {
        message["reason"] == "compiler-artifact"
            && message["manifest_path"].as_str().map(Path::new) == Some(manifest_path)
    });
    let mut modules = Vec::new();
    let mut programs = Vec::new();
    for message in of_crate {
        let files = message["filenames"].as_array().into_iter().flatten();
        let files = files.filter_map(Value::as_str).map(PathBuf::from);
        let files = files.filter(|file| file.extension().is_some_and(|suffix| suffix == "wasm"));
        match message["target"]["crate_types"]
            .as_array()
            .is_some_and(|types| types.contains(&"bin".into()))
        {
            true => programs.extend(files),
            false => modules.extend(files),
        }
    }
    match modules.as_slice() {
        [module] => Ok(module.clone()),
        [] if programs.is_empty() => bail!(
            "{0} builds no component: add `[lib]` with `crate-type = [\"cdylib\"]` to {0}",
            manifest.display()
        ),
        [] => bail!(
            "{0} builds a program, not a library: move src/main.rs to src/lib.rs, and add `[lib]` with \
             `crate-type = [\"cdylib\"]` to {0}",
            manifest.display()
        ),
        [_, ..] => bail!(
            "{} builds several modules: build each of them with cargo itself",
            manifest.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(crate_type: &str, manifest: &str, files: &[&str]) -> String {
        let message = serde_json::json!({
            "reason": "compiler-artifact",
            "manifest_path": manifest,
            "target": { "crate_types": [crate_type] },
            "filenames": files,
        });
        format!("{message}\n")
    }

    fn found(messages: &str) -> String {
        match artifact(
            messages,
            Path::new("/greeter/Cargo.toml"),
            Path::new("greeter/Cargo.toml"),
        ) {
            Ok(file) => file.display().to_string(),
            Err(error) => format!("{error:#}"),
        }
    }

    #[test]
    fn the_component_of_the_crate_is_taken() {
        let others = message("lib", "/serde/Cargo.toml", &["/target/libserde.rlib"])
            + &message("cdylib", "/other/Cargo.toml", &["/target/other.wasm"]);
        let own = message("cdylib", "/greeter/Cargo.toml", &["/target/greeter.wasm"]);
        assert_eq!(found(&(others.clone() + &own)), "/target/greeter.wasm");
        insta::assert_snapshot!(found(&others), @r#"greeter/Cargo.toml builds no component: add `[lib]` with `crate-type = ["cdylib"]` to greeter/Cargo.toml"#);
        let program = message("bin", "/greeter/Cargo.toml", &["/target/greeter.wasm"]);
        insta::assert_snapshot!(found(&program), @r#"greeter/Cargo.toml builds a program, not a library: move src/main.rs to src/lib.rs, and add `[lib]` with `crate-type = ["cdylib"]` to greeter/Cargo.toml"#);
    }
}
