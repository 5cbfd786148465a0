//! The store: the objects of one source, with one writer and many readers.
//!
//! ```text
//! informer loop ──▶ StoreWriter (exclusive root, plain &mut) ──publish──▶ Snapshot (immutable) ──▶ readers
//! ```
//!
//! A reader never blocks the writer, and never sees part of a batch; every index of a snapshot agrees with its objects.
//! The root that a publish replaces is returned ([`StoreWriter::take_garbage`]), so that it can be freed on another
//! thread.

mod cursor;
mod root;
mod snapshot;
#[cfg(test)]
mod tests;
mod usage;
mod writer;

pub use self::cursor::Cursor;
pub use self::snapshot::{GARBAGE_ROOTS_MAX, Garbage, Snapshot};
pub use self::usage::stored_bytes;
pub use self::writer::{IndexFilling, OBJECTS_BETWEEN_YIELDS_MAX, StoreWriter};
