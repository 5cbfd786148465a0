//! The indexes of plugins: fed with each batch before it is published, waited for within a budget, attached whole or
//! not at all.
//!
//! Source: DESIGN's rule for index plugins; client-go runs index functions under the store's lock, without a limit.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::index_feed::{IndexFeedHandle, IndexPoll};
use informant_cache::{Environment, IndexConflict, Moment};
use tokio::sync::Notify;

use super::{InformerLoop, warn_of_index};

/// How long a batch waits for the values of index plugins. What is not there then is published without; a second time
/// within 10 s holds the index back for longer. Per batch and for all plugins together.
pub(crate) const INDEX_BUDGET: Duration = Duration::from_millis(50);

/// The index plugins of one source.
pub(super) struct Feeds {
    feeds: Vec<Feed>,
    /// Whoever has news for this loop says so here.
    news: Arc<Notify>,
}

struct Feed {
    handle: IndexFeedHandle,
    names: Vec<Arc<str>>,
    attached: bool,
}

impl Feeds {
    pub(super) fn new() -> Self {
        Self {
            feeds: Vec::new(),
            news: Arc::new(Notify::new()),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.feeds.is_empty()
    }

    /// The names of all indexes.
    pub(super) fn names(&self) -> Vec<Arc<str>> {
        self.feeds.iter().flat_map(|feed| feed.names.iter().cloned()).collect()
    }

    /// Resolves when some index has news, or may be attached again.
    pub(super) async fn woken(&self, environment: &dyn Environment, source: informant_object::SourceId) {
        let held = self
            .feeds
            .iter()
            .filter_map(|feed| feed.handle.held_until(source))
            .min();
        match held {
            None => self.news.notified().await,
            Some(until) => {
                tokio::select! {
                    biased;
                    () = self.news.notified() => {}
                    () = environment.sleep(until - environment.now()) => {}
                }
            }
        }
    }
}

impl InformerLoop {
    /// Takes in the indexes of one plugin, or none of them if a name is taken.
    pub(super) fn add_feed(&mut self, handle: IndexFeedHandle) -> Result<(), IndexConflict> {
        if self.feeds.feeds.iter().any(|feed| feed.handle.ptr_eq(&handle)) {
            return Ok(());
        }
        let names = handle.names();
        for (place, name) in names.iter().enumerate() {
            if let Err(conflict) = self.parts.store.declare_index(name) {
                self.forget_indexes(&names[..place]);
                return Err(conflict);
            }
        }
        for name in &names {
            self.parts.metrics.set_index_attached(name, false);
        }
        let news = Arc::clone(&self.feeds.news);
        handle.add_source(self.parts.source, Arc::new(move || news.notify_one()));
        self.feeds.feeds.push(Feed {
            handle,
            names,
            attached: false,
        });
        // From now on readers are told "not ready" instead of "unknown".
        self.publish();
        self.begin_backfills();
        Ok(())
    }

    pub(super) fn remove_feed(&mut self, handle: &IndexFeedHandle) {
        let Some(at) = self.feeds.feeds.iter().position(|feed| feed.handle.ptr_eq(handle)) else {
            return;
        };
        let feed = self.feeds.feeds.remove(at);
        self.index_warnings.forget(&feed.names.join(", "));
        feed.handle.remove_source(self.parts.source);
        self.forget_indexes(&feed.names);
        self.publish();
    }

    /// The store is another: every index is computed from the beginning.
    pub(super) fn begin_feeds_anew(&mut self) {
        for at in 0..self.feeds.feeds.len() {
            let handle = self.feeds.feeds[at].handle.clone();
            handle.remove_source(self.parts.source);
            let news = Arc::clone(&self.feeds.news);
            handle.add_source(self.parts.source, Arc::new(move || news.notify_one()));
            self.set_attached(at, false);
        }
    }

    /// The source is over.
    pub(super) fn leave_feeds(&mut self) {
        for (name, _) in &self.parts.native_indexes {
            self.parts.metrics.forget_index(name);
        }
        for feed in std::mem::take(&mut self.feeds.feeds) {
            feed.handle.remove_source(self.parts.source);
            for name in &feed.names {
                self.parts.metrics.forget_index(name);
            }
        }
    }

