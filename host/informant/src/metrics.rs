//! The metrics registry of the process, and the metrics that are collected at scrape time.
//!
//! Each crate counts its own events. What a listener knows already is read here when somebody scrapes, so that it costs
//! nothing otherwise.

mod process;
mod server;
mod text_format;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use informant_cache::listener::ListenerStats;
use informant_cache::{Source, SourceState};
use informant_informer::{InformerMetrics, ReflectorStatus};
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

pub(crate) use server::{ConnectionEnd, ListenerMetrics, ServerMetrics};
pub(crate) use text_format::MetricsFormat;

use self::process::ProcessCollector;
use crate::admin::{resource_or_section, running_in};
use crate::daemon::{CertificateStatus, InformerPhase, PluginPhase, ReloadResult, StatusRegistry};

/// All metrics of the process. Clones share one registry.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    /// Without the prefix.
    process: Arc<Registry>,
    /// Metrics of informers.
    pub informers: InformerMetrics,
    /// Metrics of plugins.
    pub plugins: PluginMetrics,
    /// Metrics of the state database.
    pub state: StateMetrics,
    /// Metrics of the daemon itself.
    pub daemon: DaemonMetrics,
    /// Metrics of the HTTP servers.
    pub(crate) servers: ServerMetrics,
}

/// Metrics of the daemon itself.
#[derive(Clone, Debug, Default)]
pub struct DaemonMetrics {
    discoveries: Family<InformerResult, Counter>,
    loads: Family<PluginResult, Counter>,
    config_reloads: Family<ResultOnly, Counter>,
    admin_busy: Family<LimitOnly, Counter>,
    admin_rejected: Family<ReasonOnly, Counter>,
    admin_reviews: Family<ReviewResult, Counter>,
    certificate_loads: Family<ResultOnly, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitOnly {
    limit: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonOnly {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReviewResult {
    review: &'static str,
    result: &'static str,
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

    /// Counts a configuration change.
    pub(crate) fn config_changed(&self, result: ReloadResult) {
        let result = result.as_str();
        self.config_reloads.get_or_create(&ResultOnly { result }).inc();
    }

    /// Counts a request that was answered `busy`, by the limit it hit.
    pub(crate) fn admin_was_busy(&self, limit: &'static str) {
        self.admin_busy.get_or_create(&LimitOnly { limit }).inc();
    }

    /// Counts a request that was refused because of its `Host` or `Origin`, or of its caller.
    pub(crate) fn admin_rejected(&self, reason: &'static str) {
        self.admin_rejected.get_or_create(&ReasonOnly { reason }).inc();
    }

    /// Counts a question to the API server about a caller: `token` or `access`; `ok`, `denied` or `error`.
    pub(crate) fn admin_reviewed(&self, review: &'static str, result: &'static str) {
        self.admin_reviews.get_or_create(&ReviewResult { review, result }).inc();
    }

    /// Counts a certificate of the admin server that was loaded, or could not be used.
    pub(crate) fn certificate_loaded(&self, good: bool) {
        let result = if good { "ok" } else { "refused" };
        self.certificate_loads.get_or_create(&ResultOnly { result }).inc();
    }

    /// Removes the series of an informer that was removed from a cluster.
    fn forget_informer(&self, informer: &str, cluster: &str) {
        for result in ["ok", "error"] {
            let (informer, cluster) = (informer.to_owned(), cluster.to_owned());
            self.discoveries.remove(&InformerResult {
                informer,
                cluster,
                result,
            });
        }
    }

    /// Removes the series of a plugin.
    pub(crate) fn forget_plugin(&self, plugin: &str) {
        for result in ["ok", "refused"] {
            let plugin = plugin.to_owned();
            self.loads.remove(&PluginResult { plugin, result });
        }
    }

    fn register(&self, registry: &mut Registry) {
        // Created up front, so that a rate sees the first increment.
        for limit in ["streams", "version-waits"] {
            drop(self.admin_busy.get_or_create(&LimitOnly { limit }));
        }
        for reason in ["host", "origin", "unauthenticated", "forbidden", "unavailable"] {
            drop(self.admin_rejected.get_or_create(&ReasonOnly { reason }));
        }
        for review in ["token", "access"] {
            for result in ["ok", "denied", "error"] {
                drop(self.admin_reviews.get_or_create(&ReviewResult { review, result }));
            }
        }
        for result in ["ok", "refused"] {
            drop(self.certificate_loads.get_or_create(&ResultOnly { result }));
        }
        registry.register(
            "informer_discoveries",
            "Discoveries of an informer's resource, by result",
            self.discoveries.clone(),
        );
        registry.register("plugin_loads", "Components loaded or refused", self.loads.clone());
        registry.register(
            "config_reloads",
            "Configuration changes, by result",
            self.config_reloads.clone(),
        );
        registry.register(
            "admin_busy",
            "Admin API requests rejected as busy, by limit",
            self.admin_busy.clone(),
        );
        registry.register(
            "admin_rejected",
            "Admin API requests rejected because of a foreign host or origin, or of their caller",
            self.admin_rejected.clone(),
        );
        registry.register(
            "admin_reviews",
            "Questions to the API server about callers of the admin API, by kind and result",
            self.admin_reviews.clone(),
        );
        registry.register(
            "admin_certificate_loads",
            "Certificates of the admin server loaded or refused",
            self.certificate_loads.clone(),
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
        let servers = ServerMetrics::register(&mut registry);
        let build = Info::new(vec![
            ("version", env!("CARGO_PKG_VERSION")),
            ("contract", crate::CONTRACT),
        ]);
        registry.register("build", "Version and plugin contract of this process", build);
        let mut process = Registry::default();
        process.register_collector(Box::new(ProcessCollector::new()));
        Self {
            registry: Arc::new(Mutex::new(registry)),
            process: Arc::new(process),
            informers,
            plugins,
            state,
            daemon,
            servers,
        }
    }

    /// Removes the series of an informer that was removed from a cluster.
    pub(crate) fn forget_informer(&self, informer: &str, cluster: &str) {
        self.daemon.forget_informer(informer, cluster);
        self.informers.forget_informer(informer, cluster);
    }

    /// Collects the statistics of everything in the status registry at each scrape.
    pub(crate) fn watch(&self, registry: StatusRegistry) {
        self.lock().register_collector(Box::new(StatusCollector(registry)));
    }

    /// All metrics as OpenMetrics text.
    ///
    /// # Errors
    /// Never in practice: writing to a string does not fail.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut out = String::new();
        text::encode_registry(&mut out, &self.lock())?;
        text::encode_registry(&mut out, &self.process)?;
        text::encode_eof(&mut out)?;
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

/// Collects listener statistics at scrape time.
#[derive(Debug)]
struct StatusCollector(StatusRegistry);

/// A statistic of one plugin's listener.
type Reading = fn(&ListenerStats) -> u64;

/// Gauges by plugin: name, help and statistic.
const GAUGES: [(&str, &str, Reading); 9] = [
    (
        "listener_pending",
        "Events waiting for the plugin, including those in back-off",
        |stats| stats.pending as u64,
    ),
    (
        "listener_failing",
        "Keys under retry: they failed, and will be delivered again",
        |stats| stats.failing as u64,
    ),
    (
        "listener_keyed",
        "1 while new events are coalesced into pending events of the same key",
        |stats| u64::from(stats.keyed),
    ),
    (
        "listener_bytes",
        "Bytes of object states that only this listener holds",
        |stats| stats.bytes as u64,
    ),
    (
        "listener_requeues",
        "Keys for which the handler asked for another call",
        |stats| stats.requeues as u64,
    ),
    (
        "listener_requeues_slowed",
        "Requeues that are spaced because the object does not change",
        |stats| stats.slowed as u64,
    ),
    (
        "listener_keys_spaced",
        "Keys with events that wait for min-interval",
        |stats| stats.spaced as u64,
    ),
    ("listener_rate_held", "1 while deliveries wait for max-rate", |stats| {
        u64::from(stats.held_by_rate)
    }),
    ("dead_letters", "Dead letters that can be requeued", |stats| {
        stats.dead_letters as u64
    }),
];

/// Counters by plugin.
const COUNTERS: [(&str, &str, Reading); 20] = [
    ("listener_accepted", "Changes accepted from informers", |stats| {
        stats.counters.accepted
    }),
    (
        "listener_shown",
        "Events created from the cache: initial adds, replays, resyncs",
        |stats| stats.counters.shown,
    ),
    (
        "listener_coalesced",
        "Events coalesced into an older event of the same key",
        |stats| stats.counters.coalesced,
    ),
    (
        "listener_vanished",
        "Objects deleted before their add was delivered",
        |stats| stats.counters.vanished,
    ),
    (
        "listener_skipped",
        "Failures skipped by on-failure = \"skip\"",
        |stats| stats.counters.skipped,
    ),
    (
        "listener_resync_ticks_skipped",
        "Resyncs skipped because one was still running",
        |stats| stats.counters.resync_ticks_skipped,
    ),
    (
        "listener_olds_dropped",
        "Old states dropped at the byte limit",
        |stats| stats.counters.olds_dropped,
    ),
    (
        "listener_deletes_cut",
        "Deletes reduced to metadata at the byte limit",
        |stats| stats.counters.deletes_cut,
    ),
    (
        "listener_discarded",
        "Events dropped with their source or at shutdown",
        |stats| stats.counters.discarded,
    ),
    (
        "listener_deletes_discarded",
        "Deletes among the events dropped with their source or at shutdown",
        |stats| stats.counters.deletes_discarded,
    ),
    (
        "listener_retries_limited",
        "Retries delayed by the limit on retries per second",
        |stats| stats.counters.retries_limited,
    ),
    ("listener_spaced", "Events that waited for min-interval", |stats| {
        stats.counters.spaced
    }),
    (
        "listener_intervals_cut",
        "Intervals that ended early at the limit of remembered calls",
        |stats| stats.counters.intervals_cut,
    ),
    (
        "listener_rate_holds",
        "Times that deliveries had to wait for max-rate",
        |stats| stats.counters.rate_holds,
    ),
    (
        "listener_left_to_cursor",
        "Changes of keys that a running initial list or replay had not delivered yet",
        |stats| stats.counters.left_to_cursor,
    ),
    (
        "listener_unattached",
        "Changes of sources before their initial list, which includes them",
        |stats| stats.counters.unattached,
    ),
    (
        "listener_refused",
        "Changes that arrived after the plugin began to stop",
        |stats| stats.counters.refused,
    ),
    (
        "listener_late",
        "Results of calls whose source had been removed",
        |stats| stats.counters.late,
    ),
    (
        "listener_requeues_dropped",
        "Requeues dropped because the object is gone, or at the limit of those of deletes",
        |stats| stats.counters.requeues_dropped,
    ),
    (
        "dead_letters_evicted",
        "Dead letters dropped at the limit of their number",
        |stats| stats.counters.dead_letters_evicted,
    ),
];

impl Collector for StatusCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let plugins = self.0.plugins();
        let running = plugins.iter().filter_map(|entry| match entry.phase() {
            PluginPhase::Running(plugin) => {
                let stats = plugin.listener().stats();
                let oldest = stats
                    .oldest_event
                    .map_or(0.0, |read| (plugin.now() - read).as_secs_f64());
                Some((entry.name.as_str(), stats, oldest))
            }
            _ => None,
        });
        let stats: Vec<_> = running.collect();
        let help = "Age of the oldest event that the plugin has not accepted; 0 without one";
        let oldest = "listener_oldest_pending_seconds";
        let mut family = encoder.encode_descriptor(oldest, help, None, MetricType::Gauge)?;
        for (plugin, _, age) in &stats {
            ConstGauge::new(*age).encode(family.encode_family(&[("plugin", *plugin)])?)?;
        }
        for (name, help, read) in GAUGES {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (plugin, stats, _) in &stats {
                gauge(read(stats)).encode(family.encode_family(&[("plugin", *plugin)])?)?;
            }
        }
        for (name, help, read) in COUNTERS {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (plugin, stats, _) in &stats {
                ConstCounter::new(read(stats)).encode(family.encode_family(&[("plugin", *plugin)])?)?;
            }
        }
        self.encode_reloads(&mut encoder)?;
        self.encode_closed_hosts(&mut encoder)?;
        let help = "Sections of config.toml whose newest version is not running";
        let pending = encoder.encode_descriptor("config_pending_sections", help, None, MetricType::Gauge)?;
        gauge(self.0.configuration().waiting.len() as u64).encode(pending)?;
        let help = "Whether the newest config.toml is applied completely";
        let applied = encoder.encode_descriptor("config_last_reload_successful", help, None, MetricType::Gauge)?;
        gauge(self.0.configuration().is_applied().into()).encode(applied)?;
        self.encode_ages(&mut encoder)?;
        self.encode_degraded(&mut encoder)?;
        self.encode_certificate(&mut encoder)?;
        self.encode_starting(&mut encoder)
    }
}

/// An age of a source; none before it starts.
type Age = fn(&ReflectorStatus) -> Option<Duration>;

/// Ages of sources: name, help and value.
const AGES: [(&str, &str, Age); 2] = [
    (
        "source_event_age_seconds",
        "Seconds since the watch last delivered an event or a bookmark; the maximum over the informer's sources",
        |status| status.last_event_age,
    ),
    (
        "source_bookmark_age_seconds",
        "Seconds since the last bookmark, which arrives about once a minute; the maximum over the informer's sources",
        |status| status.bookmark_age,
    ),
];

impl StatusCollector {
    /// The ages of the sources of each informer.
    fn encode_ages(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut statuses: BTreeMap<(String, String), Vec<ReflectorStatus>> = BTreeMap::new();
        for entry in self.0.informers() {
            for (cluster, status) in entry.by_cluster() {
                let sources = running_in(&status).into_iter().map(|source| source.status());
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

    /// Whether each plugin runs the newest version of its file and its section.
    fn encode_reloads(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "0 while the plugin's newest version was refused or rolled back and an older one runs";
        let name = "plugin_last_reload_successful";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for entry in self.0.plugins() {
            if let PluginPhase::Running(plugin) = entry.phase() {
                let status = plugin.status();
                let refused = status.last_reload.is_some_and(|reload| reload.refused.is_some());
                let successful = !refused && status.rolled_back.is_none();
                gauge(successful.into()).encode(family.encode_family(&[("plugin", entry.name.as_str())])?)?;
            }
        }
        Ok(())
    }

    /// The hosts that are closed to each plugin, with their ports.
    fn encode_closed_hosts(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Seconds until a host that asked for a pause receives requests of the plugin again";
        let name = "plugin_http_closed_seconds";
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for entry in self.0.plugins() {
            if let PluginPhase::Running(plugin) = entry.phase() {
                for closed in plugin.status().closed_hosts {
                    let labels = [("plugin", entry.name.as_str()), ("host", closed.host.as_str())];
                    ConstGauge::new(closed.left.as_secs_f64()).encode(family.encode_family(&labels)?)?;
                }
            }
        }
        Ok(())
    }

    /// The sources that are in trouble, by name, so that an alert tells which, and informers that have none because of
    /// trouble. Their number is bounded by the watches of an informer; a series ends with the trouble.
    fn encode_degraded(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "1 for each source whose watch is down, or that cannot be listed";
        let mut family = encoder.encode_descriptor("source_degraded", help, None, MetricType::Gauge)?;
        for entry in self.0.informers() {
            let statuses = entry.by_cluster();
            for (cluster, status) in &statuses {
                let state = match &status.phase {
                    InformerPhase::Discovering { last_error: Some(_) } => "Discovering",
                    InformerPhase::Refused { .. } => "Refused",
                    _ => continue,
                };
                let resource = status.section.resource.value.text();
                let labels = [
                    ("informer", entry.name.as_str()),
                    ("cluster", cluster.as_str()),
                    ("resource", resource.as_str()),
                    ("namespace", ""),
                    ("state", state),
                ];
                gauge(1).encode(family.encode_family(&labels)?)?;
            }
            for source in self.0.sources(&entry.name).iter().filter(|source| is_degraded(source)) {
                let info = source.info();
                let Some(status) = statuses.get(&info.cluster) else {
                    continue;
                };
                let resource = resource_or_section(status, source);
                let labels = [
                    ("informer", entry.name.as_str()),
                    ("cluster", info.cluster.as_str()),
                    ("resource", resource.as_str()),
                    ("namespace", info.namespace.as_deref().unwrap_or_default()),
                    ("state", source.state().as_str()),
                ];
                gauge(1).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    /// Whether the admin server's certificate is the one in its files, and when it expires.
    fn encode_certificate(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let status = self.0.configuration().certificate.clone();
        let Some(CertificateStatus { expires, problem }) = status else {
            return Ok(());
        };
        let help = "Whether the certificate of the admin server is the one in its files, and has not expired";
        let name = "admin_certificate_last_load_successful";
        let family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        gauge(problem.is_none().into()).encode(family)?;
        let Some(expires) = expires else { return Ok(()) };
        let help = "When the certificate of the admin server expires, in seconds since 1970";
        let name = "admin_certificate_expiry_timestamp_seconds";
        let family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(expires.as_second()).encode(family)
    }

    /// Informers and plugins that are not running, and so have no metrics of their own.
    fn encode_starting(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let help = "1 while discovery of the informer's resource has not succeeded";
        let mut family = encoder.encode_descriptor("informer_discovering", help, None, MetricType::Gauge)?;
        for entry in self.0.informers() {
            for (cluster, status) in entry.by_cluster() {
                let discovering = matches!(status.phase, InformerPhase::Discovering { .. });
                let labels = [("informer", entry.name.as_str()), ("cluster", cluster.as_str())];
                gauge(u64::from(discovering)).encode(family.encode_family(&labels)?)?;
            }
        }
        let help = "1 while the plugin's component is refused and no older one is running";
        let mut family = encoder.encode_descriptor("plugin_refused", help, None, MetricType::Gauge)?;
        for entry in self.0.plugins() {
            let refused = matches!(entry.phase(), PluginPhase::Refused { .. });
            gauge(u64::from(refused)).encode(family.encode_family(&[("plugin", entry.name.as_str())])?)?;
        }
        Ok(())
    }
}

/// A first list in progress is no trouble yet.
fn is_degraded(source: &Source) -> bool {
    match source.state() {
        SourceState::Live => false,
        SourceState::Syncing => source.status().last_error.is_some(),
        _ => true,
    }
}

fn gauge(value: u64) -> ConstGauge<i64> {
    ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX))
}
