//! Metrics of calls to the cluster.

use std::sync::Arc;
use std::time::Duration;

use informant_spec::KubeVerb;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::hostcalls::kube_api::{KubeError, KubeErrorCode};
use crate::metrics::PluginLabels;

/// The series of all plugins. Cheap to clone.
#[derive(Clone)]
pub(crate) struct KubeFamilies {
    calls: Family<CallLabels, Counter>,
    seconds: Family<PluginLabels, Histogram, fn() -> Histogram>,
}

/// The series of one plugin. A call waits for the network, so it can afford to look up its labels.
pub(crate) struct KubeCounters {
    families: KubeFamilies,
    plugin: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    plugin: String,
    verb: &'static str,
    result: &'static str,
}

/// 100 us to 26 s, by factors of four.
fn buckets() -> Histogram {
    Histogram::new(exponential_buckets(1e-4, 4.0, 10))
}

impl KubeFamilies {
    pub(crate) fn new() -> KubeFamilies {
        KubeFamilies {
            calls: Family::default(),
            seconds: Family::new_with_constructor(buckets),
        }
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "plugin_kube_calls",
            "Calls of plugins to the Kubernetes API, by verb and result",
            self.calls.clone(),
        );
        registry.register_with_unit(
            "plugin_kube",
            "Duration of a plugin's call to the Kubernetes API",
            Unit::Seconds,
            self.seconds.clone(),
        );
    }

    pub(crate) fn of(&self, plugin: &Arc<str>) -> KubeCounters {
        KubeCounters {
            families: self.clone(),
            plugin: Arc::clone(plugin),
        }
    }

    /// Removes the series of a plugin.
    pub(crate) fn forget(&self, plugin: &str) {
        self.seconds.remove(&PluginLabels::of(plugin));
        let results = || std::iter::once("ok").chain(KubeErrorCode::ALL.into_iter().map(KubeErrorCode::as_str));
        for verb in KubeVerb::ALL {
            for result in results() {
                self.calls.remove(&labels(plugin, verb, result));
            }
        }
    }
}

impl KubeCounters {
    /// Counts a call that took `time`.
    pub(super) fn count(&self, verb: KubeVerb, error: Option<&KubeError>, time: Duration) {
        let result = error.map_or("ok", |error| error.code.as_str());
        self.families
            .calls
            .get_or_create(&labels(&self.plugin, verb, result))
            .inc();
        let of_plugin = PluginLabels::of(&self.plugin);
        self.families
            .seconds
            .get_or_create(&of_plugin)
            .observe(time.as_secs_f64());
    }
}

fn labels(plugin: &str, verb: KubeVerb, result: &'static str) -> CallLabels {
    CallLabels {
        plugin: plugin.to_owned(),
        verb: verb.as_str(),
        result,
    }
}
