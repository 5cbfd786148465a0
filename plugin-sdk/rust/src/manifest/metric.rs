//! Metrics of a plugin's own.

use serde::Serialize;

/// A metric of the plugin's own, for [`Manifest::metric`](crate::Manifest::metric). Informant exports it as
/// `informant_plugin_custom_NAME`, with the label `plugin`; a counter gets the suffix `_total`, too.
///
/// ```
/// # use informant_plugin_sdk::{Manifest, Metric};
/// let manifest = Manifest::new()
///     .metric(Metric::counter("restarts", "Restarts of containers").labels(["namespace"]))
///     .metric(Metric::histogram("start_seconds", "Time until a pod is ready").buckets([1.0, 10.0, 60.0]));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Metric {
    pub(crate) name: String,
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    help: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) labels: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    buckets: Vec<f64>,
}

impl Metric {
    /// A number that only grows: [`metrics::add`](crate::metrics::add).
    pub fn counter(name: impl Into<String>, help: impl Into<String>) -> Self {
        Self::of("counter", name.into(), help.into())
    }

    /// A number that is set: [`metrics::set`](crate::metrics::set), [`add`](crate::metrics::add) and
    /// [`replace`](crate::metrics::replace).
    pub fn gauge(name: impl Into<String>, help: impl Into<String>) -> Self {
        Self::of("gauge", name.into(), help.into())
    }

    /// Counts values by size: [`metrics::observe`](crate::metrics::observe).
    pub fn histogram(name: impl Into<String>, help: impl Into<String>) -> Self {
        Self::of("histogram", name.into(), help.into())
    }

    /// The names of its labels. Each change passes a value for each of them.
    #[must_use]
    pub fn labels<L: Into<String>>(mut self, labels: impl IntoIterator<Item = L>) -> Self {
        self.labels = labels.into_iter().map(Into::into).collect();
        self
    }

    /// The upper bounds of a histogram's buckets, ascending. The default is for seconds: 5 ms to 10 s.
    #[must_use]
    pub fn buckets(mut self, bounds: impl IntoIterator<Item = f64>) -> Self {
        self.buckets = bounds.into_iter().collect();
        self
    }

    fn of(kind: &'static str, name: String, help: String) -> Self {
        Self {
            name,
            kind,
            help,
            labels: Vec::new(),
            buckets: Vec::new(),
        }
    }
}
