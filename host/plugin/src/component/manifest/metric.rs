//! The metrics that a manifest declares.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::Manifest;

/// Metrics that a manifest may declare: 100.
pub(crate) const METRICS_MAX: usize = 100;

/// Bytes of the name of a metric or of one of its labels: 200.
pub(crate) const METRIC_NAME_BYTES_MAX: usize = 200;

/// Bytes of the help of a metric: 1 KiB.
pub(crate) const METRIC_HELP_BYTES_MAX: usize = 1 << 10;

/// Labels of a metric: 10.
pub(crate) const METRIC_LABELS_MAX: usize = 10;

/// Buckets of a histogram, without the last one, which has no bound: 50.
pub(crate) const METRIC_BUCKETS_MAX: usize = 50;

/// The bounds of a histogram that names none, as in the client libraries of Prometheus: for seconds.
const BUCKETS: [f64; 11] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Suffixes of the samples of a metric. A name that ends with one could be the sample of another metric.
const RESERVED_SUFFIXES: [&str; 6] = ["_total", "_sum", "_count", "_bucket", "_created", "_info"];

/// Labels that Informant or the format of metrics gives a meaning.
const RESERVED_LABELS: [&str; 3] = ["plugin", "le", "quantile"];

/// A metric that a plugin has of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricDeclaration {
    /// Its name, without the prefix `informant_plugin_custom_` and without the suffix of counters.
    pub name: String,
    /// What it measures.
    #[serde(rename = "type")]
    pub kind: MetricKind,
    /// What it means, for people.
    pub help: String,
    #[serde(default)]
    pub labels: Vec<String>,
    /// The upper bounds of a histogram's buckets, ascending. Others have none.
    #[serde(default)]
    pub buckets: Vec<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MetricKind {
    /// It only grows.
    Counter,
    /// It is set.
    Gauge,
    /// It counts values by size.
    Histogram,
}

impl MetricKind {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        }
    }
}

impl MetricDeclaration {
    /// Whether series of `other` can continue as series of this metric.
    pub(crate) fn continues(&self, other: &MetricDeclaration) -> bool {
        (self.kind, &self.labels, &self.buckets) == (other.kind, &other.labels, &other.buckets)
    }

    /// The series in Prometheus for each combination of labels: a histogram has one for each bucket, one for the bucket
    /// without a bound, the sum and the count.
    pub(crate) fn series_per_row(&self) -> usize {
        match self.kind {
            MetricKind::Counter | MetricKind::Gauge => 1,
            MetricKind::Histogram => self.buckets.len() + 3,
        }
    }

    fn validate(&self) -> Result<(), String> {
        let name = &self.name;
        check_identifier(name).map_err(|problem| format!("has a metric {name:?} in `metrics`: its name {problem}"))?;
        let refuse = |problem: String| Err(format!("has a metric {name:?} in `metrics`: {problem}"));
        if let Some(suffix) = RESERVED_SUFFIXES.iter().find(|suffix| name.ends_with(**suffix)) {
            return refuse(format!(
                "its name ends with {suffix}, which is for samples; leave that out: Informant adds _total to counters"
            ));
        }
        if self.help.is_empty() || self.help.len() > METRIC_HELP_BYTES_MAX || self.help.chars().any(char::is_control) {
            return refuse(format!("`help` must be one line of 1 to {METRIC_HELP_BYTES_MAX} bytes"));
        }
        if self.labels.len() > METRIC_LABELS_MAX {
            return refuse(format!("it has more than {METRIC_LABELS_MAX} labels"));
        }
        let mut seen = BTreeSet::new();
        for label in &self.labels {
            if let Err(problem) = check_identifier(label) {
                return refuse(format!("its label {label:?} {problem}"));
            }
            if RESERVED_LABELS.contains(&label.as_str()) || label.starts_with("__") {
                return refuse(format!("its label {label:?} is reserved; choose another name"));
            }
            if !seen.insert(label) {
                return refuse(format!("it has the label {label:?} twice"));
            }
        }
        self.validate_buckets().or_else(refuse)
    }

    fn validate_buckets(&self) -> Result<(), String> {
        if self.kind != MetricKind::Histogram {
            return match self.buckets.is_empty() {
                true => Ok(()),
                false => Err(format!("a {} has no `buckets`; remove them", self.kind.as_str())),
            };
        }
        if self.buckets.len() > METRIC_BUCKETS_MAX {
            return Err(format!("it has more than {METRIC_BUCKETS_MAX} buckets"));
        }
        match self.buckets.is_sorted_by(|a, b| a < b) && self.buckets.iter().all(|bound| bound.is_finite()) {
            true => Ok(()),
            false => Err("`buckets` must be numbers, each larger than the one before".to_owned()),
        }
    }
}

impl Manifest {
    /// The metric called `name`, with its position.
    pub(crate) fn metric(&self, name: &str) -> Option<(usize, &MetricDeclaration)> {
        self.metrics.iter().enumerate().find(|(_, metric)| metric.name == name)
    }

    /// Fills in the default buckets, and checks the declarations. `can_set`: the plugin has a role that may set
    /// metrics.
    pub(super) fn validate_metrics(&mut self, can_set: bool) -> Result<(), String> {
        if self.metrics.len() > METRICS_MAX {
            return Err(format!("declares more than {METRICS_MAX} metrics"));
        }
        if !self.metrics.is_empty() && !can_set {
            return Err(
                "has `metrics`, but only event-handler and sync-handler can set them; export one of these roles, or \
                 remove `metrics`"
                    .to_owned(),
            );
        }
        let mut seen = BTreeSet::new();
        for metric in &mut self.metrics {
            if metric.kind == MetricKind::Histogram && metric.buckets.is_empty() {
                metric.buckets = BUCKETS.to_vec();
            }
            metric.validate()?;
            if !seen.insert(&metric.name) {
                return Err(format!("declares the metric {:?} twice", metric.name));
            }
        }
        Ok(())
    }
}

/// Checks the name of a metric or a label. The error continues "its name".
fn check_identifier(name: &str) -> Result<(), String> {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let has_form =
        name.bytes().next().is_some_and(is_letter) && name.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit());
    match has_form && name.len() <= METRIC_NAME_BYTES_MAX {
        true => Ok(()),
        false => Err(format!(
            "must be of 1 to {METRIC_NAME_BYTES_MAX} letters, digits and underscores, and not start with a digit"
        )),
    }
}
