//! The numbers of the database.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// What the room counts. A clone counts in the same place.
#[derive(Clone, Debug, Default)]
pub struct StateMetrics {
    pub(crate) commits: Counter,
    pub(crate) commit_seconds: Counter<f64, AtomicU64>,
    pub(crate) errors: Counter,
    pub(crate) failing: Gauge,
    pub(crate) open_waits: Counter,
    pub(crate) set_aside: Counter,
    pub(crate) unreadable: Counter,
    pub(crate) file_bytes: Gauge,
    queued: Family<InformerLabel, Gauge>,
    behind: Family<InformerLabel, Counter>,
    unkept: Family<InformerLabel, Counter>,
    untold: Family<InformerLabel, Counter>,
    void_deletes: Family<InformerLabel, Counter>,
    open: Family<HandlerLabel, Gauge>,
    tombstones_dropped: Family<HandlerLabel, Counter>,
    /// How many sources show a handler.
    shown: Arc<Mutex<BTreeMap<HandlerLabel, usize>>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InformerLabel {
    informer: String,
    cluster: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelSet)]
struct HandlerLabel {
    informer: String,
    cluster: String,
    plugin: String,
}

/// One source's part of a gauge that shows the sum of several.
#[derive(Debug)]
pub(crate) struct Part {
    sum: Gauge,
    own: AtomicI64,
}

/// The numbers of one source.
#[derive(Debug)]
pub(crate) struct SourceNumbers {
    of: InformerLabel,
    all: StateMetrics,
    /// Changes that wait to be kept.
    pub(crate) queued: Part,
    /// Changes that were left out because more waited than may.
    pub(crate) behind: Counter,
    /// Changes handed on although they could not be kept.
    pub(crate) unkept: Counter,
    /// Changes that came after the end.
    pub(crate) untold: Counter,
    /// Deletes that were kept of what is there again.
    pub(crate) void_deletes: Counter,
}

/// The numbers of one handler of one source.
#[derive(Debug)]
pub(crate) struct HandlerNumbers {
    of: HandlerLabel,
    all: StateMetrics,
    pub(crate) open: Part,
    pub(crate) tombstones_dropped: Counter,
}

impl Part {
    fn of(sum: Gauge) -> Self {
        let own = AtomicI64::new(0);
        Self { sum, own }
    }

    pub(crate) fn set(&self, value: usize) {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        let before = self.own.swap(value, Ordering::Relaxed);
        self.sum.inc_by(value - before);
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl StateMetrics {
    /// All of them in `registry`.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        let it = metrics.clone();
        registry.register("state_commits", "Transactions of the state database", it.commits);
        registry.register(
            "state_commit_seconds",
            "Time that transactions of the state database took, flushing included",
            it.commit_seconds,
        );
        registry.register(
            "state_errors",
            "Transactions of the state database that failed",
            it.errors,
        );
        registry.register(
            "state_failing",
            "1 while the state database cannot be written: events go out unkept",
            it.failing,
        );
        registry.register(
            "state_open_waits",
            "Durable sources whose beginning waited longer for the disk than it should",
            it.open_waits,
        );
        registry.register(
            "state_set_aside",
            "Files that were torn, foreign or of another version, and were renamed",
            it.set_aside,
        );
        registry.register(
            "state_unreadable",
            "Kept states that could not be read, as with another key",
            it.unreadable,
        );
        registry.register("state_file_bytes", "Size of the state database", it.file_bytes);
        registry.register(
            "state_queued",
            "Changes that wait to be kept, and to be told",
            it.queued,
        );
        registry.register(
            "state_behind",
            "Changes that were left out because more waited to be kept than may; the difference took their place",
            it.behind,
        );
        registry.register(
            "state_unkept",
            "Changes told although they could not be kept",
            it.unkept,
        );
        registry.register(
            "state_untold",
            "Changes that came after the state database was closed, and nobody was told of",
            it.untold,
        );
        registry.register(
            "state_void_deletes",
            "Kept deletes that were not told because the same object is there again",
            it.void_deletes,
        );
        registry.register(
            "state_open_keys",
            "Keys kept as not acknowledged by the plugin",
            it.open,
        );
        registry.register(
            "state_tombstones_dropped",
            "Deletes that a plugin that does not take them would have had to be kept for, above the limit",
            it.tombstones_dropped,
        );
        metrics
    }

    pub(crate) fn source(&self, informer: &str, cluster: &str) -> SourceNumbers {
        let label = InformerLabel {
            informer: informer.to_owned(),
            cluster: cluster.to_owned(),
        };
        SourceNumbers {
            queued: Part::of(self.queued.get_or_create(&label).clone()),
            behind: self.behind.get_or_create(&label).clone(),
            unkept: self.unkept.get_or_create(&label).clone(),
            untold: self.untold.get_or_create(&label).clone(),
            void_deletes: self.void_deletes.get_or_create(&label).clone(),
            of: label,
            all: self.clone(),
        }
    }

    pub(crate) fn forget_informer(&self, informer: &str, cluster: &str) {
        let label = InformerLabel {
            informer: informer.to_owned(),
            cluster: cluster.to_owned(),
        };
        self.queued.remove(&label);
        self.behind.remove(&label);
        self.unkept.remove(&label);
        self.untold.remove(&label);
        self.void_deletes.remove(&label);
    }

    fn shown(&self) -> MutexGuard<'_, BTreeMap<HandlerLabel, usize>> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SourceNumbers {
    /// The numbers of a handler, which are shown until the last of its sources drops them.
    pub(crate) fn handler(&self, name: &str) -> HandlerNumbers {
        let of = HandlerLabel {
            informer: self.of.informer.clone(),
            cluster: self.of.cluster.clone(),
            plugin: name.to_owned(),
        };
        let mut shown = self.all.shown();
        *shown.entry(of.clone()).or_default() += 1;
        HandlerNumbers {
            open: Part::of(self.all.open.get_or_create(&of).clone()),
            tombstones_dropped: self.all.tombstones_dropped.get_or_create(&of).clone(),
            of,
            all: self.all.clone(),
        }
    }

    pub(crate) fn unreadable(&self) {
        self.all.unreadable.inc();
    }
}

impl Drop for HandlerNumbers {
    fn drop(&mut self) {
        let mut shown = self.all.shown();
        let Some(left) = shown.get_mut(&self.of) else { return };
        *left -= 1;
        if *left == 0 {
            shown.remove(&self.of);
            self.all.open.remove(&self.of);
            self.all.tombstones_dropped.remove(&self.of);
        }
    }
}

impl StateMetrics {
    /// How many keys are kept as not acknowledged by a plugin; none if nothing is kept of it.
    #[must_use]
    pub fn open_keys_of(&self, informer: &str, cluster: &str, plugin: &str) -> Option<i64> {
        let of = HandlerLabel {
            informer: informer.to_owned(),
            cluster: cluster.to_owned(),
            plugin: plugin.to_owned(),
        };
        self.open.get(&of).map(|gauge| gauge.get())
    }
}

#[cfg(test)]
impl StateMetrics {
    pub(crate) fn queued_of(&self, informer: &str, cluster: &str) -> i64 {
        self.source(informer, cluster).queued.sum.get()
    }
}
