//! How far a handler has accepted a source, for a process that continues in place of this one.

use std::time::Duration;

use informant_object::{Object, SourceId};

use crate::Moment;
use crate::listener::Listener;
use crate::listener::cursor::CursorKind;
use crate::listener::slots::Slot;
use crate::listener::sources::{AttachedSource, Walk};
use crate::listener::state::State;
use crate::seeded_bug::{SeededBug, seeded_bug};

impl Listener {
    /// See [`Ledger::watermark`](super::Ledger::watermark).
    pub(super) fn watermark(&self, source: SourceId) -> Option<u64> {
        let state = self.sources.get(source).filter(|_| !self.has_refused())?;
        let watermark = accepted_before_queue(state)?;
        if seeded_bug(SeededBug::WatermarkAheadOfQueue) {
            return Some(watermark);
        }
        let slots = self.queue.slots.iter().filter(|slot| slot.source == source);
        lowered(watermark, slots.flat_map(Slot::states))
    }

    /// See [`Ledger::oldest_delete`](super::Ledger::oldest_delete).
    pub(super) fn oldest_delete(&self, now: Moment) -> Option<Duration> {
        let states = self.queue.slots.iter().flat_map(Slot::states);
        let deletes = states.filter(|state| state.end().is_some());
        deletes.map(|state: &State| now - state.received).max()
    }
}

/// `watermark` without the states that were not accepted. None if one of them has no number.
pub(super) fn lowered<'s>(mut watermark: u64, states: impl Iterator<Item = &'s State>) -> Option<u64> {
    for unaccepted in states.filter(|state| !state.is_only_asked()) {
        // What is known last of an object that ended is not newer than its end.
        let object = match (unaccepted.object(), unaccepted.end()) {
            (Some(object), _) => Some(object),
            (None, Some(end)) => end.last.as_ref(),
            (None, None) => continue,
        };
        let version = object.map(Object::version)?.number()?;
        watermark = watermark.min(version.saturating_sub(1));
    }
    Some(watermark)
}

/// The version up to which everything that is not in the queue was accepted.
pub(super) fn accepted_before_queue(state: &AttachedSource) -> Option<u64> {
    let pushed = state.snapshot.complete_through()?;
    let of_walk = |walk: &Walk| match (&walk.cursor, walk.syncing) {
        (None, None) => Some(pushed),
        // What it repeats was accepted.
        (Some(cursor), None) if cursor.kind == CursorKind::Resync => Some(pushed),
        // What it leaves out was accepted elsewhere.
        (Some(cursor), _) => cursor.accepted.as_ref()?.watermark(),
        (None, Some(_)) => None,
    };
    let mut lowest = pushed;
    for walk in &state.walks {
        lowest = lowest.min(of_walk(walk)?);
    }
    Some(lowest)
}
