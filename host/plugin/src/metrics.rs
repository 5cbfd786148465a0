//! The metrics of plugins, resolved once per plugin so that an event costs an addition and no lookup.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::artifacts::ArtifactMetrics;
use crate::capability::Capabilities;
use crate::effects::EffectSeries;
use crate::engine::cpu_meter::CpuNanos;
use crate::series::{FamilyOf, Labeled, Live, Series, SeriesSet};
use crate::status::PluginState;
use crate::sync::lock;

/// All metrics of this crate. Cheap to clone.
#[derive(Clone)]
pub struct PluginMetrics {
    plugins: Live<PluginSeries>,
    pub(crate) effects: Live<EffectSeries>,
    pub(crate) capabilities: Capabilities,
    pub(crate) artifacts: ArtifactMetrics,
    pub(crate) loads_waiting: Gauge,
}

/// The metrics of one plugin. Its series end with the last clone.
#[derive(Clone)]
pub(crate) struct PluginCounters {
    plugin: Arc<str>,
    series: Arc<PluginSeries>,
}

/// The series of one plugin.
pub(crate) struct PluginSeries {
    events: EventSeries,
    pub(crate) seconds: Histogram,
    pub(crate) lag: Histogram,
    pub(crate) instances: Gauge,
    restarts: Labeled<1, Counter>,
    reloads: Labeled<1, Counter>,
    /// What the calls took on the CPU.
    pub(crate) cpu: Arc<CpuNanos>,
    pub(crate) memory: Gauge,
    /// Calls that were denied memory and returned.
    pub(crate) memory_denied: Counter,
    state: Labeled<1, Gauge>,
    pub(crate) state_lost: Counter,
    index_objects: Labeled<1, Counter>,
    timer_missed: Labeled<1, Counter>,
    timer_success: Labeled<1, Gauge>,
}

/// The counters of one plugin's events from one informer: a row per kind of event, a column per result. Each plugin has
/// them for each of its informers, so they are in one piece and name nothing.
#[derive(Clone, Default)]
pub(crate) struct EventCounters(Arc<[[AtomicU64; RESULTS.len()]; EVENTS.len()]>);

/// The counters of one plugin's events, by informer.
#[derive(Default)]
struct EventSeries(Mutex<BTreeMap<Box<str>, EventCounters>>);

/// The counters of objects that one plugin indexed, by result.
pub(crate) struct IndexCounters {
    pub(crate) ok: Counter,
    pub(crate) error: Counter,
    pub(crate) trap: Counter,
    pub(crate) timeout: Counter,
}

/// Label values of events, in the order of the output.
const EVENTS: [&str; 5] = ["add", "delete", "sync", "timer", "update"];

/// Label values of a call's result, in the order of the output.
const RESULTS: [&str; 8] = [
    "filtered",
    "not-ready",
    "ok",
    "permanent",
    "requeued",
    "retryable",
    "timeout",
    "trap",
];

/// 1 us to 67 s, by factors of four: from a guest that returns at once to one that waits until its time is over.
fn call_buckets() -> Histogram {
    Histogram::new(exponential_buckets(1e-6, 4.0, 14))
}

/// 10 us to 168 s, by factors of four, and 1 s, so that a service level can be measured.
fn lag_buckets() -> Histogram {
    let (short, long) = (exponential_buckets(1e-5, 4.0, 9), exponential_buckets(2.62144, 4.0, 4));
    Histogram::new(short.chain([1.0]).chain(long))
}

impl Default for PluginSeries {
    fn default() -> PluginSeries {
        PluginSeries {
            events: EventSeries::default(),
            seconds: call_buckets(),
            lag: lag_buckets(),
            instances: Gauge::default(),
            restarts: Labeled::new(["reason"]),
            reloads: Labeled::new(["result"]),
            cpu: Arc::default(),
            memory: Gauge::default(),
            memory_denied: Counter::default(),
            state: Labeled::new(["state"]),
            state_lost: Counter::default(),
            index_objects: Labeled::new(["result"]),
            timer_missed: Labeled::new(["timer"]),
            timer_success: Labeled::new(["timer"]),
        }
    }
}

impl SeriesSet for PluginSeries {
    const FAMILIES: &'static [FamilyOf<PluginSeries>] = &[
        FamilyOf::new(
            "handler_events",
            "Events delivered to plugins, by result of the call",
            |of| &of.events,
        ),
        FamilyOf::with_unit("handler", "Duration of a call into a plugin", Unit::Seconds, |of| {
            &of.seconds
        }),
        FamilyOf::with_unit(
            "handler_lag",
            "Time from receiving an event from the API server until its handler returned",
            Unit::Seconds,
            |of| &of.lag,
        ),
        FamilyOf::new("plugin_instances", "Running plugin instances", |of| &of.instances),
        FamilyOf::new("plugin_restarts", "Plugin instances rebuilt, by reason", |of| {
            &of.restarts
        }),
        FamilyOf::new("plugin_reloads", "Plugin reloads, by result", |of| &of.reloads),
        FamilyOf::with_unit(
            "plugin_cpu",
            "CPU time of the calls into a plugin, and of what its host functions did at once; estimated from some calls",
            Unit::Seconds,
            |of| &of.cpu,
        ),
        FamilyOf::with_unit(
            "plugin_memory",
            "Linear memory of all instances of a plugin",
            Unit::Bytes,
            |of| &of.memory,
        ),
        FamilyOf::new(
            "plugin_memory_denied",
            "Calls of a plugin that were denied memory above its limit and still returned",
            |of| &of.memory_denied,
        ),
        FamilyOf::new(
            "plugin_state",
            "1 for the current state of the plugin, 0 for the others",
            |of| &of.state,
        ),
        FamilyOf::new(
            "plugin_state_lost",
            "Plugin swaps at which the old version's state was lost with its instance",
            |of| &of.state_lost,
        ),
        FamilyOf::new("plugin_index_objects", "Objects indexed by plugins, by result", |of| {
            &of.index_objects
        }),
        FamilyOf::new(
            "plugin_timer_missed",
            "Runs of timers that were not made when they were due",
            |of| &of.timer_missed,
        ),
        FamilyOf::with_unit(
            "plugin_timer_last_success_timestamp",
            "When a run of a timer last succeeded, since 1970",
            Unit::Seconds,
            |of| &of.timer_success,
        ),
    ];
}

