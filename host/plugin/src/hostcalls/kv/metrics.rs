//! Metrics of `kv`.

use std::sync::Arc;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::hostcalls::key_value::KvUsage;
use crate::instance::bindings::informant::plugin::types::ErrorCode;
use crate::metrics::PluginLabels;

const FUNCTIONS: [&str; 5] = ["get", "set", "set-if-absent", "delete", "list"];

const RESULTS: [&str; 6] = ["ok", "denied", "invalid", "too-large", "unavailable", "other"];

/// The series of all plugins. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct KvFamilies {
    calls: Family<CallLabels, Counter>,
    keys: Family<PluginLabels, Gauge>,
    bytes: Family<PluginLabels, Gauge>,
}

/// The series of one plugin. They begin with its first call, so that a plugin without keys has none.
pub(crate) struct KvCounters {
    families: KvFamilies,
    plugin: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    plugin: String,
    function: &'static str,
    result: &'static str,
}

impl KvFamilies {
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "plugin_kv_calls",
            "Calls of plugins to kv, by function and result",
            self.calls.clone(),
        );
        registry.register("plugin_kv_keys", "Keys of a plugin in kv", self.keys.clone());
        registry.register_with_unit(
            "plugin_kv",
            "Keys and values of a plugin in kv",
            Unit::Bytes,
            self.bytes.clone(),
        );
    }

    pub(crate) fn of(&self, plugin: &Arc<str>) -> KvCounters {
        KvCounters {
            families: self.clone(),
            plugin: Arc::clone(plugin),
        }
    }

    /// Removes the series of a plugin.
    pub(crate) fn forget(&self, plugin: &str) {
        let of_plugin = PluginLabels::of(plugin);
        self.keys.remove(&of_plugin);
        self.bytes.remove(&of_plugin);
        for function in FUNCTIONS {
            for result in RESULTS {
                self.calls.remove(&labels(plugin, function, result));
            }
        }
    }
}

impl KvCounters {
    pub(super) fn count(&self, function: &'static str, error: Option<ErrorCode>) {
        let result = match error {
            None => "ok",
            Some(ErrorCode::Denied) => "denied",
            Some(ErrorCode::Invalid) => "invalid",
            Some(ErrorCode::TooLarge) => "too-large",
            Some(ErrorCode::Unavailable) => "unavailable",
            Some(_) => "other",
        };
        self.families
            .calls
            .get_or_create(&labels(&self.plugin, function, result))
            .inc();
    }

    pub(super) fn show(&self, usage: KvUsage) {
        let of_plugin = PluginLabels::of(&self.plugin);
        let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.families.keys.get_or_create(&of_plugin).set(gauge(usage.keys));
        self.families.bytes.get_or_create(&of_plugin).set(gauge(usage.bytes));
    }
}

fn labels(plugin: &str, function: &'static str, result: &'static str) -> CallLabels {
    CallLabels {
        plugin: plugin.to_owned(),
        function,
        result,
    }
}
