//! A walk over a source's objects on behalf of one listener: initial list, replay or resync.
//!
//! Holds only a small chunk of fetched objects. Walks the newest snapshot pushed to the listener, not the one it
//! started with: an object that changes ahead of the cursor is delivered in its new state, at no extra cost.

use std::collections::VecDeque;
use std::sync::Arc;

use informant_object::{KeyRef, Object};

use crate::delivery::options::CURSOR_CHUNK_OBJECTS;
use crate::listener::AcceptedStates;
use crate::listener::reselect::Reselection;
use crate::seeded_bug::{SeededBug, seeded_bug};
use crate::{Moment, Reason, Snapshot};

#[derive(Debug)]
pub(super) struct DeliveryCursor {
    pub(super) kind: CursorKind,
    pub(super) begun: Moment,
    /// The cursor has passed all keys up to this object's.
    last: Option<Object>,
    /// Fetched and not yet delivered.
    chunk: VecDeque<Object>,
    /// States that the handler accepted in another process.
    pub(super) accepted: Option<Arc<AcceptedStates>>,
    /// Present if the cursor delivers the difference of two selections.
    pub(super) reselection: Option<Arc<Reselection>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CursorKind {
    /// The handler has seen nothing of the source.
    Initial,
    /// The handler may have seen any object of the source, and receives all of them again.
    Replay,
    /// As `Replay`, for a handler that lost its memory. Leaves out dead-lettered states: it would only fail on them
    /// again.
    Recovery,
    /// The handler may have seen any object in an earlier process, and receives all of them.
    ResumeAll,
    /// As `ResumeAll`, except the states that it accepted then.
    ResumeUnaccepted,
    /// Another process has called the handler until now: it receives all objects, except the states that it accepted.
    Takeover,
    /// The handler has seen all objects, and receives them again as updates.
    Resync,
    /// The handler selects other objects than before, and receives the difference.
    Reselection,
    /// Something has changed that may lead to any object: the handler is called for all again.
    Related,
}

impl DeliveryCursor {
    pub(super) fn new(kind: CursorKind, begun: Moment) -> DeliveryCursor {
        DeliveryCursor {
            kind,
            begun,
            last: None,
            chunk: VecDeque::new(),
            accepted: None,
            reselection: None,
        }
    }

    /// Whether the handler needs no call for `object` in this state: it accepted it in another process, or its
    /// selection changed for other objects only.
    pub(super) fn leaves_out(&self, object: &Object) -> bool {
        let is_unaffected = |reselection: &Arc<Reselection>| reselection.leaves_out(object);
        self.was_accepted(object) || self.reselection.as_ref().is_some_and(is_unaffected)
    }

    /// Whether the handler accepted `object` in this state in another process.
    pub(super) fn was_accepted(&self, object: &Object) -> bool {
        self.accepted.as_ref().is_some_and(|accepted| accepted.holds(object))
    }

    /// Whether the cursor will still deliver the object at `key`, so that a change of it need not be queued.
    pub(super) fn covers(&self, key: KeyRef<'_>) -> bool {
        self.kind.is_list() && self.last.as_ref().is_none_or(|last| last.key() < key)
    }

    /// Whether the cursor has passed nothing yet.
    pub(super) fn is_at_start(&self) -> bool {
        self.last.is_none()
    }

    /// The next object of `snapshot`, with `true` if it ends a chunk.
    pub(super) fn next(&mut self, snapshot: &Snapshot) -> Option<(Object, bool)> {
        if self.chunk.is_empty() {
            let last = self.last.as_ref().map(Object::key);
            self.chunk
                .extend(snapshot.after(last).take(CURSOR_CHUNK_OBJECTS).cloned());
            if seeded_bug(SeededBug::CursorSkipsObject) {
                self.chunk.pop_front();
            }
        }
        let next = self.chunk.pop_front()?;
        self.last = Some(next.clone());
        Some((next, self.chunk.is_empty()))
    }

    /// Switches to a newer snapshot: fetched objects may be outdated.
    pub(super) fn rebase(&mut self) {
        if seeded_bug(SeededBug::CursorShowsStaleObjects) {
            return;
        }
        self.chunk.clear();
    }

    /// How many objects of `snapshot` that `counts` are ahead. Iterates over them.
    pub(super) fn ahead(&self, snapshot: &Snapshot, counts: impl Fn(KeyRef<'_>) -> bool) -> usize {
        let ahead = snapshot.after(self.last.as_ref().map(Object::key));
        ahead.filter(|object| counts(object.key())).count()
    }
}

impl CursorKind {
    /// Whether it delivers a list, at whose end the source is synced; otherwise the handler has seen all objects.
    pub(super) const fn is_list(self) -> bool {
        !matches!(self, CursorKind::Resync | CursorKind::Related)
    }

    /// Whether the handler may have seen objects of the source before.
    pub(super) const fn maybe_seen(self) -> bool {
        !matches!(self, CursorKind::Initial | CursorKind::Resync)
    }

    pub(super) const fn reason(self) -> Reason {
        match self {
            CursorKind::Initial | CursorKind::ResumeAll | CursorKind::ResumeUnaccepted => Reason::Initial,
            CursorKind::Takeover => Reason::Takeover,
            CursorKind::Replay | CursorKind::Recovery => Reason::Replay,
            CursorKind::Resync => Reason::Resync,
            CursorKind::Reselection => Reason::Reconfigured,
            CursorKind::Related => Reason::Related,
        }
    }
}
