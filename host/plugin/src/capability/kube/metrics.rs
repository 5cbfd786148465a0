//! Metrics of calls to the cluster, direct and deferred.

use std::time::Duration;

use informant_spec::KubeVerb;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Unit;

use super::api::KubeError;
use super::writes::WritesStatus;
use crate::series::{FamilyOf, Labeled, Lazy, SeriesSet};

/// The series of one plugin. A call waits for the network, so it can afford to look up its labels.
pub(crate) struct KubeSeries {
    calls: Labeled<2, Counter>,
    bytes: Labeled<1, Counter>,
    seconds: Lazy<Histogram>,
    writes: Labeled<2, Counter>,
    waiting: Gauge,
    waiting_bytes: Gauge,
    full: Counter,
    spaced: Counter,
    prunes_skipped: Lazy<Counter>,
}

/// What the calls of one plugin cost the API servers, since it was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KubeTraffic {
    pub requests: u64,
    /// Of the documents.
    pub sent_bytes: u64,
    /// Of the documents in the responses.
    pub received_bytes: u64,
}

/// 100 us to 26 s, by factors of four.
fn buckets() -> Histogram {
    Histogram::new(exponential_buckets(1e-4, 4.0, 10))
}

impl Default for KubeSeries {
    fn default() -> KubeSeries {
        KubeSeries {
            calls: Labeled::new(["verb", "result"]),
            bytes: Labeled::new(["direction"]),
            seconds: Lazy::default(),
            writes: Labeled::new(["verb", "result"]),
            waiting: Gauge::default(),
            waiting_bytes: Gauge::default(),
            full: Counter::default(),
            spaced: Counter::default(),
            prunes_skipped: Lazy::default(),
        }
    }
}

impl SeriesSet for KubeSeries {
    const FAMILIES: &'static [FamilyOf<KubeSeries>] = &[
        FamilyOf::new(
            "plugin_kube_calls",
            "Calls of plugins to the Kubernetes API, by verb and result",
            |of| &of.calls,
        ),
        FamilyOf::with_unit(
            "plugin_kube",
            "Bytes of the documents that plugins sent to the Kubernetes API, and of those they received",
            Unit::Bytes,
            |of| &of.bytes,
        ),
        FamilyOf::with_unit(
            "plugin_kube",
            "Duration of a plugin's call to the Kubernetes API",
            Unit::Seconds,
            |of| &of.seconds,
        ),
        FamilyOf::new(
            "plugin_writes",
            "Deferred writes of plugins, by verb and result",
            |of| &of.writes,
        ),
        FamilyOf::new(
            "plugin_writes_waiting",
            "Deferred writes of a plugin that wait or are in flight",
            |of| &of.waiting,
        ),
        FamilyOf::with_unit(
            "plugin_writes_waiting",
            "Bytes of the deferred writes of a plugin that wait or are in flight",
            Unit::Bytes,
            |of| &of.waiting_bytes,
        ),
        FamilyOf::new(
            "plugin_writes_full",
            "How often a plugin was not called because too many of its writes waited",
            |of| &of.full,
        ),
        FamilyOf::new(
            "plugin_writes_spaced",
            "Calls that were spaced because a plugin writes to one object again and again",
            |of| &of.spaced,
        ),
        FamilyOf::new(
            "plugin_prunes_skipped",
            "Calls in which no child was deleted because the cache may lack something",
            |of| &of.prunes_skipped,
        ),
    ];
}

impl KubeSeries {
    pub(super) fn count(&self, verb: KubeVerb, error: Option<&KubeError>, time: Duration) {
        let result = error.map_or("ok", |error| error.code.as_str());
        self.calls.of([verb.as_str(), result]).inc();
        self.seconds.get_or_make(buckets).observe(time.as_secs_f64());
    }

    /// Counts the document of a call, and that of its response.
    pub(super) fn count_bytes(&self, sent: usize, received: usize) {
        for (direction, bytes) in [("sent", sent), ("received", received)] {
            if bytes > 0 {
                self.bytes.of([direction]).inc_by(bytes as u64);
            }
        }
    }

    /// What the plugin's calls cost the API server.
    pub(super) fn traffic(&self) -> KubeTraffic {
        KubeTraffic {
            requests: self.calls.sum(&[]),
            sent_bytes: self.bytes.sum(&["sent"]),
            received_bytes: self.bytes.sum(&["received"]),
        }
    }

    /// Counts a deferred write that ended, or is sent again.
    pub(super) fn count_write(&self, verb: KubeVerb, result: &'static str) {
        self.writes.of([verb.as_str(), result]).inc();
    }

    pub(super) fn show_writes(&self, stats: WritesStatus) {
        let number = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        self.waiting.set(number(stats.waiting));
        self.waiting_bytes.set(number(stats.waiting_bytes));
    }

    /// The next call of a key is spaced.
    pub(super) fn count_spaced(&self) {
        self.spaced.inc();
    }

    /// No child was deleted, because the cache may lack something.
    pub(super) fn count_prune_skipped(&self) {
        self.prunes_skipped.get().inc();
    }

    /// The queue of writes has reached a bound.
    pub(super) fn count_full(&self) {
        self.full.inc();
    }
}
