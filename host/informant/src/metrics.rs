//! The registry of the process, and the numbers that are read when somebody scrapes.
//!
//! The rooms count their own events; what a listener knows already is read here at scrape time, so that it costs
//! nothing while nobody looks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use informant_cache::listener::ListenerStats;
use informant_informer::{InformerMetrics, SourceStatus};
use informant_plugin_host::PluginMetrics;
use informant_state::StateMetrics;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use crate::admin::running_in;
use crate::daemon::{Board, InformerPhase, PluginPhase, ReloadResult};
use crate::version;

/// All metrics of the process. A clone is the same registry.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    /// Those of the informer room.
    pub informers: InformerMetrics,
    /// Those of the plugin room.
    pub plugins: PluginMetrics,
    /// Those of the state database.
    pub state: StateMetrics,
    /// Those of this room.
    pub daemon: DaemonMetrics,
}

/// What the daemon itself counts.
#[derive(Clone, Debug, Default)]
pub struct DaemonMetrics {
    discoveries: Family<InformerResult, Counter>,
    loads: Family<PluginResult, Counter>,
    config_reloads: Family<ResultOnly, Counter>,
    admin_busy: Family<LimitOnly, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitOnly {
    limit: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InformerResult {
    informer: String,
    cluster: String,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PluginResult {
    plugin: String,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultOnly {
    result: &'static str,
}

impl DaemonMetrics {
    pub(crate) fn discovered(&self, informer: &str, cluster: &str, good: bool) {
        let result = if good { "ok" } else { "error" };
        self.discoveries
            .get_or_create(&InformerResult {
                informer: informer.to_owned(),
                cluster: cluster.to_owned(),
                result,
            })
            .inc();
    }

    pub(crate) fn loaded(&self, plugin: &str, good: bool) {
        let result = if good { "ok" } else { "refused" };
        self.loads
            .get_or_create(&PluginResult {
                plugin: plugin.to_owned(),
                result,
            })
            .inc();
    }

    /// The configuration changed.
    pub(crate) fn config_changed(&self, result: ReloadResult) {
        let result = result.as_str();
        self.config_reloads.get_or_create(&ResultOnly { result }).inc();
    }

    /// A question was answered `busy`, at this limit.
    pub(crate) fn admin_was_busy(&self, limit: &'static str) {
        self.admin_busy.get_or_create(&LimitOnly { limit }).inc();
    }

    /// The informer is gone from the cluster, and so are its series.
    pub(crate) fn forget_informer(&self, informer: &str, cluster: &str) {
        for result in ["ok", "error"] {
            let (informer, cluster) = (informer.to_owned(), cluster.to_owned());
            self.discoveries.remove(&InformerResult {
                informer,
                cluster,
                result,
            });
        }
    }

    /// The plugin is gone, and so are its series.
    pub(crate) fn forget_plugin(&self, plugin: &str) {
        for result in ["ok", "refused"] {
            let plugin = plugin.to_owned();
            self.loads.remove(&PluginResult { plugin, result });
        }
    }

    fn register(&self, registry: &mut Registry) {
        // There from the start, so that a rate over them sees the first.
        for limit in ["streams", "version-waits"] {
            drop(self.admin_busy.get_or_create(&LimitOnly { limit }));
        }
        registry.register(
            "informer_discoveries",
            "Times the API server was asked what a resource is",
            self.discoveries.clone(),
        );
        registry.register(
            "plugin_loads",
            "Components loaded at start, or refused",
            self.loads.clone(),
        );
        registry.register(
            "config_reloads",
            "Changes of the configuration seen, by what became of them",
            self.config_reloads.clone(),
        );
        registry.register(
            "admin_busy",
            "Questions to the admin API that were answered busy, by the limit that was reached",
            self.admin_busy.clone(),
        );
    }
}

impl Metrics {
    /// A registry with all metrics in it.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("informant");
        let informers = InformerMetrics::register(&mut registry);
        let plugins = PluginMetrics::register(&mut registry);
        let state = StateMetrics::register(&mut registry);
        let daemon = DaemonMetrics::default();
        daemon.register(&mut registry);
        let build = Info::new(vec![
            ("version", env!("CARGO_PKG_VERSION")),
            ("contract", version::CONTRACT),
        ]);
        registry.register("build", "What this process is", build);
        Self {
            registry: Arc::new(Mutex::new(registry)),
            informers,
            plugins,
            state,
            daemon,
        }
    }

    /// Lets what is on the board be read at each scrape.
    pub(crate) fn watch(&self, board: Board) {
        self.lock().register_collector(Box::new(BoardCollector(board)));
    }

    /// All metrics as OpenMetrics text.
    ///
    /// # Errors
    /// Never in practice: writing to a string does not fail.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut out = String::new();
        text::encode(&mut out, &self.lock())?;
        Ok(out)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

/// Reads listeners when somebody scrapes.
#[derive(Debug)]
struct BoardCollector(Board);

/// A number of one plugin's listener.
type Reading = fn(&ListenerStats) -> u64;

/// Gauges by plugin: name, help, and where the number is.
const GAUGES: [(&str, &str, Reading); 5] = [
    (
        "listener_pending",
        "Events that wait for the plugin, those in back-off included",
        |stats| stats.pending as u64,
    ),
    ("listener_failing", "Keys in back-off", |stats| stats.failing as u64),
    (
        "listener_keyed",
        "1 while new events fold into waiting ones of their key",
        |stats| u64::from(stats.keyed),
    ),
    (
        "listener_bytes",
        "Bytes of states that only this listener keeps",
        |stats| stats.bytes as u64,
    ),
    ("dead_letters", "Events that failed for good and are listed", |stats| {
        stats.dead_letters as u64
    }),
];

/// Counters by plugin.
const COUNTERS: [(&str, &str, Reading); 14] = [
    ("listener_accepted", "Changes taken from informers", |stats| {
        stats.counters.accepted
    }),
    (
        "listener_shown",
        "Events made from the cache: initial adds, replays, resyncs",
        |stats| stats.counters.shown,
    ),
    (
        "listener_coalesced",
        "Events folded into an older one of their key",
        |stats| stats.counters.coalesced,
    ),
    (
        "listener_vanished",
        "Objects deleted before their add was delivered",
        |stats| stats.counters.vanished,
    ),
    (
        "listener_skipped",
        "Failures passed over by on-failure = \"skip\"",
        |stats| stats.counters.skipped,
    ),
    (
        "listener_resync_ticks_skipped",
        "Resyncs left out because one still ran",
        |stats| stats.counters.resync_ticks_skipped,
    ),
    (
        "listener_olds_dropped",
        "Old states dropped at the limit of bytes",
        |stats| stats.counters.olds_dropped,
    ),
    (
        "listener_deletes_cut",
        "Deletes cut to metadata at the limit of bytes",
        |stats| stats.counters.deletes_cut,
    ),
    (
        "listener_discarded",
        "Events dropped with their source or at the end of the process",
        |stats| stats.counters.discarded,
    ),
    (
        "listener_left_to_cursor",
        "Changes of keys that a running initial list or replay was yet to show",
        |stats| stats.counters.left_to_cursor,
    ),
    (
        "listener_unattached",
        "Changes of sources whose first list was not complete, which will show them",
        |stats| stats.counters.unattached,
    ),
    (
        "listener_refused",
        "Changes that came after the plugin had begun to stop",
        |stats| stats.counters.refused,
    ),
    ("listener_late", "Answers to calls whose source had gone", |stats| {
        stats.counters.late
    }),
    (
        "dead_letters_evicted",
        "Dead letters dropped at the limit of their number",
        |stats| stats.counters.dead_letters_evicted,
    ),
];

impl Collector for BoardCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let plugins = self.0.plugins();
        let running = plugins.iter().filter_map(|entry| match entry.phase() {
            PluginPhase::Running(plugin) => Some((entry.name.as_str(), plugin.listener().stats())),
            _ => None,
        });
        let stats: Vec<_> = running.collect();
        for (name, help, read) in GAUGES {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (plugin, stats) in &stats {
                gauge(read(stats)).encode(family.encode_family(&[("plugin", *plugin)])?)?;
            }
        }
        for (name, help, read) in COUNTERS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (plugin, stats) in &stats {
                ConstCounter::new(read(stats)).encode(family.encode_family(&[("plugin", *plugin)])?)?;
            }
        }
        self.encode_ages(&mut encoder)?;
        self.encode_starting(&mut encoder)
    }
}

/// An age of a source; none before it began.
type Age = fn(&SourceStatus) -> Option<Duration>;

/// How long ago sources were heard of: name, help, and where the age is.
const AGES: [(&str, &str, Age); 2] = [
    (
        "source_event_age_seconds",
        "Seconds since the watch last brought an event or a bookmark; of several sources, the longest",
        |status| status.last_event_age,
    ),
    (
        "source_bookmark_age_seconds",
        "Seconds since the last bookmark, which comes about once a minute; of several sources, the longest",
        |status| status.bookmark_age,
    ),
];

impl BoardCollector {
    /// How long ago the sources of each informer were heard of.
    fn encode_ages(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut statuses: BTreeMap<(String, String), Vec<SourceStatus>> = BTreeMap::new();
        for entry in self.0.informers() {
            for (cluster, place) in entry.places() {
                let sources = running_in(&place).into_iter().map(|source| source.status());
                statuses.insert((entry.name.clone(), cluster), sources.collect());
            }
        }
        for (name, help, read) in AGES {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for ((informer, cluster), statuses) in &statuses {
                if let Some(age) = statuses.iter().filter_map(read).max() {
                    let labels = [("informer", informer.as_str()), ("cluster", cluster.as_str())];
                    ConstGauge::new(age.as_secs_f64()).encode(family.encode_family(&labels)?)?;
                }
            }
        }
        Ok(())
    }

    /// What is not running, and so shows in nobody else's metrics.
    fn encode_starting(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "1 while the API server has not told what the informer's resource is";
        let mut family = encoder.encode_descriptor("informer_discovering", help, None, MetricType::Gauge)?;
        for entry in self.0.informers() {
            for (cluster, place) in entry.places() {
                let discovering = matches!(place.phase, InformerPhase::Discovering { .. });
                let labels = [("informer", entry.name.as_str()), ("cluster", cluster.as_str())];
                gauge(u64::from(discovering)).encode(family.encode_family(&labels)?)?;
            }
        }
        let help = "1 while the plugin's component is refused and no older one runs";
        let mut family = encoder.encode_descriptor("plugin_refused", help, None, MetricType::Gauge)?;
        for entry in self.0.plugins() {
            let refused = matches!(entry.phase(), PluginPhase::Refused { .. });
            gauge(u64::from(refused)).encode(family.encode_family(&[("plugin", entry.name.as_str())])?)?;
        }
        Ok(())
    }
}

fn gauge(value: u64) -> ConstGauge<i64> {
    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX))
}
