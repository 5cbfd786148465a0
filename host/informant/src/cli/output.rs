//! Output to stdout and stderr, and the exit code.
//!
//! Everything but the log is printed here, and [escaped](crate::escape) on the way, except texts of this program. A
//! closed stdout, as in `informant get … | head`, is not an error.

use std::io::{self, BufWriter, StdoutLock, Write};

use anyhow::{Context, Result};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use informant_config::Problems;
use informant_spec::suggest::nearest;
use serde::Serialize;

use crate::admin::{AdminError, Code};
use crate::escape::{self, Escaped, Form};
use crate::exit::Exit;
use crate::status_line;

/// The longest message on stderr; a longer one, for example because of a long argument, is cut.
const NOTE_BYTES_MAX: usize = 8 * 1024;

/// Of the daemon's errors, "not ready" may be retried, "not found" is final.
pub(super) fn exit_code_of(error: &anyhow::Error) -> Exit {
    match error.downcast_ref::<AdminError>().map(|error| error.code) {
        Some(Code::NotSynced) => Exit::NotSynced,
        Some(Code::NotReady | Code::Busy | Code::Timeout) => Exit::NotReady,
        None if error.is::<Problems>() => Exit::Config,
        _ => Exit::Failed,
    }
}

/// Stdout, with what is hostile on a terminal escaped.
pub(super) type Stdout = Escaped<BufWriter<StdoutLock<'static>>>;

pub(super) fn stdout(form: Form) -> Stdout {
    Escaped::new(BufWriter::new(io::stdout().lock()), form)
}

/// Writes text to stdout; a closed stdout ends the command without an error.
pub(super) fn to_stdout(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    to_stdout_as(Form::Text, write)
}

pub(super) fn to_stdout_as(form: Form, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let mut out = stdout(form);
    ignore_broken_pipe(write(&mut out).and_then(|()| out.flush()))
}

/// Writes a text of this program to stdout. It is not escaped, so that it can have styles.
pub(super) fn own_text(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    ignore_broken_pipe(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// Writes one line, whatever line breaks `text` contains.
pub(super) fn line(out: &mut dyn Write, text: &str) -> io::Result<()> {
    writeln!(out, "{}", escape::line(text))
}

/// Writes one line to stdout, which is all that a command has to say.
pub(super) fn done(text: &str) -> Result<Exit> {
    to_stdout(|out| line(out, text))?;
    Ok(Exit::Done)
}

pub(super) fn json(document: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(document).context("cannot encode the response as JSON")?;
    to_stdout_as(Form::Json, |out| writeln!(out, "{text}"))
}

pub(super) fn ignore_broken_pipe(result: io::Result<()>) -> Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("failed to write to stdout"),
    }
}

/// Writes a message to stderr. Further lines of it are indented.
pub(super) fn note(message: &str) {
    let message = escape::paragraph(&escape::cut(message, NOTE_BYTES_MAX)) + "\n";
    // A failure to write to stderr cannot be reported anywhere.
    let _ = status_line::stderr().write_all(message.as_bytes());
}

pub(super) fn problems(problems: &Problems) {
    problems.0.iter().for_each(|problem| note(&problem.to_string()));
}

/// Without advice that does not help: a flag that is not similar, and how to pass an unknown flag as a value.
pub(super) fn without_misleading_tips(mut error: clap::Error) -> clap::Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return error;
    }
    error.remove(ContextKind::Suggested);
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let (written, similar) = (text(ContextKind::InvalidArg), text(ContextKind::SuggestedArg));
    if let (Some(written), Some(similar)) = (written, similar)
        && nearest(written, [similar]).is_none()
    {
        error.remove(ContextKind::SuggestedArg);
    }
    error
}

/// An invalid command line, or the requested help, as clap prints it. Echoed arguments are cut and escaped.
pub(super) fn command_line_error(error: &clap::Error) -> Exit {
    let text = error.to_string();
    if !error.use_stderr() || (text.len() <= NOTE_BYTES_MAX && escape::text(&text) == text) {
        // With colors. A failure to write cannot be reported anywhere.
        let _ = error.print();
    } else {
        note(&text);
    }
    if error.use_stderr() { Exit::Usage } else { Exit::Done }
}

/// An error and its causes on stderr.
pub(super) fn error(error: &anyhow::Error) {
    match error.downcast_ref::<Problems>() {
        // These are formatted already, each with its own "error:".
        Some(found) => problems(found),
        None => note(&format!("error: {}", chain(error))),
    }
}

/// The causes of an error, outermost first, without those that an outer one already contains.
pub(super) fn chain(error: &anyhow::Error) -> String {
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
