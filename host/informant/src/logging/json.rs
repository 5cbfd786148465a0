//! Lines of the log as JSON objects: `{"timestamp": …, "level": …, "fields": {"message": …, …}}`.

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::GUEST_FIELDS;

/// Formats each event as one line.
pub(super) struct JsonLines;

#[derive(Serialize)]
struct Line {
    timestamp: String,
    level: &'static str,
    fields: Members,
}

/// In the order in which they were recorded.
#[derive(Default)]
struct Members(Vec<(&'static str, Value)>);

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut timestamp = String::new();
        SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
        let mut fields = Members::default();
        event.record(&mut fields);
        let line = Line {
            timestamp,
            level: event.metadata().level().as_str(),
            fields,
        };
        let text = serde_json::to_string(&line).map_err(|_| fmt::Error)?;
        writeln!(writer, "{text}")
    }
}

impl Serialize for Members {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl Visit for Members {
    fn record_str(&mut self, field: &Field, value: &str) {
        let value = match field.name() {
            // A guest's fields are a JSON object already.
            GUEST_FIELDS => serde_json::from_str(value).unwrap_or_else(|_| value.into()),
            _ => value.into(),
        };
        self.0.push((field.name(), value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.push((field.name(), value.into()));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.push((field.name(), value.into()));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.push((field.name(), value.into()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.push((field.name(), value.into()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push((field.name(), format!("{value:?}").into()));
    }
}
