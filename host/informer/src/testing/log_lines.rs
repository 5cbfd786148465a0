//! What is logged at level info and above while it is read, on the thread of a test.

use std::fmt::{Debug, Write as _};
use std::sync::{Arc, Mutex, OnceLock};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

/// Reads until it is dropped.
pub(crate) struct LogLines {
    lines: Arc<Mutex<Vec<String>>>,
    _reading: DefaultGuard,
}

impl LogLines {
    pub(crate) fn read() -> Self {
        // While there is one subscriber, tracing asks that of the present thread whether a line is wanted, and keeps
        // the answer: "no" on the threads of other tests. With a second one it asks all.
        static SECOND: OnceLock<Dispatch> = OnceLock::new();
        SECOND.get_or_init(|| Dispatch::new(Reader(Arc::default())));
        let lines = Arc::default();
        let reader = Reader(Arc::clone(&lines));
        Self {
            lines,
            _reading: tracing::subscriber::set_default(reader),
        }
    }

    /// The lines since the last time: level, message, then the fields.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines.lock().expect("no reader panics"))
    }
}

struct Reader(Arc<Mutex<Vec<String>>>);

#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => write!(self.fields, " {name}={value:?}").expect("a text can be written"),
        }
    }
}

impl Subscriber for Reader {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let line = format!("{} {}{}", event.metadata().level(), line.message, line.fields);
        self.0.lock().expect("no reader panics").push(line);
    }

    fn enter(&self, _span: &Id) {}

    fn exit(&self, _span: &Id) {}
}
