//! Requeues: a handler that succeeded asks to be called again for the key after some time; or an operator asks for a
//! call now (a trigger).
//!
//! A requeue is a timer of a key, and no event: it is neither pending nor a retry, and a stop does not wait for it.
//! When it is due, it is delivered as soon as the consumer asks for a delivery; until then it waits here, however many
//! are due. Requeues take turns with everything else.
//!
//! - The next call of the key cancels it, whatever the reason and the outcome. The call counts when it *ends*, so that
//!   a durable handler's requeue is on disk until then; a delivery that was filtered or given back was no call. One
//!   exception for the same purpose: while the requeued call itself fails and is retried, the requeue stays. Its key is
//!   busy all that time, so it causes no other call.
//! - It waits for the end of its key's interval ([`min_interval`](super::ListenerOptions::min_interval)).
//! - While its key has an event pending or in flight, or a cursor will still pass the key, it waits: usually that call
//!   cancels it.
//! - An object that is gone when its requeue is due has none. Its delete, if the handler receives one, was a call.
//! - A handler that received a delete is called with that delete again.

use std::time::Duration;

use informant_object::{Key, KeyRef, Object, ResourceVersion, SourceId};

use crate::delivery::dead_letters::metadata_only;
use crate::delivery::lanes::{Lane, LaneSet};
use crate::delivery::options::{
    REQUEUE_AFTER_MIN, REQUEUE_AFTER_MIN_UNCHANGED, REQUEUE_CHECK_INTERVAL, REQUEUES_IN_A_ROW_MAX,
};
use crate::delivery::requeues::{Requeue, Unrecorded};
use crate::listener::slots::SlotId;
use crate::listener::sources::AttachedSource;
use crate::listener::state::{End, Known, State, What, Why};
use crate::listener::subject::Subject;
use crate::listener::{Delivery, LastDelete, Listener};
use crate::seeded_bug::{SeededBug, seeded_bug};
use crate::{Moment, Reason};

/// A requeue, as a journal records and restores it.
#[derive(Clone, Debug)]
pub struct RequeueTimer {
    /// The key to call the handler for.
    pub key: Key,
    /// The time until then; zero if it is due.
    pub remaining: Duration,
    /// [`Reason::RequeueAfter`], or [`Reason::Trigger`] if an operator asked for the call.
    pub reason: Reason,
    /// The delete that is delivered again; none if the object existed.
    pub delete: Option<LastDelete>,
}

/// How the requeues of a source changed.
#[derive(Clone, Debug)]
pub struct RequeueChanges {
    /// Whether `timers` are all requeues of the source. Otherwise they are those that were set or changed.
    pub is_complete: bool,
    /// The requeues, by key.
    pub timers: Vec<RequeueTimer>,
    /// The keys whose requeue was canceled, made or dropped; empty if `timers` are all of them.
    pub removed: Vec<Key>,
}

/// A key whose handler asks for another call again and again, although the object does not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowedKey {
    /// The source of the object.
    pub source: SourceId,
    /// The key of the object.
    pub key: Key,
    /// Calls in a row, for the same state of the object, that asked for another one.
    pub requeues: u32,
    /// When the next call is due.
    pub next: Moment,
}

/// The result of a trigger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Triggered {
    /// Objects for which a call was asked for.
    pub triggered: usize,
    /// Objects whose events are pending or in flight, or that a cursor will deliver anyway.
    pub waiting: usize,
}

/// Whether a call is made because of an entry in the table of requeues.
const fn is_requeued(reason: Reason) -> bool {
    matches!(reason, Reason::RequeueAfter | Reason::Trigger)
}

impl Listener {
    /// The handler accepted the slot's first state and asks for another call after `wait`.
    pub(super) fn set_requeue(&mut self, id: SlotId, wait: Duration, now: Moment) {
        let slot = self.queue.slots.get(id);
        // `Synced` has no key.
        let (source, Some(key)) = (slot.source, slot.key().map(KeyRef::to_key)) else {
            return;
        };
        let delete = slot.first.end().map(|end| LastDelete {
            last: end.last.clone(),
            final_state_unknown: end.final_state_unknown,
        });
        let last = delete.as_ref().and_then(|delete| delete.last.as_ref());
        let state: Option<&Object> = slot.first.object().or(last);
        let version = state.map_or_else(ResourceVersion::default, |state| state.version().to_version());
        let before = self.requeues.remove(source, key.as_ref());
        let is_same = |before: &Requeue| before.version == version && before.delete.is_some() == delete.is_some();
        let in_a_row = before.filter(is_same).map_or(0, |before| before.in_a_row);
        let in_a_row = in_a_row.saturating_add(1);
        let wait_min = if in_a_row > REQUEUES_IN_A_ROW_MAX {
            REQUEUE_AFTER_MIN_UNCHANGED
        } else {
            REQUEUE_AFTER_MIN
        };
        let requeue = Requeue {
            due: now + wait.max(wait_min),
            reason: Reason::RequeueAfter,
            in_a_row,
            is_slowed: in_a_row > REQUEUES_IN_A_ROW_MAX && wait < wait_min,
            version,
            delete: delete.map(|delete| self.cut_to_limit(delete)),
        };
        self.insert_requeue(source, key, requeue);
    }

