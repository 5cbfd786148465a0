//! Metrics of HTTP requests.

use std::borrow::Cow;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Unit;

use super::client::HttpErrorCode;
use crate::series::{FamilyOf, Labeled, Lazy, SeriesSet};

/// Classes of statuses.
const STATUSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

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

/// The series of one plugin. They begin with its first request, so that a plugin without requests has none.
pub(crate) struct HttpSeries {
    requests: Labeled<2, Counter>,
    seconds: Lazy<Histogram>,
    limited: Labeled<1, Counter>,
}

impl Default for HttpSeries {
    fn default() -> HttpSeries {
        HttpSeries {
            requests: Labeled::new(["host", "result"]),
            seconds: Lazy::default(),
            limited: Labeled::new(["limit"]),
        }
    }
}

impl SeriesSet for HttpSeries {
    const FAMILIES: &'static [FamilyOf<HttpSeries>] = &[
        FamilyOf::new(
            "plugin_http_requests",
            "HTTP requests of plugins, by the granted host and result",
            |of| &of.requests,
        ),
        FamilyOf::with_unit(
            "plugin_http",
            "Time until the response to a plugin's HTTP request began",
            Unit::Seconds,
            |of| &of.seconds,
        ),
        FamilyOf::new(
            "plugin_http_limited",
            "HTTP requests of plugins that reached a limit",
            |of| &of.limited,
        ),
    ];
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

impl HttpSeries {
    /// Counts a request to a granted host, which is empty if none is. `time`: until its response began.
    pub(super) fn count(&self, host: &str, result: HttpResult, time: Option<Duration>) {
        let values: [Cow<'static, str>; 2] = [Cow::Owned(host.to_owned()), Cow::Borrowed(result.as_str())];
        self.requests.of(values).inc();
        if let Some(time) = time {
            self.seconds.get_or_make(buckets).observe(time.as_secs_f64());
        }
    }

    /// Counts a request that reached a limit.
    pub(super) fn count_limited(&self, limit: HttpLimit) {
        self.limited.of([limit.as_str()]).inc();
    }
}
