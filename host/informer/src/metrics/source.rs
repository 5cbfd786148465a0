//! The metric handles of one source, with all labels resolved.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use informant_cache::SourceState;
use informant_object::ResourceVersion;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

use super::{CounterFamily, EVENT_TYPES, InformerLabels, Series};
use crate::cache_share::CacheShare;
use crate::update_channel::EventKind;

/// `store_resource_version` keeps this many digits: a float, as Prometheus stores it, cannot hold further ones. Source:
/// client-go.
const VERSION_MODULUS: u64 = 1_000_000_000_000_000;

/// One source's share of a gauge, taken back when the source ends.
#[derive(Debug)]
pub(crate) struct GaugeShare {
    gauge: Gauge,
    part: AtomicI64,
}

impl GaugeShare {
    fn new(gauge: Gauge) -> Self {
        Self {
            gauge,
            part: AtomicI64::new(0),
        }
    }

    pub(crate) fn set(&self, value: usize) {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        let before = self.part.swap(value, Ordering::Relaxed);
        if value != before {
            self.gauge.inc_by(value - before);
        }
    }

    pub(crate) fn add(&self, change: i64) {
        self.part.fetch_add(change, Ordering::Relaxed);
        self.gauge.inc_by(change);
    }

    /// This source's share.
    pub(crate) fn get(&self) -> usize {
        usize::try_from(self.part.load(Ordering::Relaxed)).unwrap_or_default()
    }
}

/// Bytes of one list that is being received or applied. They are in the gauge, and in the budget of all caches, until
/// this is dropped.
#[derive(Debug)]
pub(crate) struct StagedBytes {
    metrics: Arc<SourceMetrics>,
    cache: Arc<CacheShare>,
    /// What the gauge and the budget have.
    bytes: usize,
    /// What they do not have yet.
    unreported: usize,
}

impl StagedBytes {
    pub(crate) fn new(metrics: Arc<SourceMetrics>, cache: Arc<CacheShare>) -> Self {
        Self {
            metrics,
            cache,
            bytes: 0,
            unreported: 0,
        }
    }

    /// Adds bytes. The gauge and the budget have them from the next [`report`](Self::report) on: an atomic operation
    /// after each object would wait until its copy is in memory.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.unreported += bytes;
    }

    /// Reports the bytes that were added. At least once for each frame of a list.
    pub(crate) fn report(&mut self) {
        let new = std::mem::take(&mut self.unreported);
        if new > 0 {
            self.bytes += new;
            self.metrics.staged_bytes.add(signed(new));
            self.cache.budget.add_staged(new);
        }
    }

    pub(crate) fn remove(&mut self, bytes: usize) {
        self.report();
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.metrics.staged_bytes.add(-signed(bytes));
        self.cache.budget.remove_staged(bytes);
    }
}

impl Drop for StagedBytes {
    fn drop(&mut self) {
        // The gauge and the budget do not have these.
        self.unreported = 0;
        self.remove(self.bytes);
    }
}

fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// How many events of each type a frame contained; added to the counters once per frame.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventCounts {
    pub(crate) added: u64,
    pub(crate) modified: u64,
    pub(crate) deleted: u64,
    pub(crate) bookmark: u64,
    pub(crate) error: u64,
    /// Events that were left out.
    pub(crate) other_shard: u64,
}

impl EventCounts {
    pub(crate) fn count(&mut self, kind: EventKind) {
        match kind {
            EventKind::Added => self.added += 1,
            EventKind::Modified => self.modified += 1,
            EventKind::Deleted => self.deleted += 1,
        }
    }

    pub(crate) fn sum(&self) -> u64 {
        self.added + self.modified + self.deleted + self.bookmark + self.error + self.other_shard
    }
}

/// One source's handles. Dropping it takes back its shares of gauges.
#[derive(Debug)]
pub(crate) struct SourceMetrics {
    series: Arc<Series>,
    labels: InformerLabels,
    events: [Counter; 5],
    pub(crate) source_epochs: Counter,
    pub(crate) watch_list_refused: GaugeShare,
    pub(crate) outdated_keys: GaugeShare,
    pub(crate) guard_off: GaugeShare,
    pub(crate) store_objects: GaugeShare,
    pub(crate) store_bytes: GaugeShare,
    pub(crate) delta_fifo_keys: GaugeShare,
    pub(crate) staged_bytes: GaugeShare,
    pub(crate) channel_bytes: GaugeShare,
    pub(crate) shed_namespaces: GaugeShare,
    pub(crate) sheds: Counter,
    pub(crate) cache_returns: Counter,
    resource_version: Gauge,
    pub(crate) handler_panics: Counter,
    pub(crate) stop_undelivered: Counter,
    pub(crate) hand_over_waits: Counter,
    synced: AtomicBool,
    state: Mutex<Option<Gauge>>,
    retired: AtomicBool,
}

