//! One source of an index feed: the objects to compute, and the values computed so far.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use informant_object::{Key, KeyRef, Object};

use crate::index::IndexFailures;
use crate::index_feed::{
    HOLD_BASE, HOLD_MAX, IndexState, NamedContents, OVERRUN_WINDOW, RecentFailures, ValuesByIndex,
};
use crate::listener::{ChangeKind, ObjectChange};
use crate::seeded_bug::{SeededBug, seeded_bug};
use crate::{Cursor, IndexContents, Moment, Snapshot};

#[derive(Debug)]
pub(super) struct SourceFeed {
    phase: Phase,
    /// The cursor of the back-fill.
    cursor: Option<Cursor>,
    /// Objects in the snapshot of the back-fill.
    total: usize,
    /// Changed objects in their current state, to be computed after the cursor. None: deleted, and the cursor must skip
    /// it.
    dirty: BTreeMap<Key, Option<Object>>,
    /// The number of the newest job of each key. Results of other jobs are superseded.
    computing: BTreeMap<Key, u64>,
    names: Arc<[Arc<str>]>,
    /// One for each name.
    contents: Vec<IndexContents>,
    failures: IndexFailures,
    /// The published failures; none while there are none.
    published_failures: Option<Arc<IndexFailures>>,
    /// Failures since the last [`take_recent_failures`](Self::take_recent_failures).
    failed: u64,
    overran: Option<Moment>,
    hold: Duration,
    held_until: Option<Moment>,
    /// No object is handed out.
    pub(super) is_paused: bool,
}

#[derive(Clone, Debug)]
enum Phase {
    /// Waits for a back-fill to start.
    Detached(Arc<str>),
    Backfilling,
    Behind,
    Attached,
}

impl SourceFeed {
    pub(super) fn new(names: Arc<[Arc<str>]>, reason: Arc<str>) -> SourceFeed {
        SourceFeed {
            phase: Phase::Detached(reason),
            cursor: None,
            total: 0,
            dirty: BTreeMap::new(),
            computing: BTreeMap::new(),
            contents: vec![IndexContents::new(); names.len()],
            names,
            failures: IndexFailures::default(),
            published_failures: None,
            failed: 0,
            overran: None,
            hold: HOLD_BASE,
            held_until: None,
            is_paused: false,
        }
    }

    /// Discards all computed values.
    pub(super) fn detach(&mut self, reason: Arc<str>) {
        let (names, overran, hold, held_until) = (self.names.clone(), self.overran, self.hold, self.held_until);
        *self = SourceFeed {
            overran,
            hold,
            held_until,
            ..SourceFeed::new(names, reason)
        };
    }

    pub(super) fn is_detached(&self) -> bool {
        matches!(self.phase, Phase::Detached(_))
    }

    pub(super) fn is_attached(&self) -> bool {
        matches!(self.phase, Phase::Attached)
    }

    pub(super) fn begin_backfill(&mut self, snapshot: &Snapshot) {
        self.detach("the back-fill starts".into());
        self.phase = Phase::Backfilling;
        self.total = snapshot.len();
        self.cursor = Some(snapshot.cursor());
    }

    /// Records a change, the newest of its key.
    pub(super) fn record(&mut self, change: &ObjectChange) {
        if self.is_detached() {
            return;
        }
        match &change.kind {
            // Listeners wait for it.
            ChangeKind::Update { old, new } if old.ptr_eq(new) => {}
            ChangeKind::Add(object) | ChangeKind::Update { new: object, .. } => {
                self.dirty.insert(object.key().to_key(), Some(object.clone()));
            }
            ChangeKind::Delete { key, .. } | ChangeKind::Forget { key } => self.record_delete(key),
        }
    }

    fn record_delete(&mut self, key: &Key) {
        self.computing.remove(key);
        if self
            .cursor
            .as_ref()
            .is_some_and(|cursor| !cursor.has_passed(key.as_ref()))
        {
            self.dirty.insert(key.clone(), None);
            return;
        }
        self.dirty.remove(key);
        self.forget(key.as_ref());
    }

    fn forget(&mut self, key: KeyRef<'_>) {
        self.contents.iter_mut().for_each(|contents| contents.remove(key));
        self.failures.forget(key);
    }

    /// The next object to compute: those of the back-fill first, so that objects that change meanwhile are computed
    /// once.
    pub(super) fn next(&mut self, number: u64) -> Option<(Key, Object)> {
        let (key, object) = self.next_of_backfill().or_else(|| self.next_dirty())?;
        self.computing.insert(key.clone(), number);
        Some((key, object))
    }

