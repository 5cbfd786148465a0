//! The fields of plain lines.

use std::fmt;

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;

use super::{DEV_ADMIN, GUEST_FIELDS, for_admin};
use crate::escape;

/// Formats the message and the fields of a plain line: `plugin reloaded plugin=hello error="not found"`. A value is
/// bare if it is one word, whether it was recorded as a string or by its `Display`.
pub(super) struct PlainFields;

impl<'w> FormatFields<'w> for PlainFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut visitor = PlainVisitor::new(writer);
        fields.record(&mut visitor);
        visitor.result
    }
}

pub(super) struct PlainVisitor<'w> {
    writer: Writer<'w>,
    is_first: bool,
    result: fmt::Result,
}

impl<'w> PlainVisitor<'w> {
    pub(super) fn new(writer: Writer<'w>) -> Self {
        Self {
            writer,
            is_first: true,
            result: Ok(()),
        }
    }

    fn write(&mut self, field: &Field, value: &str) -> fmt::Result {
        if !std::mem::take(&mut self.is_first) {
            self.writer.write_char(' ')?;
        }
        let writer = &mut self.writer;
        let value = for_admin(field.name(), value, DEV_ADMIN.get());
        let value = &*value;
        match field.name() {
            // Those of a guest, which must not be taken for Informant's own.
            GUEST_FIELDS => write_guest_fields(writer, value),
            // A message is one line, whatever its source.
            "message" => writer.write_str(&escape::line(value)),
            name if writer.has_ansi_escapes() => {
                write!(writer, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m")?;
                write_value(writer, value)
            }
            name => {
                write!(writer, "{name}=")?;
                write_value(writer, value)
            }
        }
    }
}

impl Visit for PlainVisitor<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if self.result.is_ok() {
            self.result = self.write(field, value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

/// Writes the fields of a guest's line, a JSON object: `fields.restarts=3 fields.node=worker-1`.
pub(super) fn write_guest_fields(writer: &mut Writer<'_>, object: &str) -> fmt::Result {
    let Ok(Value::Object(members)) = serde_json::from_str(object) else {
        return write!(writer, "fields={}", escape::line(object));
    };
    for (number, (name, value)) in members.iter().enumerate() {
        let text = match value {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        let separator = if number == 0 { "" } else { " " };
        write!(writer, "{separator}fields.")?;
        write_value(writer, name)?;
        writer.write_char('=')?;
        write_value(writer, &text)?;
    }
    Ok(())
}

fn write_value(writer: &mut Writer<'_>, value: &str) -> fmt::Result {
    let needs_quotes = |letter: char| letter.is_whitespace() || matches!(letter, '"' | '=');
    if value.is_empty() || value.contains(needs_quotes) || !escape::is_harmless(value) {
        writer.write_str(&escape::line(&format!("{value:?}")))
    } else {
        writer.write_str(value)
    }
}
