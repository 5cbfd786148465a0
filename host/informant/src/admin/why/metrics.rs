//! Metrics of the record of effects, collected at scrape time.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::effect_log::{EffectLog, RingsUsage};

pub(in crate::admin) fn encode(log: &EffectLog, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let RingsUsage {
        bytes,
        records,
        dropped,
    } = log.usage();
    let gauges = [
        (
            "effect_log_bytes",
            "Memory of the record of effects (`informant why`)",
            bytes,
        ),
        ("effect_log_records", "Effects in the record", records),
    ];
    for (name, help, value) in gauges {
        let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)).encode(metric)?;
    }
    let help = "Effects that the record no longer has, because it was full";
    let metric = encoder.encode_descriptor("effect_log_dropped", help, None, MetricType::Counter)?;
    ConstCounter::new(dropped).encode(metric)
}
