//! From what an API server sends to single objects: watch streams by lines, list bodies item by item.
//!
//! ```text
//! watch  frames ──LineSplitter──▶ lines ──WatchLine──▶ type and object bytes ──Object::parse──▶ Object
//! list   frames ──ListSplitter──▶ items' bytes ────────────────────────────────Object::parse──▶ Object
//! ```
//!
//! Frames are whatever pieces the connection yields, about 58 KB on average; the result is the same wherever they are
//! cut. Promises: never holds more than one line or item and one frame; what is longer than its limit is skipped and
//! reported once, with its key if that could be read.

mod beginning;
mod bookmark;
mod input;
mod line;
mod list;
mod list_head;
mod list_member;
mod list_object;
mod watch;

pub use bookmark::Bookmark;
pub use line::{Line, LineSplitter, Lines};
pub use list::{ListPart, ListSplitter};
pub use list_head::{LIST_MEMBER_BYTES_MAX, ListError, ListHead};
pub use list_object::ListObject;
pub use watch::{WatchEventType, WatchLine, WatchLineError};

use crate::key::Key;

/// Longest line of a watch, and longest item of a list, in bytes. Longer ones are skipped and reported.
///
/// 16 MiB is ten times what etcd takes for one object.
pub const WATCH_LINE_BYTES_MAX: usize = 16 << 20;

/// Buffers that grew beyond this for one long line or item are given back after it.
const BUFFER_BYTES_KEPT: usize = 1 << 20;

/// A line or item that is longer than its limit and was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// The object's key, if its namespace and name could be read from the beginning.
    pub key: Option<Key>,
    /// What happened to it, in a watch, if that could be read.
    pub event_type: Option<WatchEventType>,
    /// The limit it exceeds.
    pub bytes_max: usize,
}

/// Empties `buffer`, and gives it back if it grew large.
fn empty(buffer: &mut Vec<u8>) {
    buffer.clear();
    if buffer.capacity() > BUFFER_BYTES_KEPT {
        *buffer = Vec::new();
    }
}
