//! Finds out which wasmtime is built in, for `informant --version`: wasmtime itself does not say. And puts the script
//! runner in, the component that `cargo xtask` builds and names in `INFORMANT_EMBED_SCRIPT_RUNNER`; without the
//! variable it is the one in the target folder, if there is one.

use std::path::{Path, PathBuf};

/// The variable that names the script runner's file.
const RUNNER: &str = "INFORMANT_EMBED_SCRIPT_RUNNER";

/// Where cargo puts it, below the target folder.
const BUILT_RUNNER: &str = "wasm32-wasip2/plugin/informant_script_runner.wasm";

fn main() {
    name_wasmtime();
    embed_runner();
}

fn name_wasmtime() {
    let lock = Path::new("../../Cargo.lock");
    println!("cargo::rerun-if-changed={}", lock.display());
    let version = std::fs::read_to_string(lock)
        .ok()
        .and_then(|text| version_of("wasmtime", &text));
    // Built outside of the workspace, as by `cargo install` without --locked: the line says less.
    println!(
        "cargo::rustc-env=INFORMANT_WASMTIME_VERSION={}",
        version.as_deref().unwrap_or("48")
    );
}

/// Writes `script_runner.rs`, an expression: the runner's bytes, if there is one.
fn embed_runner() {
    println!("cargo::rerun-if-env-changed={RUNNER}");
    let named = std::env::var_os(RUNNER).map(PathBuf::from);
    let expression = match named.or_else(runner_of_this_build) {
        Some(file) => {
            println!("cargo::rerun-if-changed={}", file.display());
            if !file.is_file() {
                println!("cargo::error={RUNNER} names {}, which is no file", file.display());
            }
            format!("Some(include_bytes!({file:?}) as &[u8])")
        }
        None => "None".to_owned(),
    };
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("script_runner.rs");
    if let Err(error) = std::fs::write(&out, expression) {
        println!("cargo::error={}: {error}", out.display());
    }
}

/// What `cargo xtask` has left in the target folder.
fn runner_of_this_build() -> Option<PathBuf> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR")?);
    let mut files = out.ancestors().map(|folder| folder.join(BUILT_RUNNER));
    files.find(|file| file.is_file())
}

/// The version that a Cargo.lock names for a package.
fn version_of(package: &str, lock: &str) -> Option<String> {
    let entry = lock
        .split("[[package]]")
        .find(|entry| entry.contains(&format!("name = \"{package}\"\n")))?;
    let line = entry.lines().find_map(|line| line.strip_prefix("version = "))?;
    Some(line.trim_matches('"').to_owned())
}
