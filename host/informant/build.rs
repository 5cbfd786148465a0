//! Finds out which wasmtime is built in, for `informant --version`: wasmtime itself does not say.

use std::path::Path;

fn main() {
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

/// The version that a Cargo.lock names for a package.
fn version_of(package: &str, lock: &str) -> Option<String> {
    let entry = lock
        .split("[[package]]")
        .find(|entry| entry.contains(&format!("name = \"{package}\"\n")))?;
    let line = entry.lines().find_map(|line| line.strip_prefix("version = "))?;
    Some(line.trim_matches('"').to_owned())
}
