//! Splits API server responses into objects: watch streams by lines, list bodies item by item.
//!
//! ```text
//! watch  frames ──LineSplitter──▶ lines ──WatchLine──▶ type and object bytes ──Object::parse──▶ Object
//! list   frames ──ListSplitter──▶ items' bytes ────────────────────────────────Object::parse──▶ Object
//! ```
//!
//! Frames are the pieces that the connection yields, about 58 KB on average; the result does not depend on where they
//! are cut. Guarantees: never holds more than one line or item and one frame; a line or item longer than its limit is
//! skipped and reported once, with its key and uid if they could be read ([`RecoveredHead`]).

mod bookmark;
mod input;
mod line;
mod list;
mod list_head;
mod recovered;
mod watch;

pub use bookmark::Bookmark;
pub use line::{Line, LineSplitter, Lines};
pub use list::{ListObject, ListPart, ListSplitter};
pub use list_head::{LIST_MEMBER_BYTES_MAX, ListError, ListHead};
pub use recovered::RecoveredHead;
pub use watch::{WatchEventType, WatchLine, WatchLineError};

/// Longest line of a watch, and longest item of a list, in bytes. Longer ones are skipped and reported.
///
/// 16 MiB is ten times what etcd accepts for one object.
pub const WATCH_LINE_BYTES_MAX: usize = 16 << 20;

/// Buffers that grew beyond this for one long line or item are freed after it.
const BUFFER_BYTES_KEPT: usize = 1 << 20;

/// A line or item that is longer than its limit and was not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// The object's identity, if its namespace and name could be read from the beginning.
    pub head: Option<RecoveredHead>,
    /// What happened to it, in a watch, if that could be read.
    pub event_type: Option<WatchEventType>,
    /// The limit it exceeds.
    pub bytes_max: usize,
}

/// Empties `buffer`, and frees it if it grew large.
fn empty(buffer: &mut Vec<u8>) {
    buffer.clear();
    if buffer.capacity() > BUFFER_BYTES_KEPT {
        *buffer = Vec::new();
    }
}

/// How many characters of an unexpected response an error message shows.
const CHARACTERS_MAX: usize = 80;

/// The first characters of `bytes` for an error message: without control characters, white space folded.
fn beginning(bytes: &[u8]) -> String {
    let bytes = &bytes[..bytes.len().min(8 * CHARACTERS_MAX)];
    let text = String::from_utf8_lossy(bytes);
    let words = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|word| !word.is_empty());
    let folded = words.collect::<Vec<_>>().join(" ");
    let mut shown: String = folded.chars().take(CHARACTERS_MAX).collect();
    if shown.len() < folded.len() {
        shown.push('…');
    }
    shown
}

/// Whether a response is a web page, usually from a proxy or a login page.
fn is_html(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().first() == Some(&b'<')
}
