//! A walk over a source's objects on behalf of one listener: initial list, replay or resync.
//!
//! Owns no objects but a small stretch it has fetched. Walks the newest snapshot that the listener was told of, not the
//! one it began with: what changes ahead of it is shown as it is by then, and costs nothing.

use std::collections::VecDeque;
use std::sync::Arc;

use informant_object::{KeyRef, Object};

use crate::listener::AcceptedStates;
use crate::listener::options::CURSOR_CHUNK_OBJECTS;
use crate::seeded_bug::{SeededBug, seeded_bug};
use crate::{Moment, Reason, Snapshot};

#[derive(Debug)]
pub(super) struct Cursor {
    pub(super) kind: CursorKind,
    pub(super) begun: Moment,
    /// All up to its key are behind the cursor.
    last: Option<Object>,
    /// Fetched and not yet shown.
    stretch: VecDeque<Object>,
    /// What an earlier process was told that the handler accepted.
    pub(super) accepted: Option<Arc<AcceptedStates>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CursorKind {
    /// The handler knows nothing of the source.
    Initial,
    /// The handler may know anything of the source, and is shown all again.
    Replay,
    /// As `Replay`, for a handler that lost its memory: states that are dead letters are left out. It would only fail
    /// on them again.
    Recovery,
    /// The handler may know anything of the source from an earlier process, and is shown all.
    Return,
    /// As `Return`, but for the states that it accepted then.
    Resume,
    /// The handler knows all, and is reminded of it.
    Resync,
}

impl Cursor {
    pub(super) fn new(kind: CursorKind, begun: Moment) -> Cursor {
        Cursor {
            kind,
            begun,
            last: None,
            stretch: VecDeque::new(),
            accepted: None,
        }
    }

    /// Whether `object` is as the handler accepted it in an earlier process.
    pub(super) fn was_accepted(&self, object: &Object) -> bool {
        self.accepted.as_ref().is_some_and(|accepted| accepted.holds(object))
    }

    /// Whether the object at `key` will be shown as it is by then, so that no change of it has to be told.
    pub(super) fn covers(&self, key: KeyRef<'_>) -> bool {
        self.kind != CursorKind::Resync && self.last.as_ref().is_none_or(|last| last.key() < key)
    }

    /// Whether nothing was passed yet.
    pub(super) fn is_at_start(&self) -> bool {
        self.last.is_none()
    }

    /// The next object of `snapshot`. `true` with it if a stretch ends there.
    pub(super) fn next(&mut self, snapshot: &Snapshot) -> Option<(Object, bool)> {
        if self.stretch.is_empty() {
            let last = self.last.as_ref().map(Object::key);
            self.stretch
                .extend(snapshot.after(last).take(CURSOR_CHUNK_OBJECTS).cloned());
            if seeded_bug(SeededBug::CursorMissesOne) {
                self.stretch.pop_front();
            }
        }
        let next = self.stretch.pop_front()?;
        self.last = Some(next.clone());
        Some((next, self.stretch.is_empty()))
    }

    /// The snapshot is another one from now on.
    pub(super) fn rebase(&mut self) {
        if seeded_bug(SeededBug::CursorShowsThePast) {
            return;
        }
        self.stretch.clear();
    }

    /// How many objects of `snapshot` are ahead. Counts them one by one.
    pub(super) fn ahead(&self, snapshot: &Snapshot) -> usize {
        snapshot.after(self.last.as_ref().map(Object::key)).count()
    }
}

impl CursorKind {
    /// Whether the handler may have been told of anything before.
    pub(super) const fn is_again(self) -> bool {
        !matches!(self, CursorKind::Initial | CursorKind::Resync)
    }

    pub(super) const fn reason(self) -> Reason {
        match self {
            CursorKind::Initial | CursorKind::Return | CursorKind::Resume => Reason::Initial,
            CursorKind::Replay | CursorKind::Recovery => Reason::Replay,
            CursorKind::Resync => Reason::Resync,
        }
    }
}
