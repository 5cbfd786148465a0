//! Shards that this process gains and loses while its sources stay attached: see [`ShardFilter`].
//!
//! ```text
//! gain ──▶ held; what is in the store is delivered ──▶ the source lists the rest ──▶ delivered, then `Synced`
//! lose ──▶ not held: nothing more is handed out, what is in flight ends ──▶ the source forgets the objects
//! ```
//!
//! A source follows with a list what is held. In the time between, it may have objects of shards that are not held any
//! more, which are not delivered, or lack those of shards that were gained just now. Nothing is delivered of a source
//! that is divided otherwise: all comes with its next list.

use std::collections::{BTreeMap, BTreeSet};

use informant_object::{Key, KeyRef, Object, SourceId};

use crate::delivery::beginning::TAKEOVER_LAG_MAX;
use crate::listener::slots::{Slot, SlotId};
use crate::listener::sources::Walk;
use crate::listener::state::{Known, State, What, Why};
use crate::listener::watermark::{accepted_before_queue, lowered};
use crate::listener::{AcceptedStates, ChangeKind, Listener, ObjectChange, ResumeState, Takeover, Vanished};
use crate::{Division, KeptDelete, KeptDeletes, Moment, Reason, ShardFilter, ShardSet, Snapshot};

/// The shards whose objects a handler is called for in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldShards {
    /// How the work is divided. A source that is still divided otherwise follows.
    pub division: Division,
    /// Their numbers.
    pub shards: ShardSet,
}

/// A shard for which this process calls the handler from now on.
#[derive(Clone, Debug)]
pub struct GainedShard {
    /// Its number.
    pub shard: u8,
    /// How the handler continues with each source; with others, everything is delivered.
    pub takeovers: Vec<(SourceId, Takeover)>,
}

#[derive(Debug, Default)]
pub(super) struct Shards {
    /// Those whose keys are delivered. None: the work is not divided.
    held: Option<HeldShards>,
    /// How the handler continues with shards that a source has not listed since they were gained.
    unlisted: BTreeMap<(SourceId, u8), Takeover>,
    /// The same of all shards that were gained since plugins act here, for sources that are attached later.
    gained: BTreeMap<u8, Vec<(SourceId, Takeover)>>,
    /// The same of the shards with which plugins began to act here, for the lists of sources that are attached then.
    begun: BTreeMap<u8, Vec<(SourceId, Takeover)>>,
    /// Those whose deletes were pushed before the list that is being applied.
    pushed: BTreeSet<(SourceId, u8)>,
    /// Of shards that were lost: up to which version all was accepted that is no longer in the queue.
    lost: BTreeMap<(SourceId, u8), Option<u64>>,
}

impl Listener {
    /// See [`Control::set_shards`](super::Control::set_shards).
    pub(super) fn set_shards(&mut self, held: Option<HeldShards>) {
        self.shards = Shards {
            held,
            ..Shards::default()
        };
    }

    /// Whether the work is divided.
    pub(super) fn is_divided(&self) -> bool {
        self.shards.held.is_some()
    }

    /// The shards of a source as the work is divided now, and those among them that it has: none while it is divided as
    /// the work was before.
    pub(super) fn shard_filter(&self, source: SourceId) -> Option<ShardFilter> {
        let division = self.shards.held?.division;
        let filter = *self.sources.get(source)?.snapshot.shards()?;
        Some(match filter.division == division {
            true => filter,
            false => ShardFilter {
                division,
                shards: ShardSet::default(),
                ..filter
            },
        })
    }

    fn has_listed(&self, source: SourceId, shard: u8) -> bool {
        self.shard_filter(source)
            .is_some_and(|filter| filter.shards.contains(shard))
    }

    fn holds(&self, shard: u8) -> bool {
        self.shards.held.is_some_and(|held| held.shards.contains(shard))
    }

    fn shard_of(&self, source: SourceId, key: KeyRef<'_>) -> Option<u8> {
        Some(self.shard_filter(source)?.shard_of(key))
    }

