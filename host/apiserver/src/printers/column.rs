//! A column, and those that many kinds have.

use serde_json::{Value, json};

use super::cells::{self, text};

/// One column.
pub struct Column {
    /// The heading; kubectl prints it in capitals.
    pub name: &'static str,
    /// JSON pointers to the fields that the cell depends on, besides the object's name and when it was created and
    /// deleted. `*` stands for each item of a list.
    pub reads: &'static [&'static str],
    pub(crate) type_: &'static str,
    /// Shown with `-o wide` only.
    pub(crate) wide: bool,
    cell: Cell,
}

#[derive(Clone, Copy)]
enum Cell {
    /// Computed from the object and the time.
    Computed(fn(&Value, i64) -> Value),
    /// The first of the fields that the column reads, in this format.
    Field(fn(&Value) -> Value),
}

impl Column {
    /// A column of text that [`cell`](Self::cell) computes with a function.
    pub const fn new(name: &'static str, reads: &'static [&'static str], cell: fn(&Value, i64) -> Value) -> Self {
        Self {
            name,
            reads,
            type_: "string",
            wide: false,
            cell: Cell::Computed(cell),
        }
    }

    /// The cell's value for an object, at a time in seconds since 1970.
    pub fn cell(&self, object: &Value, now_unix_seconds: i64) -> Value {
        match self.cell {
            Cell::Computed(cell) => cell(object, now_unix_seconds),
            Cell::Field(format) => format(object.pointer(self.reads[0]).unwrap_or(&Value::Null)),
        }
    }

    /// Shown with `-o wide` only.
    pub(super) const fn wide(self) -> Self {
        Self { wide: true, ..self }
    }

    pub(super) const fn integer(self) -> Self {
        Self {
            type_: "integer",
            ..self
        }
    }
}

pub(super) const fn column(
    name: &'static str,
    reads: &'static [&'static str],
    cell: fn(&Value, i64) -> Value,
) -> Column {
    Column::new(name, reads, cell)
}

/// A column that shows one field.
pub(super) const fn field(
    name: &'static str,
    reads: &'static [&'static str; 1],
    format: fn(&Value) -> Value,
) -> Column {
    Column {
        name,
        reads,
        type_: "string",
        wide: false,
        cell: Cell::Field(format),
    }
}

pub(super) const fn boolean(
    name: &'static str,
    reads: &'static [&'static str],
    cell: fn(&Value, i64) -> Value,
) -> Column {
    Column {
        type_: "boolean",
        ..Column::new(name, reads, cell)
    }
}

pub(super) const fn wide(name: &'static str, reads: &'static [&'static str], cell: fn(&Value, i64) -> Value) -> Column {
    Column {
        wide: true,
        ..Column::new(name, reads, cell)
    }
}

/// The name of the object.
pub const NAME: Column = column("Name", &[], cells::name);
/// How long ago the object was created.
pub const AGE: Column = column("Age", &[], cells::age);

/// The columns of a kind without a printer.
pub(crate) const NAME_AND_CREATION: &[Column] = &[
    NAME,
    Column {
        type_: "date",
        ..column("Created At", &[], |it, _| {
            json!(text(&it["metadata"]["creationTimestamp"]))
        })
    },
];

/// The columns of a kind whose printer shows only name and age, and of custom resources without columns of their own.
pub(crate) const NAME_AND_AGE: &[Column] = &[NAME, AGE];
