//! The slot table: one slot per key that has events pending or in flight.
//!
//! Finds slots by (source, key), and keeps the ready slots of each lane in the order in which
//! they became ready. A slot needs no
//! allocation besides itself (its key is read from its events), iteration order and ready order depend only on the
//! calls made, and a large table frees its memory when it becomes empty.

use std::collections::VecDeque;
use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use informant_object::{KeyRef, SourceId};

use crate::Moment;
use crate::listener_oracle::event::PendingEvent;
use crate::listener_oracle::lanes::{Lane, LaneMap, LaneSet, ResourceIdentities};
use crate::listener_oracle::options::SLOTS_KEPT_MAX;
use crate::listener_oracle::retry::RetryState;

/// The index of a slot in the table. Reused after the slot was removed.
pub(super) type SlotId = u32;

/// No slot: the end of the ready list.
const NONE: SlotId = SlotId::MAX;

/// The events of one key. `following` are pending behind `head`.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) source: SourceId,
    pub(super) head: PendingEvent,
    pub(super) following: VecDeque<PendingEvent>,
    pub(super) state: SlotState,
    /// Failed deliveries of the head since a newer state folded into it.
    pub(super) calls: u32,
    /// All failures of the head, except those that asked for a retry after some time: the back-off grows with them.
    pub(super) failures: u32,
    /// Present while the key is under retry.
    pub(super) retry: Option<Box<RetryState>>,
    /// Holds a delete that was pending when a replay started: it is delivered before the replay's cursors continue.
    pub(super) drains_first: bool,
    pub(super) hash: u64,
    /// The lane of the key.
    pub(super) lane: Lane,
    ready_before: SlotId,
    ready_after: SlotId,
}

/// The state of a slot's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotState {
    /// In the ready list.
    Ready,
    /// Delivered as number `number`. `first` if it never was before.
    InFlight { number: u64, since: Moment, first: bool },
    /// Failed; waits for its entry in the timers.
    BackingOff,
    /// Waits for the end of its key's interval ([`CallSpacing`](super::spacing::CallSpacing)). Not under retry.
    Spaced,
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
}

