//! The sources a listener is attached to, and the cursors over them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use informant_object::SourceId;

use crate::listener::AcceptedStates;
use crate::listener::cursor::{Cursor, CursorKind};
use crate::seeded_bug::{SeededBug, seeded_bug};
use crate::{Moment, Snapshot};

/// All sources of one listener.
#[derive(Debug, Default)]
pub(super) struct Sources {
    sources: BTreeMap<SourceId, Source>,
    /// Sources whose cursor runs, in the order of their turns.
    turns: VecDeque<SourceId>,
}

/// One source.
#[derive(Debug)]
pub(super) struct Source {
    /// What was published when changes were pushed last. Never newer: a cursor must not show what has yet to be pushed.
    pub(super) snapshot: Snapshot,
    pub(super) cursor: Option<Cursor>,
    /// Keys that an initial or replay cursor has passed and that were not attempted since it began.
    pub(super) owed: usize,
    /// The initial list or replay that is under way: its cursor runs, or keys are owed.
    pub(super) syncing: Option<CursorKind>,
    /// The initial list was attempted.
    pub(super) synced: bool,
    /// The cursor waits for [`let_go`](Sources::let_go).
    held: bool,
}

impl Sources {
    pub(super) fn len(&self) -> usize {
        self.sources.len()
    }

    pub(super) fn get(&self, source: SourceId) -> Option<&Source> {
        self.sources.get(&source)
    }

    pub(super) fn get_mut(&mut self, source: SourceId) -> Option<&mut Source> {
        self.sources.get_mut(&source)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Source> {
        self.sources.values()
    }

    pub(super) fn ids(&self) -> Vec<SourceId> {
        self.sources.keys().copied().collect()
    }

    /// Adds a source and begins its initial list.
    pub(super) fn add(&mut self, source: SourceId, snapshot: Snapshot, now: Moment) {
        let state = Source {
            snapshot,
            cursor: None,
            owed: 0,
            syncing: None,
            synced: false,
            held: false,
        };
        self.sources.insert(source, state);
        self.begin(source, CursorKind::Initial, now);
    }

    /// Adds a source whose objects the handler knows from another.
    pub(super) fn take_over(&mut self, source: SourceId, snapshot: Snapshot) {
        let state = Source {
            snapshot,
            cursor: None,
            owed: 0,
            syncing: None,
            synced: true,
            held: false,
        };
        self.sources.insert(source, state);
    }

    /// Begins to show a source that was taken over from others of which the handler knows a part.
    pub(super) fn show_again(&mut self, source: SourceId, kind: CursorKind, now: Moment) {
        if let Some(state) = self.sources.get_mut(&source) {
            state.synced = false;
        }
        self.begin(source, kind, now);
    }

    /// Ends whatever shows the source, which has an heir: what it held is old from now on. Says that it was shown whole
    /// only if it was, so that its other heirs see it as this one does.
    pub(super) fn retire(&mut self, source: SourceId, was_shown: bool) {
        if seeded_bug(SeededBug::RetiredSourceGoesOn) {
            return;
        }
        self.end(source);
        if let Some(state) = self.sources.get_mut(&source) {
            state.snapshot = Snapshot::default();
            state.syncing = None;
            state.owed = 0;
            state.synced = was_shown;
        }
    }

    pub(super) fn remove(&mut self, source: SourceId) -> Option<Source> {
        self.turns.retain(|other| *other != source);
        self.sources.remove(&source)
    }

    /// Begins a walk over the source, in place of one that runs.
    pub(super) fn begin(&mut self, source: SourceId, kind: CursorKind, now: Moment) {
        let Some(state) = self.sources.get_mut(&source) else {
            return;
        };
        if kind != CursorKind::Resync {
            state.owed = 0;
            state.syncing = Some(kind);
        }
        if state.cursor.replace(Cursor::new(kind, now)).is_none() {
            self.turns.push_back(source);
        }
    }

    /// Begins a walk over the source, in place of one that runs, that may leave out what was accepted in an earlier
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

    /// Lets the source's walk show nothing until [`let_go`](Self::let_go).
    pub(super) fn hold(&mut self, source: SourceId) {
        self.turns.retain(|other| *other != source);
        if let Some(state) = self.sources.get_mut(&source) {
            state.held = state.cursor.is_some();
        }
    }

    /// Lets a walk that was held go on.
    pub(super) fn let_go(&mut self, source: SourceId) {
        if let Some(state) = self.sources.get_mut(&source)
            && std::mem::take(&mut state.held)
        {
            self.turns.push_back(source);
        }
    }

    /// Ends the source's walk.
    pub(super) fn end(&mut self, source: SourceId) {
        self.turns.retain(|other| *other != source);
        if let Some(state) = self.sources.get_mut(&source) {
            state.cursor = None;
            state.held = false;
        }
    }

    /// Whether a cursor has something to show, or may have.
    pub(super) fn has_cursor(&self) -> bool {
        !self.turns.is_empty()
    }

    /// The source whose cursor's turn it is.
    pub(super) fn turn(&self) -> Option<SourceId> {
        self.turns.front().copied()
    }

    /// Lets the next cursor have its turn.
    pub(super) fn end_turn(&mut self) {
        if self.turns.len() > 1 {
            self.turns.rotate_left(1);
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
