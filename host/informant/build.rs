//! Finds out which wasmtime is built in, for `informant --version`: wasmtime itself does not say. And puts the script
//! runner in, the component that `cargo xtask` builds and names in `INFORMANT_EMBED_SCRIPT_RUNNER`; without the
//! variable it is the one in the target folder, if there is one. So is the dashboard, by `INFORMANT_EMBED_DASHBOARD`.

use std::path::{Path, PathBuf};

/// The variable that names the script runner's file.
const RUNNER: &str = "INFORMANT_EMBED_SCRIPT_RUNNER";

/// Where cargo puts it, below the target folder.
const BUILT_RUNNER: &str = "wasm32-wasip2/plugin/informant_script_runner.wasm";

/// The variable that names the folder with the files of the dashboard.
const DASHBOARD: &str = "INFORMANT_EMBED_DASHBOARD";

/// Where `cargo xtask build` puts them, below the target folder.
const BUILT_DASHBOARD: &str = "dashboard";

/// The files of the dashboard.
const DASHBOARD_FILES: [&str; 3] = ["index.html", "app.js", "app.css"];

fn main() {
    name_wasmtime();
    embed_runner();
    embed_dashboard();
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
    left_in_target(BUILT_RUNNER)
}

/// A file or folder of the target folder, if it is there.
fn left_in_target(path: &str) -> Option<PathBuf> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR")?);
    let mut found = out.ancestors().map(|folder| folder.join(path));
    found.find(|found| found.exists())
}

/// Writes `dashboard.rs`, an expression: the names and bytes of the files, if they are there.
fn embed_dashboard() {
    println!("cargo::rerun-if-env-changed={DASHBOARD}");
    let named = std::env::var_os(DASHBOARD).map(PathBuf::from);
    let is_complete = |folder: &PathBuf| DASHBOARD_FILES.iter().all(|file| folder.join(file).is_file());
    let built = || left_in_target(BUILT_DASHBOARD).filter(is_complete);
    let expression = match named.or_else(built) {
        Some(folder) => {
            let files = DASHBOARD_FILES.map(|file| {
                let path = folder.join(file);
                println!("cargo::rerun-if-changed={}", path.display());
                format!("({file:?}, include_bytes!({path:?}) as &[u8])")
            });
            format!("Some([{}])", files.join(", "))
        }
        None => "None".to_owned(),
    };
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default()).join("dashboard.rs");
    if let Err(error) = std::fs::write(&out, expression) {
        println!("cargo::error={}: {error}", out.display());
    }
}

/// The version that a Cargo.lock names for a package.
fn version_of(package: &str, lock: &str) -> Option<String> {
    let entry = lock
        .split("[[package]]")
        .find(|entry| entry.contains(&format!("name = \"{package}\"\n")))?;
    let line = entry.lines().find_map(|line| line.strip_prefix("version = "))?;
    Some(line.trim_matches('"').to_owned())
}
