//! Indexes of plugins: receive each batch before it is published, are waited for within a budget, and are attached as a
//! whole or not at all.
//!
//! Source: DESIGN's rule for index plugins; client-go runs index functions under the store's lock, without a limit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use informant_cache::index_feed::{IndexFeedHandle, IndexPoll};
use informant_cache::{Environment, IndexConflict, LogThrottle, Moment};
use tokio::sync::Notify;

use super::{InformerLoop, warn_index_failure};
use crate::source_name::log;

/// How long a batch waits for index plugins, per batch and for all plugins together. Without the values in time the
/// batch is published without the index; if that happens again within 10 s, the index stays detached for longer.
pub(crate) const INDEX_BUDGET: Duration = Duration::from_millis(50);

/// The budget is spent in slices of this length. One that the machine made longer, because the process did not get the
/// CPU, counts as one: on a busy machine plugins would lose their time to others.
const BUDGET_SLICE: Duration = Duration::from_millis(5);

/// The slices of [`INDEX_BUDGET`].
const BUDGET_SLICES: u128 = INDEX_BUDGET.as_millis() / BUDGET_SLICE.as_millis();

#[derive(Default)]
pub(super) struct IndexFeeds {
    feeds: Vec<Feed>,
    /// Notified when an index has news for this loop.
    notify: Arc<Notify>,
}

struct Feed {
    handle: IndexFeedHandle,
    names: Vec<Arc<str>>,
    attached: bool,
    /// Limits the warnings of overruns: under contention every batch may have one.
    overrun_warnings: LogThrottle,
    /// An overrun was logged; so is the end of its effect.
    reported_detached: bool,
}

impl IndexFeeds {
    pub(super) fn is_empty(&self) -> bool {
        self.feeds.is_empty()
    }

    pub(super) fn names(&self) -> Vec<Arc<str>> {
        self.feeds.iter().flat_map(|feed| feed.names.iter().cloned()).collect()
    }

    /// Resolves when an index has news or may be attached again.
    pub(super) async fn woken(&self, environment: &dyn Environment, source: informant_object::SourceId) {
        if self.feeds.is_empty() {
            // To wait for a notification costs a lock, and another one to stop waiting.
            return std::future::pending().await;
        }
        let held = self
            .feeds
            .iter()
            .filter_map(|feed| feed.handle.held_until(source))
            .min();
        match held {
            None => self.notify.notified().await,
            Some(until) => {
                tokio::select! {
                    biased;
                    () = self.notify.notified() => {}
                    () = environment.sleep(until - environment.now()) => {}
                }
            }
        }
    }
}

