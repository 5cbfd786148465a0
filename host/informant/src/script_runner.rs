//! The component that runs scripts: the embedded one, or the file in `INFORMANT_SCRIPT_RUNNER`.

use std::borrow::Cow;

use anyhow::{Context, Result};

/// The file of another runner: to try one, or for programs that were built without.
pub(crate) const VARIABLE: &str = "INFORMANT_SCRIPT_RUNNER";

/// The embedded runner. `None` if the program was built by cargo alone, not by `cargo xtask`.
const EMBEDDED: Option<&[u8]> = include!(concat!(env!("OUT_DIR"), "/script_runner.rs"));

/// The runner to use.
///
/// # Errors
/// If the variable names a file that cannot be read.
pub(crate) fn component() -> Result<Option<Cow<'static, [u8]>>> {
    match std::env::var_os(VARIABLE).filter(|file| !file.is_empty()) {
        Some(file) => {
            let bytes = std::fs::read(&file)
                .with_context(|| format!("cannot read the script runner {} ({VARIABLE})", file.display()))?;
            Ok(Some(Cow::Owned(bytes)))
        }
        None => Ok(EMBEDDED.map(Cow::Borrowed)),
    }
}
