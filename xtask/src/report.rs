//! Progress messages on stderr: one line for each step.

#![expect(clippy::print_stderr, reason = "this module is xtask's terminal output")]

use std::time::Duration;

/// A step begins.
pub(crate) fn step(what: &str) {
    eprintln!("── {what}");
}

/// A step succeeded.
pub(crate) fn done(what: &str, took: Duration) {
    eprintln!("   ok: {what} ({:.0} s)", took.as_secs_f64());
}

/// A step failed.
pub(crate) fn failed(what: &str, error: &anyhow::Error) {
    eprintln!("   FAILED: {what}: {error:#}");
}

/// A step was skipped.
pub(crate) fn skipped(what: &str, why: &str) {
    eprintln!("   skipped: {what}: {why}");
}

/// xtask failed.
pub(crate) fn error(error: &anyhow::Error) {
    eprintln!("error: {error:#}");
}
