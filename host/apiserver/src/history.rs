//! The remembered changes of one resource: watches read them, and lists at old versions are rebuilt from them.
//!
//! ```text
//!        dropped            floor              newest
//!  ────────┼──────────────────┼──────────────────┼──▶ revisions
//!   events up to here      reads from before here
//!   are dropped            get 410
//! ```
//!
//! Bounded in events and bytes; the oldest are dropped first. It does not know the watches; each passes the version
//! that it has read.

use std::collections::VecDeque;
use std::sync::Arc;

use imbl::OrdMap;

use crate::stored::Stored;

/// The objects of one resource by key, as a persistent map: a clone is a snapshot and costs nothing.
pub(crate) type Objects = OrdMap<Arc<str>, Arc<Stored>>;

/// The type of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangeType {
    Added,
    Modified,
    Deleted,
}

#[derive(Debug, Clone)]
pub(crate) struct HistoryEvent {
    pub(crate) change: ChangeType,
    /// The state after the write; for deletes the last state, stamped with the delete's revision.
    pub(crate) object: Arc<Stored>,
    pub(crate) previous: Option<Arc<Stored>>,
}

impl HistoryEvent {
    pub(crate) fn revision(&self) -> u64 {
        self.object.revision
    }

    /// Approximate size of the bodies that only this event keeps alive, in bytes.
    fn size_bytes(&self) -> usize {
        self.object.json().len()
    }
}

/// A version that is no longer known; the field is the oldest known one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooOld {
    pub(crate) floor: u64,
}

#[derive(Debug)]
pub(crate) struct History {
    events: VecDeque<HistoryEvent>,
    size_bytes: usize,
    events_max: usize,
    bytes_max: usize,
    /// The newest revision whose event was dropped.
    dropped: u64,
    /// The oldest revision that can be read from.
    floor: u64,
}

impl History {
    pub(crate) fn new(events_max: usize, bytes_max: usize) -> Self {
        Self {
            events: VecDeque::new(),
            size_bytes: 0,
            events_max: events_max.max(1),
            bytes_max,
            dropped: 0,
            floor: 0,
        }
    }

    pub(crate) fn push(&mut self, event: HistoryEvent) {
        self.size_bytes += event.size_bytes();
        self.events.push_back(event);
        while self.events.len() > self.events_max || (self.size_bytes > self.bytes_max && self.events.len() > 1) {
            self.drop_oldest();
        }
    }

    /// Makes reads from before `revision` fail.
    pub(crate) fn compact(&mut self, revision: u64) {
        while self.events.front().is_some_and(|event| event.revision() <= revision) {
            self.drop_oldest();
        }
        self.floor = self.floor.max(revision);
    }

    fn drop_oldest(&mut self) {
        if let Some(event) = self.events.pop_front() {
            self.size_bytes -= event.size_bytes();
            self.dropped = event.revision();
            self.floor = self.floor.max(event.revision());
        }
    }

    /// Whether a read can begin at `revision`.
    pub(crate) fn check(&self, revision: u64) -> Result<(), TooOld> {
        if revision < self.floor {
            Err(TooOld { floor: self.floor })
        } else {
            Ok(())
        }
    }

    /// Whether a reader that has read everything up to `revision` has missed something.
    pub(crate) fn has_lost(&self, revision: u64) -> bool {
        revision < self.dropped
    }

    /// The events after `revision`, oldest first.
    pub(crate) fn after(&self, revision: u64) -> impl Iterator<Item = &HistoryEvent> {
        self.events.range(self.place_after(revision)..)
    }

    /// How many events there are after `revision`.
    pub(crate) fn count_after(&self, revision: u64) -> usize {
        self.events.len() - self.place_after(revision)
    }

    fn place_after(&self, revision: u64) -> usize {
        self.events.partition_point(|event| event.revision() <= revision)
    }

    /// Rewinds `objects`, the newest state, to `revision`.
    pub(crate) fn rewind(&self, objects: &mut Objects, revision: u64) -> Result<(), TooOld> {
        self.check(revision)?;
        for event in self.events.range(self.place_after(revision)..).rev() {
            match &event.previous {
                Some(previous) => objects.insert(previous.key(), Arc::clone(previous)),
                None => objects.remove(&event.object.key()),
            };
        }
        Ok(())
    }
}
