//! Metrics of HTTP requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::hostcalls::http_client::HttpErrorCode;

/// Results besides those of [`HttpErrorCode`]: classes of statuses.
const STATUSES: [&str; 7] = ["1xx", "2xx", "3xx", "4xx", "5xx", "closed", "withheld"];

/// Limits that requests reach.
const LIMITS: [HttpLimit; 5] = [
    HttpLimit::InFlight,
    HttpLimit::Rate,
    HttpLimit::Time,
    HttpLimit::Request,
    HttpLimit::Response,
];

/// A limit that a request reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HttpLimit {
    /// It waited for another request to end.
    InFlight,
    /// It waited for its turn.
    Rate,
    Time,
    Request,
    Response,
}

/// How a request ended, or its response began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HttpResult {
    Status(http::StatusCode),
    /// Answered by Informant, because the host asked for a pause.
    Closed,
    /// Answered by Informant in a dry run.
    Withheld,
    Failed(HttpErrorCode),
}

/// The series of all plugins. Cheap to clone.
#[derive(Clone)]
pub(crate) struct HttpFamilies {
    requests: Family<RequestLabels, Counter>,
    seconds: Family<PluginLabels, Histogram, fn() -> Histogram>,
    limited: Family<LimitLabels, Counter>,
    /// The hosts that each plugin's series have.
    hosts: Arc<Mutex<BTreeMap<String, BTreeSet<String>>>>,
}

/// The series of one plugin. They begin with its first request, so that a plugin without requests has none.
pub(crate) struct HttpCounters {
    families: HttpFamilies,
    plugin: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    plugin: String,
    host: String,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PluginLabels {
    plugin: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct LimitLabels {
    plugin: String,
    limit: &'static str,
}

/// 1 ms to 4.4 min, by factors of four.
fn buckets() -> Histogram {
    Histogram::new(exponential_buckets(1e-3, 4.0, 10))
}

impl HttpLimit {
    const fn as_str(self) -> &'static str {
        match self {
            HttpLimit::InFlight => "in-flight",
            HttpLimit::Rate => "rate",
            HttpLimit::Time => "time",
            HttpLimit::Request => "request",
            HttpLimit::Response => "response",
        }
    }
}

impl HttpResult {
    fn as_str(self) -> &'static str {
        match self {
            HttpResult::Status(status) => STATUSES[usize::from(status.as_u16() / 100).clamp(1, 5) - 1],
            HttpResult::Closed => "closed",
            HttpResult::Withheld => "withheld",
            HttpResult::Failed(code) => code.as_str(),
        }
    }
}

impl HttpFamilies {
    pub(crate) fn new() -> HttpFamilies {
        HttpFamilies {
            requests: Family::default(),
            seconds: Family::new_with_constructor(buckets),
            limited: Family::default(),
            hosts: Arc::default(),
        }
    }

    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "plugin_http_requests",
            "HTTP requests of plugins, by the granted host and result",
            self.requests.clone(),
        );
        registry.register_with_unit(
            "plugin_http",
            "Time until the response to a plugin's HTTP request began",
            Unit::Seconds,
            self.seconds.clone(),
        );
        registry.register(
            "plugin_http_limited",
            "HTTP requests of plugins that reached a limit",
            self.limited.clone(),
        );
    }

    pub(crate) fn of(&self, plugin: &Arc<str>) -> HttpCounters {
        HttpCounters {
            families: self.clone(),
            plugin: Arc::clone(plugin),
        }
    }

    /// Removes the series of a plugin.
    pub(crate) fn forget(&self, plugin: &str) {
        let Some(hosts) = self.hosts().remove(plugin) else {
            return;
        };
        self.seconds.remove(&PluginLabels {
            plugin: plugin.to_owned(),
        });
        for limit in LIMITS {
            self.limited.remove(&LimitLabels {
                plugin: plugin.to_owned(),
                limit: limit.as_str(),
            });
        }
        let results = || {
            let errors = HttpErrorCode::ALL.into_iter().map(HttpErrorCode::as_str);
            STATUSES.into_iter().chain(errors)
        };
        for host in &hosts {
            for result in results() {
                self.requests.remove(&labels(plugin, host, result));
            }
        }
    }

    fn hosts(&self) -> MutexGuard<'_, BTreeMap<String, BTreeSet<String>>> {
        // Changed by single insertions: whole after any panic.
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HttpCounters {
    /// Counts a request to a granted host, which is empty if none is. `time`: until its response began.
    pub(super) fn count(&self, host: &str, result: HttpResult, time: Option<Duration>) {
        let mut hosts = self.families.hosts();
        hosts
            .entry(self.plugin.to_string())
            .or_default()
            .insert(host.to_owned());
        drop(hosts);
        let labels = labels(&self.plugin, host, result.as_str());
        self.families.requests.get_or_create(&labels).inc();
        if let Some(time) = time {
            let of_plugin = PluginLabels {
                plugin: self.plugin.to_string(),
            };
            self.families
                .seconds
                .get_or_create(&of_plugin)
                .observe(time.as_secs_f64());
        }
    }

    /// Counts a request that reached a limit.
    pub(super) fn count_limited(&self, limit: HttpLimit) {
        let labels = LimitLabels {
            plugin: self.plugin.to_string(),
            limit: limit.as_str(),
        };
        self.families.limited.get_or_create(&labels).inc();
    }
}

fn labels(plugin: &str, host: &str, result: &'static str) -> RequestLabels {
    RequestLabels {
        plugin: plugin.to_owned(),
        host: host.to_owned(),
        result,
    }
}
