//! The queue of a listener: pending and in-flight events per key, within the limits on events and bytes.
//!
//! ```text
//! enqueue ──▶ [ready ─take─▶ in flight ─end─▶ removed, or ready with the next event]
//!                   ▲             │ fail
//!                   └── retry ◀── back-off        newer events of the key fold in
//! ```
//!
//! Guarantees: the events of a key leave in order, one at a time. An event in flight never changes. Below the limits,
//! only failing events are folded. Every event that does not leave is counted. This module knows neither snapshots nor
//! the time.

mod bytes;
mod left_to_cursors;

use informant_object::{KeyRef, SourceId};

use crate::Moment;
use crate::listener_oracle::event::{Folded, PendingEvent};
use crate::listener_oracle::lanes::Lane;
use crate::listener_oracle::retry::RetryState;
use crate::listener_oracle::slots::{Slot, SlotId, SlotState, Slots};
use crate::listener_oracle::spacing::{CallSpacing, Ended};
use crate::listener_oracle::{Delivery, DeliveryToken, ListenerCounters, ListenerOptions, Notification};
use crate::seeded_bug::{SeededBug, seeded_bug};

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) slots: Slots,
    /// Pending events, including those in back-off.
    pub(super) pending: usize,
    pub(super) in_flight: usize,
    /// Keys under retry: in back-off, ready again, or in flight again.
    pub(super) failing: usize,
    /// Keys in back-off.
    pub(super) backing_off: usize,
    /// Keys with a pending event that wait for the end of their interval.
    pub(super) spaced: usize,
    pub(super) spacing: CallSpacing,
    /// Ready slots with a delete that goes before a replay's cursors.
    pub(super) draining: usize,
    /// Bytes of states that only events of this queue keep in memory.
    pub(super) bytes: usize,
    /// Folds regardless of the number of pending events.
    pub(super) always_keyed: bool,
    /// The pusher waits for room; at the limits nothing is folded or cut.
    is_blocking: bool,
    pub(super) counters: ListenerCounters,
    /// Sources and lanes of keys that count for sync but were deleted before the first attempt.
    pub(super) vanished_unattempted: Vec<(SourceId, Lane)>,
    /// The limit on bytes was reached, and usage is still above half of it.
    over_bytes_limit: bool,
    pending_events_max: usize,
    pending_bytes_max: usize,
    /// The number of the next delivery.
    next_number: u64,
}

impl Queue {
    pub(super) fn new(options: &ListenerOptions) -> Queue {
        Queue {
            slots: Slots::new(options.seed),
            pending: 0,
            in_flight: 0,
            failing: 0,
            backing_off: 0,
            spaced: 0,
            spacing: CallSpacing::new(options.min_interval),
            draining: 0,
            bytes: 0,
            always_keyed: false,
            is_blocking: false,
            counters: ListenerCounters::default(),
            vanished_unattempted: Vec::new(),
            over_bytes_limit: false,
            pending_events_max: options.pending_events_max,
            pending_bytes_max: options.pending_bytes_max,
            next_number: 0,
        }
    }

    /// Sets new limits; pending events above them stay, and newer events fold.
    pub(super) fn set_limits(&mut self, options: &ListenerOptions) {
        self.pending_events_max = options.pending_events_max;
        self.pending_bytes_max = options.pending_bytes_max;
        self.spacing.set_interval(options.min_interval);
    }

    /// Whether newer events fold into the pending ones of their key.
    pub(super) fn is_keyed(&self) -> bool {
        self.always_keyed || (!self.is_blocking && (self.over_bytes_limit || self.pending >= self.pending_events_max))
    }

    /// Switches to blocking mode: nothing folds at the limits.
    pub(super) fn block(&mut self) {
        self.is_blocking = true;
    }

    /// Whether no limit is reached.
    pub(super) fn has_room(&self) -> bool {
        self.pending < self.pending_events_max && self.bytes < self.pending_bytes_max
    }

    /// Keys under retry that are ready or in flight.
    pub(super) fn retries_started(&self) -> usize {
        self.failing - self.backing_off
    }

