//! Redelivery: of everything (replay), or of one key (requeue).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use informant_object::{KeyRef, SourceId};

use crate::delivery::lanes::{Lane, ResourceIdentities};
use crate::listener::cursor::CursorKind;
use crate::listener::slots::Slot;
use crate::listener::state::{End, Known, State, What, Why};
use crate::listener::{Listener, Turns};
use crate::{Moment, Reason};

/// The result of a request to redeliver a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequeueResult {
    /// Its current state, or its last known delete, was queued.
    Queued,
    /// An event of the key is pending or in flight, or a cursor will deliver the key anyway.
    Waiting,
    /// No such source, or neither an object nor a dead letter of that key.
    Unknown,
    /// The listener is closed.
    Closed,
}

/// Called when a replay of a gated source was requested.
pub(super) type ReplayRequested = Arc<dyn Fn() + Send + Sync>;

/// The sources whose replays must be recorded before they start, with the callback that requests it.
#[derive(Default)]
pub(super) struct ReplayGate(BTreeMap<SourceId, ReplayRequested>);

impl fmt::Debug for ReplayGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl ReplayGate {
    /// The callback that requests to record a replay of `source`, if that is necessary.
    pub(super) fn get(&self, source: SourceId) -> Option<ReplayRequested> {
        self.0.get(&source).cloned()
    }
}

impl Listener {
    /// From now on, holds replays of `source` until they are recorded.
    pub(super) fn gate(&mut self, source: SourceId, requested: ReplayRequested) {
        self.replay_gate.0.insert(source, requested);
    }

    /// The replay of `source` was recorded: it may start.
    pub(super) fn begin_replay(&mut self, source: SourceId) {
        self.sources.release(source);
    }

    /// No longer holds replays of `source`.
    pub(super) fn ungate(&mut self, source: SourceId) {
        self.replay_gate.0.remove(&source);
        self.sources.release(source);
    }

    /// As [`ungate`](Self::ungate), for all sources.
    pub(super) fn ungate_all(&mut self) {
        while let Some((source, _)) = self.replay_gate.0.pop_first() {
            self.sources.release(source);
        }
    }

    /// Redelivers every source by cursors of this kind, to one lane or to all. Pending deletes go first; pending adds
    /// and updates are left to the cursors. A gated source is held until its replay is recorded: returns the callbacks
    /// that request it.
    pub(super) fn replay(&mut self, now: Moment, kind: CursorKind, only: Option<Lane>) -> Vec<ReplayRequested> {
        if self.closed {
            return Vec::new();
        }
        // A handler that lost its state, or has none yet, does not wait for its predecessor's calls.
        self.queue.clear_intervals();
        // What a recovery passes over was asked for once more.
        let letters = &self.letters;
        let is_passed_over = |slot: &Slot| {
            let object = slot.first.object().filter(|_| kind == CursorKind::Recovery);
            object.is_some_and(|object| letters.is_about(slot.source, object))
        };
        self.queue
            .defer_states_to_cursor(|slot| only.is_none_or(|lane| slot.lane == lane) && !is_passed_over(slot));
        // The cursor counts from the start, and not these.
        self.queue
            .forget_sync_counts_of(|slot| only.is_none_or(|lane| slot.lane == lane) && is_passed_over(slot));
        let is_other = |lane: Lane| only.is_some_and(|only| only != lane);
        self.queue.vanished_unattempted.retain(|(_, lane)| is_other(*lane));
        self.forget_ended_back_offs();
        match only {
            Some(lane) => self.requeues.clear_lane(lane),
            None => {
                self.letters.clear_unaccepted();
                self.requeues.clear();
            }
        }
        let count = self.queue.slots.lane_map.count();
        let lanes = only.map_or(0..count, |lane| lane..lane + 1);
        for (source, lane) in self
            .sources
            .ids()
            .into_iter()
            .flat_map(|source| lanes.clone().map(move |it| (source, it)))
        {
            let state = self.sources.get(source);
            let is_untouched = state.is_some_and(|state| state.walk(lane).is_untouched());
            if !is_untouched {
                self.sources.begin_in(source, lane, kind, now);
                if self.replay_gate.0.contains_key(&source) {
                    self.sources.hold(source, lane);
                }
            }
        }
        self.replay_gate.0.values().cloned().collect()
    }

    /// Divides the keys among so many lanes from now on, and redelivers every source: each consumer has lost what it
    /// remembered. While no call is made.
    pub(super) fn set_lanes(&mut self, count: Lane, identity: ResourceIdentities, now: Moment) -> Vec<ReplayRequested> {
        self.queue.drop_synced();
        self.forget_ended_back_offs();
        self.queue.slots.redivide(count, identity, &self.sources.ids());
        let count = self.queue.slots.lane_map.count();
        self.sources.redivide(count, now);
        self.turns = vec![Turns::default(); usize::from(count)];
        let requested = self.replay(now, CursorKind::Replay, None);
        // A closed listener is not replayed: it delivers no requeues, and reports no end of a list.
        self.requeues.clear();
        for source in self.sources.ids() {
            self.queue.forget_sync_counts(source);
        }
        requested
    }

    /// Redelivers the current state of `key`, or its last known delete while the object is absent.
    pub(super) fn requeue(&mut self, source: SourceId, key: KeyRef<'_>, now: Moment) -> RequeueResult {
        if self.closed {
            return RequeueResult::Closed;
        }
        let Some(state) = self.sources.get(source).filter(|state| state.relation.is_none()) else {
            return RequeueResult::Unknown;
        };
        if self.is_elsewhere(source, key) {
            return RequeueResult::Unknown;
        }
        let object = state.snapshot.get(key);
        let lane = self.queue.slots.lane_map.of(source, key);
        let covered = object.is_some_and(|object| state.will_show(lane, object));
        if covered || self.is_busy(source, key) {
            return RequeueResult::Waiting;
        }
        let what = match (object, self.letters.get(source, key)) {
            (Some(object), _) => What::Is(object.clone()),
            (None, None) => return RequeueResult::Unknown,
            (None, Some(letter)) => {
                let (last, final_state_unknown) = match &letter.delete {
                    Some(delete) => (delete.last.clone(), delete.final_state_unknown),
                    None => (None, true),
                };
                What::Ended(End::new(letter.key.clone(), last, final_state_unknown))
            }
        };
        self.queue.counters.accepted += 1;
        let state = State::new(what, Why::Shown, Reason::Requeue, now);
        self.queue.enqueue((source, lane), Known::Maybe(None), state);
        RequeueResult::Queued
    }
}
