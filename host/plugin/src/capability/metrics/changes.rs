//! What one call has changed so far, merged by series.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{LabelValues, METRIC_SERIES_MAX};
use crate::component::manifest::{Manifest, MetricDeclaration};

pub(crate) struct CallMetrics {
    manifest: Arc<Manifest>,
    /// By the position of the metric in the manifest.
    pub(super) metrics: BTreeMap<usize, MetricChange>,
    /// Series of all metrics.
    rows: usize,
    /// Changes of series above [`METRIC_SERIES_MAX`].
    pub(super) dropped: u64,
}

#[derive(Default)]
pub(super) struct MetricChange {
    /// Whether series without a change end.
    pub(super) replaces: bool,
    pub(super) rows: BTreeMap<LabelValues, Change>,
}

/// What happens to one series.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Change {
    Add(f64),
    Set(f64),
    Observe(Observed),
}

/// Values that a histogram counted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Observed {
    /// How many are in each bucket, and not in the one before. The last bucket has no bound.
    pub(super) counts: Vec<u64>,
    pub(super) sum: f64,
}

impl CallMetrics {
    pub(super) fn new(manifest: &Arc<Manifest>) -> CallMetrics {
        CallMetrics {
            manifest: Arc::clone(manifest),
            metrics: BTreeMap::new(),
            rows: 0,
            dropped: 0,
        }
    }

    /// The metrics that change, with their declarations.
    pub(super) fn into_changes(self) -> impl Iterator<Item = (MetricDeclaration, MetricChange)> {
        let manifest = self.manifest;
        self.metrics
            .into_iter()
            .filter_map(move |(position, change)| Some((manifest.metrics.get(position)?.clone(), change)))
    }

    pub(super) fn change(&mut self, position: usize, labels: LabelValues, change: Change) {
        let metric = self.metrics.entry(position).or_default();
        match metric.rows.get_mut(&labels) {
            Some(before) => before.merge(change),
            None if self.rows >= METRIC_SERIES_MAX => self.dropped += 1,
            None => {
                // After a replacement there are no other series: what is added starts at zero.
                let change = match change {
                    Change::Add(amount) if metric.replaces => Change::Set(amount),
                    change => change,
                };
                metric.rows.insert(labels, change);
                self.rows += 1;
            }
        }
    }

    pub(super) fn replace(&mut self, position: usize, rows: Vec<(LabelValues, f64)>) {
        let metric = self.metrics.entry(position).or_default();
        self.rows -= metric.rows.len();
        *metric = MetricChange {
            replaces: true,
            rows: BTreeMap::new(),
        };
        for (labels, value) in rows {
            self.change(position, labels, Change::Set(value));
        }
    }
}

/// The sum of two finite numbers, which stays finite: series keep it until a restart.
pub(super) fn sum(value: f64, more: f64) -> f64 {
    (value + more).clamp(f64::MIN, f64::MAX)
}

impl Change {
    /// A histogram with these upper `bounds` counts a value.
    pub(super) fn observed(bounds: &[f64], value: f64) -> Change {
        let mut counts = vec![0; bounds.len() + 1];
        counts[bounds.partition_point(|bound| *bound < value)] = 1;
        Change::Observe(Observed { counts, sum: value })
    }

    fn merge(&mut self, later: Change) {
        match (self, later) {
            (Change::Add(value) | Change::Set(value), Change::Add(amount)) => *value = sum(*value, amount),
            (Change::Observe(before), Change::Observe(after)) => before.merge(&after),
            (before, later) => *before = later,
        }
    }
}

impl Observed {
    /// Adds what `other` counted, which has the same buckets.
    pub(super) fn merge(&mut self, other: &Observed) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.sum = sum(self.sum, other.sum);
    }
}
