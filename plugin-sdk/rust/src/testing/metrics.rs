//! The plugin's own metrics in a native test.

use std::collections::BTreeMap;

use super::cache::{self, Cache};
use crate::bindings::imports::informant::plugin::metrics::{Label, Sample};
use crate::bindings::imports::informant::plugin::types::{ErrorCode, HostError};
use crate::manifest::Metric;

type Answer<T> = Result<T, HostError>;

/// A metric and its labels, sorted by name.
type Series = (String, Vec<(String, String)>);

/// The amounts whose sum is the value; of a histogram, the values that it counted.
type Values = BTreeMap<Series, Vec<f64>>;

/// The metrics that the plugin declares, and their values.
#[derive(Default)]
pub(super) struct Metrics {
    declared: Vec<Metric>,
    values: Values,
    /// With the changes of the present call.
    changed: Values,
    is_denied: bool,
}

impl Cache {
    /// The value of a metric of the plugin's own; of a histogram, the sum of the values that it counted. None if
    /// nothing has changed it.
    pub fn metric(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels = labels
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        self.amounts(name, labels.collect()).map(|amounts| amounts.iter().sum())
    }

    /// The amounts whose sum is [`metric`](Self::metric).
    pub(super) fn amounts(&self, name: &str, labels: Vec<(String, String)>) -> Option<Vec<f64>> {
        let series = series(name, labels);
        cache::with(|state| state.metrics.values.get(&series).cloned())
    }

    pub(super) fn declare_metrics(&self, declared: &[Metric]) {
        cache::with(|state| state.metrics.declared = declared.to_owned());
    }

    /// A call has ended: keeps its changes if it succeeded.
    pub(super) fn end_metrics(&self, has_succeeded: bool) {
        cache::with(|state| {
            let metrics = &mut state.metrics;
            match has_succeeded {
                true => metrics.values = metrics.changed.clone(),
                false => metrics.changed = metrics.values.clone(),
            }
        });
    }

    /// Denies every function, or no longer.
    pub(super) fn deny_metrics(&self, is_denied: bool) {
        cache::with(|state| state.metrics.is_denied = is_denied);
    }
}

pub(crate) fn add(name: &str, amount: f64, labels: &[Label]) -> Answer<()> {
    with(name, &["counter", "gauge"], |metrics, metric| {
        if metric.kind == "counter" && amount < 0.0 {
            return invalid(format!("the counter {name:?} cannot decrease"));
        }
        let series = metric.series(labels)?;
        metrics.changed.entry(series).or_default().push(finite(amount)?);
        Ok(())
    })
}

pub(crate) fn set(name: &str, value: f64, labels: &[Label]) -> Answer<()> {
    with(name, &["gauge"], |metrics, metric| {
        metrics.changed.insert(metric.series(labels)?, vec![finite(value)?]);
        Ok(())
    })
}

pub(crate) fn observe(name: &str, value: f64, labels: &[Label]) -> Answer<()> {
    with(name, &["histogram"], |metrics, metric| {
        let series = metric.series(labels)?;
        metrics.changed.entry(series).or_default().push(finite(value)?);
        Ok(())
    })
}

pub(crate) fn replace(name: &str, samples: &[Sample]) -> Answer<()> {
    with(name, &["gauge"], |metrics, metric| {
        let row = |sample: &Sample| Ok((metric.series(&sample.labels)?, vec![finite(sample.value)?]));
        let rows = samples.iter().map(row).collect::<Answer<Vec<_>>>()?;
        metrics.changed.retain(|(metric, _), _| metric != name);
        metrics.changed.extend(rows);
        Ok(())
    })
}

impl Metric {
    fn series(&self, labels: &[Label]) -> Answer<Series> {
        let mut declared = self.labels.clone();
        let mut given: Vec<String> = labels.iter().map(|label| label.name.clone()).collect();
        declared.sort_unstable();
        given.sort_unstable();
        if declared != given {
            return invalid(format!(
                "the metric {:?} has the labels {:?}, not {given:?}",
                self.name, self.labels
            ));
        }
        let labels = labels.iter().map(|label| (label.name.clone(), label.value.clone()));
        Ok(series(&self.name, labels.collect()))
    }
}

fn series(name: &str, mut labels: Vec<(String, String)>) -> Series {
    labels.sort_unstable();
    (name.to_owned(), labels)
}

fn with(name: &str, kinds: &[&str], change: impl FnOnce(&mut Metrics, &Metric) -> Answer<()>) -> Answer<()> {
    cache::with(|state| {
        let metrics = &mut state.metrics;
        if metrics.is_denied {
            let message = "metrics can be changed in handler calls only".to_owned();
            return Err(HostError {
                code: ErrorCode::NotHere,
                message,
            });
        }
        let Some(metric) = metrics.declared.iter().find(|metric| metric.name == name).cloned() else {
            return invalid(format!("the manifest does not declare the metric {name:?}"));
        };
        match kinds.contains(&metric.kind) {
            true => change(metrics, &metric),
            false => invalid(format!("the metric {name:?} is a {}", metric.kind)),
        }
    })
}

fn finite(value: f64) -> Answer<f64> {
    match value.is_finite() {
        true => Ok(value),
        false => invalid(format!("a value must be a finite number, not {value}")),
    }
}

fn invalid<T>(message: String) -> Answer<T> {
    Err(HostError {
        code: ErrorCode::Invalid,
        message,
    })
}