    /// Whether another process calls the handler for the key.
    pub(super) fn is_elsewhere(&self, source: SourceId, key: KeyRef<'_>) -> bool {
        // Every object gets here.
        if !self.is_divided() {
            return false;
        }
        let state = self.sources.get(source);
        let is_divided = state.is_some_and(|state| state.snapshot.shards().is_some());
        is_divided && !self.shard_of(source, key).is_some_and(|shard| self.holds(shard))
    }

    /// Whether the handler is not called for the key now: another process does, or its source is divided otherwise.
    pub(super) fn is_not_called(&self, source: SourceId, key: KeyRef<'_>) -> bool {
        self.is_elsewhere(source, key) || self.is_divided_otherwise(source)
    }

    /// Whether the work is divided otherwise than the source. All that is held comes with its next list.
    pub(super) fn is_divided_otherwise(&self, source: SourceId) -> bool {
        // Every object gets here.
        let Some(held) = self.shards.held else { return false };
        let listed = self.sources.get(source).and_then(|state| state.snapshot.shards());
        listed.is_some_and(|listed| listed.division != held.division)
    }

    /// Whether the handler accepted `object` in another process, before this one gained its shard.
    pub(super) fn was_accepted_elsewhere(&self, source: SourceId, object: &Object) -> bool {
        let shard = self.shard_of(source, object.key());
        let takeover = shard.and_then(|shard| self.shards.unlisted.get(&(source, shard)));
        takeover.is_some_and(|takeover| covers(takeover, object))
    }

    /// The same for the first list of a source, which several shards share.
    pub(super) fn was_accepted_before_gain(&self, source: SourceId, object: &Object) -> bool {
        let shard = self.shard_of(source, object.key());
        let takeover = shard.and_then(|shard| self.own_takeover(source, shard));
        takeover.is_some_and(|takeover| covers(&takeover, object))
    }

    /// Whether the handler accepted a delete in another process, as far as that is known of its shard alone.
    pub(super) fn was_deleted_elsewhere(&self, source: SourceId, delete: &Vanished) -> bool {
        let shard = self.shard_of(source, delete.key.as_ref());
        let takeover = shard.and_then(|shard| self.own_takeover(source, shard));
        let watermark = takeover.and_then(|takeover| takeover.watermark);
        watermark.zip(delete.gone_by).is_some_and(|(all, gone)| gone <= all)
    }

    fn own_takeover(&self, source: SourceId, shard: u8) -> Option<Takeover> {
        let gained = self.shards.gained.get(&shard).map(|gained| takeover_of(gained, source));
        let begun = || self.shards.begun.get(&shard)?.iter().find(|(of, _)| *of == source);
        gained.or_else(|| begun().map(|(_, takeover)| *takeover))
    }

    /// See [`Control::begin_shards`](super::Control::begin_shards).
    pub(super) fn begin_shards(&mut self, begun: Vec<GainedShard>) {
        let begun = begun.into_iter().map(|begun| (begun.shard, begun.takeovers));
        self.shards.begun = begun.collect();
    }

    /// The source is attached: shards that it has not listed yet come later, and those that were gained meanwhile begin
    /// as they were gained.
    pub(super) fn await_shards(&mut self, source: SourceId, takeover: Option<Takeover>, now: Moment) {
        let Some(held) = self.shards.held else { return };
        if self.shard_filter(source).is_none() {
            return;
        }
        for shard in held.shards.iter() {
            let gained = self.shards.gained.get(&shard);
            let gained = gained.map(|gained| takeover_of(gained, source));
            let is_listed = self.has_listed(source, shard);
            if gained.is_some() || !is_listed {
                let takeover = self.own_takeover(source, shard).or(takeover);
                self.shards
                    .unlisted
                    .insert((source, shard), takeover.unwrap_or(EVERYTHING));
            }
            if gained.is_some() && is_listed {
                self.deliver_shard(source, shard, now);
                self.listed((source, shard), now);
            }
        }
    }

