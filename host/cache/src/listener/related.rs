//! Related objects: a change of one leads to calls about others (controller-runtime's `EnqueueRequestsFromMapFunc`).
//!
//! A source with a [`Relation`] is not delivered. Each of its changes is mapped when it is
//! pushed, to objects of other sources of the listener, and these are called again with [`Reason::Related`]. Such a
//! cause is never queued: it makes a state of the object pending, or folds into the one that is. So at most one call of
//! an object is pending, however many causes it has.
//!
//! - An object that is not in the store is not called. If it was deleted, its end is a call of its own.
//! - An object that a cursor will still deliver is left to it.
//! - What changed before the source was attached is unknown: everything that it may lead to, and that was called, is
//!   called again, by a cursor of its own, after the one that runs.

use std::sync::Arc;

use informant_object::{Object, SourceId};

use crate::listener::cursor::CursorKind;
use crate::listener::state::{Known, State, What, Why};
use crate::listener::{ChangeKind, Listener, ObjectChange, RelatedCause, RelatedTo, Relation, Relations};
use crate::seeded_bug::{SeededBug, seeded_bug};
use crate::{Moment, Reason, Snapshot};

impl Listener {
    /// What the objects of an attached source lead to, if they are not delivered themselves.
    pub(super) fn relation(&self, source: SourceId) -> Option<&Arc<dyn Relation>> {
        self.sources.get(source)?.relation.as_ref()
    }

    /// From now on, sources that are attached have these relations.
    pub(super) fn set_relations(&mut self, relations: Option<Arc<dyn Relations>>) {
        self.queue.is_level_triggered = relations.is_some();
        self.relations = relations;
    }

    /// Attaches a source if its objects lead to others, and calls again what it may lead to, unless nothing has changed
    /// in it since the first call. Returns whether it did.
    pub(super) fn attach_related(&mut self, source: SourceId, snapshot: &Snapshot, now: Moment) -> bool {
        let Some(relations) = self.relations.clone() else {
            return false;
        };
        let Some(relation) = relations.of(source) else {
            return false;
        };
        self.queue.slots.lane_map.attached(source);
        self.sources
            .add_related(source, snapshot.clone(), Arc::clone(&relation));
        self.newly_synced.push(source);
        if !relations.is_as_before(source, snapshot) {
            self.call_all_related(&*relation, now);
        }
        true
    }

    /// Calls again what `changes` lead to.
    pub(super) fn push_related(&mut self, of: SourceId, relation: &dyn Relation, changes: &[ObjectChange]) {
        let primaries = self.led_to(relation);
        let (mut related, mut all) = (Vec::new(), None);
        // What another process reads, it leads to there.
        let changes = changes
            .iter()
            .filter(|change| !matches!(change.kind, ChangeKind::Forget { .. }));
        for change in changes {
            let mut is_related = false;
            relation.map(&change.kind, &mut |to| {
                for source in &primaries {
                    is_related |= match self.find_related(*source, to, &mut related) {
                        Some(any) => any,
                        None => {
                            all = Some(change.received);
                            true
                        }
                    };
                }
            });
            self.queue.counters.unrelated += u64::from(!is_related);
            // The states before and after lead to the same object most often.
            related.sort_unstable_by(|(a, one), (b, other)| (a, one.key()).cmp(&(b, other.key())));
            related.dedup_by(|(a, one), (b, other)| a == b && one.key() == other.key());
            if related.is_empty() {
                continue;
            }
            let cause = Arc::new(RelatedCause::of(of, change));
            for (source, object) in related.drain(..) {
                self.call_related(source, object, &cause, change.received);
            }
        }
        if let Some(received) = all {
            self.queue.counters.related_to_all += 1;
            self.call_all_related(relation, received);
        }
    }

    /// Everything that a source with this relation may lead to and that was called is called again.
    pub(super) fn call_all_related(&mut self, relation: &dyn Relation, now: Moment) {
        let lanes = self.queue.slots.lane_map.count();
        for source in self.led_to(relation) {
            for lane in 0..lanes {
                self.sources.call_again(source, lane, now);
            }
        }
    }

    fn led_to(&self, relation: &dyn Relation) -> Vec<SourceId> {
        let delivered = self
            .sources
            .ids()
            .into_iter()
            .filter(|source| self.relation(*source).is_none());
        delivered.filter(|source| relation.leads_to(*source)).collect()
    }

    /// Adds the objects of `source` that are meant by `to`. Returns whether there are any; none: they are unknown.
    fn find_related(&self, source: SourceId, to: RelatedTo<'_>, found: &mut Vec<(SourceId, Object)>) -> Option<bool> {
        let snapshot = &self.sources.get(source)?.snapshot;
        let before = found.len();
        match to {
            RelatedTo::Object(key) => found.extend(snapshot.get(key).map(|object| (source, object.clone()))),
            RelatedTo::Index { name, value } => {
                let objects = snapshot.by_index(name, value).ok()?;
                found.extend(objects.map(|object| (source, object.clone())));
            }
            RelatedTo::All => return None,
        }
        Some(found.len() > before)
    }

    fn call_related(&mut self, source: SourceId, object: Object, cause: &Arc<RelatedCause>, received: Moment) {
        if self.is_not_called(source, object.key()) {
            return;
        }
        let counters = &mut self.queue.counters;
        counters.accepted += 1;
        counters.related += 1;
        if self.is_busy(source, object.key()) && seeded_bug(SeededBug::RelatedChangeDropped) {
            return;
        }
        let lanes = &self.queue.slots.lane_map;
        let lane = match lanes.of(source, object.key()) {
            lane if seeded_bug(SeededBug::ReconciledConcurrently) => (lane + 1) % lanes.count(),
            lane => lane,
        };
        let state = self.sources.get(source);
        // One that passes over dead letters may pass over this object.
        let shows_all = state.is_some_and(|state| !state.walk(lane).runs(CursorKind::Recovery));
        if shows_all && state.is_some_and(|state| state.will_show(lane, &object)) {
            self.queue.counters.left_to_cursor += 1;
            return;
        }
        let state = State::new(What::Is(object.clone()), Why::Asked, Reason::Related, received);
        self.queue.enqueue((source, lane), Known::Maybe(None), state);
        self.queue.add_cause(source, object.key(), cause);
    }
}
