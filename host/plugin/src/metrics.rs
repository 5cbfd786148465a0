//! The metrics of plugins, resolved once per plugin so that an event costs an addition and no look-up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::hostcalls::kube::{KubeCounters, KubeFamilies};
use crate::status::PluginState;

/// All metrics of this room. Cheap to clone.
#[derive(Clone)]
pub struct PluginMetrics(Arc<Families>);

struct Families {
    events: Family<EventLabels, Counter>,
    seconds: Family<PluginLabels, Histogram, fn() -> Histogram>,
    lag: Family<PluginLabels, Histogram, fn() -> Histogram>,
    instances: Family<PluginLabels, Gauge>,
    restarts: Family<RestartLabels, Counter>,
    reloads: Family<ReloadLabels, Counter>,
    memory: Family<PluginLabels, Gauge>,
    state: Family<StateLabels, Gauge>,
    log_dropped: Family<PluginLabels, Counter>,
    index_objects: Family<IndexLabels, Counter>,
    compile_seconds: Histogram,
    artifacts: Family<ArtifactLabels, Counter>,
    kube: KubeFamilies,
    /// Who uses the series of each plugin: while one is exchanged for another of the same name, two do.
    users: Mutex<BTreeMap<String, Users>>,
}

/// Who uses the series of one plugin.
#[derive(Default)]
struct Users {
    handles: usize,
    /// The informers whose events were counted.
    informers: BTreeSet<String>,
}

/// The handles of one plugin.
pub(crate) struct PluginCounters {
    families: Arc<Families>,
    plugin: Arc<str>,
    pub(crate) seconds: Histogram,
    pub(crate) lag: Histogram,
    pub(crate) instances: Gauge,
    pub(crate) memory: Gauge,
    pub(crate) log_dropped: Counter,
}

/// The counters of one plugin's events from one informer: a row per kind of event, a column per result.
#[derive(Clone)]
pub(crate) struct EventCounters([[Counter; RESULTS.len()]; EVENTS.len()]);

/// The counters of objects that one plugin computed index values of, by how that ended.
pub(crate) struct IndexCounters {
    pub(crate) ok: Counter,
    pub(crate) error: Counter,
    pub(crate) trap: Counter,
    pub(crate) timeout: Counter,
}

/// Kinds of events, as metrics write them.
const EVENTS: [&str; 4] = ["add", "update", "delete", "sync"];

/// Results of a call, as metrics write them.
const RESULTS: [&str; 6] = ["ok", "filtered", "retryable", "permanent", "trap", "timeout"];

/// Why an instance is rebuilt, as metrics write it.
const RESTART_REASONS: [&str; 4] = ["trap", "timeout", "aborted", "init"];

/// How a swap ends, as metrics write it.
const RELOAD_RESULTS: [&str; 3] = ["ok", "refused", "rolled-back"];

