//! The sources a listener is attached to, and the cursors over them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use informant_object::{KeyRef, Object, SourceId};

use crate::delivery::lanes::{Lane, LaneSet};
use crate::listener::cursor::{CursorKind, DeliveryCursor};
use crate::listener::reselect::Reselection;
use crate::listener::retry::Crashes;
use crate::listener::{AcceptedStates, Relation};
use crate::seeded_bug::{SeededBug, seeded_bug};
use crate::{Moment, Snapshot};

/// All sources of one listener.
#[derive(Debug)]
pub(super) struct AttachedSources {
    sources: BTreeMap<SourceId, AttachedSource>,
    /// Per lane, sources with a running cursor, in round-robin order.
    cursor_queues: Vec<VecDeque<SourceId>>,
}

/// One source.
#[derive(Debug)]
pub(super) struct AttachedSource {
    /// The snapshot of the last push. Never newer: a cursor must not deliver what was not pushed yet.
    pub(super) snapshot: Snapshot,
    /// One per lane.
    pub(super) walks: Vec<Walk>,
    /// The initial list was attempted.
    pub(super) synced: bool,
    /// What its objects lead to; none: they are delivered.
    pub(super) relation: Option<Arc<dyn Relation>>,
    /// What is new by then may have been delivered by another process.
    pub(super) maybe_seen_until: Moment,
    /// When the first list ended, if shards that are held were not in it: its `Synced` comes with theirs.
    pub(super) awaits_shards_since: Option<Moment>,
}

/// What one lane has received of a source.
#[derive(Debug, Default)]
pub(super) struct Walk {
    pub(super) cursor: Option<DeliveryCursor>,
    /// Keys that an initial or replay cursor has passed and that were not attempted since it started.
    pub(super) unattempted: usize,
    /// The running initial list or replay: its cursor runs, or keys are unattempted, here or in another lane.
    pub(super) syncing: Option<CursorKind>,
    /// Crashes of the calls of `Synced` in a row, those for the replays that they caused included.
    pub(super) sync_crashes: Crashes,
    /// The cursor waits for [`release`](AttachedSources::release).
    held: bool,
    /// Something has changed that may lead to any object: all are called again after the cursor that runs.
    again: bool,
}

impl Walk {
    /// Whether it was attempted completely, as far as it was begun.
    pub(super) fn is_complete(&self) -> bool {
        let cursor = self.cursor.as_ref();
        let is_running = cursor.is_some_and(|cursor| cursor.kind.is_list());
        self.syncing.is_none() || (!is_running && self.unattempted == 0)
    }

    /// Whether nothing of a first list of all objects was delivered yet.
    pub(super) fn is_untouched(&self) -> bool {
        self.untouched().is_some()
    }

    /// The kind of the cursor of which that is so.
    fn untouched(&self) -> Option<CursorKind> {
        let cursor = self.cursor.as_ref()?;
        let is_first = matches!(cursor.kind, CursorKind::Initial | CursorKind::Takeover) && cursor.accepted.is_none();
        (is_first && cursor.is_at_start()).then_some(cursor.kind)
    }

    /// Another process may have delivered any object that a first list is yet to deliver.
    pub(super) fn has_maybe_been_seen(&mut self) {
        if let Some(cursor) = &mut self.cursor
            && cursor.kind == CursorKind::Initial
        {
            cursor.kind = CursorKind::Takeover;
            self.syncing = self.syncing.map(|_| CursorKind::Takeover);
        }
    }

    /// Whether a cursor of this kind runs.
    pub(super) fn runs(&self, kind: CursorKind) -> bool {
        self.cursor.as_ref().is_some_and(|cursor| cursor.kind == kind)
    }

    fn is_reselected(&self) -> bool {
        self.cursor.as_ref().is_some_and(|cursor| cursor.reselection.is_some())
    }
}

