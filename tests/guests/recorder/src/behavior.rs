//! The behavior of a recorder, from its config.

use std::time::Duration;

use informant_plugin_sdk::prelude::*;
use serde::Deserialize;

/// The `config` table of a recorder. Every key is optional.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(crate) struct Behavior {
    /// Part of each line, to distinguish several instances in a test.
    pub(crate) label: String,
    /// Performed in `init`.
    pub(crate) init: Option<Do>,
    /// The first rule that matches an event applies.
    pub(crate) rules: Vec<Rule>,
    /// Every n-th event is accepted, but neither recorded nor remembered. 0 means none.
    pub(crate) swallow_every: u64,
    /// Whether to read each object back from the store and record the version found there.
    pub(crate) read_back: bool,
    /// Whether to skip the lines of successful events.
    pub(crate) quiet: bool,
}

/// An action for some events.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Rule {
    /// The object's name, with `*` at the end for a prefix. Absent: every name.
    #[serde(default)]
    name: Option<String>,
    /// `add`, `update`, `delete` or `synced`. Absent: every event but `synced`.
    #[serde(default)]
    event: Option<String>,
    /// Only for the first attempts of an event, up to this number.
    #[serde(default)]
    attempts: Option<u32>,
    /// Only for the first calls in the life of the instance that match this rule, up to this number.
    #[serde(default)]
    times: Option<u32>,
    #[serde(rename = "do")]
    action: Do,
}

/// An action instead of, or before, success.
#[derive(Deserialize, Clone, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Do {
    /// Succeed.
    Ok,
    /// Fail with a retryable failure.
    Retryable,
    /// Fail with a retry after this many milliseconds.
    RetryAfterMs(u64),
    /// Succeed, and ask for another call after this many milliseconds.
    RequeueAfterMs(u64),
    /// Fail permanently.
    Permanent,
    /// Panic.
    Trap,
    /// Never return.
    Loop,
    /// Count to this number, then succeed. Each step takes about 1 ns.
    Spin(u64),
    /// Allocate until memory runs out.
    Grow,
    /// Allocate and keep this many bytes, then succeed.
    Keep(usize),
    /// Recurse until the stack overflows.
    Recurse,
    /// Exit the process.
    Exit,
    /// Log one line of this many bytes, then succeed.
    LogBytes(usize),
    /// Log this many lines, then succeed.
    LogLines(u32),
    /// Print one line to stdout and one to stderr, then succeed.
    Print,
    /// Succeed, but neither record nor remember the event.
    Swallow,
    /// Succeed and record the digest of the view.
    Digest,
}

impl Rule {
    /// The action, if this rule matches. Counts the call.
    pub(crate) fn matches(&mut self, event: &str, name: &str, attempt: u32) -> Option<Do> {
        let name_matches = self
            .name
            .as_deref()
            .is_none_or(|pattern| match pattern.strip_suffix('*') {
                Some(prefix) => name.starts_with(prefix),
                None => name == pattern,
            });
        let event_matches = self
            .event
            .as_deref()
            .map_or(event != "synced", |wanted| wanted == event);
        let attempt_matches = self.attempts.is_none_or(|attempts| attempt < attempts);
        if !(name_matches && event_matches && attempt_matches) {
            return None;
        }
        if let Some(times) = &mut self.times {
            *times = times.checked_sub(1)?;
        }
        Some(self.action.clone())
    }
}

impl Do {
    /// The outcome in the line of a call. The line is written before the action, because some actions do not return.
    pub(crate) fn outcome(&self) -> &'static str {
        match self {
            Self::Retryable => "retryable",
            Self::RetryAfterMs(_) => "retry-after",
            Self::Permanent => "permanent",
            Self::Trap | Self::Grow | Self::Recurse | Self::Exit => "trap",
            Self::Loop => "timeout",
            _ => "ok",
        }
    }

    /// Performs the action. The recorder handles `Swallow` and `Digest`.
    pub(crate) fn perform(&self, kept: &mut Vec<Vec<u8>>) -> Result<Action> {
        match self {
            Self::Ok | Self::Swallow | Self::Digest => {}
            Self::Retryable => return Err(Failure::retryable("asked to fail")),
            Self::RetryAfterMs(ms) => {
                return Err(Failure::retry_after(
                    "asked to fail for a while",
                    Duration::from_millis(*ms),
                ));
            }
            Self::RequeueAfterMs(ms) => return Ok(Action::requeue_after(Duration::from_millis(*ms))),
            Self::Permanent => return Err(Failure::permanent("asked to fail for good")),
            Self::Trap => panic!("asked to trap"),
            Self::Loop => loop {
                std::hint::black_box(());
            },
            Self::Spin(count) => (0..*count).for_each(|number| {
                std::hint::black_box(number);
            }),
            Self::Grow => loop {
                kept.push(vec![1; 1 << 20]);
            },
            Self::Keep(bytes) => kept.push(vec![1; *bytes]),
            Self::Recurse => {
                recurse(0);
            }
            Self::Exit => std::process::exit(3),
            Self::LogBytes(bytes) => info!("{}", "x".repeat(*bytes)),
            Self::LogLines(lines) => (0..*lines).for_each(|line| info!("line {line}")),
            Self::Print => print(),
        }
        Ok(Action::done())
    }
}

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "the host captures the output of a guest"
)]
fn print() {
    println!("printed to stdout");
    eprintln!("printed to stderr");
}

#[expect(unconditional_recursion, reason = "the recursion has to overflow the stack")]
fn recurse(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 64]);
    recurse(depth + 1) + frame[63]
}