    pub(super) fn find(&self, source: SourceId, key: Option<KeyRef<'_>>) -> Option<SlotId> {
        self.slots.find(self.slots.hash(source, key), source, key)
    }

    /// Adds `event` behind the pending events of its key.
    pub(super) fn enqueue(&mut self, source: SourceId, mut event: PendingEvent) {
        self.apply_bytes_limit(&mut event);
        let keyed = self.is_keyed();
        self.insert_or_fold(source, event, keyed);
    }

    /// Whether the last event of the key, in flight or pending, is a delete after which the handler has received
    /// nothing of the key.
    pub(super) fn ends_with_delete(&self, source: SourceId, key: KeyRef<'_>) -> bool {
        let slot = self.find(source, Some(key)).map(|id| self.slots.get(id));
        let last = slot.map(|slot| slot.following.back().unwrap_or(&slot.head));
        last.is_some_and(|last| last.is_delete() && !last.next_maybe_seen)
    }

    fn insert_or_fold(&mut self, source: SourceId, event: PendingEvent, keyed: bool) {
        let hash = self.slots.hash(source, event.notification.key());
        let slot = match event.notification.key() {
            Some(key) => self.slots.find(hash, source, Some(key)),
            None => self.slots.find_synced(source, event.synced_lane),
        };
        match slot {
            Some(id) if keyed || self.slots.get(id).folds() => self.fold_into(id, event),
            Some(id) if seeded_bug(SeededBug::ShortLivedObjectVanishes) && self.cancels_add(id, &event) => {
                self.fold_into(id, event);
            }
            Some(id) if !(seeded_bug(SeededBug::ConcurrentCallsOfKey) && self.slots.get(id).is_in_flight()) => {
                self.push_back(id, event);
            }
            _ => {
                self.pending += 1;
                self.bytes += event.kept_bytes();
                let id = self.slots.insert(hash, source, event);
                self.make_ready(id);
            }
        }
    }

    /// Puts the slot at the end of the ready list, or lets it wait for the end of its key's interval. Returns whether
    /// it is ready.
    fn make_ready(&mut self, id: SlotId) -> bool {
        let slot = self.slots.get_mut(id);
        let has_key = slot.head.notification.key().is_some();
        if !has_key || self.spacing.until(slot.hash).is_none() || seeded_bug(SeededBug::IntervalNotKept) {
            self.slots.make_ready(id);
            return true;
        }
        slot.state = SlotState::Spaced;
        self.spaced += 1;
        self.counters.spaced += 1;
        false
    }

    /// Makes keys ready whose interval has ended.
    pub(super) fn end_intervals(&mut self, now: Moment) {
        while let Some(Ended { hash, is_early }) = self.spacing.pop_ended(now) {
            self.counters.intervals_cut += u64::from(is_early);
            let ready = self.slots.find_spaced(hash);
            if let Some(id) = ready.filter(|_| self.spacing.until(hash).is_none()) {
                self.spaced -= 1;
                self.slots.make_ready(id);
            }
        }
    }

    /// Ends all intervals: every key may be called now.
    pub(super) fn clear_intervals(&mut self) {
        self.spacing.clear();
        if self.spaced == 0 {
            return;
        }
        self.spaced = 0;
        for id in self.slots.ids() {
            if self.slots.get(id).state == SlotState::Spaced {
                self.slots.make_ready(id);
            }
        }
    }

    /// When a key next waits no longer; none while no key waits.
    pub(super) fn next_interval_end(&self) -> Option<Moment> {
        self.spacing.next().filter(|_| self.spaced > 0)
    }

    /// The slot was delivered, but its handler was not called.
    pub(super) fn was_not_called(&mut self, id: SlotId) {
        self.spacing.revoke(self.slots.get(id).hash);
    }

