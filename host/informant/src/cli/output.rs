//! Output to stdout and stderr.
//!
//! Everything but the log is printed here. A closed stdout, as in `informant get … | head`, is not an error.

use std::io::{self, ErrorKind, Write};

use anyhow::{Context, Result};
use serde::Serialize;

use super::Exit;
use crate::admin::{ApiError, Code};
use crate::config::Problems;

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
pub(super) fn refused(error: &ApiError) -> Exit {
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