impl AttachedSource {
    fn new(snapshot: Snapshot, lanes: usize, synced: bool) -> AttachedSource {
        AttachedSource {
            snapshot,
            walks: walks(lanes),
            synced,
            relation: None,
            maybe_seen_until: Moment::ZERO,
            awaits_shards_since: None,
        }
    }

    /// The walk of a lane.
    pub(super) fn walk(&self, lane: Lane) -> &Walk {
        &self.walks[usize::from(lane)]
    }

    pub(super) fn walk_mut(&mut self, lane: Lane) -> &mut Walk {
        &mut self.walks[usize::from(lane)]
    }

    /// Whether the cursor of `lane` will still pass `key`, which is one of its keys.
    pub(super) fn is_ahead(&self, lane: Lane, key: KeyRef<'_>) -> bool {
        let cursor = self.walk(lane).cursor.as_ref();
        cursor.is_some_and(|cursor| cursor.covers(key))
    }

    /// Whether the cursor of `lane` will still deliver `object`, which is one of its objects.
    pub(super) fn will_show(&self, lane: Lane, object: &Object) -> bool {
        let cursor = self.walk(lane).cursor.as_ref();
        cursor.is_some_and(|cursor| cursor.covers(object.key()) && !cursor.leaves_out(object))
    }

    /// Whether the difference of two selections is being delivered.
    pub(super) fn is_reselected(&self) -> bool {
        self.walks.iter().any(Walk::is_reselected)
    }

    /// The running initial list or replay of any lane.
    pub(super) fn syncing(&self) -> Option<CursorKind> {
        self.walks.iter().find_map(|walk| walk.syncing)
    }

    pub(super) fn has_cursor(&self) -> bool {
        self.walks.iter().any(|walk| walk.cursor.is_some())
    }
}

fn walks(lanes: usize) -> Vec<Walk> {
    std::iter::repeat_with(Walk::default).take(lanes).collect()
}

impl Default for AttachedSources {
    fn default() -> AttachedSources {
        AttachedSources {
            sources: BTreeMap::new(),
            cursor_queues: vec![VecDeque::new()],
        }
    }
}

impl AttachedSources {
    pub(super) fn len(&self) -> usize {
        self.sources.len()
    }

    pub(super) fn get(&self, source: SourceId) -> Option<&AttachedSource> {
        self.sources.get(&source)
    }