    /// Folds `event` into the newest pending event of the slot, or adds it behind if that is not possible.
    fn fold_into(&mut self, id: SlotId, event: PendingEvent) {
        let slot = self.slots.get_mut(id);
        let in_head = slot.following.is_empty();
        if in_head && slot.is_in_flight() {
            return self.push_back(id, event);
        }
        let newest = slot.following.back_mut().unwrap_or(&mut slot.head);
        let bytes_before = newest.kept_bytes();
        let is_news = !event.repeats(newest);
        match newest.fold(event) {
            Folded::Apart(event) => self.push_back(id, event),
            Folded::Merged => {
                self.bytes = self.bytes - bytes_before + newest.kept_bytes();
                self.counters.coalesced += 1;
                // A repeated state gets no new attempts. Otherwise a state that costs an instance, and with it causes a
                // replay, would be retried forever.
                if in_head && is_news {
                    slot.calls = 0;
                    if let Some(retry) = &mut slot.retry {
                        (retry.attempts, retry.crashes) = (0, 0);
                    }
                }
            }
            // An add holds no bytes, and its delete was never added.
            Folded::Vanished { counts_for_sync } => {
                self.counters.vanished += 1;
                self.pending -= 1;
                if counts_for_sync {
                    self.vanished_unattempted.push((slot.source, slot.lane));
                }
                if in_head {
                    let slot = self.slots.remove(id);
                    self.spaced -= usize::from(slot.state == SlotState::Spaced);
                } else {
                    slot.following.pop_back();
                }
            }
        }
    }

    /// Whether `event` deletes what the slot's newest event adds. For a seeded bug.
    fn cancels_add(&self, id: SlotId, event: &PendingEvent) -> bool {
        let slot = self.slots.get(id);
        let newest = slot.following.back().unwrap_or(&slot.head);
        event.is_delete() && matches!(newest.notification, Notification::Add(_))
    }

    fn push_back(&mut self, id: SlotId, event: PendingEvent) {
        self.pending += 1;
        self.bytes += event.kept_bytes();
        self.slots.get_mut(id).following.push_back(event);
    }

    /// Delivers the slot of `lane` that has been ready for longest.
    pub(super) fn take(&mut self, now: Moment, lane: Lane) -> Option<Delivery> {
        let id = self.slots.pop_ready(lane)?;
        self.pending -= 1;
        let slot = self.slots.get_mut(id);
        if std::mem::take(&mut slot.drains_first) {
            self.draining -= 1;
        }
        Some(self.hand_out(id, now))
    }

    /// Delivers `event` now: its key has nothing pending or in flight.
    pub(super) fn deliver_now(&mut self, hash: u64, source: SourceId, event: PendingEvent, now: Moment) -> Delivery {
        self.bytes += event.kept_bytes();
        let id = self.slots.insert(hash, source, event);
        self.hand_out(id, now)
    }

    fn hand_out(&mut self, id: SlotId, now: Moment) -> Delivery {
        let number = self.next_number;
        self.next_number += 1;
        self.in_flight += 1;
        self.counters.delivered += 1;
        let slot = self.slots.get_mut(id);
        let exact_old = slot.head.has_exact_old() && slot.following.is_empty();
        let seen_unknown = slot.head.has_hidden_state();
        let first = !std::mem::replace(&mut slot.head.tried, true);
        if slot.head.notification.key().is_some() {
            self.spacing.record(slot.hash, now);
        }
        slot.state = SlotState::InFlight {
            number,
            since: now,
            first,
        };
        Delivery {
            token: DeliveryToken { slot: id, number },
            source: slot.source,
            lane: slot.lane,
            notification: slot.head.notification.clone(),
            reason: slot.head.reason,
            attempt: slot.calls,
            received: slot.head.received,
            exact_old,
            seen_unknown,
        }
    }

    /// The slot of a delivery that is in flight; otherwise none, and counted.
    pub(super) fn answered(&mut self, token: DeliveryToken) -> Option<SlotId> {
        match self.slots.try_get(token.slot).map(|slot| slot.state) {
            Some(SlotState::InFlight { number, .. }) if number == token.number => Some(token.slot),
            _ => {
                self.counters.late += 1;
                None
            }
        }
    }

    /// Takes back a delivery whose call was not made, to deliver it next.
    pub(super) fn give_back(&mut self, id: SlotId) {
        let slot = self.slots.get_mut(id);
        if let SlotState::InFlight { first: true, .. } = slot.state {
            slot.head.tried = false;
        }
        self.in_flight -= 1;
        self.pending += 1;
        self.counters.delivered -= 1;
        self.slots.make_ready_first(id);
    }

