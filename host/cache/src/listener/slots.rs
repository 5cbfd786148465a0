//! The slot table: one slot per subject that has states pending or in flight.
//!
//! Finds slots by subject, keeps the ready slots of each lane in the order in which they became ready, and counts the
//! slots in each state. A slot needs no allocation besides itself (its key is read from its states), iteration order
//! and ready order depend only on the calls made, and a large table frees its memory when it becomes empty.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use informant_object::{KeyRef, Object, SourceId};

use crate::delivery::Awaited;
use crate::delivery::lanes::{Lane, LaneMap, LaneSet, ResourceIdentities};
use crate::delivery::options::SLOTS_KEPT_MAX;
pub(super) use crate::delivery::timers::SlotId;
use crate::listener::retry::RetryState;
use crate::listener::state::{End, Folded, Known, State, What, Why};
use crate::listener::subject::Subject;
use crate::{Moment, Reason};

/// No slot: the end of the ready list.
const NONE: SlotId = SlotId::MAX;

/// What a handler knows of one subject, and what follows.
#[derive(Debug)]
pub(super) struct Slot {
    /// Before `first`.
    pub(super) known: Known,
    /// The state that is called next, is being called, or failed.
    pub(super) first: State,
    /// The states behind it, in order.
    pub(super) rest: VecDeque<State>,
    /// Changed by [`Slots::set_state`] only.
    call: CallState,
    /// Present while the subject is under retry.
    pub(super) retry: Option<Box<RetryState>>,
    pub(super) hash: u64,
    pub(super) source: SourceId,
    /// Failed deliveries of `first` since a newer state folded into it.
    pub(super) calls: u32,
    /// All failures of `first`, except those that asked for a retry after some time: the back-off grows with them.
    pub(super) failures: u32,
    ready_before: SlotId,
    ready_after: SlotId,
    /// The lane in which it is called.
    pub(super) lane: Lane,
    /// `first` is an end that goes before a replay's cursors.
    pub(super) drains_first: bool,
}

/// What the call of a slot's first state waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallState {
    /// The consumer: it is in the ready list.
    Ready,
    /// The outcome of delivery `number`.
    InFlight { number: u64, since: Moment },
    /// The end of its back-off: it failed, and has an entry in the timers.
    BackingOff,
    /// The end of its key's interval ([`CallSpacing`](crate::delivery::spacing::CallSpacing)). Under retry only if it
    /// has waited for something before.
    Spaced,
    /// A source or index that the handler asked for. What it failed on before still counts.
    WaitsOn(Awaited),
    /// Its turn among suspects ([`Suspects`](crate::delivery::suspects::Suspects)): it is in their list.
    Suspect,
}

/// How many slots are in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SlotCounts {
    pub(super) ready: usize,
    pub(super) in_flight: usize,
    pub(super) backing_off: usize,
    pub(super) spaced: usize,
    pub(super) waiting: usize,
    /// Slots under retry that are spaced, waiting or suspect.
    pub(super) held_retries: usize,
    pub(super) suspect: usize,
}

#[derive(Debug)]
pub(super) struct Slots {
    entries: Vec<Option<Slot>>,
    free: Vec<SlotId>,
    index: HashTable<SlotId>,
    hasher: FixedState,
    pub(super) lane_map: LaneMap,
    /// One per lane.
    ready: Vec<ReadyList>,
    /// One per lane.
    suspects: Vec<ReadyList>,
    counts: SlotCounts,
}

/// Ready slots of one lane, in the order in which they became ready; or its suspects, in the order in which they began
/// to wait.
#[derive(Clone, Copy, Debug)]
struct ReadyList {
    first: SlotId,
    last: SlotId,
}

impl ReadyList {
    const EMPTY: ReadyList = ReadyList {
        first: NONE,
        last: NONE,
    };
}