    fn insert_requeue(&mut self, source: SourceId, key: Key, requeue: Requeue) {
        let lane = self.queue.slots.lane_map.of(source, key.as_ref());
        self.requeues.set(source, lane, key, requeue);
        let evicted = self.requeues.evict_delete(self.options.requeued_deletes_max);
        self.queue.counters.requeues_dropped += evicted;
    }

    /// Above the limit on bytes, only the metadata of the last state is kept.
    fn cut_to_limit(&mut self, mut delete: LastDelete) -> LastDelete {
        if let Some(last) = &mut delete.last
            && self.requeues.bytes() + last.size_bytes() > self.options.pending_bytes_max
        {
            *last = metadata_only(last);
            self.queue.counters.deletes_cut += 1;
        }
        delete
    }

    /// The slot's first state was called, and asks for no other call.
    pub(super) fn cancel_requeue(&mut self, id: SlotId) {
        if self.requeues.is_empty() || seeded_bug(SeededBug::RequeueNotCanceled) {
            return;
        }
        let slot = self.queue.slots.get(id);
        if let Some(key) = slot.key() {
            self.requeues.remove(slot.source, key);
        }
    }

    /// The call of the slot's first state failed and will be retried.
    pub(super) fn retry_requeue(&mut self, id: SlotId) {
        if !is_requeued(self.queue.slots.get(id).first.reason) {
            self.cancel_requeue(id);
        }
    }

    /// The slot's first state was filtered, which is no call: a requeue that waited for it is due. Drops one that is
    /// filtered itself, and that of an object that is gone, which could never fall due.
    pub(super) fn keep_requeue(&mut self, id: SlotId) {
        let slot = self.queue.slots.get(id);
        let Some(key) = slot.key() else {
            return;
        };
        let Some(requeue) = self.requeues.get(slot.source, key) else {
            return;
        };
        let state = self.sources.get(slot.source);
        let exists = state.is_none_or(|state| state.snapshot.get(key).is_some());
        let is_gone = slot.first.end().is_some() && requeue.delete.is_none() && !exists;
        if is_gone || is_requeued(slot.first.reason) {
            self.requeues.remove(slot.source, key);
            self.queue.counters.requeues_dropped += 1;
        } else {
            let due = requeue.due;
            self.requeues.look_at(slot.source, key, due);
        }
    }

    /// States of `source` were left to a cursor: a requeued call among them, given back before it was made, is due
    /// again. Looks at each requeue of the source whose key is idle.
    pub(super) fn look_at_idle_requeues(&mut self, source: SourceId) {
        let requeues = self.requeues.of_source(source);
        let idle = requeues.filter(|(key, _)| !self.is_busy(source, key.as_ref()));
        let idle: Vec<(Key, Moment)> = idle.map(|(key, requeue)| (key.clone(), requeue.due)).collect();
        for (key, due) in idle {
            self.requeues.look_at(source, key.as_ref(), due);
        }
    }

    /// Asks for a call for each of the live objects at `keys`, now. A requeue of the key becomes this call; a key that
    /// is busy, or that a cursor will still pass, is called anyway. A requeued delete stays: the object that exists
    /// again under its name was filtered, or its call would have canceled the requeue.
    pub(super) fn trigger(&mut self, source: SourceId, keys: &[Key], now: Moment) -> Triggered {
        let mut done = Triggered::default();
        let is_delivered = |state: &&AttachedSource| state.relation.is_none() && !self.closed;
        let Some(state) = self.sources.get(source).filter(is_delivered) else {
            return done;
        };
        let mut wanted = Vec::new();
        for key in keys {
            let Some(object) = state.snapshot.get(key.as_ref()) else {
                continue;
            };
            if self.is_not_called(source, key.as_ref()) {
                continue;
            }
            let lane = self.queue.slots.lane_map.of(source, key.as_ref());
            let is_covered = state.is_ahead(lane, key.as_ref());
            let requeue = self.requeues.get(source, key.as_ref());
            let is_triggered = requeue.is_some_and(|requeue| requeue.reason == Reason::Trigger);
            if is_covered || is_triggered || self.is_busy(source, key.as_ref()) {
                done.waiting += 1;
            } else if requeue.is_none_or(|requeue| requeue.delete.is_none()) {
                done.triggered += 1;
                wanted.push((key.clone(), object.version().to_version()));
            }
        }
        for (key, version) in wanted {
            let requeue = Requeue {
                due: now,
                reason: Reason::Trigger,
                in_a_row: 0,
                is_slowed: false,
                version,
                delete: None,
            };
            self.insert_requeue(source, key, requeue);
        }
        done
    }