/// How indexing an object ends, as metrics write it.
const INDEX_RESULTS: [&str; 4] = ["ok", "error", "trap", "timeout"];

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PluginLabels {
    plugin: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EventLabels {
    plugin: String,
    informer: String,
    event: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RestartLabels {
    plugin: String,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReloadLabels {
    plugin: String,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabels {
    plugin: String,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct IndexLabels {
    plugin: String,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ArtifactLabels {
    result: &'static str,
}

/// 1 us to 4 s, by factors of four: from a guest that returns at once to one that uses up its time.
fn call_buckets() -> Histogram {
    Histogram::new(exponential_buckets(1e-6, 4.0, 12))
}

/// 10 us to 168 s, by factors of four.
fn lag_buckets() -> Histogram {
    Histogram::new(exponential_buckets(1e-5, 4.0, 13))
}

impl PluginMetrics {
    /// Makes the metrics known to `registry`, under names that begin with `plugin_` and `handler_`; the registry adds
    /// its prefix.
    #[must_use]
    pub fn register(registry: &mut Registry) -> PluginMetrics {
        let families = Families {
            events: Family::default(),
            seconds: Family::new_with_constructor(call_buckets),
            lag: Family::new_with_constructor(lag_buckets),
            instances: Family::default(),
            restarts: Family::default(),
            reloads: Family::default(),
            memory: Family::default(),
            state: Family::default(),
            log_dropped: Family::default(),
            index_objects: Family::default(),
            compile_seconds: Histogram::new(exponential_buckets(0.01, 2.0, 12)),
            artifacts: Family::default(),
            kube: KubeFamilies::new(),
            users: Mutex::default(),
        };
        families.register(registry);
        PluginMetrics(Arc::new(families))
    }

    /// The handles of the plugin called `name`. Its series end with the last of them.
    pub(crate) fn plugin(&self, name: &str) -> PluginCounters {
        let families = &self.0;
        families.users().entry(name.to_owned()).or_default().handles += 1;
        let labels = PluginLabels {
            plugin: name.to_owned(),
        };
        PluginCounters {
            families: Arc::clone(families),
            plugin: Arc::from(name),
            seconds: families.seconds.get_or_create(&labels).clone(),
            lag: families.lag.get_or_create(&labels).clone(),
            instances: families.instances.get_or_create(&labels).clone(),
            memory: families.memory.get_or_create(&labels).clone(),
            log_dropped: families.log_dropped.get_or_create(&labels).clone(),
        }
    }

    /// A component was compiled.
    pub(crate) fn compiled(&self, seconds: f64) {
        self.0.compile_seconds.observe(seconds);
    }

    /// An artifact was asked for: `hit`, `miss` or `corrupt`.
    pub(crate) fn artifact(&self, result: &'static str) {
        self.0.artifacts.get_or_create(&ArtifactLabels { result }).inc();
    }
}

impl Families {
    fn register(&self, registry: &mut Registry) {
        registry.register(
            "handler_events",
            "Events handed to plugins, by how the call ended",
            self.events.clone(),
        );
        registry.register_with_unit("handler", "Time of a call", Unit::Seconds, self.seconds.clone());
        registry.register_with_unit(
            "handler_lag",
            "From the frame being read to the handler having returned",
            Unit::Seconds,
            self.lag.clone(),
        );
        registry.register("plugin_instances", "Live instances", self.instances.clone());
        registry.register("plugin_restarts", "Instances rebuilt", self.restarts.clone());
        registry.register(
            "plugin_reloads",
            "Components swapped in, refused, or rolled back",
            self.reloads.clone(),
        );
        registry.register_with_unit(
            "plugin_memory",
            "Linear memory of all instances",
            Unit::Bytes,
            self.memory.clone(),
        );
        registry.register("plugin_state", "1 for the state the plugin is in", self.state.clone());
        registry.register(
            "plugin_log_dropped_bytes",
            "Log that plugins wrote beyond their limit",
            self.log_dropped.clone(),
        );
        registry.register(
            "plugin_index_objects",
            "Objects indexed by plugins",
            self.index_objects.clone(),
        );
        registry.register_with_unit(
            "plugin_compile",
            "Time it took to compile a component",
            Unit::Seconds,
            self.compile_seconds.clone(),
        );
        registry.register(
            "plugin_artefacts",
            "Compiled artifacts looked up in the cache",
            self.artifacts.clone(),
        );
        self.kube.register(registry);
    }
}

impl Families {
    fn users(&self) -> MutexGuard<'_, BTreeMap<String, Users>> {
        // Changed by single inserts and removes: whole after any panic.
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the series of the plugin called `name`, which had events of `informers`.
    fn forget(&self, name: &str, informers: &BTreeSet<String>) {
        let plugin = || name.to_owned();
        let labels = PluginLabels { plugin: plugin() };
        self.seconds.remove(&labels);
        self.lag.remove(&labels);
        self.instances.remove(&labels);
        self.memory.remove(&labels);
        self.log_dropped.remove(&labels);
        self.kube.forget(name);
        for state in PluginState::ALL {
            self.state.remove(&StateLabels {
                plugin: plugin(),
                state: state.as_str(),
            });
        }
        for reason in RESTART_REASONS {
            self.restarts.remove(&RestartLabels {
                plugin: plugin(),
                reason,
            });
        }
        for result in RELOAD_RESULTS {
            self.reloads.remove(&ReloadLabels {
                plugin: plugin(),
                result,
            });
        }
        for result in INDEX_RESULTS {
            self.index_objects.remove(&IndexLabels {
                plugin: plugin(),
                result,
            });
        }
        for (informer, event, result) in informers.iter().flat_map(|informer| {
            EVENTS
                .into_iter()
                .flat_map(move |event| RESULTS.map(|result| (informer, event, result)))
        }) {
            self.events.remove(&EventLabels {
                plugin: plugin(),
                informer: informer.clone(),
                event,
                result,
            });
        }
    }
}

impl Drop for PluginCounters {
    fn drop(&mut self) {
        let mut users = self.families.users();
        let Some(of_plugin) = users.get_mut(&*self.plugin) else {
            return;
        };
        of_plugin.handles -= 1;
        if of_plugin.handles == 0
            && let Some(last) = users.remove(&*self.plugin)
        {
            self.families.forget(&self.plugin, &last.informers);
        }
    }
}

impl PluginCounters {
    pub(crate) fn plugin(&self) -> &Arc<str> {
        &self.plugin
    }

    /// The counters of its calls to the cluster.
    pub(crate) fn kube(&self) -> KubeCounters {
        self.families.kube.of(&self.plugin)
    }

    /// The counters for events from the informer called `informer`.
    pub(crate) fn events_of(&self, informer: &str) -> EventCounters {
        if let Some(users) = self.families.users().get_mut(&*self.plugin) {
            users.informers.insert(informer.to_owned());
        }
        EventCounters(EVENTS.map(|event| {
            RESULTS.map(|result| {
                let labels = EventLabels {
                    plugin: self.plugin.to_string(),
                    informer: informer.to_owned(),
                    event,
                    result,
                };
                self.families.events.get_or_create(&labels).clone()
            })
        }))
    }

    /// An instance was rebuilt because of `reason`.
    pub(crate) fn restarted(&self, reason: &'static str) {
        let labels = RestartLabels {
            plugin: self.plugin.to_string(),
            reason,
        };
        self.families.restarts.get_or_create(&labels).inc();
    }

    /// A swap ended: `ok`, `refused` or `rolled-back`.
    pub(crate) fn reloaded(&self, result: &'static str) {
        let labels = ReloadLabels {
            plugin: self.plugin.to_string(),
            result,
        };
        self.families.reloads.get_or_create(&labels).inc();
    }

    /// The state is `state` now.
    pub(crate) fn state(&self, state: PluginState) {
        for each in PluginState::ALL {
            let labels = StateLabels {
                plugin: self.plugin.to_string(),
                state: each.as_str(),
            };
            self.families.state.get_or_create(&labels).set(i64::from(each == state));
        }
    }

    /// The counters of objects indexed.
    pub(crate) fn index(&self) -> IndexCounters {
        let counter = |result| {
            let labels = IndexLabels {
                plugin: self.plugin.to_string(),
                result,
            };
            self.families.index_objects.get_or_create(&labels).clone()
        };
        IndexCounters {
            ok: counter("ok"),
            error: counter("error"),
            trap: counter("trap"),
            timeout: counter("timeout"),
        }
    }
}

impl EventCounters {
    /// Counts one call. Both names are those of `informant-cache`; others are not counted.
    pub(crate) fn count(&self, event: &str, result: &str) {
        let row = EVENTS.iter().position(|each| *each == event);
        let column = RESULTS.iter().position(|each| *each == result);
        if let (Some(row), Some(column)) = (row, column) {
            self.0[row][column].inc();
        }
    }
}
