//! Parses the lines of a watch into updates, a frame at a time.

use informant_object::frames::{
    Bookmark, Line, LineSplitter, RecoveredHead, TooLong, WatchEventType, WatchLine, WatchLineError,
};
use informant_object::{ObjectError, VersionRef, first_head};

use super::staging::skip_reason;
use super::{Reflector, ReflectorParts};
use crate::api::{ApiError, StatusBody};
use crate::metrics::EventCounts;
use crate::source_name::log;
use crate::update_channel::{EventKind, Update};

/// What a frame contained.
#[derive(Debug, Default)]
pub(super) struct FrameUpdates {
    pub(super) items: Vec<Update>,
    /// Bytes of the objects in `items`.
    pub(super) bytes: usize,
    pub(super) counts: EventCounts,
    /// Whether a key was marked outdated.
    pub(super) outdated: bool,
    /// An ERROR event: the watch is over.
    pub(super) error: Option<ApiError>,
}

impl FrameUpdates {
    fn add_unread_delete(&mut self, head: RecoveredHead) {
        self.counts.count(EventKind::Deleted);
        self.items.push(Update::DeletedUnread(head));
    }
}

impl Reflector {
    /// Reads the lines that end in `frame`, up to an ERROR event.
    pub(super) fn read_lines(&self, splitter: &mut LineSplitter, frame: &[u8], updates: &mut FrameUpdates) {
        let mut lines = splitter.feed(frame);
        while updates.error.is_none()
            && let Some(line) = lines.next_line()
        {
            self.read_one(line, updates);
        }
    }

    pub(super) fn read_one(&self, line: Line<'_>, updates: &mut FrameUpdates) {
        match line {
            Line::Json(line) => self.read_line(line, updates),
            Line::TooLong(too_long) => self.read_too_long(too_long, updates),
        }
    }

    /// The stream has ended: a complete last line without its newline counts; a truncated one will be sent again.
    pub(super) fn read_unfinished(&self, splitter: &mut LineSplitter, updates: &mut FrameUpdates) {
        if let Some(Line::Json(line)) = splitter.finish()
            && let Ok(event) = WatchLine::parse(line)
            && event.object(&self.parts.shape).is_ok()
        {
            self.read_line(line, updates);
        }
    }

    fn read_line(&self, line: &[u8], updates: &mut FrameUpdates) {
        let event = match WatchLine::parse(line) {
            Ok(event) => event,
            Err(error) => return self.read_non_event(line, &error, updates),
        };
        let kind = match event.event_type {
            WatchEventType::Added => EventKind::Added,
            WatchEventType::Modified => EventKind::Modified,
            WatchEventType::Deleted => EventKind::Deleted,
            WatchEventType::Bookmark => return self.read_bookmark(event.object, updates),
            WatchEventType::Error => return read_error(event.object, updates),
        };
        if self.leave_out(&event, kind, updates) {
            return;
        }
        match event.object(&self.parts.shape) {
            Ok(object) if object.has_type_of(&self.parts.shape) => {
                updates.counts.count(kind);
                updates.bytes += object.size_bytes();
                updates.items.push(Update::Event { kind, object });
            }
            Ok(object) => {
                let ReflectorParts { name, status, .. } = &self.parts;
                let (key, kind) = (object.key(), object.kind());
                if let Some(skipped) = status.count_skipped_to_warn("wrong-kind") {
                    log!(warn, *name, %key, %kind, skipped, "watch event skipped: unexpected kind");
                }
            }
            Err(error) => self.read_invalid(&event, kind, &error, updates),
        }
    }

    /// Whether the object of an event belongs to a shard that is not read. Then only its version counts: the source has
    /// been seen up to there. A delete is read, for the case that this process takes the shard over.
    fn leave_out(&self, event: &WatchLine<'_>, kind: EventKind, updates: &mut FrameUpdates) -> bool {
        let Some(shards) = &self.parts.request.shards else {
            return false;
        };
        let version = match first_head(event.object) {
            Ok(head) if !shards.includes(head.key()) => head.version().to_version(),
            _ => return false,
        };
        updates.counts.other_shard += 1;
        if kind == EventKind::Deleted
            && let Ok(object) = event.object(&self.parts.shape)
            && object.has_type_of(&self.parts.shape)
        {
            updates.bytes += object.size_bytes();
            updates.items.push(Update::Event { kind, object });
            return true;
        }
        match updates.items.last_mut() {
            Some(Update::Bookmark(seen)) if version >= *seen => *seen = version,
            Some(Update::Bookmark(_)) => {}
            _ => updates.items.push(Update::Bookmark(version)),
        }
        true
    }

