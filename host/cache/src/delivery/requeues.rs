//! The table of requeues: one timer per key, in order of time, and which of them changed since they were recorded.
//!
//! Knows no rules: the listener decides when a requeue is set, dropped or due.

use std::collections::{BTreeMap, BTreeSet};

use informant_object::{AsKey, Key, KeyRef, Object, ResourceVersion, SourceId};

use crate::delivery::dead_letters::LastDelete;
use crate::delivery::lanes::{Lane, LaneSet};
use crate::delivery::options::REQUEUE_CHANGES_MAX;
use crate::{Moment, Reason};

/// A call that a handler or an operator asked for.
#[derive(Debug)]
pub(crate) struct Requeue {
    pub(crate) due: Moment,
    /// [`Reason::RequeueAfter`] or [`Reason::Trigger`].
    pub(crate) reason: Reason,
    /// How many calls in a row for the same state asked for another one.
    pub(crate) in_a_row: u32,
    /// The handler asked for a shorter wait than it may.
    pub(crate) is_slowed: bool,
    /// The version of the state that the call was about; empty if unknown.
    pub(crate) version: ResourceVersion,
    /// The delete that the call was about; none if the object existed.
    pub(crate) delete: Option<LastDelete>,
}

impl Requeue {
    fn kept_bytes(&self) -> usize {
        let last = self.delete.as_ref().and_then(|delete| delete.last.as_ref());
        last.map_or(0, Object::size_bytes)
    }
}

/// A requeue in the table.
#[derive(Debug)]
struct Entry {
    requeue: Requeue,
    /// Its place in the order.
    place: Place,
}

/// The lane, when to look at a requeue, then the order in which they were set.
type Place = (Lane, Moment, u64);

#[derive(Debug, Default)]
pub(crate) struct Requeues {
    keys: BTreeMap<SourceId, BTreeMap<Key, Entry>>,
    /// Those of objects, by lane and when to look at them: when they are due, or later while their key is busy.
    objects: BTreeMap<Place, (SourceId, Key)>,
    /// The same for those of deletes.
    deletes: BTreeMap<Place, (SourceId, Key)>,
    placed: u64,
    slowed: usize,
    /// Bytes of the last states of deletes.
    bytes: usize,
    unrecorded: BTreeMap<SourceId, Unrecorded>,
}

/// What changed since the requeues of a source were recorded.
#[derive(Debug)]
pub(crate) enum Unrecorded {
    /// Anything.
    All,
    /// These keys.
    Keys(BTreeSet<Key>),
}

impl Requeues {
    pub(crate) fn len(&self) -> usize {
        self.objects.len() + self.deletes.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.deletes.is_empty()
    }

    pub(crate) fn slowed(&self) -> usize {
        self.slowed
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn get(&self, source: SourceId, key: KeyRef<'_>) -> Option<&Requeue> {
        let entry = self.keys.get(&source)?.get(&key as &dyn AsKey)?;
        Some(&entry.requeue)
    }

    /// All of them, by source and key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SourceId, &Key, &Requeue)> {
        let of_source = |(source, keys): (&SourceId, _)| (*source, keys);
        self.keys.iter().map(of_source).flat_map(|(source, keys)| {
            let keys: &BTreeMap<Key, Entry> = keys;
            keys.iter().map(move |(key, entry)| (source, key, &entry.requeue))
        })
    }

    /// Those of one source, by key.
    pub(crate) fn of_source(&self, source: SourceId) -> impl Iterator<Item = (&Key, &Requeue)> {
        let keys = self.keys.get(&source).into_iter().flatten();
        keys.map(|(key, entry)| (key, &entry.requeue))
    }

    /// When to look at the next one of `lanes`; none if all wait for the end of their call.
    pub(crate) fn next(&self, lanes: LaneSet) -> Option<Moment> {
        if self.is_empty() {
            return None;
        }
        let first = |lane: Lane| self.first(lane).map(|((_, at, _), _)| *at);
        lanes.iter().filter_map(first).min().filter(|at| *at < Moment::NEVER)
    }

    /// The first one of `lane` to look at, if it is time.
    pub(crate) fn first_until(&self, now: Moment, lane: Lane) -> Option<(SourceId, Key)> {
        let ((_, at, _), owner) = self.first(lane)?;
        (*at <= now).then(|| owner.clone())
    }

