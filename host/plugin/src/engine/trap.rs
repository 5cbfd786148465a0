//! Trap reports: which call did not return, why, and the guest's last output.

use std::fmt;

use wasmtime::{Error, Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use crate::engine::TRANSFER_BYTES_MAX;
use crate::engine::budget::CpuExceeded;
use crate::engine::limiter::{Limiter, Mib};
use crate::engine::watchdog::Abandoned;

/// Named functions shown of the guest's stack.
const FRAMES_MAX: usize = 6;

/// A call into a guest that did not return. The instance is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrapReport {
    pub kind: TrapKind,
    /// The function that was called, by its name in the contract; `start` for the start functions of a new instance.
    pub export: &'static str,
    pub object: Option<String>,
    pub cause: String,
    /// The innermost functions, if the component has names.
    pub frames: Vec<String>,
    /// The last lines it wrote to stderr or logged as errors in this call, oldest first.
    pub last_lines: Vec<String>,
}

/// What ended a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrapKind {
    /// The guest trapped: a panic, an uncaught exception, stack exhausted, an invalid result.
    Trap,
    /// It was denied memory above its limit, and trapped or failed.
    Memory,
    /// It ran or waited too long.
    Timeout,
    /// The host aborted it to stop.
    Aborted,
}

impl TrapReport {
    /// The report of a call to `export` that ended with `error`.
    pub(crate) fn new(export: &'static str, error: &Error, limiter: &Limiter, last_lines: Vec<String>) -> TrapReport {
        let (kind, cause) = explain(error, limiter);
        TrapReport {
            kind,
            export,
            object: None,
            cause,
            frames: frames(error),
            last_lines,
        }
    }

    /// The report of a call that was abandoned.
    pub(crate) fn abandoned(export: &'static str, why: Abandoned, last_lines: Vec<String>) -> TrapReport {
        let kind = match why {
            Abandoned::TooLong(_) => TrapKind::Timeout,
            Abandoned::Aborted => TrapKind::Aborted,
        };
        TrapReport {
            kind,
            export,
            object: None,
            cause: why.to_string(),
            frames: Vec::new(),
            last_lines,
        }
    }

    /// The report of a call that answered, but was denied memory as `cause` says.
    pub(crate) fn out_of_memory(export: &'static str, cause: String, last_lines: Vec<String>) -> TrapReport {
        TrapReport {
            kind: TrapKind::Memory,
            export,
            object: None,
            cause,
            frames: Vec::new(),
            last_lines,
        }
    }

    pub(crate) fn about(mut self, object: impl fmt::Display) -> TrapReport {
        self.object = Some(object.to_string());
        self
    }
}

impl TrapKind {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            TrapKind::Trap => "trap",
            TrapKind::Memory => "memory",
            TrapKind::Timeout => "timeout",
            TrapKind::Aborted => "aborted",
        }
    }
}

impl fmt::Display for TrapReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.export)?;
        if let Some(object) = &self.object {
            write!(f, " for {object}")?;
        }
        f.write_str(match self.kind {
            TrapKind::Trap => " trapped: ",
            TrapKind::Memory => " ran out of memory: ",
            TrapKind::Timeout => " did not return: ",
            TrapKind::Aborted => " was aborted: ",
        })?;
        f.write_str(&self.cause)?;
        if !self.last_lines.is_empty() {
            write!(f, "{WROTE}{}", self.last_lines.join(NEXT_LINE))?;
        }
        if !self.frames.is_empty() {
            write!(f, "{IN}{}", self.frames.join(CALLED_BY))?;
        }
        Ok(())
    }
}

impl std::error::Error for TrapReport {}

/// What stands between the parts of a displayed report.
const WROTE: &str = "; it wrote: ";
const NEXT_LINE: &str = " | ";
const IN: &str = "; in ";
const CALLED_BY: &str = " < ";

/// A displayed [`TrapReport`] on several lines, for a terminal: the cause, then each line that the guest wrote, then
/// each frame. Lines of a guest that contain a separator are broken there.
#[must_use]
pub fn trap_report_lines(report: &str) -> String {
    let (report, frames) = report.rsplit_once(IN).unwrap_or((report, ""));
    let (cause, wrote) = report.split_once(WROTE).unwrap_or((report, ""));
    let mut lines = String::from(cause);
    for line in wrote.split(NEXT_LINE).filter(|line| !line.is_empty()) {
        lines.extend(["\n", line]);
    }
    for frame in frames.split(CALLED_BY).filter(|frame| !frame.is_empty()) {
        lines.extend(["\nin ", frame]);
    }
    lines
}