    /// An event whose object cannot be kept. A delete needs only its name; otherwise the key is outdated from now on.
    fn read_invalid(&self, event: &WatchLine<'_>, kind: EventKind, error: &ObjectError, updates: &mut FrameUpdates) {
        let head = RecoveredHead::read(event.object);
        if let (EventKind::Deleted, Some(head)) = (kind, &head) {
            return updates.add_unread_delete(head.clone());
        }
        if let Some(skipped) = self.parts.status.count_skipped_to_warn(skip_reason(error)) {
            let key = head.as_ref().map_or("unknown", |head| head.key.as_str());
            log!(warn, *self.parts.name, key, %error, skipped, "watch event skipped: invalid object");
        }
        if let Some(head) = head {
            self.parts.status.add_outdated(head.key);
            updates.outdated = true;
        }
    }

    /// A line that is not a watch event: a Status sent with HTTP status 200, or corrupt data.
    pub(super) fn read_non_event(&self, line: &[u8], error: &WatchLineError, updates: &mut FrameUpdates) {
        if let Some(status) = StatusBody::parse(line) {
            updates.counts.error += 1;
            updates.error = Some(ApiError::refused(status));
        } else if let WatchLineError::Html(start) = error {
            updates.error = Some(ApiError::NotJson {
                content_type: "HTML".to_owned(),
                start: start.clone(),
            });
        } else {
            let reason = if matches!(error, WatchLineError::UnknownType(_)) {
                "unknown-type"
            } else {
                "not-json"
            };
            if let Some(skipped) = self.parts.status.count_skipped_to_warn(reason) {
                log!(warn, *self.parts.name, %error, skipped, "watch line skipped");
            }
        }
    }

    fn read_bookmark(&self, object: &[u8], updates: &mut FrameUpdates) {
        let Some(bookmark) = self.parse_bookmark(object) else {
            return;
        };
        updates.counts.bookmark += 1;
        // Still a sign of life; but the seen version and "fresh as of" do not go back.
        if self.versions.last().is_some_and(|last| bookmark.version < *last) {
            return self.parts.status.count_rejected("bookmark");
        }
        updates.items.push(Update::Bookmark(bookmark.version));
    }

    /// The bookmark; one that cannot be parsed is skipped and counted.
    pub(super) fn parse_bookmark(&self, object: &[u8]) -> Option<Bookmark> {
        let parsed = Bookmark::parse(object).inspect_err(|error| {
            if let Some(skipped) = self.parts.status.count_skipped_to_warn("not-json") {
                log!(warn, *self.parts.name, %error, skipped, "bookmark skipped: it cannot be parsed");
            }
        });
        parsed.ok()
    }

    fn read_too_long(&self, too_long: TooLong, updates: &mut FrameUpdates) {
        let TooLong {
            head,
            event_type,
            bytes_max,
        } = too_long;
        if let (Some(WatchEventType::Deleted), Some(head)) = (event_type, &head) {
            return updates.add_unread_delete(head.clone());
        }
        let name = &self.parts.name;
        self.parts.status.count_skipped("too-long");
        match head {
            Some(RecoveredHead { key, .. }) => {
                log!(
                    warn,
                    **name,
                    %key,
                    bytes_max,
                    "watch event skipped: too large; the key is outdated"
                );
                self.parts.status.add_outdated(key);
                updates.outdated = true;
            }
            None => log!(
                warn,
                **name,
                bytes_max,
                "watch event skipped: too large, and its key cannot be read"
            ),
        }
    }

    /// Records up to which version the source was seen, and that the keys in `updates` are no longer outdated.
    pub(super) fn record_seen(&mut self, updates: &[Update]) {
        let last = updates.iter().rev().find_map(|update| match update {
            Update::Event { object, .. } => Some(object.version()),
            Update::DeletedUnread(head) => Some(head.version.as_ref()),
            Update::Bookmark(version) => Some(version.as_ref()),
            Update::Replace(_) => None,
        });
        if let Some(version) = last.filter(|version| !self.is_behind(*version)) {
            self.versions.seen(version.to_version());
        }
        if !self.has_outdated {
            return;
        }
        for update in updates {
            let key = match update {
                Update::Event { object, .. } => object.key(),
                Update::DeletedUnread(head) => head.key.as_ref(),
                Update::Bookmark(_) | Update::Replace(_) => continue,
            };
            self.has_outdated = self.parts.status.remove_outdated(key) > 0;
        }
    }

    /// Whether the source was already seen beyond `version`: then a watch does not need to go back to it (as client-go
    /// does).
    fn is_behind(&self, version: VersionRef<'_>) -> bool {
        version.is_empty() || self.versions.last().is_some_and(|last| version < last.as_ref())
    }
}

pub(super) fn read_error(status: &[u8], updates: &mut FrameUpdates) {
    updates.counts.error += 1;
    let status = StatusBody::parse(status).unwrap_or_else(|| StatusBody {
        message: Some(format!(
            "an ERROR event without a Status: {}",
            crate::api::text_start(status)
        )),
        ..StatusBody::of_code(500)
    });
    updates.error = Some(ApiError::refused(status));
}
