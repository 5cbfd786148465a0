//! Paths in the repository.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The root of the repository.
pub(crate) fn root() -> Result<PathBuf> {
    // Prefer cargo's variable at run time: the compiled-in path is wrong after the folder was copied or moved.
    let manifest =
        std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest
        .parent()
        .map(Path::to_path_buf)
        .context("cannot find the root of the repository: the folder of xtask has no parent")
}

/// Cargo's target folder.
pub(crate) fn target() -> Result<PathBuf> {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => Ok(PathBuf::from(folder)),
        None => Ok(root()?.join("target")),
    }
}

/// The names of the packages in the direct subfolders of `folder`, sorted. The name of a package is `prefix` followed
/// by the name of its folder.
pub(crate) fn packages_below(folder: &str, prefix: &str) -> Result<Vec<String>> {
    let path = root()?.join(folder);
    let entries = std::fs::read_dir(&path).with_context(|| format!("failed to read {}", path.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.path().join("Cargo.toml").is_file() {
            names.push(format!("{prefix}{}", entry.file_name().to_string_lossy()));
        }
    }
    names.sort();
    Ok(names)
}
