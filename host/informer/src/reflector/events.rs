//! The lines of a watch, turned into updates, a frame at a time.

use informant_object::VersionRef;
use informant_object::frames::{Bookmark, Line, LineSplitter, TooLong, WatchEventType, WatchLine, WatchLineError};

use super::skipped::{is_of_shape, reason_of};
use super::{Reflector, ReflectorParts};
use crate::api::{ApiError, Status};
use crate::metrics::EventCounts;
use crate::updates::{EventKind, Update};

/// What a frame brought.
#[derive(Debug, Default)]
pub(super) struct FrameReading {
    pub(super) updates: Vec<Update>,
    /// Bytes of the objects in `updates`.
    pub(super) bytes: usize,
    pub(super) counts: EventCounts,
    /// Whether a key was marked outdated.
    pub(super) outdated: bool,
    /// The watch told of an error: it is over.
    pub(super) error: Option<ApiError>,
}

impl Reflector {
    /// Reads the lines that end in `frame`, up to an error.
    pub(super) fn read_lines(&self, splitter: &mut LineSplitter, frame: &[u8], reading: &mut FrameReading) {
        let mut lines = splitter.feed(frame);
        while reading.error.is_none()
            && let Some(line) = lines.next_line()
        {
            self.read_one(line, reading);
        }
    }

    /// Reads one line.
    pub(super) fn read_one(&self, line: Line<'_>, reading: &mut FrameReading) {
        match line {
            Line::Json(line) => self.read_line(line, reading),
            Line::TooLong(too_long) => self.read_too_long(too_long, reading),
        }
    }

    /// The stream has ended: a last line that is whole but for its newline counts; one that was cut short comes again.
    pub(super) fn read_unfinished(&self, splitter: &mut LineSplitter, reading: &mut FrameReading) {
        if let Some(Line::Json(line)) = splitter.finish()
            && let Ok(event) = WatchLine::parse(line)
            && event.object(&self.parts.shape).is_ok()
        {
            self.read_line(line, reading);
        }
    }

    fn read_line(&self, line: &[u8], reading: &mut FrameReading) {
        let event = match WatchLine::parse(line) {
            Ok(event) => event,
            Err(error) => return self.read_foreign(line, &error, reading),
        };
        let kind = match event.event_type {
            WatchEventType::Added => EventKind::Added,
            WatchEventType::Modified => EventKind::Modified,
            WatchEventType::Deleted => EventKind::Deleted,
            WatchEventType::Bookmark => return self.read_bookmark(event.object, reading),
            WatchEventType::Error => return read_error(event.object, reading),
        };
        match event.object(&self.parts.shape) {
            Ok(object) if is_of_shape(&object, &self.parts.shape) => {
                reading.counts.count(kind);
                reading.bytes += object.size_bytes();
                reading.updates.push(Update::Event { kind, object });
            }
            Ok(object) => {
                let ReflectorParts {
                    name, shape, status, ..
                } = &self.parts;
                status.count_skipped("wrong-kind");
                let (kind, key) = (object.kind(), object.key());
                tracing::warn!(
                    "{name}: a watch event holds {kind} {key}, which is no {}; skipped",
                    shape.kind
                );
            }
            Err(error) => {
                self.parts.status.count_skipped(reason_of(&error));
                tracing::warn!(
                    "{}: a watch event cannot be used and is skipped: {error}",
                    self.parts.name
                );
            }
        }
    }

    /// A line that is no watch event: an answer that came with status 200 all the same, or damage.
    pub(super) fn read_foreign(&self, line: &[u8], error: &WatchLineError, reading: &mut FrameReading) {
        if let Some(status) = Status::parse(line) {
            reading.counts.error += 1;
            reading.error = Some(ApiError::refused(status));
        } else if let WatchLineError::Html(start) = error {
            reading.error = Some(ApiError::NotJson {
                content_type: "HTML".to_owned(),
                start: start.clone(),
            });
        } else {
            let reason = if matches!(error, WatchLineError::UnknownType(_)) {
                "unknown-type"
            } else {
                "not-json"
            };
            self.parts.status.count_skipped(reason);
            tracing::warn!("{}: {error}; skipped", self.parts.name);
        }
    }

    fn read_bookmark(&self, object: &[u8], reading: &mut FrameReading) {
        match Bookmark::parse(object) {
            Ok(bookmark) => {
                reading.counts.bookmark += 1;
                // A sign of life all the same; but what was seen stays seen, and "fresh as of" does not go back.
                if self.versions.last().is_some_and(|last| bookmark.version < *last) {
                    return self.parts.status.count_rejected("bookmark");
                }
                reading.updates.push(Update::Bookmark(bookmark.version));
            }
            Err(error) => {
                self.parts.status.count_skipped("not-json");
                tracing::warn!("{}: a bookmark cannot be read and is skipped: {error}", self.parts.name);
            }
        }
    }

    fn read_too_long(&self, too_long: TooLong, reading: &mut FrameReading) {
        let name = &self.parts.name;
        self.parts.status.count_skipped("too-long");
        match too_long.key {
            // The delete of an object does not need its body.
            Some(key) => {
                tracing::warn!(
                    "{name}: a watch event of {key} has more than {} bytes; skipped",
                    too_long.bytes_max
                );
                self.parts.status.add_outdated(key);
                reading.outdated = true;
            }
            None => tracing::warn!(
                "{name}: a watch event above {} bytes is skipped; its name cannot be read",
                too_long.bytes_max
            ),
        }
    }

    /// Notes up to where the source has been seen, and that outdated keys in `updates` are outdated no more.
    pub(super) fn see(&mut self, updates: &[Update]) {
        let last = updates.iter().rev().find_map(|update| match update {
            Update::Event { object, .. } => Some(object.version()),
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
            if let Update::Event { object, .. } = update {
                self.has_outdated = self.parts.status.remove_outdated(object.key()) > 0;
            }
        }
    }

    /// Whether the source has been seen further than `version` already: then a watch need not go back to it. (client-go
    /// does.)
    fn is_behind(&self, version: VersionRef<'_>) -> bool {
        version.is_empty() || self.versions.last().is_some_and(|last| version < last.as_ref())
    }
}

pub(super) fn read_error(status: &[u8], reading: &mut FrameReading) {
    reading.counts.error += 1;
    let status = Status::parse(status).unwrap_or_else(|| Status {
        message: Some(format!("an error without a Status: {}", crate::api::text_start(status))),
        ..Status::of_code(500)
    });
    reading.error = Some(ApiError::refused(status));
}