    fn first(&self, lane: Lane) -> Option<(&Place, &(SourceId, Key))> {
        let firsts = [first_from(&self.objects, lane), first_from(&self.deletes, lane)];
        let of_lane = firsts.into_iter().flatten().filter(|((of, ..), _)| *of == lane);
        of_lane.min_by_key(|(place, _)| **place)
    }

    /// Sets the requeue of a key of `lane`, to be looked at when it is due. Replaces an earlier one.
    pub(crate) fn set(&mut self, source: SourceId, lane: Lane, key: Key, requeue: Requeue) {
        self.remove(source, key.as_ref());
        let place = self.next_place(lane, requeue.due);
        self.slowed += usize::from(requeue.is_slowed);
        self.bytes += requeue.kept_bytes();
        self.order(requeue.delete.is_some())
            .insert(place, (source, key.clone()));
        self.record_change(source, &key);
        self.keys
            .entry(source)
            .or_default()
            .insert(key, Entry { requeue, place });
    }

    /// Looks at the requeue of a key at another time.
    pub(crate) fn look_at(&mut self, source: SourceId, key: KeyRef<'_>, at: Moment) {
        self.placed += 1;
        let placed = self.placed;
        let keys = self.keys.get_mut(&source);
        let Some(entry) = keys.and_then(|keys| keys.get_mut(&key as &dyn AsKey)) else {
            return;
        };
        let after = (entry.place.0, at, placed);
        let before = std::mem::replace(&mut entry.place, after);
        let is_delete = entry.requeue.delete.is_some();
        if let Some(owner) = self.order(is_delete).remove(&before) {
            self.order(is_delete).insert(after, owner);
        }
    }

    /// Removes the requeue of a key, if it has one.
    pub(crate) fn remove(&mut self, source: SourceId, key: KeyRef<'_>) -> Option<Requeue> {
        let keys = self.keys.get_mut(&source)?;
        let (key, Entry { requeue, place }) = keys.remove_entry(&key as &dyn AsKey)?;
        if keys.is_empty() {
            self.keys.remove(&source);
        }
        self.order(requeue.delete.is_some()).remove(&place);
        self.slowed -= usize::from(requeue.is_slowed);
        self.bytes -= requeue.kept_bytes();
        self.record_change(source, &key);
        Some(requeue)
    }

    /// Removes the delete that is due first if there are more than `deletes_max`. Returns how many that is.
    pub(crate) fn evict_delete(&mut self, deletes_max: usize) -> u64 {
        if self.deletes.len() <= deletes_max {
            return 0;
        }
        let mut firsts = Vec::new();
        let mut next = first_from(&self.deletes, 0);
        while let Some(((lane, at, placed), owner)) = next {
            firsts.push(((at, placed), owner));
            next = lane.checked_add(1).and_then(|lane| first_from(&self.deletes, lane));
        }
        let first = firsts.into_iter().min_by_key(|(place, _)| *place);
        first.map(|(_, owner)| owner.clone()).map_or(0, |(source, key)| {
            u64::from(self.remove(source, key.as_ref()).is_some())
        })
    }

    /// Ends all rows of calls: what was slowed down is due at `now`. Returns whether there was any.
    pub(crate) fn end_slow_downs(&mut self, now: Moment) -> bool {
        let mut due = Vec::new();
        for (source, keys) in &mut self.keys {
            for (key, entry) in keys {
                entry.requeue.in_a_row = 0;
                if std::mem::take(&mut entry.requeue.is_slowed) {
                    entry.requeue.due = entry.requeue.due.min(now);
                    due.push((*source, key.clone(), entry.place.1));
                }
            }
        }
        self.slowed = 0;
        let were_slowed = !due.is_empty();
        for (source, key, at) in due {
            self.record_change(source, &key);
            // One whose call is being made waits for its end.
            if at < Moment::NEVER {
                self.look_at(source, key.as_ref(), now);
            }
        }
        were_slowed
    }

    /// Removes all of them.
    pub(crate) fn clear(&mut self) {
        for source in self.keys.keys() {
            if let Some(unrecorded) = self.unrecorded.get_mut(source) {
                *unrecorded = Unrecorded::All;
            }
        }
        *self = Requeues {
            placed: self.placed,
            unrecorded: std::mem::take(&mut self.unrecorded),
            ..Requeues::default()
        };
    }

