//! Watch events: `{"type":"ADDED","object":{…}}`.

use std::borrow::Cow;
use std::fmt;

use super::{RecoveredHead, beginning, is_html};
use crate::error::ObjectError;
use crate::object::Object;
use crate::scanner::JsonCursor;
use crate::shape::Shape;

/// What happened to an object.
///
/// Source: apimachinery `pkg/watch/watch.go`, `EventType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WatchEventType {
    /// `ADDED`: it exists now, or existed when the watch began.
    Added,
    /// `MODIFIED`.
    Modified,
    /// `DELETED`: the object is its last state, at the version of the delete.
    Deleted,
    /// `BOOKMARK`: the object holds only a version, see [`Bookmark`](super::Bookmark).
    Bookmark,
    /// `ERROR`: the object is a `Status`, and the watch ends.
    Error,
}

/// One watch event: its type, and the bytes of its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchLine<'l> {
    /// What happened.
    pub event_type: WatchEventType,
    /// The text of the object. Not parsed yet: [`object`](Self::object) does.
    pub object: &'l [u8],
    line: &'l [u8],
}

/// Why a line is not a watch event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchLineError {
    /// A web page.
    #[error("the server responded to a watch with HTML, not JSON: {0:?}; is a proxy or a login page in between?")]
    Html(String),
    /// Malformed JSON.
    #[error("not a watch event: {source}; the line begins {beginning:?}")]
    Malformed {
        /// The fault.
        source: ObjectError,
        /// The first characters of the line.
        beginning: String,
    },
    /// `type` or `object` is missing, or `type` is not a string.
    #[error("not a watch event: it has no {field:?}; the line begins {beginning:?}")]
    Missing {
        /// The member that is missing.
        field: &'static str,
        /// The first characters of the line.
        beginning: String,
    },
    /// A type that Kubernetes does not know.
    #[error("unknown type of watch event: {0:?}; known are ADDED, MODIFIED, DELETED, BOOKMARK, ERROR")]
    UnknownType(String),
}

impl WatchEventType {
    /// Parses the event type as written on the wire.
    #[must_use]
    pub fn parse(word: &[u8]) -> Option<WatchEventType> {
        Some(match word {
            b"ADDED" => WatchEventType::Added,
            b"MODIFIED" => WatchEventType::Modified,
            b"DELETED" => WatchEventType::Deleted,
            b"BOOKMARK" => WatchEventType::Bookmark,
            b"ERROR" => WatchEventType::Error,
            _ => return None,
        })
    }

    /// The event type as written on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            WatchEventType::Added => "ADDED",
            WatchEventType::Modified => "MODIFIED",
            WatchEventType::Deleted => "DELETED",
            WatchEventType::Bookmark => "BOOKMARK",
            WatchEventType::Error => "ERROR",
        }
    }
}

impl fmt::Display for WatchEventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl<'l> WatchLine<'l> {
    /// Splits a line into type and object, copying nothing.
    ///
    /// API servers write exactly `{"type":"X","object":…}`; then the object is found without a scan. Any other order or
    /// spacing is scanned.
    ///
    /// # Errors
    /// [`WatchLineError`] when the line is not a JSON object with a known `type` and an `object`. The object itself is
    /// not checked if the line has the form that API servers write.
    pub fn parse(line: &'l [u8]) -> Result<WatchLine<'l>, WatchLineError> {
        if let Some((event_type, object)) = as_servers_write(line) {
            return Ok(WatchLine {
                event_type,
                object,
                line,
            });
        }
        if is_html(line) {
            return Err(WatchLineError::Html(beginning(line)));
        }
        let mut members = Members::default();
        members.scan(line).map_err(|source| WatchLineError::Malformed {
            source,
            beginning: beginning(line),
        })?;
        let missing = |field| WatchLineError::Missing {
            field,
            beginning: beginning(line),
        };
        let word = members.event_type.ok_or_else(|| missing("type"))?;
        let object = members.object.ok_or_else(|| missing("object"))?;
        let event_type = WatchEventType::parse(word.as_bytes());
        let event_type = event_type.ok_or_else(|| WatchLineError::UnknownType(word.into_owned()))?;
        Ok(WatchLine {
            event_type,
            object,
            line,
        })
    }

    /// Reads the object, see [`Object::parse`].
    ///
    /// # Errors
    /// [`ObjectError`]; its offsets count from the beginning of [`object`](Self::object).
    pub fn object(&self, shape: &Shape) -> Result<Object, ObjectError> {
        let error = match Object::parse(self.object, shape) {
            Err(error @ ObjectError::Trailing { .. }) => error,
            result => return result,
        };
        // The line looked as API servers write it, but members follow the object: find its end by scanning.
        let mut members = Members::default();
        match (members.scan(self.line), members.object) {
            (Ok(()), Some(object)) if object.len() < self.object.len() => Object::parse(object, shape),
            _ => Err(error),
        }
    }

    /// Type and identity from the beginning of a line, as far as they can be read.
    pub(super) fn recover_type_and_head(part: &[u8]) -> (Option<WatchEventType>, Option<RecoveredHead>) {
        let mut members = Members::default();
        // The line is incomplete, so an error at its end is expected.
        let _ = members.scan(part);
        let object = members.object_begin.map(|begin| &part[begin..]);
        (
            members
                .event_type
                .and_then(|word| WatchEventType::parse(word.as_bytes())),
            object.and_then(RecoveredHead::read),
        )
    }
}

/// The line as `{"type":"X","object":…}`: X and the object.
fn as_servers_write(line: &[u8]) -> Option<(WatchEventType, &[u8])> {
    let rest = line.strip_prefix(b"{\"type\":\"")?;
    let word = rest.iter().take(16).position(|byte| *byte == b'"')?;
    let event_type = WatchEventType::parse(&rest[..word])?;
    let object = rest[word..].strip_prefix(b"\",\"object\":")?;
    let object = object.trim_ascii_end().strip_suffix(b"}")?;
    (object.first() == Some(&b'{') && object.last() == Some(&b'}')).then_some((event_type, object))
}

/// The members of a watch event, found by scanning.
#[derive(Default)]
struct Members<'l> {
    event_type: Option<Cow<'l, str>>,
    object: Option<&'l [u8]>,
    /// Where the object begins; known before its end is.
    object_begin: Option<usize>,
}

impl<'l> Members<'l> {
    fn scan(&mut self, line: &'l [u8]) -> Result<(), ObjectError> {
        let mut cursor = JsonCursor::new(line);
        cursor.skip_space();
        let mut walk = cursor.enter_object()?;
        while let Some(name) = cursor.next_member(&mut walk)? {
            let begin = cursor.at();
            if name.is(line, "type") && cursor.peek() == Some(b'"') {
                let word = cursor.string("a string")?;
                self.event_type = word.decode(line);
            } else if name.is(line, "object") {
                self.object_begin = Some(begin);
                cursor.skip_value()?;
                self.object = Some(&line[begin..cursor.at()]);
            } else {
                cursor.skip_value()?;
            }
        }
        cursor.expect_end()
    }
}
