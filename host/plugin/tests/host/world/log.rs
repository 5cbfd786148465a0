//! The log of a test.

use std::fmt::{Debug, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

/// A subscriber that keeps the log, and logs the level `trace` or not.
#[derive(Clone, Default)]
pub(crate) struct Log {
    lines: Arc<Mutex<Vec<Line>>>,
    lacks_trace: Arc<AtomicBool>,
    /// Which lines end tracing, and how many of them are left until then.
    ends_tracing: Arc<Mutex<Option<(LineFilter, usize)>>>,
}

type LineFilter = fn(&Value) -> bool;

#[derive(Clone, Debug, Default)]
pub(crate) struct Line {
    pub(crate) level: String,
    pub(crate) message: String,
    pub(crate) fields: String,
}

impl Line {
    /// Whether the guest of `plugin` has logged it. Its fields name the cluster, too, if that has a name.
    pub(crate) fn is_of_guest(&self, plugin: &str) -> bool {
        self.fields.starts_with(&format!(" plugin=\"{plugin}\" ")) && self.fields.contains(" stream=\"log\"")
    }
}

impl Log {
    pub(crate) fn lines(&self) -> Vec<Line> {
        self.lines.lock().unwrap().clone()
    }

    /// From now on the level `trace` is logged.
    pub(crate) fn start_tracing(&self) {
        self.lacks_trace.store(false, Ordering::Relaxed);
    }

    /// From now on the level `trace` is not logged.
    pub(crate) fn stop_tracing(&self) {
        self.lacks_trace.store(true, Ordering::Relaxed);
    }

    /// After `count` lines that `filter` selects the level `trace` is not logged.
    pub(crate) fn stop_tracing_after(&self, filter: LineFilter, count: usize) {
        *self.ends_tracing.lock().unwrap() = Some((filter, count));
    }

    fn count_down(&self, line: &Line) {
        let mut ends = self.ends_tracing.lock().unwrap();
        let Some((filter, left)) = &mut *ends else { return };
        if serde_json::from_str(&line.message).is_ok_and(|line| filter(&line)) {
            *left -= 1;
            if *left == 0 {
                *ends = None;
                self.stop_tracing();
            }
        }
    }

    /// The lines that are JSON documents, which recorders write.
    pub(crate) fn json(&self) -> Vec<Value> {
        let lines = self.lines.lock().unwrap();
        lines
            .iter()
            .filter_map(|line| serde_json::from_str(&line.message).ok())
            .collect()
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for line in self.lines() {
            writeln!(text, "{} {}{}", line.level, line.message, line.fields).unwrap();
        }
        text
    }
}

impl Subscriber for Log {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::sometimes()
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let is_hidden = *metadata.level() == Level::TRACE && self.lacks_trace.load(Ordering::Relaxed);
        metadata.target().starts_with("informant") && !is_hidden
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line {
            level: event.metadata().level().to_string(),
            ..Line::default()
        };
        event.record(&mut line);
        self.count_down(&line);
        self.lines.lock().unwrap().push(line);
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        } else {
            write!(self.fields, " {}={value:?}", field.name()).unwrap();
        }
    }
}
