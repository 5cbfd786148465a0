//! The series of all plugins, and their export.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use informant_cache::Environment;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::series::{Metric, PluginSeries, Row, Scraped, Value};
use crate::capability::parts::HostPart;
use crate::component::manifest::{Manifest, MetricKind};
use crate::error::LoadProblem;
use crate::series::Live;

/// The prefix of the metrics of plugins, after that of all metrics.
const PREFIX: &str = "plugin_custom_";

/// The series of all plugins. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct MetricSeries(Live<PluginSeries>);

impl MetricSeries {
    /// The series of a plugin. There is one for each name: a plugin that replaces another continues them.
    pub(crate) fn of(&self, plugin: &Arc<str>, env: &Arc<dyn Environment>) -> Arc<PluginSeries> {
        self.0.of_or_make(plugin, || PluginSeries::new(plugin, Arc::clone(env)))
    }
}

impl HostPart for MetricSeries {
    fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(self.clone()));
    }

    /// Rejects a version that declares a metric which another plugin has with another type: both are one family in the
    /// output.
    fn check(&self, plugin: &str, manifest: &Manifest) -> Result<(), LoadProblem> {
        if manifest.metrics.is_empty() {
            return Ok(());
        }
        for (_, other) in self.0.all().into_iter().filter(|(name, _)| **name != *plugin) {
            for metric in &manifest.metrics {
                if let Some(kind) = other.kind_of(&metric.name).filter(|kind| *kind != metric.kind) {
                    return Err(LoadProblem::MetricType {
                        name: metric.name.clone(),
                        kind: metric.kind.as_str(),
                        other: other.plugin.to_string(),
                        other_kind: kind.as_str(),
                    });
                }
            }
        }
        Ok(())
    }
}

impl Collector for MetricSeries {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let plugins = self.0.all();
        let mut scraped: Vec<(&PluginSeries, Scraped)> = plugins.iter().map(|(_, of)| (&**of, of.scrape())).collect();
        // Plugins that declare the same metric share one family.
        let mut families: BTreeMap<&str, Vec<(&PluginSeries, &Metric)>> = BTreeMap::new();
        for (plugin, scraped) in &scraped {
            for metric in &scraped.metrics {
                families
                    .entry(&metric.declared.name)
                    .or_default()
                    .push((*plugin, metric));
            }
        }
        for (name, members) in &families {
            encode_family(&mut encoder, name, members)?;
        }
        drop(families);
        scraped.retain(|(_, scraped)| scraped.series > 0 || scraped.dropped > 0);
        if scraped.is_empty() {
            return Ok(());
        }
        let help = "Series of a plugin's own metrics";
        let mut family = encoder.encode_descriptor("plugin_metric_series", help, None, MetricType::Gauge)?;
        for (plugin, scraped) in &scraped {
            let series = i64::try_from(scraped.series).unwrap_or(i64::MAX);
            ConstGauge::new(series).encode(family.encode_family(&[("plugin", &*plugin.plugin)])?)?;
        }
        let help = "Changes of a plugin's own metrics that were dropped, most often above the limit of series";
        let mut family = encoder.encode_descriptor("plugin_metric_dropped", help, None, MetricType::Counter)?;
        for (plugin, scraped) in &scraped {
            ConstCounter::new(scraped.dropped).encode(family.encode_family(&[("plugin", &*plugin.plugin)])?)?;
        }
        Ok(())
    }
}

/// Writes the series of all plugins that have a metric of this name. The first plugin's help counts, and its type:
/// another type is refused when a plugin is loaded, but two may be loaded at once.
fn encode_family(encoder: &mut DescriptorEncoder<'_>, name: &str, members: &[(&PluginSeries, &Metric)]) -> fmt::Result {
    let Some((_, first)) = members.first() else {
        return Ok(());
    };
    let kind = first.declared.kind;
    let metric_type = match kind {
        MetricKind::Counter => MetricType::Counter,
        MetricKind::Gauge => MetricType::Gauge,
        MetricKind::Histogram => MetricType::Histogram,
    };
    let (name, help) = (format!("{PREFIX}{name}"), first.declared.help.replace('\\', "\\\\"));
    let mut family = encoder.encode_descriptor(&name, &help, None, metric_type)?;
    for (plugin, metric) in members {
        if metric.declared.kind != kind {
            plugin.drop_metric(&metric.declared.name);
            continue;
        }
        for (values, row) in &metric.rows {
            let names = metric.declared.labels.iter().map(String::as_str);
            let mut labels = vec![("plugin", &*plugin.plugin)];
            labels.extend(names.zip(values.iter().map(String::as_str)));
            encode_row(&mut family.encode_family(&labels)?, metric, row)?;
        }
    }
    Ok(())
}

fn encode_row(encoder: &mut MetricEncoder<'_>, metric: &Metric, row: &Row) -> fmt::Result {
    match &row.value {
        Value::Number(value) if metric.declared.kind == MetricKind::Counter => {
            encoder.encode_counter::<NoLabelSet, f64, f64>(value, None)
        }
        Value::Number(value) => encoder.encode_gauge(value),
        Value::Histogram(observed) => {
            let bounds = metric.declared.buckets.iter().copied().chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = bounds.zip(observed.counts.iter().copied()).collect();
            let count = observed.counts.iter().sum();
            encoder.encode_histogram::<NoLabelSet>(observed.sum, count, &buckets, None)
        }
    }
}
