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

/// The runner of Python scripts. None where there is no Python with pip, but never in CI.
///
/// # Errors
/// If it was not built.
pub fn python_runner() -> Result<Option<PathBuf>> {
    unless_left_out("PYTHON", "informant-runner-python", "cargo xtask python-runner")
}

/// The component of the example `name` of the Go SDK. None where there is no Go, but never in CI.
///
/// # Errors
/// If it was not built.
pub fn in_go(name: &str) -> Result<Option<PathBuf>> {
    let name = format!("{}_go", name.replace('-', "_"));
    unless_left_out("GO", &name, "cargo xtask guests")
}

fn unless_left_out(what: &str, name: &str, command: &str) -> Result<Option<PathBuf>> {
    let path = folder().join(format!("{name}.wasm"));
    let is_left_out = std::env::var_os(format!("INFORMANT_TESTS_WITHOUT_{what}")).is_some();
    ensure!(
        path.is_file() || is_left_out,
        "{} does not exist; run `{command}` first",
        path.display()
    );
    Ok(path.is_file().then_some(path))
}

/// The component of the package `name`, and another version of it, in `folder`, that differs only in a custom section.
///
/// # Errors
/// If it was not built, or the other one cannot be written.
pub fn two_versions(name: &str, folder: &Path) -> Result<[PathBuf; 2]> {
    let first = component(name)?;
    let mut bytes = std::fs::read(&first)?;
    let (section, content) = (b"version", b"next");
    // A custom section: its ID, its length, its name with length, and its content.
    bytes.extend([0, (1 + section.len() + content.len()) as u8, section.len() as u8]);
    bytes.extend(section);
    bytes.extend(content);
    let second = folder.join(format!("{name}-next.wasm"));
    std::fs::write(&second, bytes)?;
    Ok([first, second])
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
