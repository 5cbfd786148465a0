//! Lines of `informant dev`: what plugins log, their calls and their effects, and Informant's own lines, short and in
//! one form.
//!
//! ```text
//! 09:30:00.123 log     greeter INFO default/web-0 is Pending
//! 09:30:00.124 call    greeter add v1/pods default/web-0 in 0.41 ms: ok
//! 09:30:00.126 effect  greeter kube patch v1/pods default/web-0 {"metadata":…}
//! 09:30:00.130 log     greeter ERROR panic in on-add: no phase
//!   fields.stack:
//!     main.greet(...)
//! ```
//!
//! A message, an error or a field with several lines, such as the trace of a panic, continues below its line. The
//! further lines are indented, so that none looks like one with a time.

use std::fmt;

use jiff::{Timestamp, tz::TimeZone};
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::plain::write_guest_fields;
use super::{DEV_TARGET, GUEST_FIELDS, GUEST_TARGET};
use crate::escape;

/// Formats each event as one line, below which its trace is.
pub(super) struct DevLines;

/// What a line is about, and its color.
struct Head {
    label: &'static str,
    color: Color,
}

#[derive(Clone, Copy)]
enum Color {
    Dim,
    Green,
    Cyan,
    Yellow,
    Red,
}

impl Color {
    const fn code(self) -> &'static str {
        match self {
            Color::Dim => "2",
            Color::Green => "32",
            Color::Cyan => "36",
            Color::Yellow => "33",
            Color::Red => "31",
        }
    }
}

/// The parts of a line of a guest or of `informant dev`.
#[derive(Default)]
struct Parts {
    /// `call`, `effect`; otherwise the text.
    message: String,
    plugin: String,
    /// The fields of a guest's line.
    fields: String,
    /// What a call or an effect is about.
    about: String,
    /// It failed.
    error: Option<String>,
}

impl<S, N> FormatEvent<S, N> for DevLines
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let (target, level) = (event.metadata().target(), *event.metadata().level());
        let now = Timestamp::now().to_zoned(TimeZone::system());
        let is_own = target != GUEST_TARGET && target != DEV_TARGET;
        let mut parts = Parts::default();
        if !is_own {
            event.record(&mut parts);
        }
        let head = head(target, level, &parts);
        write_styled(&mut writer, Color::Dim, &now.strftime("%H:%M:%S%.3f").to_string())?;
        writer.write_char(' ')?;
        write_styled(&mut writer, head.color, &format!("{:7}", head.label))?;
        writer.write_char(' ')?;
        if is_own {
            context.format_fields(writer.by_ref(), event)?;
        } else {
            parts.write(&mut writer, (target == GUEST_TARGET).then_some(level))?;
        }
        writeln!(writer)
    }
}

fn head(target: &str, level: Level, parts: &Parts) -> Head {
    let (label, color) = match (target, parts.message.as_str(), level) {
        (GUEST_TARGET, _, Level::ERROR) => ("log", Color::Red),
        (GUEST_TARGET, _, Level::WARN) => ("log", Color::Yellow),
        (GUEST_TARGET, ..) => ("log", Color::Dim),
        (DEV_TARGET, "call", _) if parts.error.is_some() => ("call", Color::Red),
        (DEV_TARGET, "call", _) => ("call", Color::Green),
        (DEV_TARGET, "effect", _) if parts.error.is_some() => ("effect", Color::Red),
        (DEV_TARGET, "effect", _) => ("effect", Color::Cyan),
        (_, _, Level::ERROR) => ("error", Color::Red),
        (_, _, Level::WARN) => ("warning", Color::Yellow),
        (DEV_TARGET, ..) => ("dev", Color::Cyan),
        _ => ("info", Color::Dim),
    };
    Head { label, color }
}

impl Parts {
    /// `level`: that of a guest's line.
    fn write(&self, writer: &mut Writer<'_>, level: Option<Level>) -> fmt::Result {
        if !self.plugin.is_empty() {
            write!(writer, "{} ", escape::line(&self.plugin))?;
        }
        if let Some(level) = level {
            write!(writer, "{level} ")?;
        }
        let text = match (self.about.is_empty(), &self.error) {
            (true, None) => self.message.clone(),
            (true, Some(error)) => format!("{}: {error}", self.message),
            (false, None) => escape::line(&self.about).into_owned(),
            (false, Some(error)) => format!("{}: {error}", escape::line(&self.about)),
        };
        let mut lines = text.trim_end().lines();
        writer.write_str(&escape::line(lines.next().unwrap_or_default()))?;
        let (fields, long) = split_fields(&self.fields);
        if !fields.is_empty() {
            writer.write_char(' ')?;
            write_guest_fields(writer, &fields)?;
        }
        lines.try_for_each(|line| write!(writer, "\n  {}", escape::text(line)))?;
        for (name, value) in long {
            write!(writer, "\n  fields.{}:", escape::line(&name))?;
            let mut lines = value.trim_end().lines();
            lines.try_for_each(|line| write!(writer, "\n    {}", escape::text(line)))?;
        }
        Ok(())
    }
}

/// The fields of a guest's line that stay on it, a JSON object or nothing, and those whose text has several lines.
fn split_fields(object: &str) -> (String, Vec<(String, String)>) {
    let Ok(Value::Object(members)) = serde_json::from_str(object) else {
        return (object.to_owned(), Vec::new());
    };
    let has_lines = |value: &Value| value.as_str().is_some_and(|text| text.trim_end().contains('\n'));
    let (long, short): (Vec<_>, Vec<_>) = members.into_iter().partition(|(_, value)| has_lines(value));
    let texts = long
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.as_str()?.to_owned())));
    let rest = match short.is_empty() {
        true => String::new(),
        false => Value::Object(short.into_iter().collect()).to_string(),
    };
    (rest, texts.collect())
}

impl Visit for Parts {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            "plugin" => value.clone_into(&mut self.plugin),
            "about" => value.clone_into(&mut self.about),
            "error" => self.error = Some(value.to_owned()),
            GUEST_FIELDS => value.clone_into(&mut self.fields),
            _ => {}
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

fn write_styled(writer: &mut Writer<'_>, color: Color, text: &str) -> fmt::Result {
    match writer.has_ansi_escapes() {
        true => write!(writer, "\x1b[{}m{text}\x1b[0m", color.code()),
        false => writer.write_str(text),
    }
}