    /// The cluster was rolled back: its versions do not compare with those that other processes have accepted.
    pub(super) fn forget_watermarks(&mut self, source: SourceId) {
        let Shards {
            unlisted,
            gained,
            begun,
            lost,
            ..
        } = &mut self.shards;
        let unlisted = unlisted.iter_mut().map(|((of, _), takeover)| (*of, takeover));
        let early = gained.values_mut().chain(begun.values_mut()).flatten();
        let early = early.map(|(of, takeover)| (*of, takeover));
        let of_source = unlisted.chain(early).filter(|(of, _)| *of == source);
        of_source.for_each(|(_, takeover)| takeover.watermark = None);
        let lost = lost.iter_mut().filter(|((of, _), _)| *of == source);
        lost.for_each(|(_, accepted)| *accepted = None);
    }

    /// Whether the source has not listed all that is held.
    pub(super) fn awaits_shards(&self, source: SourceId) -> bool {
        self.shards.unlisted.keys().any(|(of, _)| *of == source)
    }

    /// The source has other shards than `older`. It lacks some that are held if it follows what was held before: they
    /// were lost and gained again. Then what was `accepted` or is pending does not come again.
    pub(super) fn await_shards_again(&mut self, source: SourceId, older: &Snapshot, accepted: Option<u64>) {
        let (Some(held), Some(before), Some(now)) = (self.shards.held, older.shards(), self.shard_filter(source))
        else {
            return;
        };
        let had = |shard: u8| before.division == held.division && before.shards.contains(shard);
        let takeover = match accepted {
            Some(_) => Takeover {
                watermark: accepted,
                all_objects: false,
            },
            None => EVERYTHING,
        };
        let lacking = held
            .shards
            .iter()
            .filter(|shard| had(*shard) && !now.shards.contains(*shard));
        for shard in lacking {
            self.shards.unlisted.entry((source, shard)).or_insert(takeover);
        }
    }

    /// Whether the work is divided, and this process calls the handler for the key.
    pub(super) fn is_held(&self, source: SourceId, key: KeyRef<'_>) -> bool {
        self.shard_of(source, key).is_some_and(|shard| self.holds(shard))
    }

    /// See [`Control::lose_shards`](super::Control::lose_shards).
    pub(super) fn lose_shards(&mut self, lost: ShardSet) {
        let Some(held) = self.shards.held else { return };
        let sources = self.sources.ids();
        for source in &sources {
            for shard in lost.iter().filter(|shard| held.shards.contains(*shard)) {
                let accepted = self.accepted_of_shard(*source, shard, |slot| !slot.is_in_flight());
                self.shards.lost.insert((*source, shard), accepted);
            }
        }
        self.shards.held = Some(HeldShards {
            shards: held.shards.iter().filter(|shard| !lost.contains(*shard)).collect(),
            ..held
        });
        self.shards.unlisted.retain(|(_, shard), _| !lost.contains(*shard));
        self.shards.pushed.retain(|(_, shard)| !lost.contains(*shard));
        self.shards.gained.retain(|shard, _| !lost.contains(*shard));
        self.shards.begun.retain(|shard, _| !lost.contains(*shard));
        for source in sources {
            self.drop_lost(source);
            self.end_first_list(source);
        }
        self.forget_ended_back_offs();
    }

    /// The first list of a source had ended before it listed the shards that are held now. If nothing is left of those,
    /// its end is not theirs.
    pub(super) fn end_first_list(&mut self, source: SourceId) {
        let is_due = !self.awaits_shards(source);
        let state = self.sources.get_mut(source).filter(|_| is_due);
        if let Some(ended) = state.and_then(|state| state.awaits_shards_since.take()) {
            self.enqueue_synced(source, ended);
        }
    }