fn explain(error: &Error, limiter: &Limiter) -> (TrapKind, String) {
    if let Some(exceeded) = error.downcast_ref::<CpuExceeded>() {
        return (TrapKind::Timeout, exceeded.to_string());
    }
    if let Some(I32Exit(code)) = error.downcast_ref::<I32Exit>() {
        return (
            TrapKind::Trap,
            format!("it called exit({code}); a plugin must return instead of exiting"),
        );
    }
    let cause = match error.downcast_ref::<Trap>() {
        Some(Trap::StackOverflow) => "stack overflow; check for unbounded recursion".to_owned(),
        // Where a toolchain puts the stack at the start of the memory, a stack overflow looks like this.
        Some(Trap::MemoryOutOfBounds) => {
            "out-of-bounds memory access: unbounded recursion exhausted its stack, or a pointer is invalid".to_owned()
        }
        // Most languages trap like this after a panic, an exception or a failed allocation, and write the reason to
        // stderr.
        Some(Trap::UnreachableCodeReached) => match limiter.explain() {
            Some(cause) => return (TrapKind::Memory, cause),
            None => "it panicked".to_owned(),
        },
        Some(trap) => trap.to_string(),
        None => other_error(error),
    };
    (TrapKind::Trap, cause)
}

/// An error outside of the guest's instructions: an invalid result or argument.
fn other_error(error: &Error) -> String {
    let root = error.root_cause().to_string();
    match root.contains("fuel allocated for hostcalls") {
        true => format!("it passed more than {} in one call", Mib(TRANSFER_BYTES_MAX)),
        false => root,
    }
}

fn frames(error: &Error) -> Vec<String> {
    let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() else {
        return Vec::new();
    };
    let names = backtrace.frames().iter().filter_map(|frame| frame.func_name());
    own_frames(names.map(readable))
}

/// The frames of the guest's own code, innermost first, without those that report a panic and those that call the
/// guest.
fn own_frames(names: impl Iterator<Item = String>) -> Vec<String> {
    names.filter(|name| !is_runtime_frame(name)).take(FRAMES_MAX).collect()
}

/// The name in the source: Rust's names without mangling and hash.
fn readable(name: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(name))
}

fn is_runtime_frame(name: &str) -> bool {
    const PREFIXES: [&str; 10] = [
        "std::", "core::", "alloc::", "<std::", "<core::", "<alloc::", "__rust", "rust_", "_rust", "abort",
    ];
    const PARTS: [&str; 4] = [
        "::_::__link_custom_section",
        "cabi_",
        "wit_bindgen",
        "::exports::informant::plugin",
    ];
    name == "abort"
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || PARTS.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_shows_only_the_guests_own_functions() {
        let stack = [
            "abort",
            "_RNvNtNtNtNtCshXfaRvt2tfW_3std3sys3pal4wasi7helpers14abort_internal",
            "_ZN4core9panicking9panic_fmt17h0123456789abcdefE",
            "_ZN7greeter7Greeter7look_at17h0123456789abcdefE",
            "handle",
        ];
        let names = stack.into_iter().map(readable);
        assert_eq!(own_frames(names), ["greeter::Greeter::look_at", "handle"]);
    }

    #[test]
    fn a_report_has_its_cause_first_and_then_the_trace() {
        let mut report = TrapReport {
            kind: TrapKind::Trap,
            export: "on-add",
            object: Some("web/a".to_owned()),
            cause: "it panicked".to_owned(),
            frames: Vec::new(),
            last_lines: Vec::new(),
        };
        assert_eq!(
            trap_report_lines(&report.to_string()),
            "on-add for web/a trapped: it panicked"
        );
        report.frames = ["greeter::look_at", "handle"].map(str::to_owned).to_vec();
        report.last_lines = ["panicked at src/lib.rs:7:5:", "no phase"].map(str::to_owned).to_vec();
        insta::assert_snapshot!(trap_report_lines(&report.to_string()), @"
        on-add for web/a trapped: it panicked
        panicked at src/lib.rs:7:5:
        no phase
        in greeter::look_at
        in handle
        ");
    }
}
