//! The interface `metrics`: metrics of the plugin's own, which its manifest declares.
//!
//! ```text
//! guest ─add, set, observe, replace─▶ CallMetrics ─success─▶ PluginSeries ◀─scrape─ MetricSeries (the collector)
//!                                         └ failure: dropped
//! ```
//!
//! What a call changes is merged by series before it takes effect, so a call holds at most as many series as a plugin
//! may have.

mod changes;
mod collector;
mod series;

use std::sync::Arc;
use std::time::Duration;

use informant_spec::PluginSpec;
use wasmtime::component::{HasSelf, Linker};

use self::changes::{CallMetrics, Change};
use self::collector::MetricSeries;
use self::series::PluginSeries;
use crate::bindings::informant::plugin::metrics::{self, Host, Label, Sample};
use crate::bindings::informant::plugin::types::{ErrorCode, HostError};
use crate::capability::parts::{
    CallEnd, CallPart, CallStart, Capability, Current, HandledEvent, InstanceParts, PluginParts,
};
use crate::capability::permission::MayUse;
use crate::capability::{HasCapabilities, error};
use crate::component::manifest::{Manifest, MetricDeclaration, MetricKind};

/// Series of one plugin: 1,000. A histogram takes one for each bucket, and three more. Further ones are dropped.
pub(crate) const METRIC_SERIES_MAX: usize = 1_000;

/// How long a series stays that no call changes: 1 hour.
pub(crate) const METRIC_SERIES_EXPIRE: Duration = Duration::from_secs(3_600);

/// Bytes of the value of a label: 512. A longer one is `too-large`.
pub(crate) const METRIC_LABEL_VALUE_BYTES_MAX: usize = 512;

type Answer<T> = Result<T, HostError>;

/// The values of a series' labels, in the order of the declaration.
type LabelValues = Arc<[String]>;

/// The metrics as one instance sees them.
pub(crate) struct MetricsCaller {
    manifest: Arc<Manifest>,
    may_use: MayUse,
    /// The changes of the current call, once there are any.
    changes: Option<CallMetrics>,
}

pub(crate) struct MetricsPlugin(Arc<PluginSeries>);

impl Capability for MetricsPlugin {
    const INTERFACE: Option<&'static str> = Some("metrics");

    type Host = MetricSeries;
    type Grants = ();
    type Call = MetricsCaller;

    fn grants(_spec: &PluginSpec) {}

    fn new(host: &MetricSeries, _grants: &Arc<Current<()>>, plugin: &PluginParts<'_>) -> MetricsPlugin {
        MetricsPlugin(host.of(plugin.plugin, plugin.env))
    }

    fn activate(&self, manifest: &Manifest) {
        self.0.declare(manifest);
    }

    fn call(self: &Arc<Self>, _grants: &Arc<Current<()>>, instance: &InstanceParts<'_>) -> MetricsCaller {
        MetricsCaller::new(instance.manifest)
    }

    fn commit(self: &Arc<Self>, effects: Option<CallMetrics>, _event: Option<HandledEvent>) {
        if let Some(changes) = effects {
            self.0.commit(changes);
        }
    }

    fn link<T: HasCapabilities>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
        metrics::add_to_linker::<_, HasSelf<MetricsCaller>>(linker, |state: &mut T| &mut state.capabilities().metrics)
    }
}

impl CallPart for MetricsCaller {
    type Effects = Option<CallMetrics>;

    fn begin(&mut self, call: CallStart) {
        self.may_use = call.may_use;
        self.changes = None;
    }

    fn finish(&mut self, end: CallEnd) -> Option<CallMetrics> {
        self.changes.take().filter(|_| end.is_success())
    }
}

impl MetricsCaller {
    fn new(manifest: &Arc<Manifest>) -> MetricsCaller {
        MetricsCaller {
            manifest: Arc::clone(manifest),
            may_use: Ok(()),
            changes: None,
        }
    }

    /// Lets `function` change a metric of one of these `kinds`.
    fn with_metric(
        &mut self,
        name: &str,
        kinds: &[MetricKind],
        function: impl FnOnce(&mut CallMetrics, usize, &MetricDeclaration) -> Answer<()>,
    ) -> Answer<()> {
        self.may_use.map_err(|reason| error(ErrorCode::NotHere, reason))?;
        let manifest = &self.manifest;
        let Some((position, metric)) = manifest.metric(name) else {
            return Err(error(ErrorCode::Invalid, undeclared(name, kinds[0])));
        };
        if !kinds.contains(&metric.kind) {
            let message = format!(
                "the metric {name:?} is a {}: {}",
                metric.kind.as_str(),
                hint(metric.kind)
            );
            return Err(error(ErrorCode::Invalid, message));
        }
        let changes = self.changes.get_or_insert_with(|| CallMetrics::new(manifest));
        function(changes, position, metric)
    }
}