    /// Removes those of one lane.
    pub(crate) fn clear_lane(&mut self, lane: Lane) {
        while let Some((source, key)) = self.first(lane).map(|(_, owner)| owner.clone()) {
            self.remove(source, key.as_ref());
        }
    }

    /// Transfers the requeues of the keys in `scope` from source `old` to `new`. A key of several sources keeps the one
    /// that is due first.
    pub(crate) fn transfer_keys_to(&mut self, old: SourceId, new: SourceId, scope: &dyn Fn(KeyRef<'_>) -> bool) {
        let moved = self.of_source(old).map(|(key, _)| key);
        let moved: Vec<Key> = moved.filter(|key| scope(key.as_ref())).cloned().collect();
        for key in moved {
            let (lane, at, _) = self.keys[&old][&key].place;
            let other = self.get(new, key.as_ref()).map(|other| other.due);
            if let Some(requeue) = self.remove(old, key.as_ref())
                && other.is_none_or(|other| requeue.due < other)
            {
                self.set(new, lane, key.clone(), requeue);
                self.look_at(new, key.as_ref(), at);
            }
        }
    }

    /// Forgets the source. Returns how many it had.
    pub(crate) fn detach(&mut self, source: SourceId) -> u64 {
        self.unrecorded.remove(&source);
        let entries = self.keys.remove(&source).unwrap_or_default();
        for entry in entries.values() {
            self.order(entry.requeue.delete.is_some()).remove(&entry.place);
            self.slowed -= usize::from(entry.requeue.is_slowed);
            self.bytes -= entry.requeue.kept_bytes();
        }
        entries.len() as u64
    }

    fn order(&mut self, of_deletes: bool) -> &mut BTreeMap<Place, (SourceId, Key)> {
        match of_deletes {
            true => &mut self.deletes,
            false => &mut self.objects,
        }
    }

    fn next_place(&mut self, lane: Lane, at: Moment) -> Place {
        self.placed += 1;
        (lane, at, self.placed)
    }
}

/// The first one of `lane`, or of a later one.
fn first_from(order: &BTreeMap<Place, (SourceId, Key)>, lane: Lane) -> Option<(&Place, &(SourceId, Key))> {
    match lane {
        0 => order.first_key_value(),
        _ => order.range((lane, Moment::ZERO, 0)..).next(),
    }
}

/// What a journal has to record.
impl Requeues {
    /// Remembers from now on what changes in the source; at first, that is everything.
    pub(crate) fn record(&mut self, source: SourceId) {
        self.unrecorded.insert(source, Unrecorded::All);
    }

    /// What has changed since the last call. None if nothing has, and for a source that is not recorded.
    pub(crate) fn take_unrecorded(&mut self, source: SourceId) -> Option<Unrecorded> {
        let unrecorded = self.unrecorded.get_mut(&source)?;
        match unrecorded {
            Unrecorded::Keys(keys) if keys.is_empty() => None,
            _ => Some(std::mem::replace(unrecorded, Unrecorded::Keys(BTreeSet::new()))),
        }
    }

    fn record_change(&mut self, source: SourceId, key: &Key) {
        let Some(unrecorded) = self.unrecorded.get_mut(&source) else {
            return;
        };
        if let Unrecorded::Keys(keys) = unrecorded {
            keys.insert(key.clone());
            if keys.len() > REQUEUE_CHANGES_MAX {
                *unrecorded = Unrecorded::All;
            }
        }
    }
}

#[cfg(test)]
impl Requeues {
    /// Checks the running counts and the order against the table.
    pub(crate) fn check(&self) {
        let entries = || self.keys.values().flat_map(BTreeMap::values);
        assert_eq!(self.len(), entries().count(), "requeues");
        let slowed = entries().filter(|entry| entry.requeue.is_slowed).count();
        assert_eq!(self.slowed, slowed, "slowed");
        let bytes: usize = entries().map(|entry| entry.requeue.kept_bytes()).sum();
        assert_eq!(self.bytes, bytes, "bytes of requeues");
        for (source, keys) in &self.keys {
            assert!(!keys.is_empty(), "no empty source");
            for (key, entry) in keys {
                let order = match entry.requeue.delete.is_some() {
                    true => &self.deletes,
                    false => &self.objects,
                };
                assert_eq!(order.get(&entry.place), Some(&(*source, key.clone())), "the order");
            }
        }
    }
}
