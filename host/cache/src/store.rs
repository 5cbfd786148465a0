//! The objects of one source, and who may read and write them.
//!
//! ```text
//! informer loop ──▶ StoreWriter (its own root, plain &mut) ──publish──▶ Snapshot (immutable) ──▶ readers
//! ```
//!
//! Promises: a reader never makes the writer wait, nor sees half of a batch; every index of a snapshot agrees with its
//! objects. What a publish replaces is handed out ([`StoreWriter::take_garbage`]), so that it can be freed where nobody
//! waits.

mod cursor;
mod root;
mod snapshot;
#[cfg(test)]
mod tests;
mod writer;

pub use self::cursor::Cursor;
pub use self::snapshot::{GARBAGE_ROOTS_MAX, Garbage, Snapshot};
pub use self::writer::StoreWriter;
