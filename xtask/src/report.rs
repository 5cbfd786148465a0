//! What xtask tells its user, on stderr: one line a step.

#![expect(clippy::print_stderr, reason = "this module is xtask's terminal output")]

use std::time::Duration;

/// A step begins.
pub(crate) fn step(what: &str) {
    eprintln!("── {what}");
}

/// A step ended well.
pub(crate) fn done(what: &str, took: Duration) {
    eprintln!("   ok: {what} ({:.0} s)", took.as_secs_f64());
}

/// A step failed.
pub(crate) fn failed(what: &str, error: &anyhow::Error) {
    eprintln!("   FAILED: {what}: {error:#}");
}

/// A step was left out.
pub(crate) fn left_out(what: &str, why: &str) {
    eprintln!("   left out: {what}: {why}");
}

/// xtask itself cannot go on.
pub(crate) fn error(error: &anyhow::Error) {
    eprintln!("error: {error:#}");
}