    pub(super) fn get_mut(&mut self, source: SourceId) -> Option<&mut AttachedSource> {
        self.sources.get_mut(&source)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &AttachedSource> {
        self.sources.values()
    }

    pub(super) fn ids(&self) -> Vec<SourceId> {
        self.sources.keys().copied().collect()
    }

    fn lanes(&self) -> std::ops::Range<Lane> {
        0..Lane::try_from(self.cursor_queues.len()).unwrap_or(Lane::MAX)
    }

    /// Uses so many lanes from now on. A list or a replay that was running starts from the beginning.
    pub(super) fn redivide(&mut self, lanes: Lane, now: Moment) {
        let count = usize::from(lanes);
        self.cursor_queues = vec![VecDeque::new(); count];
        for source in self.ids() {
            let Some(state) = self.get_mut(source) else { continue };
            let untouched: Option<Vec<_>> = state.walks.iter().map(Walk::untouched).collect();
            let kind = untouched.and_then(|kinds| kinds.first().copied());
            let kind = kind.unwrap_or(CursorKind::Replay);
            let is_syncing = state.syncing().is_some();
            state.walks = walks(count);
            if is_syncing {
                self.begin(source, kind, now);
            }
        }
    }

    /// Adds a source and starts its initial list.
    pub(super) fn add(&mut self, source: SourceId, snapshot: Snapshot, now: Moment) {
        let state = AttachedSource::new(snapshot, self.cursor_queues.len(), false);
        self.sources.insert(source, state);
        self.begin(source, CursorKind::Initial, now);
    }

    /// Adds a source whose objects are not delivered.
    pub(super) fn add_related(&mut self, source: SourceId, snapshot: Snapshot, relation: Arc<dyn Relation>) {
        let mut state = AttachedSource::new(snapshot, self.cursor_queues.len(), true);
        state.relation = Some(relation);
        self.sources.insert(source, state);
    }

    /// Adds a source whose objects the handler has seen from another source.
    pub(super) fn add_transferred(&mut self, source: SourceId, snapshot: Snapshot) {
        let state = AttachedSource::new(snapshot, self.cursor_queues.len(), true);
        self.sources.insert(source, state);
    }

    /// Starts a replay of a transferred source whose objects the handler has seen only in part.
    pub(super) fn restart(&mut self, source: SourceId, kind: CursorKind, now: Moment) {
        if let Some(state) = self.sources.get_mut(&source) {
            state.synced = false;
        }
        self.begin(source, kind, now);
    }

    /// Ends the cursors of a source whose keys were transferred: its objects are outdated from now on. Marks it as
    /// synced only if it was delivered completely, so that further transfers see the same.
    pub(super) fn retire(&mut self, source: SourceId, was_complete: bool) {
        if seeded_bug(SeededBug::RetiredSourceStillShown) {
            return;
        }
        for lane in self.lanes() {
            self.end(source, lane);
        }
        if let Some(state) = self.sources.get_mut(&source) {
            state.snapshot = Snapshot::default();
            state.walks = walks(state.walks.len());
            state.synced = was_complete;
        }
    }

    pub(super) fn remove(&mut self, source: SourceId) -> Option<AttachedSource> {
        for queue in &mut self.cursor_queues {
            queue.retain(|other| *other != source);
        }
        self.sources.remove(&source)
    }

    /// Starts a cursor over the source in every lane, replacing a running one.
    pub(super) fn begin(&mut self, source: SourceId, kind: CursorKind, now: Moment) {
        for lane in self.lanes() {
            self.begin_in(source, lane, kind, now);
        }
    }

    /// Starts a cursor over the source in one lane, replacing a running one. Does nothing if it is not delivered.
    pub(super) fn begin_in(&mut self, source: SourceId, lane: Lane, kind: CursorKind, now: Moment) {
        let Some(state) = self.sources.get_mut(&source).filter(|state| state.relation.is_none()) else {
            return;
        };
        let walk = state.walk_mut(lane);
        if kind.is_list() {
            walk.unattempted = 0;
            walk.syncing = Some(kind);
            // A replay after a crash gives no new attempts. Otherwise `Synced` that costs an instance, and with it
            // causes a replay, would be called forever.
            if kind != CursorKind::Recovery {
                walk.sync_crashes = Crashes::default();
            }
        }
        // It calls for a part of the objects, in place of one that was to call for all.
        walk.again |= kind == CursorKind::Reselection && walk.runs(CursorKind::Related);
        if walk.cursor.replace(DeliveryCursor::new(kind, now)).is_none() {
            self.cursor_queues[usize::from(lane)].push_back(source);
        }
    }

    /// Something has changed that may lead to any object of the source: calls again for what was called in one lane. A
    /// cursor that runs ends first, so that it ends however often something changes.
    pub(super) fn call_again(&mut self, source: SourceId, lane: Lane, now: Moment) {
        let Some(state) = self.sources.get_mut(&source) else {
            return;
        };
        let walk = state.walk_mut(lane);
        match walk.cursor {
            None => self.begin_in(source, lane, CursorKind::Related, now),
            Some(_) if walk.is_untouched() => {}
            Some(_) => walk.again = true,
        }
    }

    /// Drops what [`call_again`](Self::call_again) asks for.
    pub(super) fn call_nothing_again(&mut self, source: SourceId) {
        let walks = self.get_mut(source).into_iter().flat_map(|state| &mut state.walks);
        walks.for_each(|walk| walk.again = false);
    }

    /// The cursor of a lane has passed all objects: it ends, or another begins that calls for all again.
    pub(super) fn passed(&mut self, source: SourceId, lane: Lane, now: Moment) {
        self.end(source, lane);
        let walk = self.get_mut(source).map(|state| state.walk_mut(lane));
        if walk.is_some_and(|walk| std::mem::take(&mut walk.again)) {
            self.begin_in(source, lane, CursorKind::Related, now);
        }
    }

    /// Starts a cursor over the source in one lane, replacing a running one, that delivers the difference of two
    /// selections. An initial list or replay that runs ends with it.
    pub(super) fn begin_reselection(
        &mut self,
        (source, lane): (SourceId, Lane),
        reselection: &Arc<Reselection>,
        now: Moment,
    ) {
        let syncing = self.get(source).and_then(|state| state.walk(lane).syncing);
        self.begin_in(source, lane, CursorKind::Reselection, now);
        let Some(state) = self.get_mut(source) else { return };
        let walk = state.walk_mut(lane);
        walk.syncing = syncing;
        if let Some(cursor) = &mut walk.cursor {
            cursor.reselection = Some(Arc::clone(reselection));
        }
    }

    /// Starts a cursor over the source in every lane, replacing a running one, that may leave out what was accepted in
    /// an earlier process.
    pub(super) fn begin_resumed(
        &mut self,
        source: SourceId,
        kind: CursorKind,
        accepted: Option<Arc<AcceptedStates>>,
        now: Moment,
    ) {
        self.begin(source, kind, now);
        let walks = self.get_mut(source).into_iter().flat_map(|state| &mut state.walks);
        for cursor in walks.filter_map(|walk| walk.cursor.as_mut()) {
            cursor.accepted.clone_from(&accepted);
        }
    }

    /// Holds the source's cursor in `lane` until [`release`](Self::release).
    pub(super) fn hold(&mut self, source: SourceId, lane: Lane) {
        self.cursor_queues[usize::from(lane)].retain(|other| *other != source);
        if let Some(state) = self.sources.get_mut(&source) {
            let walk = state.walk_mut(lane);
            walk.held = walk.cursor.is_some();
        }
    }

    /// Releases held cursors.
    pub(super) fn release(&mut self, source: SourceId) {
        let Some(state) = self.sources.get_mut(&source) else {
            return;
        };
        for (walk, queue) in state.walks.iter_mut().zip(&mut self.cursor_queues) {
            if std::mem::take(&mut walk.held) {
                queue.push_back(source);
            }
        }
    }

    /// Ends the source's cursor in `lane`.
    pub(super) fn end(&mut self, source: SourceId, lane: Lane) {
        self.cursor_queues[usize::from(lane)].retain(|other| *other != source);
        if let Some(state) = self.sources.get_mut(&source) {
            let walk = state.walk_mut(lane);
            walk.cursor = None;
            walk.held = false;
        }
    }

    /// Whether a cursor may have something to deliver, in any lane.
    pub(super) fn has_cursor(&self) -> bool {
        self.cursor_queues.iter().any(|queue| !queue.is_empty())
    }

    /// The same in one of `lanes`.
    pub(super) fn has_cursor_in(&self, lanes: LaneSet) -> bool {
        let queue = |lane: Lane| self.cursor_queues.get(usize::from(lane));
        lanes.iter().filter_map(queue).any(|queue| !queue.is_empty())
    }

    /// The source whose cursor is next in `lane`.
    pub(super) fn current_cursor(&self, lane: Lane) -> Option<SourceId> {
        self.cursor_queues[usize::from(lane)].front().copied()
    }

    /// Lets the next cursor of `lane` have its turn.
    pub(super) fn rotate_cursors(&mut self, lane: Lane) {
        let queue = &mut self.cursor_queues[usize::from(lane)];
        if queue.len() > 1 {
            queue.rotate_left(1);
        }
    }

    pub(super) fn resyncs(&self) -> bool {
        let walks = self.iter().flat_map(|source| &source.walks);
        let mut kinds = walks.filter_map(|walk| walk.cursor.as_ref()).map(|cursor| cursor.kind);
        kinds.any(|kind| kind == CursorKind::Resync)
    }
}
