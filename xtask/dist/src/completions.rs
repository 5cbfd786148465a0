//! Shell completions, which the program itself writes.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::platform::Platform;
use crate::program::Program;

/// The shells, and the names under which they look for the completions of `informant`.
const SHELLS: [(&str, &str); 3] = [
    ("bash", "informant.bash"),
    ("fish", "informant.fish"),
    ("zsh", "_informant"),
];

/// The name and the content of a file.
pub(crate) type File = (&'static str, Vec<u8>);

/// The completions, by the program for this machine. None without such a program: a release is packed where
/// one of its programs can be started.
pub(crate) fn generate(programs: &[Program]) -> Result<Vec<File>> {
    let here = Platform::of_this_machine();
    let Some(program) = programs.iter().find(|program| Some(program.platform) == here) else {
        return Ok(Vec::new());
    };
    SHELLS
        .iter()
        .map(|(shell, file)| Ok((*file, by(program, shell)?)))
        .collect()
}

fn by(program: &Program, shell: &str) -> Result<Vec<u8>> {
    let output = Command::new(&program.file)
        .args(["completions", shell])
        .env_clear()
        .output()
        .with_context(|| format!("failed to start {}", program.file.display()))?;
    ensure!(
        output.status.success() && !output.stdout.is_empty(),
        "`informant completions {shell}` failed with {}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output.stdout)
}