    /// Hands the changes that were not handed in yet to the index plugins, and waits for their values within the
    /// budget.
    pub(super) async fn feed_indexes(&mut self) {
        if self.feeds.is_empty() || self.fed == self.changes.len() {
            return;
        }
        for feed in &self.feeds.feeds {
            feed.handle.submit(self.parts.source, &self.changes[self.fed..]);
        }
        self.fed = self.changes.len();
        if !self.poll_feeds() {
            return;
        }
        let mut budget = self.parts.environment.sleep(INDEX_BUDGET);
        let news = Arc::clone(&self.feeds.news);
        loop {
            tokio::select! {
                biased;
                () = news.notified() => if !self.poll_feeds() { return },
                () = &mut budget => return self.overrun(),
            }
        }
    }

    /// An index has news while nothing is being processed.
    pub(super) fn tend_feeds(&mut self) {
        self.begin_backfills();
        self.poll_feeds();
        self.publish();
    }

    /// Has every index that wants to begin with all there is do so. Only right after a publish: the snapshot must hold
    /// all that was processed.
    pub(super) fn begin_backfills(&self) {
        if !self.synced {
            return;
        }
        for feed in &self.feeds.feeds {
            if feed.handle.wants_backfill(self.parts.source) {
                feed.handle
                    .begin_backfill(self.parts.source, self.parts.store.published());
            }
        }
    }

    /// Puts in place what is ready and takes away what is not; whether some index is attached and still being computed.
    fn poll_feeds(&mut self) -> bool {
        let now = self.parts.environment.now();
        let mut computing = false;
        for at in 0..self.feeds.feeds.len() {
            let poll = self.feeds.feeds[at].handle.poll(self.parts.source, now);
            computing |= matches!(poll, IndexPoll::Computing);
            self.heed(at, poll);
        }
        computing
    }

    fn heed(&mut self, at: usize, poll: IndexPoll) {
        let feed = &self.feeds.feeds[at];
        if let Some(failed) = feed.handle.take_failed(self.parts.source) {
            for name in &feed.names {
                self.parts.metrics.count_index_errors(name, failed.count);
            }
            let (index, now) = (feed.names.join(", "), self.parts.environment.now());
            if let Some(count) = self.index_warnings.count(&index, failed.count, now) {
                warn_of_index(&self.parts.name, &index, &failed.key, &failed.error, count);
            }
        }
        match poll {
            IndexPoll::Ready(contents) => {
                for (name, contents) in contents {
                    self.parts
                        .store
                        .attach_index(&name, contents)
                        .expect("the index was declared with its feed");
                }
                self.set_attached(at, true);
            }
            IndexPoll::Computing => {}
            IndexPoll::Detached => self.detach(at),
        }
    }

    /// The budget is spent: what is not there is left out, what came at the last moment is not.
    fn overrun(&mut self) {
        let now: Moment = self.parts.environment.now();
        for at in 0..self.feeds.feeds.len() {
            let was_attached = self.feeds.feeds[at].attached;
            let poll = self.feeds.feeds[at].handle.overrun(self.parts.source, now);
            if was_attached && matches!(poll, IndexPoll::Detached) {
                let names = self.feeds.feeds[at].names.join(", ");
                tracing::warn!(
                    "{}: index {names} took longer than {} ms for one batch; published without it",
                    self.parts.name,
                    INDEX_BUDGET.as_millis()
                );
            }
            self.heed(at, poll);
        }
    }

    fn detach(&mut self, at: usize) {
        if !self.feeds.feeds[at].attached {
            return;
        }
        for name in &self.feeds.feeds[at].names {
            self.parts
                .store
                .detach_index(name)
                .expect("the index was declared with its feed");
        }
        self.set_attached(at, false);
    }

    fn set_attached(&mut self, at: usize, attached: bool) {
        let feed = &mut self.feeds.feeds[at];
        if feed.attached != attached {
            feed.attached = attached;
            for name in &feed.names {
                self.parts.metrics.set_index_attached(name, attached);
            }
        }
    }

    fn forget_indexes(&mut self, names: &[Arc<str>]) {
        for name in names {
            self.parts
                .store
                .remove_index(name)
                .expect("the index was declared with its feed");
            self.parts.metrics.forget_index(name);
        }
    }
}
