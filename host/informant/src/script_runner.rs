//! The component that runs scripts: the one this program was built with, or another that the environment names.

use std::borrow::Cow;

use anyhow::{Context, Result};

/// Names the file of another runner: for trying one, and for programs that were built without.
pub(crate) const VARIABLE: &str = "INFORMANT_SCRIPT_RUNNER";

/// What this program was built with. None: built by cargo alone, not by `cargo xtask`.
const EMBEDDED: Option<&[u8]> = include!(concat!(env!("OUT_DIR"), "/script_runner.rs"));

/// The runner to use.
///
/// # Errors
/// If the variable names a file that cannot be read.
pub(crate) fn component() -> Result<Option<Cow<'static, [u8]>>> {
    match std::env::var_os(VARIABLE).filter(|file| !file.is_empty()) {
        Some(file) => {
            let bytes = std::fs::read(&file)
                .with_context(|| format!("the script runner {} that {VARIABLE} names", file.display()))?;
            Ok(Some(Cow::Owned(bytes)))
        }
        None => Ok(EMBEDDED.map(Cow::Borrowed)),
    }
}