    /// Drops what is pending of keys that other processes handle. What is in flight ends.
    fn drop_lost(&mut self, source: SourceId) {
        let slots = self.queue.slots.ids().into_iter();
        let slots: Vec<SlotId> = slots.filter(|id| self.queue.slots.get(*id).source == source).collect();
        let is_in_flight = |id: &SlotId| self.queue.slots.get(*id).is_in_flight();
        let (in_flight, pending): (Vec<_>, Vec<_>) = slots.into_iter().partition(is_in_flight);
        let key = |id: SlotId| self.queue.slots.get(id).key().map(KeyRef::to_key);
        let pending: Vec<Key> = pending.into_iter().filter_map(key).collect();
        let letters = self.letters.list().into_iter().filter(|letter| letter.source == source);
        let asked = self.requeues.of_source(source).map(|(key, _)| key.clone());
        let keys: Vec<Key> = pending
            .into_iter()
            .chain(letters.map(|letter| letter.key))
            .chain(asked)
            .collect();
        for key in &keys {
            if self.is_elsewhere(source, key.as_ref()) && !self.is_called(source, key.as_ref()) {
                self.forget(source, key.as_ref());
            }
        }
        in_flight.into_iter().for_each(|id| self.drop_rest(id));
    }

    fn is_called(&self, source: SourceId, key: KeyRef<'_>) -> bool {
        let slot = self.queue.find(source, key).map(|id| self.queue.slots.get(id));
        slot.is_some_and(Slot::is_in_flight)
    }

    /// What follows a call that runs, of a key that another process handles from now on.
    fn drop_rest(&mut self, id: SlotId) {
        let slot = self.queue.slots.get(id);
        let place = slot
            .key()
            .and_then(|key| Some((slot.source, self.shard_of(slot.source, key)?)));
        if let Some(place) = place.filter(|(_, shard)| !self.holds(*shard)) {
            let accepted = self.shards.lost.get(&place).copied().flatten();
            let accepted = accepted.and_then(|accepted| lowered(accepted, slot.rest.iter()));
            self.shards.lost.insert(place, accepted);
            self.queue.hand_over_rest(id);
        }
    }

    /// The source is detached.
    pub(super) fn forget_shards_of(&mut self, source: SourceId) {
        self.shards.unlisted.retain(|(of, _), _| *of != source);
        self.shards.pushed.retain(|(of, _)| *of != source);
        self.shards.lost.retain(|(of, _), _| *of != source);
    }

    /// The key of a slot whose call has ended, if another process handles it from now on.
    pub(super) fn of_elsewhere(&self, id: SlotId) -> Option<(SourceId, Key)> {
        let slot = self.queue.slots.get(id);
        let key = slot.key().filter(|key| self.is_elsewhere(slot.source, *key))?;
        Some((slot.source, key.to_key()))
    }

    /// What the call [of such a key](Self::of_elsewhere) has left is dropped, and was not accepted here.
    pub(super) fn drop_elsewhere(&mut self, ended: Option<(SourceId, Key)>) {
        let Some((source, key)) = &ended else { return };
        let (source, key) = (*source, key.as_ref());
        let Some(shard) = self.shard_of(source, key) else {
            return;
        };
        let is_letter = self.letters.get(source, key).is_some();
        let slot = self.queue.find(source, key).map(|id| self.queue.slots.get(id));
        let accepted = self.shards.lost.get(&(source, shard)).copied().flatten();
        let accepted = accepted.filter(|_| !is_letter);
        let accepted = accepted.and_then(|accepted| lowered(accepted, slot.into_iter().flat_map(Slot::states)));
        self.shards.lost.insert((source, shard), accepted);
        self.forget(source, key);
        self.forget_ended_back_offs();
    }

