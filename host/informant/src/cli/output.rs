//! Output to stdout and stderr, and the exit code.
//!
//! Everything but the log is printed here. A closed stdout, as in `informant get … | head`, is not an error.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::admin::{AdminError, Code};
use crate::config::Problems;

/// What an exit code means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Success. For `run`: stopped cleanly by one signal.
    Done,
    /// Failure. For `get`: not found.
    Failed,
    /// Invalid command line.
    Usage,
    /// Invalid configuration.
    Config,
    /// For `get`: the index is not attached. For other commands: not ready yet.
    NotReady,
    /// For `get`: the informer's first list is not in the cache yet.
    NotSynced,
}

impl Exit {
    /// The number.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Config => 3,
            Self::NotReady => 4,
            Self::NotSynced => 5,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// The exit code of an error.
pub(super) fn exit_code_of(error: &anyhow::Error) -> Exit {
    if error.downcast_ref::<Problems>().is_some() {
        Exit::Config
    } else {
        Exit::Failed
    }
}

/// Writes to stdout; a closed stdout ends the command without an error.
pub(super) fn to_stdout(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    ignore_broken_pipe(write(&mut out).and_then(|()| out.flush()))
}

/// Writes a JSON document to stdout.
pub(super) fn json(document: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(document).context("cannot encode the response as JSON")?;
    to_stdout(|out| writeln!(out, "{text}"))
}

/// Ignores a broken pipe.
pub(super) fn ignore_broken_pipe(result: io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("failed to write to stdout"),
    }
}

/// Writes a line to stderr.
pub(super) fn note(line: &str) {
    // A failure to write to stderr cannot be reported anywhere.
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Prints the daemon's error and returns the exit code: "not ready" may be retried, "not found" is final.
pub(super) fn refused(error: &AdminError) -> Exit {
    note(&format!("error: {error}"));
    match error.code {
        Code::NotSynced => Exit::NotSynced,
        Code::NotReady | Code::Busy | Code::Timeout => Exit::NotReady,
        _ => Exit::Failed,
    }
}

/// An error and its causes on stderr.
pub(super) fn error(error: &anyhow::Error) {
    match error.downcast_ref::<Problems>() {
        // These are formatted already, each with its own "error:".
        Some(problems) => note(&problems.to_string()),
        None => note(&format!("error: {}", chain(error))),
    }
}

/// The causes of an error, outermost first, without those that an outer one already contains.
fn chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&cause);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    #[test]
    fn repeated_causes_are_printed_once() {
        let error = anyhow!("no such file")
            .context("plugin.wasm: no such file")
            .context("plugin x");
        assert_eq!(super::chain(&error), "plugin x: plugin.wasm: no such file");
    }
}
