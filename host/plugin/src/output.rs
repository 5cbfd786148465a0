//! A guest's output, written to Informant's log.
//!
//! It comes from the `log` interface, stdout and stderr. Each line gets the plugin's name as a field, is truncated at
//! [`LINE_BYTES_MAX`], and is charged to the call in which it was written; above [`CALL_BYTES_MAX`] the rest of that
//! call's output is dropped and counted. The last lines of stderr and the last logged errors are kept: when a guest
//! traps, only they contain the reason. Lines of stderr are logged when the call writes something else or ends, so that
//! those of a trap appear once, in its report.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use prometheus_client::metrics::counter::Counter;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

use crate::bindings::informant::plugin::log::Level;
use crate::capture::{LogRecord, Record, Tape};
use crate::sync::lock;

/// The target of guests' lines in the log.
pub const GUEST_TARGET: &str = "informant::guest";

/// Bytes of one line: 8 KiB; the rest is cut off.
pub(crate) const LINE_BYTES_MAX: usize = 8 * 1_024;

/// Bytes one call may write: 64 KiB. The rest is dropped and counted in `informant_plugin_log_dropped_bytes_total`.
pub(crate) const CALL_BYTES_MAX: usize = 64 * 1_024;

/// Fields of one line: 32. Of more, the first are logged, and the others are counted as dropped bytes.
pub(crate) const FIELDS_MAX: usize = 32;

/// Lines kept for a trap report: 20. A Rust panic takes four, a Python traceback of ten frames twenty.
pub(crate) const TAIL_LINES_MAX: usize = 20;

/// Bytes a stream accepts at once: 64 KiB, as wasmtime's own streams.
const WRITE_BYTES_MAX: usize = 64 * 1_024;

#[derive(Clone)]
pub(crate) struct Output(Arc<Shared>);

struct Shared {
    /// Whether anything was written since the last call. Most calls write nothing, so this avoids the lock.
    wrote: AtomicBool,
    state: Mutex<State>,
}

struct State {
    plugin: Arc<str>,
    dropped_bytes: Counter,
    /// Bytes this call may still write.
    left: usize,
    /// Bytes dropped since this call began.
    dropped: usize,
    /// Unfinished lines of stdout and stderr.
    unfinished: [Vec<u8>; 2],
    tail: VecDeque<TailLine>,
    tape: Tape,
}

/// A line kept for a trap report.
struct TailLine {
    text: String,
    /// False: a line of stderr that is logged when the call ends without a trap.
    logged: bool,
}

/// The stream a guest wrote to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// One of the two streams, for WASI.
#[derive(Clone)]
pub(crate) struct LineStream {
    output: Output,
    stream: Stream,
}

impl Output {
    pub(crate) fn new(plugin: Arc<str>, dropped_bytes: Counter) -> Output {
        let state = State {
            plugin,
            dropped_bytes,
            left: CALL_BYTES_MAX,
            dropped: 0,
            unfinished: [Vec::new(), Vec::new()],
            tail: VecDeque::new(),
            tape: Tape::default(),
        };
        Output(Arc::new(Shared {
            wrote: AtomicBool::new(false),
            state: Mutex::new(state),
        }))
    }

    /// Its lines are recorded while `tape` runs.
    pub(crate) fn recorded(self, tape: &Tape) -> Output {
        self.lock().tape = tape.clone();
        self
    }

    pub(crate) fn stream(&self, stream: Stream) -> LineStream {
        LineStream {
            output: self.clone(),
            stream,
        }
    }

    /// A line of the `log` interface, with fields: names and values. `cluster`: that of the object which the call is
    /// about, if it has a name.
    pub(crate) fn log(&self, level: Level, message: &str, fields: &[(String, String)], cluster: Option<&str>) {
        let mut state = self.write_to();
        let Some(line) = state.admit(message.as_bytes()) else {
            return;
        };
        let fields = state.admit_fields(fields, LINE_BYTES_MAX.saturating_sub(line.len()));
        let fields = fields.as_deref();
        state.log_held_lines();
        if level == Level::Error {
            state.keep(line.clone(), true);
        }
        state.record(level, &line, fields);
        let plugin: &str = &state.plugin;
        match level {
            Level::Trace => tracing::trace!(target: GUEST_TARGET, plugin, cluster, stream = "log", fields, "{line}"),
            Level::Debug => tracing::debug!(target: GUEST_TARGET, plugin, cluster, stream = "log", fields, "{line}"),
            Level::Info => tracing::info!(target: GUEST_TARGET, plugin, cluster, stream = "log", fields, "{line}"),
            Level::Warn => tracing::warn!(target: GUEST_TARGET, plugin, cluster, stream = "log", fields, "{line}"),
            Level::Error => tracing::error!(target: GUEST_TARGET, plugin, cluster, stream = "log", fields, "{line}"),
        }
    }

    /// A call ended: writes its unfinished lines and resets the budget.
    pub(crate) fn end_call(&self) {
        if !self.0.wrote.swap(false, Ordering::Relaxed) {
            return;
        }
        let mut state = self.lock();
        state.finish_lines();
        state.log_held_lines();
        state.tail.clear();
        state.report_dropped();
        state.left = CALL_BYTES_MAX;
    }

    /// The last lines of the call that trapped, oldest first. They are for its report, and not logged here.
    pub(crate) fn take_tail(&self) -> Vec<String> {
        let mut state = self.lock();
        state.finish_lines();
        state.tail.drain(..).map(|line| line.text).collect()
    }

