//! The numbers of the database.

use std::sync::atomic::AtomicU64;

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
    pub(crate) set_aside: Counter,
    pub(crate) unreadable: Counter,
    pub(crate) file_bytes: Gauge,
    queued: Family<InformerLabel, Gauge>,
    behind: Family<InformerLabel, Counter>,
    unkept: Family<InformerLabel, Counter>,
    open: Family<HandlerLabel, Gauge>,
    tombstones_dropped: Family<HandlerLabel, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InformerLabel {
    informer: String,
    cluster: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HandlerLabel {
    informer: String,
    cluster: String,
    plugin: String,
}

/// The numbers of one source.
#[derive(Clone, Debug)]
pub(crate) struct SourceNumbers {
    of: InformerLabel,
    all: StateMetrics,
    /// Changes that wait to be kept.
    pub(crate) queued: Gauge,
    /// Times that more waited than may.
    pub(crate) behind: Counter,
    /// Changes handed on although they could not be kept.
    pub(crate) unkept: Counter,
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
            "Times that more changes waited to be kept than may, and were folded to the difference",
            it.behind,
        );
        registry.register(
            "state_unkept",
            "Changes told although they could not be kept",
            it.unkept,
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
            of: label.clone(),
            queued: self.queued.get_or_create(&label).clone(),
            behind: self.behind.get_or_create(&label).clone(),
            unkept: self.unkept.get_or_create(&label).clone(),
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
    }
}

impl SourceNumbers {
    fn label(&self, handler: &str) -> HandlerLabel {
        HandlerLabel {
            informer: self.of.informer.clone(),
            cluster: self.of.cluster.clone(),
            plugin: handler.to_owned(),
        }
    }

    pub(crate) fn set_open(&self, handler: &str, keys: usize) {
        let keys = i64::try_from(keys).unwrap_or(i64::MAX);
        let label = self.label(handler);
        self.all.open.get_or_create(&label).set(keys);
        // Shown from the beginning, so that an alert on it can be written.
        drop(self.all.tombstones_dropped.get_or_create(&label));
    }

    pub(crate) fn tombstone_dropped(&self, handler: &str) {
        self.all.tombstones_dropped.get_or_create(&self.label(handler)).inc();
    }

    pub(crate) fn unreadable(&self) {
        self.all.unreadable.inc();
    }

    pub(crate) fn forget_handler(&self, handler: &str) {
        self.all.open.remove(&self.label(handler));
        self.all.tombstones_dropped.remove(&self.label(handler));
    }
}