impl Slots {
    pub(super) fn new(seed: u64) -> Slots {
        Slots {
            entries: Vec::new(),
            free: Vec::new(),
            index: HashTable::new(),
            hasher: FixedState::with_seed(seed),
            lane_map: LaneMap::new(),
            ready: vec![ReadyList::EMPTY],
            suspects: vec![ReadyList::EMPTY],
            counts: SlotCounts::default(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many slots are in each state.
    pub(super) fn counts(&self) -> SlotCounts {
        self.counts
    }

    pub(super) fn hash(&self, subject: Subject<'_>) -> u64 {
        match subject {
            Subject::Object(source, key) => self.hasher.hash_one((source, Some(key))),
            Subject::Synced(source, _) => self.hasher.hash_one((source, None::<KeyRef<'_>>)),
            Subject::Timer(name) => self.hasher.hash_one(name),
        }
    }

    pub(super) fn find(&self, hash: u64, subject: Subject<'_>) -> Option<SlotId> {
        let is_it = |id: &SlotId| self.get(*id).subject() == subject;
        self.index.find(hash, is_it).copied()
    }

    /// The slot that waits for the end of its key's interval, if a key with this hash has one.
    pub(super) fn find_spaced(&self, hash: u64) -> Option<SlotId> {
        let is_it = |id: &SlotId| {
            let slot = self.get(*id);
            slot.hash == hash && slot.call == CallState::Spaced
        };
        self.index.find(hash, is_it).copied()
    }

    /// A number that depends on the seed, the slot's key and its failures.
    pub(super) fn random(&self, id: SlotId) -> u64 {
        let slot = self.get(id);
        self.hasher.hash_one((slot.hash, slot.failures))
    }

    /// The slot `id`, if there is one.
    pub(super) fn try_get(&self, id: SlotId) -> Option<&Slot> {
        self.entries.get(id as usize)?.as_ref()
    }

    pub(super) fn get(&self, id: SlotId) -> &Slot {
        self.try_get(id).expect("slot ids are kept only while their slot lives")
    }

    pub(super) fn get_mut(&mut self, id: SlotId) -> &mut Slot {
        let slot = self.entries.get_mut(id as usize).and_then(Option::as_mut);
        slot.expect("slot ids are kept only while their slot lives")
    }

    /// Every slot, in an order that depends only on the calls made.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.entries.iter().flatten()
    }

    /// The ids of every slot, in that order.
    pub(super) fn ids(&self) -> Vec<SlotId> {
        let slots = (0..).zip(&self.entries);
        slots.filter_map(|(id, slot)| slot.as_ref().map(|_| id)).collect()
    }

    /// Creates a slot for a subject that has none. The caller sets its state.
    pub(super) fn insert(&mut self, hash: u64, lane: Lane, source: SourceId, known: Known, first: State) -> SlotId {
        let slot = Slot {
            known: first.keeps(known),
            first,
            rest: VecDeque::new(),
            call: CallState::Spaced,
            retry: None,
            hash,
            source,
            calls: 0,
            failures: 0,
            ready_before: NONE,
            ready_after: NONE,
            lane,
            drains_first: false,
        };
        self.counts.spaced += 1;
        let id = match self.free.pop() {
            Some(id) => {
                self.entries[id as usize] = Some(slot);
                id
            }
            None => {
                let id = SlotId::try_from(self.entries.len()).expect("fewer than 2^32 keys wait");
                self.entries.push(Some(slot));
                id
            }
        };
        self.add_to_index(hash, id);
        id
    }

    /// The only way from one state to another: counts the slots in each, and keeps the ready list of the slot's lane.
    pub(super) fn set_state(&mut self, id: SlotId, state: CallState) {
        let slot = self.get_mut(id);
        let (before, is_retried) = (std::mem::replace(&mut slot.call, state), slot.retry.is_some());
        *self.counts.of(before) -= 1;
        *self.counts.of(state) += 1;
        if is_retried {
            self.counts.held_retries += usize::from(state.is_held());
            self.counts.held_retries -= usize::from(before.is_held());
        }
        if let CallState::Ready | CallState::Suspect = before {
            self.unlink(id, before);
        }
        if let CallState::Ready | CallState::Suspect = state {
            self.link_last(id);
        }
    }

    /// Puts a slot that becomes ready at the front of its lane's ready list.
    pub(super) fn make_ready_first(&mut self, id: SlotId) {
        self.set_state(id, CallState::Ready);
        self.unlink(id, CallState::Ready);
        let lane = usize::from(self.get(id).lane);
        let first = std::mem::replace(&mut self.ready[lane].first, id);
        let slot = self.get_mut(id);
        (slot.ready_before, slot.ready_after) = (NONE, first);
        match first {
            NONE => self.ready[lane].last = id,
            first => self.get_mut(first).ready_before = id,
        }
    }

    /// The slot of `lane` that has been ready for longest.
    pub(super) fn first_ready(&self, lane: Lane) -> Option<SlotId> {
        Some(self.ready[usize::from(lane)].first).filter(|id| *id != NONE)
    }

    /// The suspect of `lane` that has waited for longest.
    pub(super) fn first_suspect(&self, lane: Lane) -> Option<SlotId> {
        let list = self.suspects.get(usize::from(lane))?;
        Some(list.first).filter(|id| *id != NONE)
    }

    /// Whether a slot of one of `lanes` is ready.
    pub(super) fn has_ready(&self, lanes: LaneSet) -> bool {
        let list = |lane: Lane| self.ready.get(usize::from(lane));
        lanes.iter().filter_map(list).any(|list| list.first != NONE)
    }

    /// Removes the slot from the table and the ready list.
    pub(super) fn remove(&mut self, id: SlotId) -> Slot {
        // Leaves the ready list.
        self.set_state(id, CallState::Spaced);
        self.counts.spaced -= 1;
        let slot = self.entries[id as usize]
            .take()
            .expect("slot ids are kept only while their slot lives");
        self.counts.held_retries -= usize::from(slot.retry.is_some());
        if let Ok(entry) = self.index.find_entry(slot.hash, |other| *other == id) {
            entry.remove();
        }
        self.free.push(id);
        if self.is_empty() && self.entries.len() > SLOTS_KEPT_MAX {
            self.entries = Vec::new();
            self.free = Vec::new();
            self.index = HashTable::new();
        }
        slot
    }

    /// Moves the slot of an object to another source, which has none for its key. Returns the new hash.
    pub(super) fn move_to(&mut self, id: SlotId, source: SourceId) -> u64 {
        if let Ok(entry) = self.index.find_entry(self.get(id).hash, |other| *other == id) {
            entry.remove();
        }
        self.get_mut(id).source = source;
        let hash = self.hash(self.get(id).subject());
        self.get_mut(id).hash = hash;
        self.add_to_index(hash, id);
        hash
    }

    fn add_to_index(&mut self, hash: u64, id: SlotId) {
        let entries = &self.entries;
        let hash_of = |id: &SlotId| entries[*id as usize].as_ref().map_or(0, |slot| slot.hash);
        self.index.insert_unique(hash, id, hash_of);
    }

    /// Assigns every slot to one of `count` lanes; those of `Synced`, which are in flight, to the first.
    pub(super) fn redivide(&mut self, count: Lane, identity: ResourceIdentities, sources: &[SourceId]) {
        let mut ready = Vec::new();
        for list in self.ready.iter().chain(&self.suspects) {
            let mut id = list.first;
            while id != NONE {
                ready.push(id);
                id = self.get(id).ready_after;
            }
        }
        self.lane_map.set(count, identity, sources);
        self.ready = vec![ReadyList::EMPTY; usize::from(self.lane_map.count())];
        self.suspects = self.ready.clone();
        for id in self.ids() {
            let slot = self.get(id);
            let lane = match slot.subject() {
                Subject::Synced(..) => 0,
                subject => subject.lane(&self.lane_map),
            };
            self.get_mut(id).lane = lane;
        }
        ready.into_iter().for_each(|id| self.link_last(id));
    }

    /// The list of the slots of `lane` that are ready, or of its suspects.
    fn list(&mut self, call: CallState, lane: Lane) -> &mut ReadyList {
        match call {
            CallState::Suspect => &mut self.suspects[usize::from(lane)],
            _ => &mut self.ready[usize::from(lane)],
        }
    }

    fn link_last(&mut self, id: SlotId) {
        let Slot { call, lane, .. } = *self.get(id);
        let last = std::mem::replace(&mut self.list(call, lane).last, id);
        let slot = self.get_mut(id);
        (slot.ready_before, slot.ready_after) = (last, NONE);
        match last {
            NONE => self.list(call, lane).first = id,
            last => self.get_mut(last).ready_after = id,
        }
    }

    /// Takes the slot out of the list of `call`.
    fn unlink(&mut self, id: SlotId, call: CallState) {
        let Slot {
            ready_before: before,
            ready_after: after,
            lane,
            ..
        } = *self.get(id);
        match before {
            NONE => self.list(call, lane).first = after,
            before => self.get_mut(before).ready_after = after,
        }
        match after {
            NONE => self.list(call, lane).last = before,
            after => self.get_mut(after).ready_before = before,
        }
    }
}

impl CallState {
    /// Whether a slot under retry has neither started nor an entry in the timers of retries.
    pub(super) fn is_held(self) -> bool {
        matches!(self, CallState::Spaced | CallState::WaitsOn(_) | CallState::Suspect)
    }
}

impl SlotCounts {
    fn of(&mut self, state: CallState) -> &mut usize {
        match state {
            CallState::Ready => &mut self.ready,
            CallState::InFlight { .. } => &mut self.in_flight,
            CallState::BackingOff => &mut self.backing_off,
            CallState::Spaced => &mut self.spaced,
            CallState::WaitsOn(_) => &mut self.waiting,
            CallState::Suspect => &mut self.suspect,
        }
    }
}

impl Slot {
    pub(super) fn call(&self) -> CallState {
        self.call
    }

    pub(super) fn subject(&self) -> Subject<'_> {
        Subject::of(self.source, self.lane, &self.first)
    }

    /// The key of the object; none for `Synced` and `Tick`.
    pub(super) fn key(&self) -> Option<KeyRef<'_>> {
        self.first.key()
    }

    /// All states in order.
    pub(super) fn states(&self) -> impl Iterator<Item = &State> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    pub(super) fn states_mut(&mut self) -> impl Iterator<Item = &mut State> {
        std::iter::once(&mut self.first).chain(&mut self.rest)
    }

    /// The ends of incarnations among them.
    pub(super) fn ends(&self) -> impl Iterator<Item = &End> {
        self.states().filter_map(State::end)
    }

    fn state(&self, at: usize) -> &State {
        at.checked_sub(1).map_or(&self.first, |at| &self.rest[at])
    }

    pub(super) fn newest(&self) -> &State {
        self.rest.back().unwrap_or(&self.first)
    }

    pub(super) fn newest_mut(&mut self) -> &mut State {
        self.rest.back_mut().unwrap_or(&mut self.first)
    }

    /// What the handler knows before state number `at`.
    pub(super) fn known_before(&self, at: usize) -> Cow<'_, Known> {
        match at.checked_sub(1) {
            None => Cow::Borrowed(&self.known),
            Some(before) => self.state(before).accepted(),
        }
    }

    /// Whether newer states fold into its pending ones, however few are pending: it waits for a moment.
    pub(super) fn folds(&self) -> bool {
        !matches!(self.call, CallState::Ready | CallState::InFlight { .. })
    }

    pub(super) fn is_in_flight(&self) -> bool {
        matches!(self.call, CallState::InFlight { .. })
    }

    /// The state that the handler knows, if the newest state is about that only because a related object has changed,
    /// and `newer` changes it.
    pub(super) fn known_to_change(&self, newer: &State) -> Option<Object> {
        let newest = self.newest();
        let is_cause = newest.why == Why::Asked && newest.reason == Reason::Related;
        let is_changed = newer.why == Why::Changed && newer.object().is_some();
        newest.object().filter(|_| is_cause && is_changed).cloned()
    }

    /// What was folded into the newest state changes `known`: it is an update of that.
    pub(super) fn has_changed_since(&mut self, known: Object) {
        if self.rest.is_empty() {
            self.known = Known::Maybe(Some(known));
        }
        let newest = self.newest_mut();
        (newest.why, newest.has_cause) = (Why::Changed, true);
    }

    /// Folds `newer` into the newest state. Not for a slot whose only state is in flight.
    pub(super) fn fold(&mut self, newer: State) -> Folded {
        let mut states = self.rest.iter_mut().rev();
        let Some(newest) = states.next() else {
            let folded = self.first.fold(&mut self.known, newer);
            self.keep_known();
            return folded;
        };
        let before = states.next().unwrap_or(&mut self.first);
        match &mut before.what {
            What::Ended(end) => newest.fold(&mut end.then, newer),
            _ => newest.fold(&mut before.accepted().into_owned(), newer),
        }
    }

    /// Tells an end that is the newest state what the handler knows behind it, if `next` does. Returns the bytes that
    /// `next` would keep.
    pub(super) fn before_next(&mut self, known: &Known, next: &State) -> usize {
        let newest = self.rest.back_mut().unwrap_or(&mut self.first);
        let tells = next.object().is_some() && next.why != Why::Shown;
        if let (What::Ended(end), true) = (&mut newest.what, tells) {
            end.then = known.clone();
        }
        next.kept_bytes(&newest.accepted())
    }

    /// Forgets what need not be kept of what the handler knows.
    pub(super) fn keep_known(&mut self) {
        let known = std::mem::replace(&mut self.known, Known::Nothing);
        self.known = self.first.keeps(known);
    }

    /// Drops the old states before all pending states. Returns how many.
    pub(super) fn drop_olds(&mut self) -> u64 {
        let mut dropped = 0;
        for at in usize::from(self.is_in_flight())..=self.rest.len() {
            let has_old = self.state(at).has_old(&self.known_before(at));
            let state = at.checked_sub(1).map_or(&mut self.first, |at| &mut self.rest[at]);
            state.drops_old |= has_old;
            dropped += u64::from(has_old);
        }
        self.keep_known();
        dropped
    }

    /// Keeps only the heads of pending objects that the store does not keep whole. Returns of how many.
    pub(super) fn drop_bodies(&mut self) -> u64 {
        let in_flight = usize::from(self.is_in_flight());
        self.states_mut()
            .skip(in_flight)
            .map(|state| u64::from(state.drop_body()))
            .sum()
    }

    /// Bytes that its states from number `from` on keep in memory.
    pub(super) fn bytes_from(&self, from: usize) -> usize {
        let of_state = |(at, state): (usize, &State)| state.kept_bytes(&self.known_before(at));
        self.states().enumerate().skip(from).map(of_state).sum()
    }

    /// How many of its states are pending.
    pub(super) fn waiting(&self) -> usize {
        self.rest.len() + usize::from(!self.is_in_flight())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Up to [`PENDING_EVENTS_MAX`](crate::delivery::options::PENDING_EVENTS_MAX) slots per handler are usual, and one
    /// for each failing key.
    #[test]
    fn a_slot_takes_at_most_210_bytes() {
        assert!(size_of::<Option<Slot>>() <= 210, "{}", size_of::<Option<Slot>>());
    }
}
