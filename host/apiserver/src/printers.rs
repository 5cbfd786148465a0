//! The columns of kubectl's printers, as functions of an object's JSON.
//!
//! The tables that the server sends consist of them, and so does `informant get -o wide`, which asks no API server. Each
//! column names the fields that it reads, so that a reader who does not have all fields can tell an unknown cell from an
//! empty one.
//!
//! Source: kubernetes `pkg/printers/internalversion/printers.go`.

pub(crate) mod cells;
pub(crate) mod columns;
mod core;
mod duration;
mod networking;
mod pods;
mod policies;
mod storage;
mod workloads;

pub use self::cells::labels;
pub use self::columns::{AGE, Column, NAME, columns};
pub use self::duration::human as human_duration;

#[cfg(test)]
mod tests;
