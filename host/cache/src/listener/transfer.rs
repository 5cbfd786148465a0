//! Transfers keys between sources: the same objects, watched in another way, under a new source id.

use std::collections::BTreeMap;

use informant_object::{Key, KeyRef, Object, SourceId};

use crate::delivery::lanes::Lane;
use crate::listener::cursor::CursorKind;
use crate::listener::slots::{CallState, Slot};
use crate::listener::state::{Known, State, What};
use crate::listener::subject::Subject;
use crate::listener::{Listener, ObjectChange};
use crate::seeded_bug::{SeededBug, seeded_bug};
use crate::{Moment, Snapshot};

impl Listener {
    /// Attaches `new` in place of `olds` for the keys in its `scope`. Their pending, failing and in-flight events and
    /// their requeues continue under the new id, and `changes` are the difference between what `olds` delivered and
    /// `snapshot`. If `olds` were not delivered completely yet, `snapshot` is delivered as a replay.
    ///
    /// `olds` deliver nothing more by resync, replay or the rest of an initial list: their outdated objects would
    /// follow those of `new`.
    pub(super) fn transfer(
        &mut self,
        olds: &[SourceId],
        new: SourceId,
        scope: &dyn Fn(KeyRef<'_>) -> bool,
        (snapshot, changes): (&Snapshot, &[ObjectChange]),
        now: Moment,
    ) {
        if self.closed || self.sources.get(new).is_some() {
            return;
        }
        let is_attached = |old: &SourceId| self.sources.get(*old).is_some();
        if !olds.is_empty() && !olds.iter().any(is_attached) {
            return self.attach(new, snapshot, now);
        }
        // Its objects have no keys to transfer.
        if self.attach_related(new, snapshot, now) {
            return;
        }
        let was_complete = |old: &SourceId| {
            let state = self.sources.get(*old);
            state.is_some_and(|state| state.synced && state.syncing().is_none() && !state.is_reselected())
        };
        let all_complete = olds.iter().all(was_complete);
        let pending_synced = self.pending_synced(olds);
        for old in olds {
            self.transfer_keys(*old, new, scope, all_complete);
            self.transfer_intervals(*old, new, (snapshot, changes));
        }
        let first_lists = olds
            .iter()
            .filter_map(|old| self.sources.get_mut(*old)?.awaits_shards_since.take());
        let first_list = first_lists.max();
        self.queue.slots.lane_map.attached(new);
        self.sources.add_transferred(new, snapshot.clone());
        self.await_shards(new, None, now);
        if let Some(state) = self.sources.get_mut(new) {
            state.awaits_shards_since = first_list;
        }
        if !all_complete {
            self.sources.restart(new, CursorKind::Replay, now);
        }
        self.push(new, snapshot, changes);
        if all_complete {
            // `olds` may be detached before they deliver it, and several sources may follow one.
            for (lane, synced) in pending_synced {
                self.queue.counters.shown += 1;
                self.queue.enqueue((new, lane), Known::Nothing, synced);
            }
        }
        self.end_first_list(new);
    }

    /// The `Synced` of `sources` that no handler was called for yet, at most one for each lane.
    fn pending_synced(&self, sources: &[SourceId]) -> BTreeMap<Lane, State> {
        let slots = self.queue.slots.iter().filter(|slot| sources.contains(&slot.source));
        let pending = slots.filter(|slot| matches!(slot.first.what, What::Synced) && !slot.is_in_flight());
        pending.map(|slot| (slot.lane, slot.first.clone())).collect()
    }

    /// Transfers the pending, failing and in-flight events of the keys in `scope` from `olds` to `new`, which is
    /// attached next. `olds` are draining and have pushed all their deletes: whatever `new` delivers of a key follows
    /// the key's delete.
    pub(super) fn transfer_pending(&mut self, olds: &[SourceId], new: SourceId, scope: &dyn Fn(KeyRef<'_>) -> bool) {
        if seeded_bug(SeededBug::ReattachOvertakesDeletes) {
            return;
        }
        for old in olds {
            self.transfer_keys(*old, new, scope, true);
        }
    }

    fn transfer_keys(&mut self, old: SourceId, new: SourceId, scope: &dyn Fn(KeyRef<'_>) -> bool, was_complete: bool) {
        self.sources.retire(old, was_complete);
        self.queue.forget_sync_counts(old);
        self.queue.transfer_keys_to(old, new, scope);
        self.letters.transfer_keys_to(old, new, scope);
        self.requeues.transfer_keys_to(old, new, scope);
    }

    /// The keys of `new` wait for what they were called for under `old`. Visits every object, if there are intervals.
    fn transfer_intervals(&mut self, old: SourceId, new: SourceId, (snapshot, changes): (&Snapshot, &[ObjectChange])) {
        if self.queue.spacing.is_empty() {
            return;
        }
        let slots = &self.queue.slots;
        let hash = |source, key| slots.hash(Subject::Object(source, key));
        let hashes = |key| (hash(old, key), hash(new, key));
        let objects = snapshot.after(None).map(Object::key);
        let keys = objects.chain(changes.iter().map(ObjectChange::key));
        self.queue.spacing.rename(keys.map(hashes));
    }

    /// How many keys of a source have events pending or in flight.
    pub(super) fn busy_keys(&self, source: SourceId) -> usize {
        self.queue.slots.iter().filter(|slot| slot.source == source).count()
    }

    /// How many keys of a source are in back-off, and the first `max` of them.
    pub(super) fn retrying_keys(&self, source: SourceId, max: usize) -> (usize, Vec<Key>) {
        let is_retrying = |slot: &&Slot| slot.source == source && slot.call() == CallState::BackingOff;
        let mut slots: Vec<_> = self.queue.slots.iter().filter(is_retrying).collect();
        let count = slots.len();
        slots.truncate(max);
        let keys = slots.iter().filter_map(|slot| slot.key());
        (count, keys.map(KeyRef::to_key).collect())
    }

    /// How many of them an orderly stop should wait for.
    pub(super) fn deliverable_keys(&self, source: SourceId) -> usize {
        if self.pauses.folds() {
            return 0;
        }
        let slots = self.queue.slots.iter().filter(|slot| slot.source == source);
        let waits = |slot: &Slot| {
            let call = slot.call();
            matches!(call, CallState::BackingOff | CallState::WaitsOn(_) | CallState::Suspect)
        };
        slots.filter(|slot| !waits(slot)).count()
    }
}
