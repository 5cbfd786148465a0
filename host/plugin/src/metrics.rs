//! The metrics of plugins, resolved once per plugin so that an event costs an addition and no lookup.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use informant_cache::Environment;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::component::manifest::Manifest;
use crate::effects::{EffectCounters, EffectFamilies};
use crate::error::LoadProblem;
use crate::hostcalls::http::{HttpCounters, HttpFamilies};
use crate::hostcalls::kube::{KubeCounters, KubeFamilies};
use crate::hostcalls::kv::{KvCounters, KvFamilies};
use crate::hostcalls::metrics::{MetricSeries, PluginSeries};
use crate::status::PluginState;
use crate::writes::{WriteCounters, WriteFamilies};

/// All metrics of this crate. Cheap to clone.
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
    state_lost: Family<PluginLabels, Counter>,
    index_objects: Family<IndexLabels, Counter>,
    compile_seconds: Histogram,
    artifacts: Family<ArtifactLabels, Counter>,
    kube: KubeFamilies,
    writes: WriteFamilies,
    kv: KvFamilies,
    effects: EffectFamilies,
    /// The plugins' own metrics.
    custom: MetricSeries,
    http: HttpFamilies,
    /// The users of each plugin's series: while a plugin is replaced by another of the same name, there are two.
    users: Mutex<BTreeMap<String, Users>>,
}

/// The users of one plugin's series.
#[derive(Default)]
struct Users {
    handles: usize,
    /// The informers whose events were counted.
    informers: BTreeSet<String>,
}

/// The metrics of one plugin.
pub(crate) struct PluginCounters {
    families: Arc<Families>,
    plugin: Arc<str>,
    pub(crate) seconds: Histogram,
    pub(crate) lag: Histogram,
    pub(crate) instances: Gauge,
    pub(crate) memory: Gauge,
    pub(crate) log_dropped: Counter,
    pub(crate) state_lost: Counter,
}

/// The counters of one plugin's events from one informer: a row per kind of event, a column per result.
#[derive(Clone)]
pub(crate) struct EventCounters([[Counter; RESULTS.len()]; EVENTS.len()]);

/// The counters of objects that one plugin indexed, by result.
pub(crate) struct IndexCounters {
    pub(crate) ok: Counter,
    pub(crate) error: Counter,
    pub(crate) trap: Counter,
    pub(crate) timeout: Counter,
}

/// Label values of events.
const EVENTS: [&str; 4] = ["add", "update", "delete", "sync"];

/// Label values of a call's result.
const RESULTS: [&str; 7] = [
    "ok",
    "requeued",
    "filtered",
    "retryable",
    "permanent",
    "trap",
    "timeout",
];

/// Label values of the reason an instance is rebuilt.
const RESTART_REASONS: [&str; 4] = ["trap", "timeout", "aborted", "init"];

/// Label values of a reload's result.
const RELOAD_RESULTS: [&str; 3] = ["ok", "refused", "rolled-back"];

/// Label values of the result of indexing an object.
const INDEX_RESULTS: [&str; 4] = ["ok", "error", "trap", "timeout"];

/// The label of series that a plugin has one of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct PluginLabels {
    pub(crate) plugin: String,
}

impl PluginLabels {
    pub(crate) fn of(plugin: &str) -> PluginLabels {
        PluginLabels {
            plugin: plugin.to_owned(),
        }
    }
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

/// 1 us to 67 s, by factors of four: from a guest that returns at once to one that waits until its time is over.
fn call_buckets() -> Histogram {
    Histogram::new(exponential_buckets(1e-6, 4.0, 14))
}

/// 10 us to 168 s, by factors of four, and 1 s, so that a service level can be measured.
fn lag_buckets() -> Histogram {
    let (short, long) = (exponential_buckets(1e-5, 4.0, 9), exponential_buckets(2.62144, 4.0, 4));
    Histogram::new(short.chain([1.0]).chain(long))
}

impl PluginMetrics {
    /// Registers the metrics with names that start with `plugin_` and `handler_`; the registry adds its prefix.
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
            state_lost: Family::default(),
            index_objects: Family::default(),
            compile_seconds: Histogram::new(exponential_buckets(0.01, 2.0, 12)),
            artifacts: Family::default(),
            kube: KubeFamilies::new(),
            writes: WriteFamilies::default(),
            kv: KvFamilies::default(),
            effects: EffectFamilies::default(),
            custom: MetricSeries::default(),
            http: HttpFamilies::new(),
            users: Mutex::default(),
        };
        families.register(registry);
        PluginMetrics(Arc::new(families))
    }

    /// The metrics of the plugin `name`. Its series are removed when the last handle is dropped.
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
            state_lost: families.state_lost.get_or_create(&labels).clone(),
        }
    }

    /// Rejects a version whose metrics contradict those of another plugin.
    ///
    /// # Errors
    /// [`LoadProblem::MetricType`].
    pub(crate) fn check_declared(&self, plugin: &str, manifest: &Manifest) -> Result<(), LoadProblem> {
        self.0.custom.check(plugin, manifest)
    }

    /// A component was compiled.
    pub(crate) fn compiled(&self, seconds: f64) {
        self.0.compile_seconds.observe(seconds);
    }

    /// An artifact was looked up: `hit`, `miss` or `corrupt`.
    pub(crate) fn artifact(&self, result: &'static str) {
        self.0.artifacts.get_or_create(&ArtifactLabels { result }).inc();
    }
}