    /// See [`Control::gain_shard`](super::Control::gain_shard).
    pub(super) fn gain_shard(&mut self, gained: &GainedShard, kept: &KeptDeletes, now: Moment) {
        let Some(held) = self.shards.held else { return };
        let shard = gained.shard;
        self.shards.held = Some(HeldShards {
            shards: held.shards.iter().chain([shard]).collect(),
            ..held
        });
        self.shards.gained.insert(shard, gained.takeovers.clone());
        for source in self.sources.ids() {
            let takeover = takeover_of(&gained.takeovers, source);
            self.shards.lost.remove(&(source, shard));
            self.shards.unlisted.insert((source, shard), takeover);
            if let Some(state) = self.sources.get_mut(source) {
                state.maybe_seen_until = now + TAKEOVER_LAG_MAX;
                // What a first list has not passed may have been delivered elsewhere meanwhile.
                state.walks.iter_mut().for_each(Walk::has_maybe_been_seen);
            }
            if self.has_listed(source, shard) && self.relation(source).is_none() {
                let of_shard = |delete: &KeptDelete| self.shard_of(source, delete.key.as_ref()) == Some(shard);
                let kept = kept.of(source).into_iter().filter(of_shard).collect();
                self.push_deletes(source, kept, now);
                self.deliver_shard(source, shard, now);
                self.listed((source, shard), now);
            }
        }
    }

    /// See [`Feed::push_kept_deletes`](super::Feed::push_kept_deletes).
    pub(super) fn push_kept_deletes(&mut self, source: SourceId, mut kept: Vec<KeptDelete>, now: Moment) {
        let is_due = |shard: u8| !self.shards.pushed.contains(&(source, shard));
        kept.retain(|delete| self.shard_of(source, delete.key.as_ref()).is_some_and(is_due));
        self.push_deletes(source, kept, now);
        let awaited = self.shards.unlisted.keys().filter(|(of, _)| *of == source);
        self.shards.pushed.extend(awaited.copied());
    }

    fn push_deletes(&mut self, source: SourceId, kept: Vec<KeptDelete>, now: Moment) {
        let mut by_shard: BTreeMap<u8, Vec<KeptDelete>> = BTreeMap::new();
        for delete in kept {
            let shard = self.shard_of(source, delete.key.as_ref());
            if let Some(shard) = shard.filter(|shard| self.holds(*shard)) {
                by_shard.entry(shard).or_default().push(delete);
            }
        }
        for (shard, kept) in by_shard {
            if let Some(takeover) = self.shards.unlisted.get(&(source, shard)) {
                let deletes = ResumeState::of_takeover(*takeover, kept).deletes;
                self.push_vanished(source, deletes, Reason::Takeover, now);
            }
        }
    }

    /// The source has the objects of that shard already.
    fn deliver_shard(&mut self, source: SourceId, shard: u8, now: Moment) {
        let Some(state) = self.sources.get(source) else { return };
        let Some(filter) = self.shard_filter(source) else {
            return;
        };
        let is_due = |object: &&Object| {
            let newest = self.queue.find(source, object.key());
            let newest = newest.and_then(|id| self.queue.slots.get(id).newest().object());
            // It follows its predecessor's delete.
            let is_pending = newest.is_some_and(|newest| newest.ptr_eq(object));
            filter.shard_of(object.key()) == shard && !is_pending && !self.was_accepted_elsewhere(source, object)
        };
        let due: Vec<Object> = state.snapshot.after(None).filter(is_due).cloned().collect();
        let changes = due.into_iter().map(|object| ObjectChange {
            kind: ChangeKind::Add(object),
            reason: Reason::Takeover,
            received: now,
        });
        for change in changes {
            self.push_change(source, &change);
        }
    }

    /// The source has listed other shards than before.
    pub(super) fn shards_listed(&mut self, source: SourceId, snapshot: &Snapshot, now: Moment) {
        self.push(source, snapshot, &[]);
        self.shards.pushed.retain(|(of, _)| *of != source);
        let Some(held) = self.shards.held else { return };
        for shard in held.shards.iter() {
            let is_awaited = self.shards.unlisted.contains_key(&(source, shard));
            match (self.has_listed(source, shard), is_awaited) {
                (true, true) => self.listed((source, shard), now),
                // It was lost and gained again, and the source follows the first of that.
                (false, false) => drop(self.shards.unlisted.insert((source, shard), EVERYTHING)),
                _ => {}
            }
        }
    }

