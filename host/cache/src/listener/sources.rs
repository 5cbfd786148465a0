//! The sources a listener is attached to, and the cursors over them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use informant_object::SourceId;

use crate::listener::AcceptedStates;
use crate::listener::cursor::{CursorKind, DeliveryCursor};
use crate::seeded_bug::{SeededBug, seeded_bug};
use crate::{Moment, Snapshot};

/// All sources of one listener.
#[derive(Debug, Default)]
pub(super) struct AttachedSources {
    sources: BTreeMap<SourceId, AttachedSource>,
    /// Sources with a running cursor, in round-robin order.
    cursor_queue: VecDeque<SourceId>,
}

/// One source.
#[derive(Debug)]
pub(super) struct AttachedSource {
    /// The snapshot of the last push. Never newer: a cursor must not deliver what was not pushed yet.
    pub(super) snapshot: Snapshot,
    pub(super) cursor: Option<DeliveryCursor>,
    /// Keys that an initial or replay cursor has passed and that were not attempted since it started.
    pub(super) unattempted: usize,
    /// The running initial list or replay: its cursor runs, or keys are unattempted.
    pub(super) syncing: Option<CursorKind>,
    /// The initial list was attempted.
    pub(super) synced: bool,
    /// The cursor waits for [`release`](AttachedSources::release).
    held: bool,
}

impl AttachedSources {
    pub(super) fn len(&self) -> usize {
        self.sources.len()
    }

    pub(super) fn get(&self, source: SourceId) -> Option<&AttachedSource> {
        self.sources.get(&source)
    }

    pub(super) fn get_mut(&mut self, source: SourceId) -> Option<&mut AttachedSource> {
        self.sources.get_mut(&source)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &AttachedSource> {
        self.sources.values()
    }

    pub(super) fn ids(&self) -> Vec<SourceId> {
        self.sources.keys().copied().collect()
    }

    /// Adds a source and starts its initial list.
    pub(super) fn add(&mut self, source: SourceId, snapshot: Snapshot, now: Moment) {
        let state = AttachedSource {
            snapshot,
            cursor: None,
            unattempted: 0,
            syncing: None,
            synced: false,
            held: false,
        };
        self.sources.insert(source, state);
        self.begin(source, CursorKind::Initial, now);
    }

    /// Adds a source whose objects the handler has seen from another source.
    pub(super) fn add_transferred(&mut self, source: SourceId, snapshot: Snapshot) {
        let state = AttachedSource {
            snapshot,
            cursor: None,
            unattempted: 0,
            syncing: None,
            synced: true,
            held: false,
        };
        self.sources.insert(source, state);
    }

    /// Starts a replay of a transferred source whose objects the handler has seen only in part.
    pub(super) fn restart(&mut self, source: SourceId, kind: CursorKind, now: Moment) {
        if let Some(state) = self.sources.get_mut(&source) {
            state.synced = false;
        }
        self.begin(source, kind, now);
    }

    /// Ends the cursor of a source whose keys were transferred: its objects are outdated from now on. Marks it as
    /// synced only if it was delivered completely, so that further transfers see the same.
    pub(super) fn retire(&mut self, source: SourceId, was_complete: bool) {
        if seeded_bug(SeededBug::RetiredSourceStillShown) {
            return;
        }
        self.end(source);
        if let Some(state) = self.sources.get_mut(&source) {
            state.snapshot = Snapshot::default();
            state.syncing = None;
            state.unattempted = 0;
            state.synced = was_complete;
        }
    }

    pub(super) fn remove(&mut self, source: SourceId) -> Option<AttachedSource> {
        self.cursor_queue.retain(|other| *other != source);
        self.sources.remove(&source)
    }

    /// Starts a cursor over the source, replacing a running one.
    pub(super) fn begin(&mut self, source: SourceId, kind: CursorKind, now: Moment) {
        let Some(state) = self.sources.get_mut(&source) else {
            return;
        };
        if kind != CursorKind::Resync {
            state.unattempted = 0;
            state.syncing = Some(kind);
        }
        if state.cursor.replace(DeliveryCursor::new(kind, now)).is_none() {
            self.cursor_queue.push_back(source);
        }
    }

    /// Starts a cursor over the source, replacing a running one, that may leave out what was accepted in an earlier
    /// process.
    pub(super) fn begin_resumed(
        &mut self,
        source: SourceId,
        kind: CursorKind,
        accepted: Option<Arc<AcceptedStates>>,
        now: Moment,
    ) {
        self.begin(source, kind, now);
        if let Some(cursor) = self.get_mut(source).and_then(|state| state.cursor.as_mut()) {
            cursor.accepted = accepted;
        }
    }

    /// Holds the source's cursor until [`release`](Self::release).
    pub(super) fn hold(&mut self, source: SourceId) {
        self.cursor_queue.retain(|other| *other != source);
        if let Some(state) = self.sources.get_mut(&source) {
            state.held = state.cursor.is_some();
        }
    }

    /// Releases a held cursor.
    pub(super) fn release(&mut self, source: SourceId) {
        if let Some(state) = self.sources.get_mut(&source)
            && std::mem::take(&mut state.held)
        {
            self.cursor_queue.push_back(source);
        }
    }

    /// Ends the source's cursor.
    pub(super) fn end(&mut self, source: SourceId) {
        self.cursor_queue.retain(|other| *other != source);
        if let Some(state) = self.sources.get_mut(&source) {
            state.cursor = None;
            state.held = false;
        }
    }

    /// Whether a cursor may have something to deliver.
    pub(super) fn has_cursor(&self) -> bool {
        !self.cursor_queue.is_empty()
    }

    /// The source whose cursor is next.
    pub(super) fn current_cursor(&self) -> Option<SourceId> {
        self.cursor_queue.front().copied()
    }

    /// Lets the next cursor have its turn.
    pub(super) fn rotate_cursors(&mut self) {
        if self.cursor_queue.len() > 1 {
            self.cursor_queue.rotate_left(1);
        }
    }

    pub(super) fn resyncs(&self) -> bool {
        let kinds = self
            .iter()
            .filter_map(|source| source.cursor.as_ref())
            .map(|cursor| cursor.kind);
        kinds.into_iter().any(|kind| kind == CursorKind::Resync)
    }
}
