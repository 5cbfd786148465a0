//! What a recorder is told to do: its config.

use informant_plugin_sdk::prelude::*;
use serde::Deserialize;

/// The `config` table of a recorder. Everything may be left out.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(crate) struct Behavior {
    /// Stands in each line, to tell two instances of one test apart.
    pub(crate) label: String,
    /// Done in `init`.
    pub(crate) init: Option<Action>,
    /// The first that fits an event is done.
    pub(crate) rules: Vec<Rule>,
    /// Each such event is accepted but neither recorded nor remembered. 0: none.
    pub(crate) swallow_every: u64,
    /// Whether to read each object back from the store and record the version found there.
    pub(crate) read_back: bool,
    /// Whether to be silent about events that end well.
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
    /// Only at the first so many attempts of an event.
    #[serde(default)]
    attempts: Option<u32>,
    /// Only at the first so many calls that this rule fits, in the life of the instance.
    #[serde(default)]
    times: Option<u32>,
    #[serde(rename = "do")]
    action: Action,
}

/// Something to do instead of, or before, succeeding.
#[derive(Deserialize, Clone, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Action {
    /// Succeed.
    Ok,
    /// Fail, worth another try.
    Retryable,
    /// Fail, worth another try after so many milliseconds.
    RetryAfterMs(u64),
    /// Fail for good.
    Permanent,
    /// Panic.
    Trap,
    /// Never return.
    Loop,
    /// Count to that number, then succeed. About 1 ns each.
    Spin(u64),
    /// Allocate until there is no more.
    Grow,
    /// Allocate and keep so many bytes, then succeed.
    Keep(usize),
    /// Recurse until there is no more stack.
    Recurse,
    /// Leave by way of the process.
    Exit,
    /// Log one line of so many bytes, then succeed.
    LogBytes(usize),
    /// Log so many lines, then succeed.
    LogLines(u32),
    /// Print one line to stdout and one to stderr, then succeed.
    Print,
    /// Succeed, but neither record nor remember the event.
    Swallow,
    /// Succeed and record what the view is.
    Digest,
}

impl Rule {
    /// The action, if this rule fits. Counts the call.
    pub(crate) fn fits(&mut self, event: &str, name: &str, attempt: u32) -> Option<Action> {
        let name_fits = self
            .name
            .as_deref()
            .is_none_or(|pattern| match pattern.strip_suffix('*') {
                Some(prefix) => name.starts_with(prefix),
                None => name == pattern,
            });
        let event_fits = self
            .event
            .as_deref()
            .map_or(event != "synced", |wanted| wanted == event);
        let attempt_fits = self.attempts.is_none_or(|attempts| attempt < attempts);
        if !(name_fits && event_fits && attempt_fits) {
            return None;
        }
        if let Some(times) = &mut self.times {
            *times = times.checked_sub(1)?;
        }
        Some(self.action.clone())
    }
}

impl Action {
    /// What the line of a call says its outcome is. Written before the action, because some do not come back.
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

    /// Does it. What `Swallow` and `Digest` mean is the recorder's business.
    pub(crate) fn perform(&self, kept: &mut Vec<Vec<u8>>) -> Result {
        match self {
            Self::Ok | Self::Swallow | Self::Digest => {}
            Self::Retryable => return Err(Failure::retryable("told to fail")),
            Self::RetryAfterMs(ms) => {
                return Err(Failure::retry_after(
                    "told to fail for a while",
                    std::time::Duration::from_millis(*ms),
                ));
            }
            Self::Permanent => return Err(Failure::permanent("told to fail for good")),
            Self::Trap => panic!("told to trap"),
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
        Ok(())
    }
}

#[expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "what a guest prints is the host's to catch"
)]
fn print() {
    println!("printed to stdout");
    eprintln!("printed to stderr");
}

#[expect(unconditional_recursion, reason = "that is the point")]
fn recurse(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 64]);
    recurse(depth + 1) + frame[63]
}