/// Ready slots of one lane, in the order in which they became ready.
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
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The hash of the key. None is for `Synced`, which has no key.
    pub(super) fn hash(&self, source: SourceId, key: Option<KeyRef<'_>>) -> u64 {
        self.hasher.hash_one((source, key))
    }

    pub(super) fn find(&self, hash: u64, source: SourceId, key: Option<KeyRef<'_>>) -> Option<SlotId> {
        let is_it = |id: &SlotId| {
            let slot = self.get(*id);
            slot.source == source && slot.head.notification.key() == key
        };
        self.index.find(hash, is_it).copied()
    }

    /// The slot of a source's `Synced` for `lane`.
    pub(super) fn find_synced(&self, source: SourceId, lane: Lane) -> Option<SlotId> {
        let is_it = |id: &SlotId| {
            let slot = self.get(*id);
            slot.source == source && slot.lane == lane && slot.head.notification.key().is_none()
        };
        self.index.find(self.hash(source, None), is_it).copied()
    }

    /// The slot that waits for the end of its key's interval, if a key with this hash has one.
    pub(super) fn find_spaced(&self, hash: u64) -> Option<SlotId> {
        let is_it = |id: &SlotId| {
            let slot = self.get(*id);
            slot.hash == hash && slot.state == SlotState::Spaced
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

    /// Creates a slot with `head`, in no list. The caller sets its state.
    pub(super) fn insert(&mut self, hash: u64, source: SourceId, head: PendingEvent) -> SlotId {
        let lane = match head.notification.key() {
            Some(key) => self.lane_map.of(source, key),
            None => head.synced_lane,
        };
        let slot = Slot {
            source,
            head,
            following: VecDeque::new(),
            state: SlotState::BackingOff,
            calls: 0,
            failures: 0,
            retry: None,
            drains_first: false,
            hash,
            lane,
            ready_before: NONE,
            ready_after: NONE,
        };
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
        let entries = &self.entries;
        let hash_of = |id: &SlotId| entries[*id as usize].as_ref().map_or(0, |slot| slot.hash);
        self.index.insert_unique(hash, id, hash_of);
        id
    }

    /// Removes the slot from the table and the ready list.
    pub(super) fn remove(&mut self, id: SlotId) -> Slot {
        if self.get(id).state == SlotState::Ready {
            self.unlink(id);
        }
        let slot = self.entries[id as usize]
            .take()
            .expect("slot ids are kept only while their slot lives");
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

    /// Moves the slot to another source, which has none for its key.
    pub(super) fn move_to(&mut self, id: SlotId, source: SourceId) {
        let slot = self.get(id);
        let (before, after) = (slot.hash, self.hash(source, slot.head.notification.key()));
        if let Ok(entry) = self.index.find_entry(before, |other| *other == id) {
            entry.remove();
        }
        let slot = self.get_mut(id);
        slot.source = source;
        slot.hash = after;
        let entries = &self.entries;
        let hash_of = |id: &SlotId| entries[*id as usize].as_ref().map_or(0, |slot| slot.hash);
        self.index.insert_unique(after, id, hash_of);
    }

    /// Puts the slot at the end of its lane's ready list.
    pub(super) fn make_ready(&mut self, id: SlotId) {
        let lane = usize::from(self.get(id).lane);
        let last = std::mem::replace(&mut self.ready[lane].last, id);
        let slot = self.get_mut(id);
        slot.state = SlotState::Ready;
        slot.ready_before = last;
        slot.ready_after = NONE;
        if last == NONE {
            self.ready[lane].first = id;
        } else {
            self.get_mut(last).ready_after = id;
        }
    }

    /// Puts the slot at the front of its lane's ready list.
    pub(super) fn make_ready_first(&mut self, id: SlotId) {
        let lane = usize::from(self.get(id).lane);
        let first = std::mem::replace(&mut self.ready[lane].first, id);
        let slot = self.get_mut(id);
        slot.state = SlotState::Ready;
        slot.ready_before = NONE;
        slot.ready_after = first;
        if first == NONE {
            self.ready[lane].last = id;
        } else {
            self.get_mut(first).ready_before = id;
        }
    }

    /// Removes the slot of `lane` that has been ready for longest from the ready list. The caller sets its state.
    pub(super) fn pop_ready(&mut self, lane: Lane) -> Option<SlotId> {
        let id = self.ready[usize::from(lane)].first;
        if id == NONE {
            return None;
        }
        self.unlink(id);
        Some(id)
    }

    /// Whether a slot of one of `lanes` is ready.
    pub(super) fn has_ready(&self, lanes: LaneSet) -> bool {
        let list = |lane: Lane| self.ready.get(usize::from(lane));
        lanes.iter().filter_map(list).any(|list| list.first != NONE)
    }

    /// Assigns every slot to one of `count` lanes; those of `Synced`, which are in flight, to the first.
    pub(super) fn redivide(&mut self, count: Lane, identity: ResourceIdentities, sources: &[SourceId]) {
        let mut ready = Vec::new();
        for list in &self.ready {
            let mut id = list.first;
            while id != NONE {
                ready.push(id);
                id = self.get(id).ready_after;
            }
        }
        self.lane_map.set(count, identity, sources);
        self.ready = vec![ReadyList::EMPTY; usize::from(self.lane_map.count())];
        for id in self.ids() {
            let slot = self.get(id);
            let key = slot.head.notification.key();
            let lane = key.map_or(0, |key| self.lane_map.of(slot.source, key));
            let slot = self.get_mut(id);
            slot.lane = lane;
        }
        ready.into_iter().for_each(|id| self.make_ready(id));
    }

    fn unlink(&mut self, id: SlotId) {
        let (before, after, lane) = {
            let slot = self.get(id);
            (slot.ready_before, slot.ready_after, usize::from(slot.lane))
        };
        match before {
            NONE => self.ready[lane].first = after,
            before => self.get_mut(before).ready_after = after,
        }
        match after {
            NONE => self.ready[lane].last = before,
            after => self.get_mut(after).ready_before = before,
        }
    }
}

impl Slot {
    /// All events, the head first.
    pub(super) fn events(&self) -> impl Iterator<Item = &PendingEvent> {
        std::iter::once(&self.head).chain(&self.following)
    }

    /// Whether newer events fold into its pending ones, however few are pending: it waits for a moment.
    pub(super) fn folds(&self) -> bool {
        matches!(self.state, SlotState::BackingOff | SlotState::Spaced)
    }

    pub(super) fn is_in_flight(&self) -> bool {
        matches!(self.state, SlotState::InFlight { .. })
    }

    /// Bytes that the events behind the head keep in memory.
    pub(super) fn following_bytes(&self) -> usize {
        self.following.iter().map(PendingEvent::kept_bytes).sum()
    }

    /// How many of its events are pending.
    pub(super) fn waiting(&self) -> usize {
        self.following.len() + usize::from(!self.is_in_flight())
    }
}