    /// When to look at the next requeue. A closed listener starts none.
    pub(super) fn next_requeue(&self, lanes: LaneSet) -> Option<Moment> {
        self.requeues.next(lanes).filter(|_| !self.closed)
    }

    /// Delivers the requeue of `lane` that has been due for longest and whose key is idle.
    pub(super) fn take_requeue(&mut self, now: Moment, lane: Lane, steps_left: &mut usize) -> Option<Delivery> {
        if self.closed {
            return None;
        }
        while let Some((source, key)) = self.requeues.first_until(now, lane) {
            *steps_left = steps_left.checked_sub(1)?;
            let key = key.as_ref();
            let subject = Subject::Object(source, key);
            let hash = self.queue.slots.hash(subject);
            let state = self.sources.get(source);
            let is_ahead = state.is_none_or(|state| state.is_ahead(lane, key));
            if is_ahead || self.queue.slots.find(hash, subject).is_some() {
                self.requeues.look_at(source, key, now + REQUEUE_CHECK_INTERVAL);
                continue;
            }
            if let Some(until) = self.queue.spacing.until(hash) {
                self.requeues.look_at(source, key, until);
                continue;
            }
            if self.queue.waits_as_suspect(source, Some(key), now) {
                self.requeues.look_at(source, key, now + REQUEUE_CHECK_INTERVAL);
                continue;
            }
            let Some(state) = self.requeued(source, key) else {
                self.requeues.remove(source, key);
                self.queue.counters.requeues_dropped += 1;
                continue;
            };
            // From now on it waits for the end of its call.
            self.requeues.look_at(source, key, Moment::NEVER);
            self.queue.counters.shown += 1;
            let known = Known::Maybe(None);
            return Some(self.queue.deliver_now(hash, (source, lane), known, state, now));
        }
        None
    }

    /// What the requeue of a key delivers. None if its object is gone.
    fn requeued(&self, source: SourceId, key: KeyRef<'_>) -> Option<State> {
        let requeue = self.requeues.get(source, key)?;
        let what = match &requeue.delete {
            Some(delete) => What::Ended(End {
                // Its name may exist again.
                then: Known::Maybe(None),
                ..End::new(key.to_key(), delete.last.clone(), delete.final_state_unknown)
            }),
            None => What::Is(self.sources.get(source)?.snapshot.get(key)?.clone()),
        };
        Some(State::new(what, Why::Asked, requeue.reason, requeue.due))
    }

    /// Sets the requeues that an earlier process recorded.
    pub(super) fn restore_requeues(&mut self, source: SourceId, timers: Vec<RequeueTimer>, now: Moment) {
        for timer in timers {
            let requeue = Requeue {
                due: now + timer.remaining,
                reason: timer.reason,
                in_a_row: 0,
                is_slowed: false,
                version: ResourceVersion::default(),
                delete: timer.delete.map(|delete| self.cut_to_limit(delete)),
            };
            self.insert_requeue(source, timer.key, requeue);
        }
    }

    /// What has changed in the requeues of a recorded source since the last call. None if nothing has.
    pub(super) fn requeue_changes(&mut self, source: SourceId, now: Moment) -> Option<RequeueChanges> {
        let timer = |key: &Key, requeue: &Requeue| RequeueTimer {
            key: key.clone(),
            remaining: requeue.due - now,
            reason: requeue.reason,
            delete: requeue.delete.clone(),
        };
        // A source that is not attached yet has none of those that an earlier process recorded.
        self.sources.get(source)?;
        Some(match self.requeues.take_unrecorded(source)? {
            Unrecorded::All => RequeueChanges {
                is_complete: true,
                timers: self
                    .requeues
                    .of_source(source)
                    .map(|(key, it)| timer(key, it))
                    .collect(),
                removed: Vec::new(),
            },
            Unrecorded::Keys(keys) => {
                let present = |key: &Key| self.requeues.get(source, key.as_ref());
                let timers = keys.iter().filter_map(|key| Some(timer(key, present(key)?)));
                let timers = timers.collect();
                let removed = keys.iter().filter(|key| present(key).is_none()).cloned().collect();
                RequeueChanges {
                    is_complete: false,
                    timers,
                    removed,
                }
            }
        })
    }

    /// How many keys are slowed down, and the first `max` of them by source and key. Visits every requeue if any is.
    pub(super) fn slowed_keys(&self, max: usize) -> (usize, Vec<SlowedKey>) {
        let count = self.requeues.slowed();
        if count == 0 {
            return (0, Vec::new());
        }
        let slowed = self.requeues.iter().filter(|(.., requeue)| requeue.is_slowed);
        let listed = slowed.take(max).map(|(source, key, requeue)| SlowedKey {
            source,
            key: key.clone(),
            requeues: requeue.in_a_row,
            next: requeue.due,
        });
        (count, listed.collect())
    }
}
