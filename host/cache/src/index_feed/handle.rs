//! An index feed shared between informer loops and workers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use informant_object::SourceId;

use crate::index_feed::feed::Feed;
use crate::index_feed::source::SourceFeed;
use crate::index_feed::{
    IndexFailure, IndexFeedCounters, IndexJob, IndexPoll, IndexResult, IndexState, RecentFailures,
};
use crate::listener::ObjectChange;
use crate::source::lock;
use crate::{Moment, Snapshot};

/// One index plugin's feed; clones are the same feed. See [the module](super) for what it promises.
///
/// An informer loop calls, per source: [`add_source`](Self::add_source); whenever it is woken and at each batch,
/// [`wants_backfill`](Self::wants_backfill) and [`begin_backfill`](Self::begin_backfill); for each batch
/// [`submit`](Self::submit) with the changes about to be published, then [`poll`](Self::poll) until it returns
/// something else than [`IndexPoll::Computing`] or the budget is used up, then [`overrun`](Self::overrun). An idle loop
/// polls when it is woken, and at [`held_until`](Self::held_until).
///
/// Workers call [`loaded`](Self::loaded), then [`next_batch`](Self::next_batch) and [`complete`](Self::complete)
/// alternately.
#[derive(Clone)]
pub struct IndexFeedHandle(Arc<Shared>);

type Waker = Arc<dyn Fn() + Send + Sync>;

struct Shared {
    /// Consistent after a panic: it does not change between calls, and callbacks run outside the lock.
    feed: Mutex<Feed>,
    worker_waker: Mutex<Option<Waker>>,
    loop_wakers: Mutex<BTreeMap<SourceId, Waker>>,
}

impl IndexFeedHandle {
    /// A feed for the indexes called `names`, without sources and not loaded.
    #[must_use]
    pub fn new(names: impl IntoIterator<Item = String>) -> IndexFeedHandle {
        let feed = Mutex::new(Feed::new(names));
        IndexFeedHandle(Arc::new(Shared {
            feed,
            worker_waker: Mutex::default(),
            loop_wakers: Mutex::default(),
        }))
    }

    /// The names of the indexes, in order of declaration.
    #[must_use]
    pub fn names(&self) -> Vec<Arc<str>> {
        lock(&self.0.feed).names.to_vec()
    }

    /// Adds a source, detached. `waker` is called without any lock when the source became current, wants a back-fill or
    /// was detached. An existing source gets the new waker. Loop side.
    pub fn add_source(&self, source: SourceId, waker: Waker) {
        lock(&self.0.loop_wakers).insert(source, waker);
        self.change(|feed| feed.add_source(source));
    }

    /// Removes a source; late results are counted and ignored. Loop side.
    pub fn remove_source(&self, source: SourceId) {
        lock(&self.0.loop_wakers).remove(&source);
        self.change(|feed| feed.remove_source(source));
    }

    /// Whether there are workers and the source's back-fill has not started. Loop side.
    #[must_use]
    pub fn wants_backfill(&self, source: SourceId) -> bool {
        lock(&self.0.feed).wants_backfill(source)
    }

    /// Starts computing every object of `snapshot`, which contains everything submitted. Does nothing unless
    /// [wanted](Self::wants_backfill). Loop side.
    pub fn begin_backfill(&self, source: SourceId, snapshot: &Snapshot) {
        self.change(|feed| feed.begin_backfill(source, snapshot));
    }

    /// Submits changes that are about to be published. Ignored while the source is detached: its back-fill will include
    /// them. Loop side.
    pub fn submit(&self, source: SourceId, changes: &[ObjectChange]) {
        self.change(|feed| feed.submit(source, changes));
    }

    /// Returns the contents that match everything submitted. After [`IndexPoll::Ready`] the source is attached. Loop
    /// side.
    pub fn poll(&self, source: SourceId, now: Moment) -> IndexPoll {
        self.change(|feed| feed.poll(source, now))
    }

    /// Reports that the budget was used up while [`poll`](Self::poll) returned [`IndexPoll::Computing`]. The source is
    /// detached until it has caught up; after a second overrun within [`OVERRUN_WINDOW`](super::OVERRUN_WINDOW) it is
    /// held back for longer.
    ///
    /// Returns what `poll` returns then: [`IndexPoll::Detached`], or [`IndexPoll::Ready`] if the last value arrived
    /// just now. Loop side.
    pub fn overrun(&self, source: SourceId, now: Moment) -> IndexPoll {
        self.change(|feed| feed.overrun(source, now))
    }