impl Host for MetricsCaller {
    fn add(&mut self, name: String, amount: f64, labels: Vec<Label>) -> wasmtime::Result<Answer<()>> {
        let add = |changes: &mut CallMetrics, position, metric: &MetricDeclaration| {
            if metric.kind == MetricKind::Counter && amount < 0.0 {
                let message = format!("the counter {name:?} cannot decrease by {}: declare a gauge", -amount);
                return Err(error(ErrorCode::Invalid, message));
            }
            changes.change(position, values(metric, labels)?, Change::Add(finite(metric, amount)?));
            Ok(())
        };
        Ok(self.with_metric(&name, &[MetricKind::Counter, MetricKind::Gauge], add))
    }

    fn set(&mut self, name: String, value: f64, labels: Vec<Label>) -> wasmtime::Result<Answer<()>> {
        let set = |changes: &mut CallMetrics, position, metric: &MetricDeclaration| {
            changes.change(position, values(metric, labels)?, Change::Set(finite(metric, value)?));
            Ok(())
        };
        Ok(self.with_metric(&name, &[MetricKind::Gauge], set))
    }

    fn observe(&mut self, name: String, value: f64, labels: Vec<Label>) -> wasmtime::Result<Answer<()>> {
        let observe = |changes: &mut CallMetrics, position, metric: &MetricDeclaration| {
            let observed = Change::observed(&metric.buckets, finite(metric, value)?);
            changes.change(position, values(metric, labels)?, observed);
            Ok(())
        };
        Ok(self.with_metric(&name, &[MetricKind::Histogram], observe))
    }

    fn replace(&mut self, name: String, samples: Vec<Sample>) -> wasmtime::Result<Answer<()>> {
        let replace = |changes: &mut CallMetrics, position, metric: &MetricDeclaration| {
            let row = |sample: Sample| Ok((values(metric, sample.labels)?, finite(metric, sample.value)?));
            let rows = samples.into_iter().map(row).collect::<Answer<Vec<_>>>()?;
            changes.replace(position, rows);
            Ok(())
        };
        Ok(self.with_metric(&name, &[MetricKind::Gauge], replace))
    }
}

/// What a guest that changes an undeclared metric has to do. It may have used the exported name.
fn undeclared(name: &str, kind: MetricKind) -> String {
    let kind = kind.as_str();
    let bare = name.strip_prefix("informant_plugin_custom_").unwrap_or(name);
    let bare = bare.strip_suffix("_total").unwrap_or(bare);
    let start = format!("the manifest does not declare the metric {name:?}");
    let declare = format!("add {{\"name\": {bare:?}, \"type\": \"{kind}\", \"help\": …}} to its `metrics`");
    match bare == name {
        true => format!("{start}: {declare}"),
        false => format!(
            "{start}: use {bare:?}, because Informant adds prefix and suffix itself; if it is not declared, {declare}"
        ),
    }
}

/// The functions for a type of metric.
fn hint(kind: MetricKind) -> &'static str {
    match kind {
        MetricKind::Counter => "use add",
        MetricKind::Gauge => "use set, add or replace",
        MetricKind::Histogram => "use observe",
    }
}

fn finite(metric: &MetricDeclaration, value: f64) -> Answer<f64> {
    match value.is_finite() {
        true => Ok(value),
        false => {
            let message = format!(
                "the metric {:?} cannot be {value}: a value must be a finite number",
                metric.name
            );
            Err(error(ErrorCode::Invalid, message))
        }
    }
}

/// The values of a metric's labels, each of which must be given once.
fn values(metric: &MetricDeclaration, labels: Vec<Label>) -> Answer<LabelValues> {
    let mut values: Vec<Option<String>> = vec![None; metric.labels.len()];
    let invalid = |problem: String| {
        let message = format!(
            "the metric {:?} has the labels {:?}, {problem}",
            metric.name, metric.labels
        );
        Err(error(ErrorCode::Invalid, message))
    };
    for Label { name, value } in labels {
        let Some(position) = metric.labels.iter().position(|label| *label == name) else {
            return invalid(format!("and not {name:?}"));
        };
        if value.len() > METRIC_LABEL_VALUE_BYTES_MAX {
            let message = format!(
                "the label {name:?} of the metric {:?} has {} bytes, and may have {METRIC_LABEL_VALUE_BYTES_MAX}",
                metric.name,
                value.len()
            );
            return Err(error(ErrorCode::TooLarge, message));
        }
        if values[position].replace(without_controls(value)).is_some() {
            return invalid(format!("and {name:?} is given twice"));
        }
    }
    match values.iter().position(Option::is_none) {
        Some(missing) => invalid(format!("and {:?} is missing", metric.labels[missing])),
        None => Ok(values.into_iter().flatten().collect()),
    }
}

/// With control characters written as `\u{1b}`, so that the output is harmless in a terminal. It escapes a newline
/// itself. An object's name may have such characters, so a call does not fail for them.
fn without_controls(value: String) -> String {
    let is_raw = |c: char| c.is_control() && c != '\n';
    if !value.contains(is_raw) {
        return value;
    }
    let mut escaped = String::with_capacity(value.len());
    for c in value.chars() {
        match is_raw(c) {
            true => escaped.extend(c.escape_unicode()),
            false => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests;
