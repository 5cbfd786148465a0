//! Paths of the components built by `cargo xtask guests`.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

/// The folder of the built components: `INFORMANT_GUESTS_DIR`, or cargo's default.
pub fn folder() -> PathBuf {
    match std::env::var_os("INFORMANT_GUESTS_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => target_folder().join("wasm32-wasip2").join("plugin"),
    }
}

/// The component of the package `name` (as in its Cargo.toml).
///
/// # Errors
/// If it was not built; the error names the command to run.
pub fn component(name: &str) -> Result<PathBuf> {
    let path = folder().join(format!("{}.wasm", name.replace('-', "_")));
    ensure!(
        path.is_file(),
        "{} does not exist; run `cargo xtask guests` first",
        path.display()
    );
    Ok(path)
}

/// Cargo's target folder of this workspace.
pub fn target_folder() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => workspace_folder().join("target"),
    }
}

/// The root of the repository.
pub fn workspace_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .map(Path::to_path_buf)
        .unwrap_or_default()
}

/// The `informant` binary: `INFORMANT_BINARY`, or the one of this build.
///
/// # Errors
/// If it was not built; the error names the command to run.
pub fn informant() -> Result<PathBuf> {
    let path = match std::env::var_os("INFORMANT_BINARY") {
        Some(path) => PathBuf::from(path),
        None => target_folder().join("debug").join("informant"),
    };
    ensure!(
        path.is_file(),
        "{} does not exist; run `cargo build -p informant` first",
        path.display()
    );
    Ok(path)
}