impl PluginMetrics {
    /// Registers the metrics with names that start with `plugin_` and `handler_`; the registry adds its prefix.
    #[must_use]
    pub fn register(registry: &mut Registry) -> PluginMetrics {
        let metrics = PluginMetrics {
            plugins: Live::default(),
            effects: Live::default(),
            capabilities: Capabilities::default(),
            artifacts: ArtifactMetrics::register(registry),
            loads_waiting: Gauge::default(),
        };
        registry.register(
            "plugin_loads_waiting",
            "Plugins that wait until others are loaded",
            metrics.loads_waiting.clone(),
        );
        registry.register_collector(Box::new(metrics.plugins.clone()));
        registry.register_collector(Box::new(metrics.effects.clone()));
        metrics.capabilities.register(registry);
        metrics
    }

    pub(crate) fn plugin(&self, name: &str) -> PluginCounters {
        let plugin = Arc::from(name);
        PluginCounters {
            series: self.plugins.of(&plugin),
            plugin,
        }
    }
}

impl Deref for PluginCounters {
    type Target = PluginSeries;

    fn deref(&self) -> &PluginSeries {
        &self.series
    }
}

impl PluginCounters {
    pub(crate) fn plugin(&self) -> &Arc<str> {
        &self.plugin
    }
}

impl PluginSeries {
    /// The counters of events from the informer `informer`.
    pub(crate) fn events_of(&self, informer: &str) -> EventCounters {
        lock(&self.events.0).entry(informer.into()).or_default().clone()
    }

    /// Runs of a timer were not made when they were due.
    pub(crate) fn timer_missed(&self, timer: &str, missed: u32) {
        if missed > 0 {
            self.timer_missed.of([timer.to_owned()]).inc_by(missed.into());
        }
    }

    /// A run of a timer has succeeded.
    pub(crate) fn timer_succeeded(&self, timer: &str, unix_seconds: i64) {
        self.timer_success.of([timer.to_owned()]).set(unix_seconds);
    }

    /// An instance was rebuilt because of `reason`: `trap`, `memory`, `timeout` or `init`.
    pub(crate) fn restarted(&self, reason: &'static str) {
        self.restarts.of([reason]).inc();
    }

    /// A reload ended: `ok`, `refused` or `rolled-back`.
    pub(crate) fn reloaded(&self, result: &'static str) {
        self.reloads.of([result]).inc();
    }

    pub(crate) fn state(&self, state: PluginState) {
        for each in PluginState::ALL {
            self.state.of([each.as_str()]).set(i64::from(each == state));
        }
    }

    /// The last calls of a running plugin have all failed, or one has succeeded since.
    pub(crate) fn failing(&self, is_failing: bool) {
        let (before, after) = match is_failing {
            true => (PluginState::Running, PluginState::Failing),
            false => (PluginState::Failing, PluginState::Running),
        };
        // Any other state stays, and follows when it changes.
        if self.state.of([before.as_str()]).get() == 1 {
            self.state(after);
        }
    }

    pub(crate) fn index(&self) -> IndexCounters {
        let counter = |result: &'static str| self.index_objects.of([result]);
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
            self.0[row][column].fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Series for Arc<CpuNanos> {
    fn metric_type(&self) -> MetricType {
        MetricType::Counter
    }

    fn encode_of(&self, plugin: &str, family: &mut MetricEncoder<'_>) -> fmt::Result {
        let seconds = ConstCounter::new(self.get().as_secs_f64());
        seconds.encode(family.encode_family(&[("plugin", plugin)])?)
    }
}

impl Series for EventSeries {
    fn metric_type(&self) -> MetricType {
        MetricType::Counter
    }

    fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }

    fn encode_of(&self, plugin: &str, family: &mut MetricEncoder<'_>) -> fmt::Result {
        for (informer, counters) in &*lock(&self.0) {
            for (event, row) in EVENTS.iter().zip(&*counters.0) {
                for (result, count) in RESULTS.iter().zip(row) {
                    let labels = [
                        ("plugin", plugin),
                        ("informer", informer),
                        ("event", event),
                        ("result", result),
                    ];
                    let count = ConstCounter::new(count.load(Ordering::Relaxed));
                    count.encode(family.encode_family(&labels)?)?;
                }
            }
        }
        Ok(())
    }
}