    /// When a source that has caught up may be attached again, if it is held back. Loop side.
    #[must_use]
    pub fn held_until(&self, source: SourceId) -> Option<Moment> {
        lock(&self.0.feed).sources.get(&source)?.held_until()
    }

    /// Sets the callback that wakes waiting workers, called without any lock. Replaces an earlier one. Worker side.
    pub fn set_worker_waker(&self, waker: Waker) {
        *lock(&self.0.worker_waker) = Some(waker);
    }

    /// Workers are ready, possibly with a changed index function: every source is detached and wants a back-fill.
    /// Worker side.
    pub fn loaded(&self) {
        self.change(Feed::loaded);
    }

    /// There are no workers any more: every source is detached until [`loaded`](Self::loaded). `reason` is a text for
    /// status. Worker side.
    ///
    /// For a plugin that is stopped or traps repeatedly. A trap on one object is that object's result.
    pub fn failed(&self, reason: &str) {
        self.change(|feed| feed.failed(reason.into()));
    }

    /// Appends up to `max` objects to compute, those a loop waits for first. If none: call again when woken. Worker
    /// side.
    ///
    /// Every job must be [completed](Self::complete), unless the feed [failed](Self::failed).
    pub fn next_batch(&self, max: usize, jobs: &mut Vec<IndexJob>) {
        self.change(|feed| feed.next_batch(max, jobs));
    }

    /// Hands out no objects of a source until [`resume`](Self::resume), or until it is detached. For objects that have
    /// to be read first. Worker side.
    pub fn pause(&self, source: SourceId) {
        self.change(|feed| feed.set_paused(source, true));
    }

    /// Ends a [`pause`](Self::pause). Worker side.
    pub fn resume(&self, source: SourceId) {
        self.change(|feed| feed.set_paused(source, false));
    }

    /// Reports results, in any order. Worker side.
    pub fn complete(&self, results: impl IntoIterator<Item = IndexResult>) {
        self.change(|feed| results.into_iter().for_each(|result| feed.complete(result)));
    }

    /// The state of a source; none for one that was not added.
    #[must_use]
    pub fn state(&self, source: SourceId) -> Option<IndexState> {
        lock(&self.0.feed).sources.get(&source).map(SourceFeed::state)
    }

    /// How many objects of a source have failed since the last call, and the last of them. Loop side.
    #[must_use]
    pub fn take_recent_failures(&self, source: SourceId) -> Option<RecentFailures> {
        lock(&self.0.feed).sources.get_mut(&source)?.take_recent_failures()
    }

    /// Objects that fail now, sorted; at most [`INDEX_FAILURES_LISTED_MAX`](crate::INDEX_FAILURES_LISTED_MAX) per
    /// source.
    #[must_use]
    pub fn failures(&self) -> Vec<IndexFailure> {
        lock(&self.0.feed).failures()
    }

    /// Whether both are the same feed.
    #[must_use]
    pub fn ptr_eq(&self, other: &IndexFeedHandle) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The counters.
    #[must_use]
    pub fn counters(&self) -> IndexFeedCounters {
        lock(&self.0.feed).counters
    }

    /// Changes the feed under the lock, then wakes the waiting sides.
    fn change<T>(&self, change: impl FnOnce(&mut Feed) -> T) -> T {
        let (result, wake_workers, to_wake) = {
            let mut feed = lock(&self.0.feed);
            let result = change(&mut feed);
            (result, feed.take_worker_wake(), std::mem::take(&mut feed.to_wake))
        };
        if wake_workers && let Some(waker) = lock(&self.0.worker_waker).clone() {
            waker();
        }
        for source in to_wake {
            let waker = lock(&self.0.loop_wakers).get(&source).cloned();
            if let Some(waker) = waker {
                waker();
            }
        }
        result
    }
}

impl fmt::Debug for IndexFeedHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IndexFeedHandle")
            .field("names", &self.names())
            .finish_non_exhaustive()
    }
}
