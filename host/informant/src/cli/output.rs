//! What goes to stdout and stderr.
//!
//! The only place that writes there (the log apart). A reader that went away, as in `informant get … | head`, is no
//! error.

use std::io::{self, ErrorKind, Write};

use anyhow::{Context, Result};
use serde::Serialize;

use super::Exit;
use crate::admin::{ApiError, Code};
use crate::config::Problems;

/// Writes to stdout; the command ends quietly if nobody reads any more.
pub(super) fn to_stdout(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    unless_gone(write(&mut out).and_then(|()| out.flush()))
}

/// Writes a document to stdout, for programs.
pub(super) fn json(document: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(document).context("the answer makes no JSON")?;
    to_stdout(|out| writeln!(out, "{text}"))
}

/// Passes over a broken pipe.
pub(super) fn unless_gone(result: io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.context("failed to write to stdout"),
    }
}

/// A line on stderr for the person in front of it.
pub(super) fn note(line: &str) {
    // There is nobody left to tell when stderr is gone.
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// What the daemon says it cannot do; "not ready" is worth asking again, "not found" is an answer.
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
        // These are formatted already, one "error:" each.
        Some(problems) => note(&problems.to_string()),
        None => note(&format!("error: {}", chain(error))),
    }
}

/// The causes of an error, outermost first, without those that the one before has said already.
fn chain(error: &anyhow::Error) -> String {
    let mut said = String::new();
    for cause in error.chain() {
        let text = cause.to_string();
        if !said.contains(&text) {
            if !said.is_empty() {
                said.push_str(": ");
            }
            said.push_str(&text);
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    #[test]
    fn a_cause_is_said_once() {
        let error = anyhow!("no such file")
            .context("plugin.wasm: no such file")
            .context("plugin x");
        assert_eq!(super::chain(&error), "plugin x: plugin.wasm: no such file");
    }
}
