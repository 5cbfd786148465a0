//! Tables: what `kubectl get` prints, columns for `-o wide` included.
//!
//! Common kinds have the columns of kubectl's own printers, custom resources those of their definition, all others name
//! and creation time.
//!
//! Source: kubernetes `pkg/printers/internalversion/printers.go`.

mod age;
mod cells;
mod columns;
mod core;
mod networking;
mod pods;
mod policies;
mod storage;
mod workloads;

use serde_json::{Value, json};

use self::cells::since;
use crate::kinds::Kind;
use crate::stored::Stored;

/// `columnDefinitions`.
pub(crate) fn definitions(kind: &Kind) -> Vec<Value> {
    let definition = |name: &str, type_: &str, format: &str, description: &str, priority: i64| json!({ "name": name, "type": type_, "format": format, "description": description, "priority": priority });
    let Some(custom) = &kind.custom_version else {
        return columns::of(kind)
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
        let columns = columns::of(kind).iter();
        return columns.map(|column| (column.cell)(&value, now_unix_seconds)).collect();
    };
    let since = |time: &str| since(time, now_unix_seconds);
    let cells = custom.columns.iter().map(|column| column.cell(&value, since));
    std::iter::once(json!(object.name)).chain(cells).collect()
}
