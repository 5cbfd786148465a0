//! The lines of a watch.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::history::{ChangeType, HistoryEvent};
use crate::kinds::Kind;
use crate::selection::Selection;
use crate::status::Status;
use crate::stored::Stored;

/// An event as a watch shows it: its type and the object.
pub(super) type ShownEvent = (&'static str, Arc<Stored>);

/// `{"type":…,"object":` and what `write` appends, closed.
pub(super) fn event(type_: &str, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(type_.as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    write(out);
    out.extend_from_slice(b"}\n");
}

/// An event whose object is a document.
pub(super) fn document(type_: &str, object: &Value) -> Bytes {
    let mut line = Vec::new();
    event(type_, &mut line, |out| {
        out.extend_from_slice(object.to_string().as_bytes())
    });
    Bytes::from(line)
}

pub(super) fn error(status: &Status) -> Bytes {
    document("ERROR", &status.to_json())
}

/// `event` as a watch of `selection` sees it: objects that enter the selection are added, those that leave it are
/// deleted.
///
/// Source: cacher `watchCacheEvent` → `convertToWatchEvent`. A leaving object is shown in its last selected state, with
/// the version of the event.
pub(super) fn event_for_client(kind: &Kind, selection: &Selection, event: &HistoryEvent) -> Option<ShownEvent> {
    let was = event
        .previous
        .as_ref()
        .filter(|previous| selection.matches(kind, previous));
    let is = event.change != ChangeType::Deleted && selection.matches(kind, &event.object);
    match (was, is) {
        (None, false) => None,
        (None, true) => Some(("ADDED", Arc::clone(&event.object))),
        (Some(_), true) => Some(("MODIFIED", Arc::clone(&event.object))),
        (Some(_), false) if event.change == ChangeType::Deleted => Some(("DELETED", Arc::clone(&event.object))),
        (Some(last), false) => Some(("DELETED", Arc::new(last.with_revision(event.revision())))),
    }
}

/// An object that no API server would send.
pub(super) fn garbage() -> Value {
    json!({ "this": ["is", "no", "object"], "of": { "any": "kind" } })
}