    fn next_of_backfill(&mut self) -> Option<(Key, Object)> {
        let cursor = self.cursor.as_mut()?;
        for object in cursor.by_ref() {
            let key = object.key().to_key();
            if !self.dirty.contains_key(&key) {
                return Some((key, object));
            }
        }
        self.cursor = None;
        // An object deleted before the cursor reached it has no values to remove.
        self.dirty.retain(|_, object| object.is_some());
        None
    }

    fn next_dirty(&mut self) -> Option<(Key, Object)> {
        loop {
            let (key, object) = self.dirty.pop_first()?;
            if let Some(object) = object {
                return Some((key, object));
            }
        }
    }

    /// Whether [`next`](Self::next) may return an object.
    fn has_work(&self) -> bool {
        self.cursor.is_some() || !self.dirty.is_empty()
    }

    /// Whether objects may be handed out.
    pub(super) fn is_eligible(&self) -> bool {
        self.has_work() && !self.is_paused
    }

    /// Accepts a result. None if it is superseded, otherwise whether it is a failure.
    pub(super) fn complete(&mut self, key: &Key, number: u64, values: Result<ValuesByIndex, String>) -> Option<bool> {
        if self.computing.get(key) != Some(&number) {
            return None;
        }
        self.computing.remove(key);
        let result = values.and_then(|values| self.set(key, &values));
        if result.is_err() {
            self.contents
                .iter_mut()
                .for_each(|contents| contents.remove(key.as_ref()));
        }
        let failed = result.is_err();
        self.failed += u64::from(failed);
        self.failures.record(key.as_ref(), result);
        Some(failed)
    }

    fn set(&mut self, key: &Key, values: &ValuesByIndex) -> Result<(), String> {
        if values.len() != self.names.len() {
            return Err(format!(
                "the plugin returned values for {} indexes, but its manifest names {}",
                values.len(),
                self.names.len()
            ));
        }
        for (values, contents) in values.iter().zip(&mut self.contents) {
            contents.set(key, values.iter().map(String::as_str))?;
        }
        Ok(())
    }

    /// Whether everything submitted was computed.
    pub(super) fn is_current(&self) -> bool {
        let is_computed = self.computing.is_empty() || seeded_bug(SeededBug::PartialIndexAttached);
        !self.is_detached() && !self.has_work() && is_computed
    }

    /// The contents if they are current and the source is not held back; it is attached then.
    pub(super) fn attach(&mut self, now: Moment) -> Option<NamedContents> {
        if !self.is_current() || self.held_until.is_some_and(|until| now < until) {
            return None;
        }
        self.held_until = None;
        self.phase = Phase::Attached;
        if self.failures.take_changed() {
            self.published_failures = (self.failures.absent() > 0).then(|| Arc::new(self.failures.clone()));
        }
        let contents = self.contents.iter().cloned();
        let contents = contents.map(|contents| contents.with_failures(self.published_failures.clone()));
        Some(self.names.iter().cloned().zip(contents).collect())
    }

    /// Records that the budget ran out before the contents were current. Returns whether attaching is delayed because
    /// of that.
    pub(super) fn overrun(&mut self, now: Moment) -> bool {
        self.phase = Phase::Behind;
        let last = self.overran.replace(now);
        if last.is_none_or(|last| now - last > OVERRUN_WINDOW) {
            if last.is_none_or(|last| now - last > HOLD_MAX) {
                self.hold = HOLD_BASE;
            }
            return false;
        }
        self.held_until = Some(now + self.hold);
        self.hold = (self.hold * 2).min(HOLD_MAX);
        true
    }

    /// When a source that is current may be attached again, if it only waits for that time.
    pub(super) fn held_until(&self) -> Option<Moment> {
        self.held_until.filter(|_| self.is_current())
    }

    pub(super) fn state(&self) -> IndexState {
        let ahead = self.cursor.as_ref().map_or(0, Cursor::remaining);
        match &self.phase {
            Phase::Detached(reason) => IndexState::Detached { reason: reason.clone() },
            Phase::Backfilling => IndexState::Backfilling {
                done: self.total - ahead,
                total: self.total,
            },
            Phase::Behind => {
                let waiting = self.dirty.len() + self.computing.len();
                IndexState::Behind {
                    waiting,
                    held_until: self.held_until,
                }
            }
            Phase::Attached => IndexState::Attached,
        }
    }

    /// How many objects have failed since the last call, and the last of them.
    pub(super) fn take_recent_failures(&mut self) -> Option<RecentFailures> {
        let count = std::mem::take(&mut self.failed);
        let (key, error) = self.failures.last().filter(|_| count > 0)?;
        Some(RecentFailures {
            count,
            key: key.clone(),
            error: error.to_owned(),
        })
    }

    pub(super) fn failures(&self) -> impl Iterator<Item = (&Key, &str)> {
        self.failures.listed()
    }
}