impl Families {
    fn register(&self, registry: &mut Registry) {
        registry.register(
            "handler_events",
            "Events delivered to plugins, by result of the call",
            self.events.clone(),
        );
        registry.register_with_unit(
            "handler",
            "Duration of a call into a plugin",
            Unit::Seconds,
            self.seconds.clone(),
        );
        registry.register_with_unit(
            "handler_lag",
            "Time from receiving an event from the API server until its handler returned",
            Unit::Seconds,
            self.lag.clone(),
        );
        registry.register("plugin_instances", "Running plugin instances", self.instances.clone());
        registry.register(
            "plugin_restarts",
            "Plugin instances rebuilt, by reason",
            self.restarts.clone(),
        );
        registry.register("plugin_reloads", "Plugin reloads, by result", self.reloads.clone());
        registry.register_with_unit(
            "plugin_memory",
            "Linear memory of all instances of a plugin",
            Unit::Bytes,
            self.memory.clone(),
        );
        registry.register(
            "plugin_state",
            "1 for the current state of the plugin, 0 for the others",
            self.state.clone(),
        );
        registry.register(
            "plugin_log_dropped_bytes",
            "Bytes of plugin log output dropped above the limit of a call",
            self.log_dropped.clone(),
        );
        registry.register(
            "plugin_state_lost",
            "Plugin swaps at which the old version's state was lost with its instance",
            self.state_lost.clone(),
        );
        registry.register(
            "plugin_index_objects",
            "Objects indexed by plugins, by result",
            self.index_objects.clone(),
        );
        registry.register_with_unit(
            "plugin_compile",
            "Duration of compiling a component",
            Unit::Seconds,
            self.compile_seconds.clone(),
        );
        registry.register(
            "plugin_artefacts",
            "Lookups of compiled components in the cache, by result",
            self.artifacts.clone(),
        );
        self.kube.register(registry);
        self.writes.register(registry);
        self.kv.register(registry);
        self.effects.register(registry);
        registry.register_collector(Box::new(self.custom.clone()));
        self.http.register(registry);
    }
}

impl Families {
    fn users(&self) -> MutexGuard<'_, BTreeMap<String, Users>> {
        // Changed by single inserts and removes: consistent after any panic.
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the series of the plugin `name`, which had events of `informers`.
    fn forget(&self, name: &str, informers: &BTreeSet<String>) {
        let plugin = || name.to_owned();
        let labels = PluginLabels { plugin: plugin() };
        self.seconds.remove(&labels);
        self.lag.remove(&labels);
        self.instances.remove(&labels);
        self.memory.remove(&labels);
        self.log_dropped.remove(&labels);
        self.state_lost.remove(&labels);
        self.kube.forget(name);
        self.writes.forget(name);
        self.kv.forget(name);
        self.effects.forget(name);
        self.custom.forget(name);
        self.http.forget(name);
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

    /// The counters of its deferred writes.
    pub(crate) fn writes(&self) -> WriteCounters {
        self.families.writes.of(&self.plugin)
    }

    /// The counters of its calls to `kv`.
    pub(crate) fn kv(&self) -> KvCounters {
        self.families.kv.of(&self.plugin)
    }

    /// The counters of its dry runs.
    pub(crate) fn effects(&self) -> EffectCounters {
        self.families.effects.of(&self.plugin)
    }

    /// Its own metrics.
    pub(crate) fn custom(&self, env: &Arc<dyn Environment>) -> Arc<PluginSeries> {
        self.families.custom.of(&self.plugin, env)
    }

    /// The counters of its HTTP requests.
    pub(crate) fn http(&self) -> HttpCounters {
        self.families.http.of(&self.plugin)
    }

    /// The counters of events from the informer `informer`.
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

    /// A reload ended: `ok`, `refused` or `rolled-back`.
    pub(crate) fn reloaded(&self, result: &'static str) {
        let labels = ReloadLabels {
            plugin: self.plugin.to_string(),
            result,
        };
        self.families.reloads.get_or_create(&labels).inc();
    }

    /// Sets the current state.
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
