//! Changes from the informer loop.

use informant_object::{KeyRef, Object, SourceId};

use crate::Reason;
use crate::Snapshot;
use crate::listener::cursor::CursorKind;
use crate::listener::state::{End, Known, State, What, Why};
use crate::listener::watermark::accepted_before_queue;
use crate::listener::{ChangeKind, Listener, ObjectChange, Pause};
use crate::seeded_bug::{SeededBug, seeded_bug};

impl Listener {
    /// Accepts the changes that led to `snapshot`; none if the store only keeps its objects in another form. What only
    /// the queue keeps of a namespace that is being shed counts once that is done: all slots are visited for it.
    pub(super) fn push(&mut self, source: SourceId, snapshot: &Snapshot, changes: &[ObjectChange]) {
        if self.closed {
            self.queue.counters.refused += changes.len() as u64;
            return;
        }
        let Some(state) = self.sources.get_mut(source) else {
            self.queue.counters.unattached += changes.len() as u64;
            return;
        };
        let has_other_shards = state.snapshot.shards() != snapshot.shards();
        let accepted = has_other_shards.then(|| accepted_before_queue(state)).flatten();
        let older = std::mem::replace(&mut state.snapshot, snapshot.clone());
        for cursor in state.walks.iter_mut().filter_map(|walk| walk.cursor.as_mut()) {
            cursor.rebase();
        }
        if self.pauses.contains(Pause::Swap) && seeded_bug(SeededBug::SwapDropsEvents) {
            return;
        }
        if let Some(relation) = state.relation.clone() {
            return self.push_related(source, &*relation, changes);
        }
        let is_rolled_back = snapshot.epoch() != older.epoch();
        if is_rolled_back && self.is_divided() {
            self.forget_watermarks(source);
        }
        if has_other_shards {
            self.await_shards_again(source, &older, accepted.filter(|_| !is_rolled_back));
        }
        if let Some(namespaces) = snapshot.shed_since(&older) {
            self.queue.count_unstored(source, snapshot, namespaces);
        }
        for change in changes {
            self.push_change(source, change);
        }
        if changes
            .iter()
            .any(|change| matches!(change.kind, ChangeKind::Forget { .. }))
        {
            self.forget_ended_back_offs();
        }
    }

    pub(super) fn push_change(&mut self, source: SourceId, change: &ObjectChange) {
        match &change.kind {
            ChangeKind::Add(object) => self.accept(source, change, What::Is(object.clone()), None),
            // It was left out while the source was divided otherwise.
            ChangeKind::Update { new, .. } if change.reason == Reason::Takeover && self.is_divided() => {
                self.accept(source, change, What::Is(new.clone()), None);
            }
            ChangeKind::Update { old, new } if change.reason == Reason::Takeover && old.ptr_eq(new) => {}
            ChangeKind::Update { old, new } if old.uid() != new.uid() && !seeded_bug(SeededBug::UpdateAcrossUids) => {
                // The delete was not observed, or the store could not tell: two incarnations never become one update.
                let end = End::new(old.key().to_key(), Some(old.clone()), true);
                self.accept(source, change, What::Ended(end), None);
                self.accept(source, change, What::Is(new.clone()), None);
            }
            ChangeKind::Update { old, new } => self.accept(source, change, What::Is(new.clone()), Some(old)),
            ChangeKind::Delete {
                last,
                key,
                final_state_unknown,
            } => {
                let end = || What::Ended(End::new(key.clone(), last.clone(), *final_state_unknown));
                if seeded_bug(SeededBug::DeleteDeliveredTwice) {
                    self.accept(source, change, end(), None);
                }
                self.accept(source, change, end(), None);
            }
            ChangeKind::Forget { key } if seeded_bug(SeededBug::LostShardDeletes) => {
                let end = End::new(key.clone(), None, true);
                self.accept(source, change, What::Ended(end), None);
            }
            // It comes back: what is pending stays.
            ChangeKind::Forget { key } if self.is_held(source, key.as_ref()) => {}
            ChangeKind::Forget { key } => self.forget(source, key.as_ref()),
        }
    }