impl InformerLoop {
    /// Adds the indexes of one plugin, or none of them if a name is taken.
    pub(super) fn add_feed(&mut self, handle: IndexFeedHandle) -> Result<(), IndexConflict> {
        if self.feeds.feeds.iter().any(|feed| feed.handle.ptr_eq(&handle)) {
            return Ok(());
        }
        let names = handle.names();
        for (index, name) in names.iter().enumerate() {
            if let Err(conflict) = self.parts.store.declare_index(name) {
                self.forget_indexes(&names[..index]);
                return Err(conflict);
            }
        }
        for name in &names {
            self.parts.metrics.set_index_attached(name, false);
        }
        let notify = Arc::clone(&self.feeds.notify);
        handle.add_source(self.parts.source, Arc::new(move || notify.notify_one()));
        self.feeds.feeds.push(Feed {
            handle,
            names,
            attached: false,
            overrun_warnings: LogThrottle::new(1, INDEX_WARNING_PERIOD),
            reported_detached: false,
        });
        // From now on readers get "not ready" instead of "unknown".
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

    /// The store was replaced: every index is computed from scratch.
    pub(super) fn restart_feeds(&mut self) {
        for at in 0..self.feeds.feeds.len() {
            let handle = self.feeds.feeds[at].handle.clone();
            handle.remove_source(self.parts.source);
            let notify = Arc::clone(&self.feeds.notify);
            handle.add_source(self.parts.source, Arc::new(move || notify.notify_one()));
            self.set_attached(at, false);
        }
    }

    /// The source is over.
    pub(super) fn remove_all_feeds(&mut self) {
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

    /// Sends new changes to the index plugins and waits for their values within the budget.
    pub(super) async fn feed_indexes(&mut self) {
        if self.feeds.is_empty() || self.fed_changes == self.changes.len() {
            return;
        }
        let changes = &self.changes[self.fed_changes..];
        let stored = self.changes_as_stored(changes);
        for feed in &self.feeds.feeds {
            let changes = match &stored {
                Some(stored) if !feed.attached => stored,
                _ => changes,
            };
            feed.handle.submit(self.parts.source, changes);
        }
        self.fed_changes = self.changes.len();
        if !self.poll_feeds() {
            return;
        }
        let notify = Arc::clone(&self.feeds.notify);
        for _ in 0..BUDGET_SLICES {
            let mut slice = self.parts.environment.sleep(BUDGET_SLICE);
            loop {
                tokio::select! {
                    biased;
                    () = notify.notified() => if !self.poll_feeds() { return },
                    () = &mut slice => break,
                }
            }
        }
        self.overrun();
    }

    /// Handles news of an index while the loop is idle.
    pub(super) fn handle_feed_news(&mut self) {
        self.begin_backfills();
        self.poll_feeds();
        self.publish();
    }

    /// Starts the backfill of every index that needs one. Only directly after a publish: the snapshot must contain
    /// everything that was processed.
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

    /// Attaches what is ready and detaches what is not; returns whether an attached index is still being computed.
    fn poll_feeds(&mut self) -> bool {
        let now = self.parts.environment.now();
        let mut computing = false;
        for at in 0..self.feeds.feeds.len() {
            let poll = self.feeds.feeds[at].handle.poll(self.parts.source, now);
            computing |= matches!(poll, IndexPoll::Computing);
            self.apply_poll(at, poll);
        }
        computing
    }

    fn apply_poll(&mut self, at: usize, poll: IndexPoll) {
        let feed = &self.feeds.feeds[at];
        if let Some(failed) = feed.handle.take_recent_failures(self.parts.source) {
            for name in &feed.names {
                self.parts.metrics.count_index_errors(name, failed.count);
            }
            let (index, now) = (feed.names.join(", "), self.parts.environment.now());
            if let Some(count) = self.index_warnings.count(&index, failed.count, now) {
                warn_index_failure(&self.parts.name, &index, &failed.key, &failed.error, count);
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

    /// The budget is spent: publishes without the indexes that are still not ready.
    fn overrun(&mut self) {
        let now: Moment = self.parts.environment.now();
        for at in 0..self.feeds.feeds.len() {
            let was_attached = self.feeds.feeds[at].attached;
            let poll = self.feeds.feeds[at].handle.overrun(self.parts.source, now);
            let feed = &mut self.feeds.feeds[at];
            if was_attached
                && matches!(poll, IndexPoll::Detached)
                && let Some(suppressed) = feed.overrun_warnings.line(now)
            {
                feed.reported_detached = true;
                let names = feed.names.join(", ");
                log!(
                    warn,
                    *self.parts.name,
                    index = names,
                    budget_ms = INDEX_BUDGET.as_millis(),
                    suppressed = (suppressed > 0).then_some(suppressed),
                    code = "index-not-ready",
                    "index too slow for this batch; published without it"
                );
            }
            self.apply_poll(at, poll);
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
            if attached && std::mem::take(&mut feed.reported_detached) {
                let names = feed.names.join(", ");
                log!(info, *self.parts.name, index = names, "index attached again");
            }
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

/// The shortest time between two warnings about failures of one index; failures meanwhile are counted in the next one.
pub(crate) const INDEX_WARNING_PERIOD: Duration = Duration::from_secs(60);

/// The warnings about failures, per index of a source.
#[derive(Debug, Default)]
pub(super) struct IndexWarnings(BTreeMap<String, LogThrottle>);

impl IndexWarnings {
    /// Records `failures` more failures of `index`, at least one. Returns how many to report now, if a warning is due.
    pub(super) fn count(&mut self, index: &str, failures: u64, now: Moment) -> Option<u64> {
        let throttle = self
            .0
            .entry(index.to_owned())
            .or_insert_with(|| LogThrottle::new(1, INDEX_WARNING_PERIOD));
        throttle.shared_line(failures, now)
    }

    pub(super) fn forget(&mut self, index: &str) {
        self.0.remove(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_failures_are_logged_at_once_then_once_a_minute() {
        let mut warnings = IndexWarnings::default();
        let at = |seconds: u64| Moment::from_nanos(seconds * 1_000_000_000);
        assert_eq!(warnings.count("x", 1, at(0)), Some(1));
        assert_eq!(warnings.count("x", 5, at(1)), None);
        assert_eq!(warnings.count("y", 2, at(1)), Some(2), "each index for itself");
        assert_eq!(warnings.count("x", 1, at(59)), None);
        assert_eq!(warnings.count("x", 1, at(60)), Some(7));
        assert_eq!(warnings.count("x", 1, at(61)), None);
        warnings.forget("x");
        assert_eq!(warnings.count("x", 1, at(62)), Some(1));
    }
}