impl SourceMetrics {
    pub(super) fn new(series: Arc<Series>, labels: InformerLabels) -> Self {
        series.add_source(&labels);
        let events = EVENT_TYPES.map(|kind| series.watch_events.get_or_create_owned(&labels.with("type", kind)));
        let part = |family: &prometheus_client::metrics::family::Family<InformerLabels, Gauge>| {
            GaugeShare::new(family.get_or_create_owned(&labels))
        };
        Self {
            events,
            source_epochs: series.source_epochs.get_or_create_owned(&labels),
            watch_list_refused: part(&series.watch_list_refused),
            outdated_keys: part(&series.outdated_keys),
            guard_off: part(&series.guard_off),
            store_objects: part(&series.store_objects),
            store_bytes: part(&series.store_bytes),
            delta_fifo_keys: part(&series.delta_fifo_keys),
            staged_bytes: part(&series.staged_bytes),
            channel_bytes: part(&series.channel_bytes),
            shed_namespaces: part(&series.shed_namespaces),
            sheds: series.sheds.get_or_create_owned(&labels),
            cache_returns: series.cache_returns.get_or_create_owned(&labels),
            resource_version: series.store_resource_version.get_or_create_owned(&labels),
            handler_panics: series.handler_panics.get_or_create_owned(&labels),
            stop_undelivered: series.stop_undelivered.get_or_create_owned(&labels),
            hand_over_waits: series.hand_over_waits.get_or_create_owned(&labels),
            synced: AtomicBool::new(false),
            state: Mutex::new(None),
            retired: AtomicBool::new(false),
            series,
            labels,
        }
    }

    pub(crate) fn count_events(&self, counts: &EventCounts) {
        let amounts = [
            counts.added,
            counts.modified,
            counts.deleted,
            counts.bookmark,
            counts.error,
        ];
        for (counter, amount) in self.events.iter().zip(amounts) {
            if amount > 0 {
                counter.inc_by(amount);
            }
        }
        self.count_by(CounterFamily::OtherShards, "watch", counts.other_shard);
    }

    /// The changes of objects that its watches have read; bookmarks and errors are not among them.
    pub(crate) fn changes(&self) -> u64 {
        let [added, modified, deleted, ..] = &self.events;
        added.get() + modified.get() + deleted.get()
    }

    /// Counts one more of `family`, with this word as its label: the result of a request (`ok`, or the label of its
    /// failure), why something was skipped or listed again, the type of what was rejected.
    pub(crate) fn count(&self, family: CounterFamily, word: &'static str) {
        self.count_by(family, word, 1);
    }

    /// Counts `amount` more of `family`.
    pub(crate) fn count_by(&self, family: CounterFamily, word: &'static str, amount: u64) {
        if amount > 0 {
            self.series.count(&self.labels, family, word, amount);
        }
    }

    pub(crate) fn set_synced(&self) {
        if !self.synced.swap(true, Ordering::Relaxed) {
            self.series.set_synced(&self.labels, true);
        }
    }

    pub(crate) fn set_version(&self, version: &ResourceVersion) {
        if let Some(number) = version.number() {
            self.resource_version
                .set(i64::try_from(number % VERSION_MODULUS).unwrap_or(i64::MAX));
        }
    }

    pub(crate) fn set_state(&self, state: SourceState) {
        let labels = self.labels.with("state", state.as_str());
        let mut current = self.lock_state();
        if self.retired.load(Ordering::Relaxed) {
            return;
        }
        let new = self.series.source_state.get_or_create_owned(&labels);
        new.inc();
        if let Some(old) = current.replace(new) {
            old.dec();
        }
    }

    /// Whether index `name` is attached.
    pub(crate) fn set_index_attached(&self, name: &str, attached: bool) {
        let labels = self.labels.with("index", name);
        self.series.while_used(&self.labels, |sharing| {
            sharing.indexes.insert(name.to_owned());
            let gauge = self.series.index_attached.get_or_create_owned(&labels);
            gauge.set(i64::from(attached));
        });
    }

    pub(crate) fn forget_index(&self, name: &str) {
        let labels = self.labels.with("index", name);
        self.series.index_attached.remove(&labels);
        self.series.index_errors.remove(&labels);
    }

    pub(crate) fn count_index_errors(&self, name: &str, amount: u64) {
        let labels = self.labels.with("index", name);
        self.series.while_used(&self.labels, |sharing| {
            sharing.indexes.insert(name.to_owned());
            self.series.index_errors.get_or_create_owned(&labels).inc_by(amount);
        });
    }

    /// The source is over: takes back its shares of gauges, and removes the series if no other source shares them.
    pub(crate) fn retire(&self) {
        let parts = [
            &self.watch_list_refused,
            &self.outdated_keys,
            &self.guard_off,
            &self.store_objects,
            &self.store_bytes,
            &self.delta_fifo_keys,
            &self.staged_bytes,
            &self.channel_bytes,
            &self.shed_namespaces,
        ];
        for part in parts {
            part.set(0);
        }
        let mut state = self.lock_state();
        if let Some(state) = state.take() {
            state.dec();
        }
        let retired_before = self.retired.swap(true, Ordering::Relaxed);
        drop(state);
        if self.synced.swap(false, Ordering::Relaxed) {
            self.series.set_synced(&self.labels, false);
        }
        if !retired_before {
            self.series.remove_source(&self.labels);
        }
    }

    fn lock_state(&self) -> MutexGuard<'_, Option<Gauge>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for SourceMetrics {
    fn drop(&mut self) {
        self.retire();
    }
}

#[cfg(test)]
mod tests {
    use informant_cache::CacheBudget;

    use super::*;
    use crate::metrics::InformerMetrics;

    #[test]
    fn a_list_that_is_broken_off_gives_all_bytes_back() {
        let metrics = Arc::new(InformerMetrics::default().source("pods", ""));
        let budget = CacheBudget::new(Some(1_000_000));
        let cache = Arc::new(CacheShare::join(vec![budget.clone()]));
        let mut staged = StagedBytes::new(Arc::clone(&metrics), Arc::clone(&cache));
        staged.add(100);
        staged.report();
        // In the middle of the next frame.
        staged.add(20);
        assert_eq!((metrics.staged_bytes.get(), budget.used_bytes()), (100, 100));
        drop(staged);
        assert_eq!((metrics.staged_bytes.get(), budget.used_bytes()), (0, 0));
    }
}