    /// Another process calls the handler for the key from now on: what is pending of it is dropped.
    pub(super) fn forget(&mut self, source: SourceId, key: KeyRef<'_>) {
        match self.queue.find(source, key) {
            // The shard may return before the call has ended, and another one must not run at the same time.
            Some(id) if self.is_divided() && self.queue.slots.get(id).is_in_flight() => self.queue.hand_over_rest(id),
            _ => self.queue.hand_over(source, key),
        }
        self.letters.record_success(source, key);
        let requeue = self.requeues.remove(source, key);
        self.queue.counters.requeues_dropped += u64::from(requeue.is_some());
    }

    /// Accepts a state that followed `old` in the store.
    fn accept(&mut self, source: SourceId, change: &ObjectChange, what: What, old: Option<&Object>) {
        self.queue.counters.accepted += 1;
        if self.is_divided() && self.is_anothers(source, change, &what) {
            self.queue.counters.handed_over += 1;
            return;
        }
        let why = match change.reason.is_change() {
            true => Why::Changed,
            false => Why::Resync,
        };
        let mut state = State::new(what, why, change.reason, change.received);
        let attached = self.sources.get(source);
        let is_maybe_seen = attached.is_some_and(|attached| change.received < attached.maybe_seen_until);
        if let (What::Ended(end), true) = (&mut state.what, is_maybe_seen) {
            // The object that follows may have been delivered, too.
            end.then = Known::Maybe(None);
        }
        let Some(key) = state.key() else { return };
        let lane = self.queue.slots.lane_map.of(source, key);
        let walk = attached.map(|attached| attached.walk(lane));
        let cursor = walk.and_then(|walk| walk.cursor.as_ref());
        let covering = cursor.filter(|cursor| cursor.covers(key));
        // A rollback brings back what another process accepted once, or another form of it comes: no cursor shows it.
        let is_left_out = covering.is_some_and(|cursor| state.object().is_some_and(|it| cursor.was_accepted(it)));
        let covering = covering.map(|cursor| cursor.kind);
        // The call that waits is about what is there now.
        let is_awaited = self.queue.is_level_triggered && self.is_busy(source, key);
        if let Some(kind) = covering.filter(|_| !is_awaited && !is_left_out)
            && self.defer_to_cursor(source, &state, old.is_some(), kind)
        {
            return;
        }
        let known = match (&state.what, old) {
            _ if is_left_out => Known::Maybe(None),
            // Another process has called the handler until now.
            (What::Is(_), None) if is_maybe_seen || change.reason == Reason::Takeover => Known::Maybe(None),
            (What::Is(_), None) => Known::Nothing,
            (What::Is(_), Some(old)) if self.letters.accepted_last(source, old.key()) => Known::Exactly(old.clone()),
            (_, old) => Known::Maybe(old.cloned()),
        };
        state.was_selected = covering == Some(CursorKind::Reselection);
        let stored = self.sources.get(source).map(|of| &of.snapshot);
        state.is_unstored = stored.is_some_and(|snapshot| state.is_unstored_in(snapshot));
        self.queue.enqueue((source, lane), known, state);
    }

    /// Whether another process handles the key, or has handled this state of it.
    fn is_anothers(&self, source: SourceId, change: &ObjectChange, what: &What) -> bool {
        let is_new = change.reason == Reason::Takeover;
        let was_accepted = |object: &Object| is_new && self.was_accepted_elsewhere(source, object);
        let is_accepted = matches!(what, What::Is(object) if was_accepted(object));
        is_accepted || self.is_not_called(source, change.key())
    }

    /// Leaves a change to the cursor that has not passed its key yet. Returns whether that is possible.
    fn defer_to_cursor(&mut self, source: SourceId, state: &State, is_update: bool, kind: CursorKind) -> bool {
        match &state.what {
            What::Is(_) if is_update => self.queue.counters.coalesced += 1,
            What::Is(_) => self.queue.counters.left_to_cursor += 1,
            What::Ended(end) => {
                // A handler in a replay may have seen the object, unless the end of its predecessor is still pending.
                if kind.maybe_seen() && !self.queue.ends_with_delete(source, end.key.as_ref()) {
                    return false;
                }
                // Counted as if the cursor had produced the add that the end cancels.
                self.queue.counters.shown += 1;
                self.queue.counters.vanished += 1;
            }
            What::Synced | What::Tick(_) => return false,
        }
        true
    }
}
