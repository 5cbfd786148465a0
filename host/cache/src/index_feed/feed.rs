//! The state behind an index feed's handle: its sources, their scheduling, and who waits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use informant_object::SourceId;

use crate::index_feed::source::SourceFeed;
use crate::index_feed::{IndexFailure, IndexFeedCounters, IndexJob, IndexPoll, IndexResult};
use crate::listener::ObjectChange;
use crate::{Moment, Snapshot};

/// How many objects of one source are scheduled before another source of the same urgency is next.
const TURN_OBJECTS: usize = 64;

#[derive(Debug)]
pub(super) struct Feed {
    pub(super) names: Arc<[Arc<str>]>,
    pub(super) sources: BTreeMap<SourceId, SourceFeed>,
    /// Whether there are workers; if not, the reason.
    loaded: Result<(), Arc<str>>,
    /// The source that was scheduled last.
    last_turn: Option<SourceId>,
    next_number: u64,
    /// The workers are waiting for work.
    workers_wait: bool,
    /// Sources whose loop has work and was not woken yet.
    pub(super) to_wake: BTreeSet<SourceId>,
    pub(super) counters: IndexFeedCounters,
}

impl Feed {
    pub(super) fn new(names: impl IntoIterator<Item = String>) -> Feed {
        Feed {
            names: names.into_iter().map(Arc::from).collect(),
            sources: BTreeMap::new(),
            loaded: Err("the plugin is not loaded yet".into()),
            last_turn: None,
            next_number: 0,
            workers_wait: false,
            to_wake: BTreeSet::new(),
            counters: IndexFeedCounters::default(),
        }
    }

    pub(super) fn add_source(&mut self, source: SourceId) {
        let reason = self
            .loaded
            .clone()
            .err()
            .unwrap_or_else(|| "the back-fill has not started".into());
        let names = &self.names;
        self.sources
            .entry(source)
            .or_insert_with(|| SourceFeed::new(names.clone(), reason));
    }

    pub(super) fn remove_source(&mut self, source: SourceId) {
        self.sources.remove(&source);
        self.to_wake.remove(&source);
    }

    pub(super) fn wants_backfill(&self, source: SourceId) -> bool {
        self.loaded.is_ok() && self.sources.get(&source).is_some_and(SourceFeed::is_detached)
    }

    pub(super) fn begin_backfill(&mut self, source: SourceId, snapshot: &Snapshot) {
        if self.wants_backfill(source)
            && let Some(feed) = self.sources.get_mut(&source)
        {
            feed.begin_backfill(snapshot);
        }
    }

    pub(super) fn submit(&mut self, source: SourceId, changes: &[ObjectChange]) {
        if let Some(feed) = self.sources.get_mut(&source) {
            changes.iter().for_each(|change| feed.record(change));
        }
    }

    pub(super) fn poll(&mut self, source: SourceId, now: Moment) -> IndexPoll {
        let Some(feed) = self.sources.get_mut(&source) else {
            return IndexPoll::Detached;
        };
        match feed.attach(now) {
            Some(contents) => IndexPoll::Ready(contents),
            None if feed.is_attached() => IndexPoll::Computing,
            None => IndexPoll::Detached,
        }
    }

    pub(super) fn overrun(&mut self, source: SourceId, now: Moment) -> IndexPoll {
        if let Some(feed) = self
            .sources
            .get_mut(&source)
            .filter(|feed| feed.is_attached() && !feed.is_current())
        {
            self.counters.overruns += 1;
            self.counters.held += u64::from(feed.overrun(now));
        }
        self.poll(source, now)
    }

    pub(super) fn failures(&self) -> Vec<IndexFailure> {
        let mut all = Vec::new();
        for (&source, feed) in &self.sources {
            all.extend(feed.failures().map(|(key, error)| IndexFailure {
                source,
                key: key.clone(),
                error: error.to_owned(),
            }));
        }
        all
    }

    /// Appends up to `max` jobs: first of sources that a loop waits for, then of the others.
    pub(super) fn next_batch(&mut self, max: usize, jobs: &mut Vec<IndexJob>) {
        let before = jobs.len();
        if self.loaded.is_ok() {
            for urgent in [true, false] {
                while jobs.len() - before < max
                    && let Some(source) = self.turn(urgent)
                {
                    let room = TURN_OBJECTS.min(max - (jobs.len() - before));
                    self.take_turn(source, room, jobs);
                }
            }
        }
        self.workers_wait = jobs.len() == before;
        self.counters.handed_out += (jobs.len() - before) as u64;
    }

    pub(super) fn set_paused(&mut self, source: SourceId, is_paused: bool) {
        if let Some(feed) = self.sources.get_mut(&source) {
            feed.is_paused = is_paused;
        }
    }

    /// The source after the last scheduled one, among those of this urgency that have work.
    fn turn(&self, urgent: bool) -> Option<SourceId> {
        let mut eligible = self
            .sources
            .iter()
            .filter(|(_, feed)| feed.is_attached() == urgent && feed.is_eligible());
        let after = |source: &SourceId| self.last_turn.is_none_or(|last| *source > last);
        let first = eligible.clone().next();
        eligible
            .find(|(source, _)| after(source))
            .or(first)
            .map(|(source, _)| *source)
    }

    fn take_turn(&mut self, source: SourceId, room: usize, jobs: &mut Vec<IndexJob>) {
        self.last_turn = Some(source);
        let Some(feed) = self.sources.get_mut(&source) else {
            return;
        };
        for _ in 0..room {
            let number = self.next_number;
            let Some((key, object)) = feed.next(number) else { break };
            self.next_number += 1;
            jobs.push(IndexJob {
                number,
                source,
                key,
                object,
            });
        }
        // An empty back-fill is complete without a result.
        if feed.is_current() {
            self.to_wake.insert(source);
        }
    }

    pub(super) fn complete(&mut self, result: IndexResult) {
        let IndexResult {
            number,
            source,
            key,
            values,
        } = result;
        let Some(feed) = self.sources.get_mut(&source) else {
            self.counters.superseded += 1;
            return;
        };
        match feed.complete(&key, number, values) {
            None => self.counters.superseded += 1,
            Some(true) => self.counters.failed += 1,
            Some(false) => self.counters.computed += 1,
        }
        if feed.is_current() {
            self.to_wake.insert(source);
        }
    }

    pub(super) fn loaded(&mut self) {
        self.detach_all("the back-fill has not started".into());
        self.loaded = Ok(());
    }

    pub(super) fn failed(&mut self, reason: Arc<str>) {
        self.counters.failures += u64::from(self.loaded.is_ok());
        self.detach_all(reason.clone());
        self.loaded = Err(reason);
    }

    fn detach_all(&mut self, reason: Arc<str>) {
        self.sources.values_mut().for_each(|feed| feed.detach(reason.clone()));
        self.to_wake.extend(self.sources.keys());
    }

    /// Whether the workers have to be woken; true once.
    pub(super) fn take_worker_wake(&mut self) -> bool {
        let wake = self.workers_wait && self.loaded.is_ok() && self.sources.values().any(SourceFeed::is_eligible);
        self.workers_wait &= !wake;
        wake
    }
}
