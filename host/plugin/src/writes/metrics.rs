//! Metrics of deferred writes.

use std::sync::Arc;

use informant_spec::KubeVerb;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::metrics::PluginLabels;
use crate::writes::queue::WritesStatus;

/// Label values of a write's result.
const RESULTS: [&str; 6] = ["ok", "unchanged", "gone", "throttled", "retryable", "permanent"];

/// The series of all plugins. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct WriteFamilies {
    writes: Family<WriteLabels, Counter>,
    waiting: Family<PluginLabels, Gauge>,
    waiting_bytes: Family<PluginLabels, Gauge>,
    full: Family<PluginLabels, Counter>,
    spaced: Family<PluginLabels, Counter>,
}

/// The series of one plugin. A write waits for the network, so it can afford to look up its labels.
pub(crate) struct WriteCounters {
    families: WriteFamilies,
    plugin: Arc<str>,
    waiting: Gauge,
    waiting_bytes: Gauge,
    full: Counter,
    spaced: Counter,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WriteLabels {
    plugin: String,
    verb: &'static str,
    result: &'static str,
}

impl WriteFamilies {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "plugin_writes",
            "Deferred writes of plugins, by verb and result",
            self.writes.clone(),
        );
        registry.register(
            "plugin_writes_waiting",
            "Deferred writes of a plugin that wait or are in flight",
            self.waiting.clone(),
        );
        registry.register_with_unit(
            "plugin_writes_waiting",
            "Bytes of the deferred writes of a plugin that wait or are in flight",
            Unit::Bytes,
            self.waiting_bytes.clone(),
        );
        registry.register(
            "plugin_writes_full",
            "How often a plugin was not called because too many of its writes waited",
            self.full.clone(),
        );
        registry.register(
            "plugin_writes_spaced",
            "Calls that were spaced because a plugin writes to one object again and again",
            self.spaced.clone(),
        );
    }

    pub(crate) fn of(&self, plugin: &Arc<str>) -> WriteCounters {
        let labels = PluginLabels {
            plugin: plugin.to_string(),
        };
        WriteCounters {
            waiting: self.waiting.get_or_create(&labels).clone(),
            waiting_bytes: self.waiting_bytes.get_or_create(&labels).clone(),
            full: self.full.get_or_create(&labels).clone(),
            spaced: self.spaced.get_or_create(&labels).clone(),
            families: self.clone(),
            plugin: Arc::clone(plugin),
        }
    }

    /// Removes the series of a plugin.
    pub(crate) fn forget(&self, plugin: &str) {
        let labels = PluginLabels::of(plugin);
        self.waiting.remove(&labels);
        self.waiting_bytes.remove(&labels);
        self.full.remove(&labels);
        self.spaced.remove(&labels);
        for verb in KubeVerb::ALL {
            for result in RESULTS {
                self.writes.remove(&labels_of(plugin, verb, result));
            }
        }
    }
}

impl WriteCounters {
    /// Counts a write that ended, or is sent again.
    pub(super) fn count(&self, verb: KubeVerb, result: &'static str) {
        self.families
            .writes
            .get_or_create(&labels_of(&self.plugin, verb, result))
            .inc();
    }

    /// Shows the queue as it is now.
    pub(super) fn show(&self, stats: WritesStatus) {
        let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        self.waiting.set(number(stats.waiting));
        self.waiting_bytes.set(number(stats.waiting_bytes));
    }

    /// The next call of a key is spaced.
    pub(super) fn count_spaced(&self) {
        self.spaced.inc();
    }

    /// The queue has reached a bound.
    pub(super) fn count_full(&self) {
        self.full.inc();
    }
}

fn labels_of(plugin: &str, verb: KubeVerb, result: &'static str) -> WriteLabels {
    WriteLabels {
        plugin: plugin.to_owned(),
        verb: verb.as_str(),
        result,
    }
}
