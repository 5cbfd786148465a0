//! Tables: what `kubectl get` prints.
//!
//! Every kind has a name and an age; the kinds that people look at most have the columns of kubectl's own printers between them. A column
//! is one line in [`columns`].
//!
//! Source: kubernetes `pkg/printers/internalversion/printers.go`.

mod age;
mod columns;

use jiff::Timestamp;
use serde_json::{Value, json};

use self::columns::Column;
use crate::kinds::Kind;
use crate::stored::Stored;

/// `columnDefinitions`.
pub(crate) fn definitions(kind: &Kind) -> Vec<Value> {
    let definition = |name: &str, type_: &str, format: &str, priority: u8| json!({ "name": name, "type": type_, "format": format, "description": name, "priority": priority });
    let mut definitions = vec![definition("Name", "string", "name", 0)];
    let (before_age, wide) = split(kind);
    definitions.extend(before_age.map(|column| definition(column.name, column.type_, "", 0)));
    definitions.push(definition("Age", "string", "", 0));
    definitions.extend(wide.map(|column| definition(column.name, column.type_, "", 1)));
    definitions
}

/// The cells of an object, in the order of [`definitions`].
pub(crate) fn cells(kind: &Kind, object: &Stored, now_unix_seconds: i64) -> Vec<Value> {
    let columns = columns::of(kind);
    // The object is only taken apart for kinds that show more than what is at hand.
    let value = if columns.is_empty() {
        Value::Null
    } else {
        object.value()
    };
    let (before_age, wide) = split(kind);
    let mut cells = vec![json!(object.name)];
    cells.extend(before_age.map(|column| (column.cell)(&value, now_unix_seconds)));
    cells.push(json!(since(&object.created, now_unix_seconds)));
    cells.extend(wide.map(|column| (column.cell)(&value, now_unix_seconds)));
    cells
}

fn split(
    kind: &Kind,
) -> (
    impl Iterator<Item = &'static Column>,
    impl Iterator<Item = &'static Column>,
) {
    let columns = columns::of(kind);
    (
        columns.iter().filter(|column| !column.wide),
        columns.iter().filter(|column| column.wide),
    )
}

/// How long ago an RFC 3339 time was, as kubectl says it.
fn since(time: &str, now_unix_seconds: i64) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => age::human(now_unix_seconds.saturating_sub(time.as_second())),
        Err(_) => "<unknown>".to_owned(),
    }
}
