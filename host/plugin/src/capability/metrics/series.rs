//! The series of one plugin: what its successful calls made of its metrics.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use informant_cache::{Environment, LogThrottle, Moment};

use super::changes::{CallMetrics, Change, MetricChange, Observed, sum};
use super::{LabelValues, METRIC_SERIES_EXPIRE, METRIC_SERIES_MAX};
use crate::component::manifest::{Manifest, MetricDeclaration, MetricKind};
use crate::sync::lock;

/// The series of one plugin. They outlive its instances and versions.
pub(crate) struct PluginSeries {
    pub(super) plugin: Arc<str>,
    env: Arc<dyn Environment>,
    state: Mutex<State>,
}

struct State {
    /// The metrics of the running version, by name.
    metrics: BTreeMap<String, Metric>,
    /// Changes of series that were dropped.
    dropped: u64,
    warnings: LogThrottle,
}

#[derive(Clone)]
pub(super) struct Metric {
    pub(super) declared: MetricDeclaration,
    pub(super) rows: BTreeMap<LabelValues, Row>,
}

#[derive(Clone)]
pub(super) struct Row {
    pub(super) value: Value,
    changed: Moment,
}

#[derive(Clone)]
pub(super) enum Value {
    Number(f64),
    Histogram(Observed),
}

/// What a scrape shows of a plugin.
pub(super) struct Scraped {
    /// The metrics that have series.
    pub(super) metrics: Vec<Metric>,
    pub(super) series: usize,
    pub(super) dropped: u64,
}

impl PluginSeries {
    pub(super) fn new(plugin: &Arc<str>, env: Arc<dyn Environment>) -> PluginSeries {
        PluginSeries {
            plugin: Arc::clone(plugin),
            env,
            state: Mutex::new(State {
                metrics: BTreeMap::new(),
                dropped: 0,
                warnings: LogThrottle::new(1, METRIC_SERIES_EXPIRE),
            }),
        }
    }

    /// A version is activated: from now on the plugin has the metrics of this manifest. Series of a metric stay unless
    /// its type, labels or buckets changed.
    pub(crate) fn declare(&self, manifest: &Manifest) {
        let mut state = self.lock();
        let mut before = std::mem::take(&mut state.metrics);
        let keep = |declared: &MetricDeclaration| {
            let kept = before
                .remove(&declared.name)
                .filter(|old| declared.continues(&old.declared));
            let metric = Metric {
                declared: declared.clone(),
                rows: kept.map(|old| old.rows).unwrap_or_default(),
            };
            (declared.name.clone(), metric)
        };
        state.metrics = manifest.metrics.iter().map(keep).collect();
    }

    /// The type of a metric; none if the running version does not declare it.
    pub(super) fn kind_of(&self, name: &str) -> Option<MetricKind> {
        self.lock().metrics.get(name).map(|metric| metric.declared.kind)
    }

    /// A call succeeded: applies its changes.
    pub(crate) fn commit(&self, changes: CallMetrics) {
        let now = self.env.now();
        let mut state = self.lock();
        let before = state.dropped;
        state.dropped += changes.dropped;
        for (declared, change) in changes.into_changes() {
            state.apply(&declared, change, now);
        }
        let dropped = state.dropped - before;
        let is_due = dropped > 0 && state.warnings.line(now).is_some();
        drop(state);
        if is_due {
            tracing::warn!(
                plugin = &*self.plugin,
                max = METRIC_SERIES_MAX,
                "plugin has too many metric series; further ones are dropped"
            );
        }
    }

    /// Ends what has expired, and returns the rest.
    pub(super) fn scrape(&self) -> Scraped {
        let now = self.env.now();
        let mut state = self.lock();
        state.expire(now);
        let metrics = state.metrics.values().filter(|metric| !metric.rows.is_empty());
        Scraped {
            metrics: metrics.cloned().collect(),
            series: state.series(),
            dropped: state.dropped,
        }
    }

    /// Drops the series of a metric that cannot be exported.
    pub(super) fn drop_metric(&self, name: &str) {
        let mut state = self.lock();
        if let Some(metric) = state.metrics.get_mut(name) {
            let dropped = std::mem::take(&mut metric.rows).len();
            state.dropped += dropped as u64;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each series is changed by one assignment: consistent after any panic.
        lock(&self.state)
    }
}

impl State {
    fn series(&self) -> usize {
        let of_metric = |metric: &Metric| metric.rows.len() * metric.declared.series_per_row();
        self.metrics.values().map(of_metric).sum()
    }

    fn expire(&mut self, now: Moment) {
        for metric in self.metrics.values_mut() {
            metric.rows.retain(|_, row| now - row.changed < METRIC_SERIES_EXPIRE);
        }
    }

    fn apply(&mut self, declared: &MetricDeclaration, change: MetricChange, now: Moment) {
        let Some(metric) = self.metrics.get_mut(&declared.name) else {
            // Another version was activated since.
            self.dropped += change.rows.len() as u64;
            return;
        };
        if !declared.continues(&metric.declared) {
            self.dropped += change.rows.len() as u64;
            return;
        }
        if change.replaces {
            metric.rows.retain(|labels, _| change.rows.contains_key(labels));
        }
        let mut new = Vec::new();
        for (labels, change) in change.rows {
            match metric.rows.get_mut(&labels) {
                Some(row) => row.change(change, now),
                None => new.push((labels, change)),
            }
        }
        if !new.is_empty() {
            self.insert(declared, new, now);
        }
    }

    /// Adds as many series as there is room for.
    fn insert(&mut self, declared: &MetricDeclaration, new: Vec<(LabelValues, Change)>, now: Moment) {
        let each = declared.series_per_row();
        if self.series() + new.len() * each > METRIC_SERIES_MAX {
            self.expire(now);
        }
        let fit = METRIC_SERIES_MAX.saturating_sub(self.series()) / each;
        self.dropped += new.len().saturating_sub(fit) as u64;
        if let Some(metric) = self.metrics.get_mut(&declared.name) {
            let rows = new.into_iter().take(fit);
            metric
                .rows
                .extend(rows.map(|(labels, change)| (labels, Row::new(change, now))));
        }
    }
}

impl Row {
    fn new(change: Change, now: Moment) -> Row {
        let value = match change {
            Change::Add(value) | Change::Set(value) => Value::Number(value),
            Change::Observe(observed) => Value::Histogram(observed),
        };
        Row { value, changed: now }
    }

    fn change(&mut self, change: Change, now: Moment) {
        self.changed = now;
        match (&mut self.value, change) {
            (Value::Number(value), Change::Add(amount)) => *value = sum(*value, amount),
            (Value::Histogram(before), Change::Observe(observed)) => before.merge(&observed),
            (value, change) => *value = Row::new(change, now).value,
        }
    }
}
