//! What waits and what is in flight, key by key, within the limits on events and bytes.
//!
//! ```text
//! offer ──▶ [ready ─take─▶ in flight ─end─▶ gone, or ready with the next]
//!                 ▲             │ fail
//!                 └── retry ◀── back-off        newer events of the key fold in
//! ```
//!
//! Promises: events of a key leave in order and one at a time; what is in flight is never changed; below the limits
//! nothing is folded but what fails; every event that does not leave is counted. Knows neither sources' snapshots nor
//! time.

mod cursors;
#[cfg(test)]
mod recount;

use informant_object::{KeyRef, SourceId};

use crate::Moment;
use crate::listener::event::{Event, Folded};
use crate::listener::metadata::metadata_only;
use crate::listener::slots::{Slot, SlotId, Slots, State};
use crate::listener::{Delivery, ListenerCounters, ListenerOptions, Token, What};
use crate::seeded_bug::{SeededBug, seeded_bug};

#[derive(Debug)]
pub(super) struct Queue {
    pub(super) slots: Slots,
    /// Events that wait, those in back-off included.
    pub(super) pending: usize,
    pub(super) in_flight: usize,
    /// Keys in back-off.
    pub(super) failing: usize,
    /// Ready slots with a delete that a replay waits for.
    pub(super) draining: usize,
    /// Bytes of states that only events of this queue keep alive.
    pub(super) bytes: usize,
    /// Folds whatever the number of waiting events is.
    pub(super) always_keyed: bool,
    /// Whoever pushes waits for room; at the limits nothing is folded or cut.
    blocks: bool,
    pub(super) counters: ListenerCounters,
    /// The sources of keys that a cursor counts on and that vanished before they were attempted.
    pub(super) unattempted: Vec<SourceId>,
    /// The limit on bytes was reached and half of it not yet given back.
    squeezed: bool,
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
            draining: 0,
            bytes: 0,
            always_keyed: false,
            blocks: false,
            counters: ListenerCounters::default(),
            unattempted: Vec::new(),
            squeezed: false,
            pending_events_max: options.pending_events_max,
            pending_bytes_max: options.pending_bytes_max,
            next_number: 0,
        }
    }

    /// Other limits hold from now on; what waits above them stays, and newer events fold.
    pub(super) fn set_limits(&mut self, options: &ListenerOptions) {
        self.pending_events_max = options.pending_events_max;
        self.pending_bytes_max = options.pending_bytes_max;
    }

    /// Whether newer events fold into waiting ones of their key.
    pub(super) fn is_keyed(&self) -> bool {
        self.always_keyed || (!self.blocks && (self.squeezed || self.pending >= self.pending_events_max))
    }

    /// Folds nothing at the limits from now on.
    pub(super) fn block(&mut self) {
        self.blocks = true;
    }

    /// Whether no limit is reached.
    pub(super) fn has_room(&self) -> bool {
        self.pending < self.pending_events_max && self.bytes < self.pending_bytes_max
    }

    pub(super) fn find(&self, source: SourceId, key: Option<KeyRef<'_>>) -> Option<SlotId> {
        self.slots.find(self.slots.hash(source, key), source, key)
    }

    /// Lets `event` wait behind whatever waits for its key.
    pub(super) fn offer(&mut self, source: SourceId, mut event: Event) {
        self.fit(&mut event);
        let keyed = self.is_keyed();
        self.place(source, event, keyed);
    }

    /// Whether the last event of the key, in flight or waiting, is a delete.
    pub(super) fn ends_with_delete(&self, source: SourceId, key: KeyRef<'_>) -> bool {
        let slot = self.find(source, Some(key)).map(|id| self.slots.get(id));
        slot.is_some_and(|slot| slot.rest.back().unwrap_or(&slot.head).is_delete())
    }

    fn place(&mut self, source: SourceId, event: Event, keyed: bool) {
        let hash = self.slots.hash(source, event.what.key());
        match self.slots.find(hash, source, event.what.key()) {
            Some(id) if keyed || self.slots.get(id).state == State::BackingOff => self.fold_into(id, event),
            Some(id) if !(seeded_bug(SeededBug::TwoCallsOfOneKey) && self.slots.get(id).is_in_flight()) => {
                self.push_back(id, event);
            }
            _ => {
                self.pending += 1;
                self.bytes += event.kept_bytes();
                let id = self.slots.insert(hash, source, event);
                self.slots.make_ready(id);
            }
        }
    }

    /// Folds `event` into the newest that waits in the slot, or lets it wait behind it where that cannot be.
    fn fold_into(&mut self, id: SlotId, event: Event) {
        let slot = self.slots.get_mut(id);
        let in_head = slot.rest.is_empty();
        if in_head && slot.is_in_flight() {
            return self.push_back(id, event);
        }
        let newest = slot.rest.back_mut().unwrap_or(&mut slot.head);
        let bytes_before = newest.kept_bytes();
        let is_news = !event.repeats(newest);
        match newest.fold(event) {
            Folded::Apart(event) => self.push_back(id, event),
            Folded::Merged => {
                self.bytes = self.bytes - bytes_before + newest.kept_bytes();
                self.counters.coalesced += 1;
                // A state that is shown again may fail as often as if it had not been: else one that costs an instance,
                // and with it a replay, would be tried forever.
                if in_head && is_news {
                    slot.attempts = 0;
                }
            }
            // An add keeps no bytes, and its delete was never counted in.
            Folded::Vanished { owed } => {
                self.counters.vanished += 1;
                self.pending -= 1;
                if owed {
                    self.unattempted.push(slot.source);
                }
                if in_head {
                    self.slots.remove(id);
                } else {
                    slot.rest.pop_back();
                }
            }
        }
    }

    fn push_back(&mut self, id: SlotId, event: Event) {
        self.pending += 1;
        self.bytes += event.kept_bytes();
        self.slots.get_mut(id).rest.push_back(event);
    }

    /// Hands out the slot that has been ready for longest.
    pub(super) fn take(&mut self, now: Moment) -> Option<Delivery> {
        let id = self.slots.pop_ready()?;
        self.pending -= 1;
        let slot = self.slots.get_mut(id);
        if std::mem::take(&mut slot.drains) {
            self.draining -= 1;
        }
        Some(self.hand_out(id, now))
    }

    /// Hands out `event` at once: its key has nothing waiting and nothing in flight.
    pub(super) fn show(&mut self, hash: u64, source: SourceId, event: Event, now: Moment) -> Delivery {
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
        let fresh = slot.head.is_fresh() && slot.rest.is_empty();
        let first = !std::mem::replace(&mut slot.head.tried, true);
        slot.state = State::InFlight {
            number,
            since: now,
            first,
        };
        Delivery {
            token: Token { slot: id, number },
            source: slot.source,
            what: slot.head.what.clone(),
            reason: slot.head.reason,
            attempt: slot.attempts,
            received: slot.head.received,
            fresh,
        }
    }

    /// The slot of a delivery that is in flight; none, and counted, if it is not.
    pub(super) fn answered(&mut self, token: Token) -> Option<SlotId> {
        match self.slots.try_get(token.slot).map(|slot| slot.state) {
            Some(State::InFlight { number, .. }) if number == token.number => Some(token.slot),
            _ => {
                self.counters.late += 1;
                None
            }
        }
    }

    /// Takes back a delivery that was not made, to be handed out next.
    pub(super) fn give_back(&mut self, id: SlotId) {
        let slot = self.slots.get_mut(id);
        if let State::InFlight { first: true, .. } = slot.state {
            slot.head.tried = false;
        }
        self.in_flight -= 1;
        self.pending += 1;
        self.counters.delivered -= 1;
        self.slots.make_ready_first(id);
    }

    /// The head's delivery ended, well if `sound`: what waits behind it is ready.
    pub(super) fn end(&mut self, id: SlotId, sound: bool) {
        self.in_flight -= 1;
        let slot = self.slots.get_mut(id);
        self.bytes -= slot.head.kept_bytes();
        match slot.rest.pop_front() {
            Some(mut next) => {
                next.sound = sound;
                slot.head = next;
                slot.attempts = 0;
                slot.failures = 0;
                self.slots.make_ready(id);
            }
            None => {
                self.slots.remove(id);
            }
        }
    }

    /// The head's delivery failed and is to be tried again: the slot waits for [`retry`](Self::retry), and what waits
    /// behind the head folds into it.
    pub(super) fn back_off(&mut self, id: SlotId) {
        self.in_flight -= 1;
        self.pending += 1;
        self.failing += 1;
        self.counters.retried += 1;
        let slot = self.slots.get_mut(id);
        slot.state = State::BackingOff;
        slot.attempts += 1;
        slot.failures += 1;
        self.fold_slot(id);
    }

    /// The slot's back-off is over.
    pub(super) fn retry(&mut self, id: SlotId) {
        self.failing -= 1;
        self.slots.make_ready(id);
    }

    /// Folds all that waits in a slot as far as it goes. The slot may be gone afterwards.
    fn fold_slot(&mut self, id: SlotId) {
        let slot = self.slots.get_mut(id);
        if slot.rest.is_empty() {
            return;
        }
        let source = slot.source;
        self.bytes -= slot.rest_bytes();
        let rest = std::mem::take(&mut slot.rest);
        self.pending -= rest.len();
        for event in rest {
            self.place(source, event, true);
        }
    }

    /// What waits or is in flight for the keys in `scope` of source `old` belongs to `new` from now on.
    pub(super) fn move_keys(&mut self, old: SourceId, new: SourceId, scope: &dyn Fn(KeyRef<'_>) -> bool) {
        for id in self.slots.ids() {
            let slot = self.slots.get(id);
            if slot.source == old && slot.head.what.key().is_some_and(scope) {
                self.slots.move_to(id, new);
            }
        }
    }

    /// Folds all that waits as far as it goes.
    pub(super) fn fold_all(&mut self) {
        for id in self.slots.ids() {
            self.fold_slot(id);
        }
    }

    /// Makes `event` fit into the limit on bytes.
    fn fit(&mut self, event: &mut Event) {
        if self.blocks {
            return;
        }
        let size = event.kept_bytes();
        if self.squeezed && self.bytes < self.pending_bytes_max / 2 {
            self.squeezed = false;
        }
        if !self.squeezed && self.bytes + size > self.pending_bytes_max {
            self.squeezed = true;
            self.fold_all();
            self.drop_olds();
        }
        if !self.squeezed || size == 0 {
            return;
        }
        match &mut event.what {
            What::Update { old, .. } => {
                *old = None;
                self.counters.olds_dropped += 1;
            }
            What::Delete { last: Some(last), .. } if self.bytes + size > self.pending_bytes_max => {
                *last = metadata_only(last);
                self.counters.deletes_cut += 1;
            }
            _ => {}
        }
    }

    /// Drops every `old` that waits.
    fn drop_olds(&mut self) {
        for id in self.slots.ids() {
            let slot = self.slots.get_mut(id);
            let in_flight = usize::from(slot.is_in_flight());
            for event in std::iter::once(&mut slot.head).chain(&mut slot.rest).skip(in_flight) {
                let bytes = event.kept_bytes();
                if let What::Update { old, .. } = &mut event.what {
                    self.counters.olds_dropped += u64::from(old.take().is_some());
                }
                self.bytes -= bytes - event.kept_bytes();
            }
        }
    }

    /// Takes a slot out with all that is in it. Returns how many events waited.
    fn remove(&mut self, id: SlotId) -> usize {
        let slot = self.slots.remove(id);
        let waiting = slot.waiting();
        self.pending -= waiting;
        self.in_flight -= usize::from(slot.is_in_flight());
        self.failing -= usize::from(slot.state == State::BackingOff);
        self.draining -= usize::from(slot.drains);
        self.bytes -= slot.events().map(Event::kept_bytes).sum::<usize>();
        waiting
    }

    /// Takes out every slot that `goes`, and counts the events in them, those in flight included: whether those end
    /// well, nobody will know.
    pub(super) fn discard(&mut self, goes: impl Fn(&Slot) -> bool) {
        for id in self.slots.ids() {
            let slot = self.slots.get(id);
            if goes(slot) {
                let in_flight = usize::from(slot.is_in_flight());
                self.counters.discarded += (self.remove(id) + in_flight) as u64;
            }
        }
    }
}
