//! The metrics registry of the process, and the metrics of the daemon. Each crate counts its own events.

mod process;
mod server;
mod text_format;

use std::fmt;
use std::sync::{Arc, LazyLock, Mutex};

use informant_informer::InformerMetrics;
use informant_plugin_host::PluginMetrics;
use informant_state::{SharedMetrics, StateMetrics};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

pub(crate) use server::{ConnectionEnd, ListenerMetrics, ServerMetrics};
pub(crate) use text_format::MetricsFormat;

use self::process::ProcessCollector;
pub(crate) use self::process::resident_bytes;

use crate::sync::lock;

/// All metrics of the process. Clones share one registry.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    /// Without the prefix.
    process: Arc<Registry>,
    pub informers: InformerMetrics,
    pub plugins: PluginMetrics,
    pub state: StateMetrics,
    pub shared_state: SharedMetrics,
    pub daemon: DaemonMetrics,
    pub(crate) servers: ServerMetrics,
}

/// The log lines that are kept for `informant plugin logs`.
#[derive(Debug, Default)]
pub(crate) struct KeptLines {
    pub(crate) bytes: Gauge,
    pub(crate) dropped: Counter,
}

/// Global, because the log and the lines are.
pub(crate) static KEPT_LINES: LazyLock<KeptLines> = LazyLock::new(KeptLines::default);

#[derive(Clone, Debug, Default)]
pub struct DaemonMetrics {
    discoveries: Family<InformerResult, Counter>,
    loads: Family<PluginResult, Counter>,
    config_reloads: Family<ResultOnly, Counter>,
    admin_busy: Family<LimitOnly, Counter>,
    admin_rejected: Family<ReasonOnly, Counter>,
    admin_reviews: Family<ReviewResult, Counter>,
    certificate_loads: Family<ResultOnly, Counter>,
    admin_answer_bytes: Gauge,
    other_processes: Gauge,
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
    pub(crate) fn config_changed(&self, result: &'static str) {
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

    /// Whether another process acts on the same configuration.
    pub(crate) fn other_process(&self, is_there: bool) {
        self.other_processes.set(i64::from(is_there));
    }

    /// The share of one answer of the admin API in their bytes.
    pub(crate) fn answer_bytes(&self) -> AnswerBytes {
        AnswerBytes {
            gauge: self.admin_answer_bytes.clone(),
            bytes: 0,
        }
    }

    /// Bytes of answers of the admin API that wait for their clients.
    pub(crate) fn all_answer_bytes(&self) -> u64 {
        u64::try_from(self.admin_answer_bytes.get()).unwrap_or_default()
    }

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
        registry.register(
            "plugin_recent_log_bytes",
            "Bytes of the log lines kept for `informant plugin logs`",
            KEPT_LINES.bytes.clone(),
        );
        registry.register(
            "plugin_recent_log_dropped",
            "Log lines about plugins that are no longer kept",
            KEPT_LINES.dropped.clone(),
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
            "admin_answer_bytes",
            "Bytes of answers with objects that wait for their clients",
            self.admin_answer_bytes.clone(),
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
        registry.register(
            "other_processes",
            "Whether another process acts on the same configuration",
            self.other_processes.clone(),
        );
    }
}

/// Bytes of one answer that wait for its client. They are in the gauge until this is dropped.
#[derive(Debug)]
pub(crate) struct AnswerBytes {
    gauge: Gauge,
    bytes: i64,
}

impl AnswerBytes {
    pub(crate) fn set(&mut self, bytes: usize) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        self.gauge.inc_by(bytes - std::mem::replace(&mut self.bytes, bytes));
    }
}

impl Drop for AnswerBytes {
    fn drop(&mut self) {
        self.set(0);
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
        let shared_state = SharedMetrics::register(&mut registry);
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
            shared_state,
            daemon,
            servers,
        }
    }

    pub(crate) fn forget_informer(&self, informer: &str, cluster: &str) {
        self.daemon.forget_informer(informer, cluster);
        self.informers.forget_informer(informer, cluster);
    }

    /// Adds metrics that are collected at each scrape.
    pub(crate) fn collect(&self, collector: impl Collector) {
        self.lock().register_collector(Box::new(collector));
    }

    /// All metrics as OpenMetrics text.
    pub fn encode(&self) -> Result<String, fmt::Error> {
        let mut out = String::new();
        text::encode_registry(&mut out, &self.lock())?;
        text::encode_registry(&mut out, &self.process)?;
        text::encode_eof(&mut out)?;
        Ok(out)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Registry> {
        lock(&self.registry)
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
