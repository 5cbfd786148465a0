//! `SHA256SUMS`, for `sha256sum --check`.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use sha2::{Digest as _, Sha256};

/// The digest of `bytes`, in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Writes the digests of the files in `folder`, by name.
pub(crate) fn write(folder: &Path) -> Result<()> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    let mut text = String::new();
    for file in files {
        let bytes = std::fs::read(&file).with_context(|| format!("failed to read {}", file.display()))?;
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let _ = writeln!(text, "{}  {name}", sha256(&bytes));
    }
    crate::write(&folder.join("SHA256SUMS"), text)
}