    /// Everything of a gained shard is in the queue: its end follows.
    fn listed(&mut self, (source, shard): (SourceId, u8), now: Moment) {
        self.shards.unlisted.remove(&(source, shard));
        let Some(state) = self.sources.get_mut(source).filter(|state| state.relation.is_none()) else {
            return;
        };
        state.awaits_shards_since = None;
        self.enqueue_synced(source, now);
    }

    fn enqueue_synced(&mut self, source: SourceId, now: Moment) {
        let walks = self.sources.get(source).map(|state| &state.walks);
        let syncing: Vec<bool> = walks.into_iter().flatten().map(|walk| walk.syncing.is_some()).collect();
        for (lane, _) in (0..).zip(syncing).filter(|(_, is_syncing)| !is_syncing) {
            self.queue.counters.shown += 1;
            let synced = State::new(What::Synced, Why::Shown, Reason::Takeover, now);
            self.queue.enqueue((source, lane), Known::Nothing, synced);
        }
    }

    /// See [`Ledger::shard_watermark`](super::Ledger::shard_watermark).
    pub(super) fn shard_watermark(&self, source: SourceId, shard: u8) -> Option<u64> {
        match self.shards.lost.get(&(source, shard)) {
            // What is in flight is not accepted yet.
            Some(accepted) => self.lowered_by_shard((*accepted)?, (source, shard), |_| true),
            None => self.accepted_of_shard(source, shard, |_| true),
        }
    }

    fn accepted_of_shard(&self, source: SourceId, shard: u8, counts: impl Fn(&Slot) -> bool) -> Option<u64> {
        let state = self.sources.get(source).filter(|_| !self.has_refused())?;
        let is_read = self.holds(shard) && self.has_listed(source, shard);
        let is_listed = is_read && !self.shards.unlisted.contains_key(&(source, shard));
        let accepted = accepted_before_queue(state).filter(|_| is_listed)?;
        self.lowered_by_shard(accepted, (source, shard), counts)
    }

    /// Without what is in the queue and in dead letters, which no other process has.
    fn lowered_by_shard(
        &self,
        accepted: u64,
        (source, shard): (SourceId, u8),
        counts: impl Fn(&Slot) -> bool,
    ) -> Option<u64> {
        let is_in = |key: KeyRef<'_>| self.shard_of(source, key) == Some(shard);
        let slots = self
            .queue
            .slots
            .iter()
            .filter(|slot| slot.source == source && counts(slot));
        let slots = slots.filter(|slot| slot.key().is_some_and(is_in));
        let accepted = lowered(accepted, slots.flat_map(Slot::states))?;
        let letters = self.letters.newest_first().filter(|letter| letter.source == source);
        let letters = letters.filter(|letter| is_in(letter.key.as_ref()));
        letters.into_iter().try_fold(accepted, |accepted, letter| {
            let version: u64 = letter.resource_version.as_deref()?.parse().ok()?;
            Some(accepted.min(version.saturating_sub(1)))
        })
    }

    /// How many calls run for keys that other processes handle.
    pub(super) fn in_flight_elsewhere(&self) -> usize {
        let slots = self.queue.slots.iter().filter(|slot| slot.is_in_flight());
        slots
            .filter(|slot| slot.key().is_some_and(|key| self.is_elsewhere(slot.source, key)))
            .count()
    }
}

const EVERYTHING: Takeover = Takeover {
    watermark: None,
    all_objects: true,
};

fn takeover_of(takeovers: &[(SourceId, Takeover)], source: SourceId) -> Takeover {
    let takeover = takeovers.iter().find(|(of, _)| *of == source);
    takeover.map_or(EVERYTHING, |(_, takeover)| *takeover)
}

fn covers(takeover: &Takeover, object: &Object) -> bool {
    !takeover.all_objects && AcceptedStates::default().up_to(takeover.watermark).holds(object)
}
