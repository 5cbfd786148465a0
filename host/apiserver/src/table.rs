//! Tables: what `kubectl get` prints, columns for `-o wide` included.
//!
//! Common kinds have the columns of kubectl's own [printers](crate::printers), custom resources those of their
//! definition, all others name and creation time.

use serde_json::{Value, json};

use crate::kinds::Kind;
use crate::printers::cells::since;
use crate::printers::column::{NAME_AND_AGE, NAME_AND_CREATION};
use crate::printers::{Column, columns};
use crate::stored::Stored;

/// `columnDefinitions`.
pub(crate) fn definitions(kind: &Kind) -> Vec<Value> {
    let definition = |name: &str, type_: &str, format: &str, description: &str, priority: i64| json!({ "name": name, "type": type_, "format": format, "description": description, "priority": priority });
    let Some(custom) = &kind.custom_version else {
        return built_in(kind)
            .iter()
            .map(|column| {
                let format = if column.name == "Name" { "name" } else { "" };
                definition(column.name, column.type_, format, column.name, i64::from(column.wide))
            })
            .collect();
    };
    let name = definition("Name", "string", "name", "Name", 0);
    let columns = custom.columns.iter().map(|column| {
        definition(
            &column.name,
            &column.type_,
            &column.format,
            &column.description,
            column.priority,
        )
    });
    std::iter::once(name).chain(columns).collect()
}

/// The cells of an object, in the order of [`definitions`].
pub(crate) fn cells(kind: &Kind, object: &Stored, now_unix_seconds: i64) -> Vec<Value> {
    let value = object.value_as(kind);
    let Some(custom) = &kind.custom_version else {
        let columns = built_in(kind).iter();
        return columns.map(|column| column.cell(&value, now_unix_seconds)).collect();
    };
    let since = |time: &str| since(time, now_unix_seconds);
    let cells = custom.columns.iter().map(|column| column.cell(&value, since));
    std::iter::once(json!(object.name)).chain(cells).collect()
}

/// The columns of a kind without a definition.
fn built_in(kind: &Kind) -> &'static [Column] {
    // Kinds that a test registers have no definition either.
    let otherwise = if kind.custom { NAME_AND_AGE } else { NAME_AND_CREATION };
    columns(&kind.api_version(), &kind.kind).unwrap_or(otherwise)
}