    fn write_to(&self) -> MutexGuard<'_, State> {
        self.0.wrote.store(true, Ordering::Relaxed);
        self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.0.state)
    }
}

impl State {
    /// Charges a line to the call, and returns its text if the budget allows.
    fn admit(&mut self, line: &[u8]) -> Option<String> {
        let cut = &line[..line.len().min(LINE_BYTES_MAX)];
        // A line costs its bytes and one for the line break, so that empty lines are not free.
        let cost = cut.len() + 1;
        if cost > self.left {
            self.drop_bytes(line.len());
            // Drops everything after it, too: a log with gaps misleads.
            self.left = self.left.min(1);
            return None;
        }
        self.left -= cost;
        self.drop_bytes(line.len() - cut.len());
        let mut text = String::from_utf8_lossy(cut).into_owned();
        if cut.len() < line.len() {
            text.push('…');
        }
        Some(text)
    }

    /// The fields as a JSON object, as far as they fit into `room` bytes and what the call may still write. A value
    /// that is JSON is logged as such, any other as text.
    fn admit_fields(&mut self, fields: &[(String, String)], mut room: usize) -> Option<String> {
        let mut members = serde_json::Map::new();
        for (position, (name, value)) in fields.iter().enumerate() {
            let bytes = name.len() + value.len();
            if position >= FIELDS_MAX || bytes > room.min(self.left) {
                self.drop_bytes(bytes);
                continue;
            }
            room -= bytes;
            self.left -= bytes;
            let value = serde_json::from_str(value).unwrap_or_else(|_| value.as_str().into());
            members.insert(name.clone(), value);
        }
        (!members.is_empty()).then(|| serde_json::Value::from(members).to_string())
    }

    /// Counts bytes that are not logged. They are charged to the call, too, or one endless line would be free.
    fn drop_bytes(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes);
        self.dropped += bytes;
        self.dropped_bytes.inc_by(bytes as u64);
    }

    fn keep(&mut self, text: String, logged: bool) {
        if self.tail.len() == TAIL_LINES_MAX
            && let Some(oldest) = self.tail.pop_front()
            && !oldest.logged
        {
            self.log_stderr(&oldest.text);
        }
        self.tail.push_back(TailLine { text, logged });
    }

    fn log_held_lines(&mut self) {
        let mut tail = std::mem::take(&mut self.tail);
        for line in tail.iter_mut().filter(|line| !line.logged) {
            self.log_stderr(&line.text);
            line.logged = true;
        }
        self.tail = tail;
    }

    fn record(&self, level: Level, line: &str, fields: Option<&str>) {
        self.tape.record(|| {
            Record::Log(LogRecord {
                level: match level {
                    Level::Trace => "trace",
                    Level::Debug => "debug",
                    Level::Info => "info",
                    Level::Warn => "warn",
                    Level::Error => "error",
                },
                message: line.to_owned(),
                fields: fields.map(str::to_owned),
            })
        });
    }

    fn log_stderr(&self, text: &str) {
        self.record(Level::Warn, text, None);
        let plugin: &str = &self.plugin;
        tracing::warn!(target: GUEST_TARGET, plugin, stream = "stderr", "{text}");
    }

    fn write(&mut self, stream: Stream, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            self.extend(stream, &rest[..end]);
            self.finish_line(stream);
            rest = &rest[end + 1..];
        }
        self.extend(stream, rest);
    }

    fn extend(&mut self, stream: Stream, bytes: &[u8]) {
        let line = &mut self.unfinished[stream as usize];
        // One byte more than the limit, so that `admit` sees that the line was cut.
        let room = (LINE_BYTES_MAX + 1).saturating_sub(line.len());
        line.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.drop_bytes(bytes.len().saturating_sub(room));
    }

    fn finish_lines(&mut self) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            self.finish_line(stream);
        }
    }

    fn report_dropped(&mut self) {
        let dropped = std::mem::take(&mut self.dropped);
        if dropped > 0 {
            tracing::warn!(
                target: GUEST_TARGET,
                plugin = &*self.plugin,
                dropped_bytes = dropped,
                bytes_max = CALL_BYTES_MAX,
                "plugin log truncated"
            );
        }
    }

    fn finish_line(&mut self, stream: Stream) {
        let mut line = std::mem::take(&mut self.unfinished[stream as usize]);
        let text = if line.is_empty() { None } else { self.admit(&line) };
        line.clear();
        self.unfinished[stream as usize] = line;
        let Some(text) = text else { return };
        match stream {
            Stream::Stdout => {
                self.log_held_lines();
                self.record(Level::Info, &text, None);
                let plugin: &str = &self.plugin;
                tracing::info!(target: GUEST_TARGET, plugin, stream = "stdout", "{text}");
            }
            Stream::Stderr => self.keep(text, false),
        }
    }
}

impl IsTerminal for LineStream {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for LineStream {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        // Only WASI 0.3 uses this stream, and it is not offered.
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for LineStream {
    async fn ready(&mut self) {}
}

impl OutputStream for LineStream {
    fn write(&mut self, bytes: bytes::Bytes) -> StreamResult<()> {
        self.output.write_to().write(self.stream, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES_MAX)
    }
}

#[cfg(test)]
mod tests;