    /// The head's delivery ended: the event behind it becomes ready.
    pub(super) fn end(&mut self, id: SlotId, succeeded: bool) {
        self.in_flight -= 1;
        let slot = self.slots.get_mut(id);
        self.bytes -= slot.head.kept_bytes();
        if slot.retry.take().is_some() {
            self.failing -= 1;
        }
        match slot.following.pop_front() {
            Some(mut next) => {
                next.previous_succeeded = succeeded;
                let is_resumed = next.resumed;
                slot.head = next;
                slot.calls = 0;
                slot.failures = 0;
                if self.make_ready(id) {
                    // The cursors wait for each delete from an earlier process.
                    self.slots.get_mut(id).drains_first = is_resumed;
                    self.draining += usize::from(is_resumed);
                } else {
                    self.fold_slot(id);
                }
            }
            None => {
                self.slots.remove(id);
            }
        }
    }

    /// The head's delivery failed and is to be retried: the slot waits for [`retry`](Self::retry), and the events
    /// behind the head fold into it.
    pub(super) fn back_off(&mut self, id: SlotId, retry: Box<RetryState>) {
        self.in_flight -= 1;
        self.pending += 1;
        self.backing_off += 1;
        self.counters.retried += 1;
        let slot = self.slots.get_mut(id);
        slot.state = SlotState::BackingOff;
        if slot.retry.replace(retry).is_none() {
            self.failing += 1;
        }
        self.fold_slot(id);
    }

    /// The slot's back-off is over.
    pub(super) fn retry(&mut self, id: SlotId) {
        self.backing_off -= 1;
        self.slots.make_ready(id);
    }

    /// Folds the pending events of a slot as far as possible. The slot may be removed by that.
    fn fold_slot(&mut self, id: SlotId) {
        let slot = self.slots.get_mut(id);
        if slot.following.is_empty() {
            return;
        }
        let source = slot.source;
        self.bytes -= slot.following_bytes();
        let rest = std::mem::take(&mut slot.following);
        self.pending -= rest.len();
        for event in rest {
            self.insert_or_fold(source, event, true);
        }
    }

    /// Transfers the events of the keys in `scope` from source `old` to `new`.
    pub(super) fn transfer_keys_to(&mut self, old: SourceId, new: SourceId, scope: &dyn Fn(KeyRef<'_>) -> bool) {
        let mut moved = Vec::new();
        for id in self.slots.ids() {
            let slot = self.slots.get(id);
            if slot.source == old && slot.head.notification.key().is_some_and(scope) {
                let before = slot.hash;
                self.slots.move_to(id, new);
                moved.push((before, self.slots.get(id).hash));
            }
        }
        self.spacing.rename(moved.into_iter());
    }

    /// Folds all pending events as far as possible.
    pub(super) fn fold_all(&mut self) {
        for id in self.slots.ids() {
            self.fold_slot(id);
        }
    }

    /// Removes a slot with all its events. Returns how many were pending.
    fn remove(&mut self, id: SlotId) -> usize {
        let slot = self.slots.remove(id);
        let waiting = slot.waiting();
        self.pending -= waiting;
        self.in_flight -= usize::from(slot.is_in_flight());
        self.backing_off -= usize::from(slot.state == SlotState::BackingOff);
        self.spaced -= usize::from(slot.state == SlotState::Spaced);
        self.failing -= usize::from(slot.retry.is_some());
        self.draining -= usize::from(slot.drains_first);
        self.bytes -= slot.events().map(PendingEvent::kept_bytes).sum::<usize>();
        waiting
    }

    /// Removes every slot that `goes`, and counts its events, including those in flight: their outcome will not be
    /// known.
    pub(super) fn discard(&mut self, goes: impl Fn(&Slot) -> bool) {
        for id in self.slots.ids() {
            let slot = self.slots.get(id);
            if goes(slot) {
                let in_flight = usize::from(slot.is_in_flight());
                self.counters.deletes_discarded += slot.events().filter(|event| event.is_delete()).count() as u64;
                self.counters.discarded += (self.remove(id) + in_flight) as u64;
            }
        }
    }
}
