//! The queue of a listener: slots with the states that are pending and in flight, within the limits on events and
//! bytes.
//!
//! Guarantees: the states of a subject leave in order, one at a time. A state in flight never changes. Below the
//! limits, only states of slots that wait are folded. Every state that does not leave is counted. This module knows
//! neither snapshots nor the time.

mod bytes;
mod causes;
#[cfg(test)]
mod check;
mod left_to_cursors;

use informant_object::{KeyRef, SourceId};

use self::causes::Causes;
use crate::delivery::Awaited;
use crate::delivery::lanes::{Lane, LaneSet};
use crate::delivery::spacing::{CallSpacing, Ended};
use crate::delivery::suspects::Suspects;
use crate::listener::retry::{Crashes, RetryState};
use crate::listener::slots::{CallState, Slot, SlotId, Slots};
use crate::listener::state::{Folded, Known, State, Why};
use crate::listener::subject::Subject;
use crate::listener::{Delivery, DeliveryToken, ListenerCounters, ListenerOptions};
use crate::seeded_bug::{SeededBug, seeded_bug};
use crate::{Moment, Reason};

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) slots: Slots,
    /// States in all slots, those in flight included.
    states: usize,
    /// Subjects under retry: in back-off, ready again, or in flight again.
    pub(super) failing: usize,
    pub(super) spacing: CallSpacing,
    /// The namespaces whose keys get a share of the time. Stays empty unless the handler limits them.
    pub(super) suspects: Suspects,
    /// Ready slots with a delete that goes before a replay's cursors.
    pub(super) draining: usize,
    /// Bytes of states that only this queue keeps in memory.
    pub(super) bytes: usize,
    /// Folds regardless of the number of pending states.
    pub(super) always_keyed: bool,
    /// A call is about what is there now, whatever led to it: states fold, and the first cause is its reason.
    pub(super) is_level_triggered: bool,
    pub(super) counters: ListenerCounters,
    causes: Causes,
    /// Sources and lanes of keys that count for sync but were deleted before the first attempt, or wait as suspects.
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
            states: 0,
            failing: 0,
            spacing: CallSpacing::new(options.min_interval),
            suspects: Suspects::default(),
            draining: 0,
            bytes: 0,
            always_keyed: false,
            is_level_triggered: false,
            counters: ListenerCounters::default(),
            causes: Causes::default(),
            vanished_unattempted: Vec::new(),
            over_bytes_limit: false,
            pending_events_max: options.pending_events_max,
            pending_bytes_max: options.pending_bytes_max,
            next_number: 0,
        }
    }

    /// Sets new limits; pending states above them stay, and newer ones fold.
    pub(super) fn set_limits(&mut self, options: &ListenerOptions) {
        self.pending_events_max = options.pending_events_max;
        self.pending_bytes_max = options.pending_bytes_max;
        self.spacing.set_interval(options.min_interval);
    }

    pub(super) fn in_flight(&self) -> usize {
        self.slots.counts().in_flight
    }

    /// States that are not in flight.
    pub(super) fn pending(&self) -> usize {
        self.states - self.in_flight()
    }

    /// Whether newer states fold into the pending ones of their subject.
    pub(super) fn is_keyed(&self) -> bool {
        self.is_level_triggered || self.is_overfull()
    }

    /// Whether it is so because too much is pending, or paused for long.
    pub(super) fn is_overfull(&self) -> bool {
        // Suspects fold anyway, and must not make others fold.
        let waiting = self.pending().saturating_sub(self.slots.counts().suspect);
        self.always_keyed || self.over_bytes_limit || waiting >= self.pending_events_max
    }

    /// Subjects under retry that are ready or in flight.
    pub(super) fn retries_started(&self) -> usize {
        let counts = self.slots.counts();
        self.failing - counts.backing_off - counts.held_retries
    }

    pub(super) fn find(&self, source: SourceId, key: KeyRef<'_>) -> Option<SlotId> {
        let subject = Subject::Object(source, key);
        self.slots.find(self.slots.hash(subject), subject)
    }

    /// Whether the last state of the key, in flight or pending, is an end after which the handler has received nothing
    /// of the key.
    pub(super) fn ends_with_delete(&self, source: SourceId, key: KeyRef<'_>) -> bool {
        let end = self.find(source, key).and_then(|id| self.slots.get(id).newest().end());
        end.is_some_and(|end| end.then.is_nothing())
    }

    /// Adds `state` behind the states of its subject. The handler knows `known` before it, if there are none.
    pub(super) fn enqueue(&mut self, (source, lane): (SourceId, Lane), known: Known, mut state: State) {
        let subject = Subject::of(source, lane, &state);
        let hash = self.slots.hash(subject);
        let mut slot = self.slots.find(hash, subject);
        let size = match slot {
            Some(id) => self.slots.get_mut(id).before_next(&known, &state),
            None => state.kept_bytes(&known),
        };
        if self.apply_bytes_limit(&mut state, size) {
            slot = self.slots.find(hash, Subject::of(source, lane, &state));
        }
        let is_beside = state.reason == Reason::Related && seeded_bug(SeededBug::ReconciledConcurrently);
        match slot.filter(|id| !(is_beside && self.slots.get(*id).is_in_flight())) {
            Some(id) if self.is_keyed() || state.is_tick() || self.slots.get(id).folds() => self.fold_into(id, state),
            Some(id) if seeded_bug(SeededBug::ShortLivedObjectVanishes) && self.cancels_add(id, &state) => {
                self.fold_into(id, state);
            }
            Some(id) if !(seeded_bug(SeededBug::ConcurrentCallsOfKey) && self.slots.get(id).is_in_flight()) => {
                self.push_back(id, state);
            }
            _ => {
                let id = self.insert(hash, (source, lane), known, state);
                self.make_ready(id);
            }
        }
    }

    /// Creates a slot, which the caller makes ready or delivers.
    fn insert(&mut self, hash: u64, (source, lane): (SourceId, Lane), known: Known, state: State) -> SlotId {
        self.states += 1;
        self.bytes += state.kept_bytes(&known);
        self.slots.insert(hash, lane, source, known, state)
    }

    /// Puts the slot at the end of the ready list, or lets it wait for the end of its key's interval. Returns whether
    /// it is ready.
    pub(super) fn make_ready(&mut self, id: SlotId) -> bool {
        let slot = self.slots.get(id);
        let is_spaced = slot.key().is_some() && self.spacing.until(slot.hash).is_some();
        let is_ready = !is_spaced || seeded_bug(SeededBug::IntervalNotKept);
        self.counters.spaced += u64::from(!is_ready);
        let state = if is_ready { CallState::Ready } else { CallState::Spaced };
        self.slots.set_state(id, state);
        is_ready
    }

    /// Makes keys ready whose interval has ended.
    pub(super) fn end_intervals(&mut self, now: Moment) {
        while let Some(Ended { hash, is_early }) = self.spacing.pop_ended(now) {
            self.counters.intervals_cut += u64::from(is_early);
            let ready = self.slots.find_spaced(hash);
            if let Some(id) = ready.filter(|_| self.spacing.until(hash).is_none()) {
                self.slots.set_state(id, CallState::Ready);
            }
        }
    }

    /// Ends all intervals: every key may be called now.
    pub(super) fn clear_intervals(&mut self) {
        self.spacing.clear();
        if self.slots.counts().spaced > 0 {
            for id in self.slots.ids() {
                if self.slots.get(id).call() == CallState::Spaced {
                    self.slots.set_state(id, CallState::Ready);
                }
            }
        }
    }

    /// Whether the slot is there and waits for something that was not ready.
    pub(super) fn is_waiting(&self, id: SlotId) -> bool {
        let slot = self.slots.try_get(id);
        slot.is_some_and(|slot| matches!(slot.call(), CallState::WaitsOn(_)))
    }

    /// Makes what waits for something that `is_ready` ready, or lets it wait for the end of its key's interval.
    pub(super) fn wake(&mut self, is_ready: impl Fn(Awaited) -> bool) {
        if self.slots.counts().waiting > 0 {
            for id in self.slots.ids() {
                if matches!(self.slots.get(id).call(), CallState::WaitsOn(awaited) if is_ready(awaited)) {
                    self.make_ready(id);
                }
            }
        }
    }

    /// The number of the next delivery: those in flight have smaller ones.
    pub(super) fn next_number(&self) -> u64 {
        self.next_number
    }

    /// The number of the oldest delivery in flight.
    pub(super) fn oldest_in_flight(&self) -> Option<u64> {
        let number = |slot: &Slot| match slot.call() {
            CallState::InFlight { number, .. } => Some(number),
            _ => None,
        };
        self.slots.iter().filter_map(number).min()
    }

    /// When a key next waits no longer; none while no key waits.
    pub(super) fn next_interval_end(&self) -> Option<Moment> {
        self.spacing.next().filter(|_| self.slots.counts().spaced > 0)
    }

    /// The slot was delivered, but its handler was not called.
    pub(super) fn was_not_called(&mut self, id: SlotId) {
        self.spacing.revoke(self.slots.get(id).hash);
    }

    /// Folds `state` into the newest pending state of the slot, or adds it behind if that is not possible. The slot may
    /// be removed by that.
    fn fold_into(&mut self, id: SlotId, mut state: State) {
        let slot = self.slots.get_mut(id);
        let newest = slot.rest.len();
        if newest == 0 && slot.is_in_flight() {
            return self.push_back(id, state);
        }
        let bytes_before = slot.bytes_from(newest);
        let is_news = !state.repeats(slot.newest()) || state.reason == Reason::Related;
        let is_cause = state.reason == Reason::Related;
        if self.is_level_triggered {
            state.reason = slot.newest().reason;
        }
        if is_cause && slot.newest().why == Why::Changed {
            // The call still tells what has changed.
            state.why = Why::Changed;
        }
        let known_state = slot.known_to_change(&state);
        match slot.fold(state) {
            Folded::Apart(state) => self.push_back(id, state),
            Folded::Merged => {
                if let Some(known) = known_state {
                    slot.has_changed_since(known);
                }
                slot.newest_mut().has_cause |= is_cause;
                self.bytes = self.bytes - bytes_before + slot.bytes_from(newest);
                self.counters.coalesced += 1;
                // A repeated state gets no new attempts. Otherwise a state that costs an instance, and with it causes a
                // replay, would be retried forever.
                if newest == 0 && is_news {
                    slot.calls = 0;
                    if let Some(retry) = &mut slot.retry {
                        (retry.attempts, retry.crashes) = (0, Crashes::default());
                    }
                    // The body of the older state is no longer waited for.
                    if matches!(slot.call(), CallState::WaitsOn(Awaited::Body(_))) {
                        self.make_ready(id);
                    }
                }
            }
            // Its end was never added.
            Folded::Vanished { owed_to_sync } => {
                self.counters.vanished += 1;
                if owed_to_sync {
                    self.vanished_unattempted.push((slot.source, slot.lane));
                }
                if newest == 0 {
                    self.remove(id);
                } else {
                    slot.rest.pop_back();
                    self.states -= 1;
                    self.bytes -= bytes_before;
                }
            }
        }
    }

    /// Whether `state` ends what the slot's newest state adds. For a seeded bug.
    fn cancels_add(&self, id: SlotId, state: &State) -> bool {
        let slot = self.slots.get(id);
        let known = slot.known_before(slot.rest.len());
        state.end().is_some() && slot.newest().event(&known) == "add"
    }

    fn push_back(&mut self, id: SlotId, state: State) {
        let slot = self.slots.get_mut(id);
        self.states += 1;
        self.bytes += state.kept_bytes(&slot.known_before(slot.rest.len() + 1));
        slot.rest.push_back(state);
    }

    /// Delivers the slot of `lane` that has been ready for longest, or a suspect whose turn it is.
    pub(super) fn take(&mut self, now: Moment, lane: Lane) -> Option<Delivery> {
        let id = match self.due_suspect(now, lane) {
            Some(id) => id,
            None => self.first_ready(now, lane)?,
        };
        self.set_drains_first(id, false);
        Some(self.begin(id, now))
    }

    /// The slot of `lane` that has been ready for longest. Suspects before it begin to wait, unless it is their turn.
    fn first_ready(&mut self, now: Moment, lane: Lane) -> Option<SlotId> {
        loop {
            let id = self.slots.first_ready(lane)?;
            let slot = self.slots.get(id);
            if !self.waits_as_suspect(slot.source, slot.key(), now) {
                return Some(id);
            }
            self.counters.suspects_held += 1;
            self.set_drains_first(id, false);
            let slot = self.slots.get_mut(id);
            // The end of a list does not wait for it.
            if std::mem::take(&mut slot.first.owed_to_sync) {
                self.vanished_unattempted.push((slot.source, slot.lane));
            }
            self.slots.set_state(id, CallState::Suspect);
            self.fold_slot(id);
        }
    }

    /// The suspect of `lane` that has waited for longest, if it waits no longer.
    fn due_suspect(&self, now: Moment, lane: Lane) -> Option<SlotId> {
        let id = self.slots.first_suspect(lane)?;
        let slot = self.slots.get(id);
        (!self.waits_as_suspect(slot.source, slot.key(), now)).then_some(id)
    }

    /// Whether a call about `key` has to wait because its namespace is suspect.
    pub(super) fn waits_as_suspect(&self, source: SourceId, key: Option<KeyRef<'_>>, now: Moment) -> bool {
        self.is_suspect(source, key) && !self.suspects.may_start(now) && !seeded_bug(SeededBug::SuspectsNotLimited)
    }

    fn is_suspect(&self, source: SourceId, key: Option<KeyRef<'_>>) -> bool {
        key.is_some_and(|key| self.suspects.contains(source, key))
    }

    /// When a suspect of one of `lanes` next waits no longer. None while none waits, or until a call ends.
    pub(super) fn next_suspect(&self, lanes: LaneSet) -> Option<Moment> {
        let next = |lane| {
            let slot = self.slots.get(self.slots.first_suspect(lane)?);
            match self.is_suspect(slot.source, slot.key()) {
                true => self.suspects.next(),
                false => Some(Moment::ZERO),
            }
        };
        lanes.iter().filter_map(next).min()
    }

    /// Delivers `state` now: nothing of its subject is pending or in flight.
    pub(super) fn deliver_now(
        &mut self,
        hash: u64,
        place: (SourceId, Lane),
        known: Known,
        state: State,
        now: Moment,
    ) -> Delivery {
        let id = self.insert(hash, place, known, state);
        self.begin(id, now)
    }

    /// The only place where a delivery begins: computes the event from what the handler knows and the first state.
    fn begin(&mut self, id: SlotId, now: Moment) -> Delivery {
        let number = self.next_number;
        self.next_number += 1;
        self.counters.delivered += 1;
        self.slots.set_state(id, CallState::InFlight { number, since: now });
        let token = DeliveryToken { slot: id, number };
        let slot = self.slots.get(id);
        let is_suspect = self.is_suspect(slot.source, slot.key());
        if is_suspect {
            self.suspects.began(token, now);
        }
        let Slot { known, first, rest, .. } = self.slots.get(id);
        let (exact_old, seen_unknown) = (first.has_exact_old(known), first.has_hidden_state(known));
        let slot = self.slots.get(id);
        let delivery = Delivery {
            token,
            source: slot.source,
            lane: slot.lane,
            notification: first.notification(known),
            reason: first.reason,
            attempt: slot.calls,
            received: first.received,
            exact_old: exact_old && rest.is_empty(),
            seen_unknown,
            is_suspect,
            cause: self.causes.first(id),
        };
        if slot.key().is_some() {
            self.spacing.record(slot.hash, now);
        }
        delivery
    }

    /// The slot of a delivery that is in flight; otherwise none, and counted.
    pub(super) fn answered(&mut self, token: DeliveryToken) -> Option<SlotId> {
        match self.slots.try_get(token.slot).map(Slot::call) {
            Some(CallState::InFlight { number, .. }) if number == token.number => Some(token.slot),
            _ => {
                self.counters.late += 1;
                None
            }
        }
    }

    /// The deliveries that are in flight, in the order in which they began.
    pub(super) fn in_flight_tokens(&self) -> Vec<DeliveryToken> {
        let token = |slot: SlotId| match self.slots.get(slot).call() {
            CallState::InFlight { number, .. } => Some(DeliveryToken { slot, number }),
            _ => None,
        };
        let mut tokens: Vec<DeliveryToken> = self.slots.ids().into_iter().filter_map(token).collect();
        tokens.sort_unstable_by_key(|token| token.number);
        tokens
    }

    /// The call of a slot has ended. If calls are level-triggered, the interval of its key begins with that: what one
    /// of them does may cause the next.
    pub(super) fn space_from_end(&mut self, id: SlotId, now: Moment) {
        let slot = self.slots.get(id);
        if self.is_level_triggered && slot.key().is_some() {
            self.spacing.record(slot.hash, now);
        }
    }

    /// Takes back a delivery whose call was not made, to deliver it next.
    pub(super) fn give_back(&mut self, id: SlotId) {
        self.counters.delivered -= 1;
        self.slots.make_ready_first(id);
    }

    /// The only place where a delivery ends for good: what the handler knows changes, and the next state becomes ready.
    pub(super) fn end(&mut self, id: SlotId, accepted: bool) {
        let slot = self.slots.get_mut(id);
        let Some(next) = slot.rest.pop_front() else {
            self.remove(id);
            return;
        };
        self.states -= 1;
        self.bytes -= slot.first.kept_bytes(&slot.known);
        self.failing -= usize::from(slot.retry.take().is_some());
        let ended = std::mem::replace(&mut slot.first, next);
        slot.known = slot.first.keeps(match accepted {
            true => ended.accepted().into_owned(),
            false => ended.given_up(),
        });
        (slot.calls, slot.failures) = (0, 0);
        self.causes.advance(id);
        let slot = self.slots.get(id);
        let is_resumed = slot.first.end().is_some_and(|end| end.resumed);
        match self.make_ready(id) {
            // The cursors wait for each delete from an earlier process.
            true => self.set_drains_first(id, is_resumed),
            false => self.fold_slot(id),
        }
    }

    /// The delivery failed and is to be retried: the slot waits for [`retry`](Self::retry).
    pub(super) fn back_off(&mut self, id: SlotId, retry: Box<RetryState>) {
        self.counters.retried += 1;
        let before = self.slots.get_mut(id).retry.replace(retry);
        self.failing += usize::from(before.is_none());
        self.call_again(id, CallState::BackingOff);
    }

    /// The handler was called, and is called again for this state once `awaited` is ready. That is no attempt, and
    /// those before it still count.
    pub(super) fn wait(&mut self, id: SlotId, awaited: Awaited) {
        self.call_again(id, CallState::WaitsOn(awaited));
    }

    /// The handler may have received the state that is called again later; newer ones fold in.
    fn call_again(&mut self, id: SlotId, state: CallState) {
        let slot = self.slots.get_mut(id);
        slot.known = std::mem::replace(&mut slot.known, Known::Nothing).uncertain();
        self.slots.set_state(id, state);
        self.fold_slot(id);
    }

    /// The slot's back-off is over.
    pub(super) fn retry(&mut self, id: SlotId) {
        self.slots.set_state(id, CallState::Ready);
    }

    /// Folds the pending states of a slot as far as possible. The slot may be removed by that.
    fn fold_slot(&mut self, id: SlotId) {
        let slot = self.slots.get_mut(id);
        if slot.rest.is_empty() {
            return;
        }
        let (hash, place) = (slot.hash, (slot.source, slot.lane));
        self.bytes -= slot.bytes_from(1);
        let rest = std::mem::take(&mut slot.rest);
        self.states -= rest.len();
        self.causes.fold(id);
        for state in rest {
            match self.slots.find(hash, Subject::of(place.0, place.1, &state)) {
                Some(id) => self.fold_into(id, state),
                // An object that the handler knows nothing of has vanished.
                None => {
                    let id = self.insert(hash, place, Known::Nothing, state);
                    self.make_ready(id);
                }
            }
        }
    }

    /// Transfers the slots of the keys in `scope` from source `old` to `new`.
    pub(super) fn transfer_keys_to(&mut self, old: SourceId, new: SourceId, scope: &dyn Fn(KeyRef<'_>) -> bool) {
        let mut moved = Vec::new();
        for id in self.slots.ids() {
            let slot = self.slots.get(id);
            if slot.source == old && slot.key().is_some_and(scope) {
                moved.push((slot.hash, self.slots.move_to(id, new)));
            }
        }
        self.spacing.rename(moved.into_iter());
    }

    /// Folds all pending states as far as possible.
    pub(super) fn fold_all(&mut self) {
        for id in self.slots.ids() {
            self.fold_slot(id);
        }
    }

    fn set_drains_first(&mut self, id: SlotId, drains: bool) {
        let before = std::mem::replace(&mut self.slots.get_mut(id).drains_first, drains);
        self.draining = self.draining + usize::from(drains) - usize::from(before);
    }

    /// Removes a slot with all its states. Returns how many were pending.
    fn remove(&mut self, id: SlotId) -> usize {
        let waiting = self.slots.get(id).waiting();
        let slot = self.slots.remove(id);
        self.causes.remove(id);
        self.states -= 1 + slot.rest.len();
        self.failing -= usize::from(slot.retry.is_some());
        self.draining -= usize::from(slot.drains_first);
        self.bytes -= slot.bytes_from(0);
        waiting
    }

    /// Removes the slot of a key that another process delivers, and counts its states, including one in flight: its
    /// outcome will not be known.
    pub(super) fn hand_over(&mut self, source: SourceId, key: KeyRef<'_>) {
        let Some(id) = self.find(source, key) else { return };
        let slot = self.slots.get(id);
        let in_flight = usize::from(slot.is_in_flight());
        // The end of a list does not wait for it.
        if slot.states().any(|state| state.owed_to_sync) {
            self.vanished_unattempted.push((source, slot.lane));
        }
        self.counters.handed_over += (self.remove(id) + in_flight) as u64;
    }

    /// Removes what follows the call that runs, which another process delivers.
    pub(super) fn hand_over_rest(&mut self, id: SlotId) {
        let slot = self.slots.get_mut(id);
        self.bytes -= slot.bytes_from(1);
        let rest = std::mem::take(&mut slot.rest);
        if rest.iter().any(|state| state.owed_to_sync) {
            self.vanished_unattempted.push((slot.source, slot.lane));
        }
        self.states -= rest.len();
        self.counters.handed_over += rest.len() as u64;
        self.causes.fold(id);
    }

    /// Removes every slot that `goes`, and counts its states, including those in flight: their outcome will not be
    /// known.
    pub(super) fn discard(&mut self, goes: impl Fn(&Slot) -> bool) {
        for id in self.slots.ids() {
            let slot = self.slots.get(id);
            if goes(slot) {
                let in_flight = usize::from(slot.is_in_flight());
                self.counters.deletes_discarded += slot.ends().count() as u64;
                self.counters.discarded += (self.remove(id) + in_flight) as u64;
            }
        }
    }
}
