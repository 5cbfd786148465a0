//! Runs programs, above all cargo.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, ExitStatus};

use anyhow::{Context, Result, ensure};

/// A cargo command in the root of the repository, without arguments. It builds `informant` with the script runner and
/// the dashboard, if these have been built.
pub(crate) fn cargo() -> Result<Command> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(crate::workspace::root()?);
    if let Some(runner) = crate::script_runner::built() {
        command.env("INFORMANT_EMBED_SCRIPT_RUNNER", runner);
    }
    if let Some(folder) = crate::dashboard::built() {
        command.env("INFORMANT_EMBED_DASHBOARD", folder);
    }
    without_own_variables(&mut command);
    Ok(command)
}

/// Removes the variables that cargo set for this program. Some build scripts read them, so cargo would rebuild their
/// dependents whenever the variables appear or disappear.
pub(crate) fn without_own_variables(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(name.as_ref());
        }
    }
}

/// Runs a command to its end.
///
/// # Errors
/// If the program cannot be started or fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = status(command)?;
    ensure!(status.success(), "`{}` failed with {status}", shown(command));
    Ok(())
}

/// Runs a command to its end and returns its status.
pub(crate) fn status(command: &mut Command) -> Result<ExitStatus> {
    command
        .status()
        .with_context(|| format!("failed to start `{}`", shown(command)))
}

/// Whether a program is installed.
pub(crate) fn is_there(program: &str, argument: &str) -> bool {
    Command::new(program)
        .arg(argument)
        .output()
        .is_ok_and(|output| output.status.success())
}

fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}
