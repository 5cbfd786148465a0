//! Sequences of calls against naive series.

use std::collections::BTreeMap;

use informant_fuzz::{corpus, fuzz};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde::{Deserialize, Serialize};

use super::*;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Op {
    function: Function,
    metric: String,
    /// In the corpus null: not a number.
    value: Option<f64>,
    labels: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Function {
    Add,
    Set,
    Observe,
    /// All series by one with these labels.
    Replace,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Called {
    ops: Vec<Op>,
    succeeds: bool,
}

fn op() -> impl Strategy<Value = Op> {
    use Function::{Add, Observe, Replace, Set};
    let function = select(vec![Add, Set, Observe, Replace]);
    let metric = select(
        &[
            "seen",
            "depth",
            "size",
            "undeclared",
            "informant_plugin_custom_seen_total",
            "",
        ][..],
    );
    // Small whole numbers: their sums are exact.
    let value = prop_oneof![8 => (-3_i32..1_000).prop_map(|value| Some(f64::from(value))), 1 => Just(None)];
    let name = select(&["kind", "name", "queue", "le", ""][..]).prop_map(str::to_owned);
    let text = prop_oneof![
        4 => select(&["a", "b"][..]).prop_map(str::to_owned),
        1 => ".{0,6}",
        1 => Just("x".repeat(METRIC_LABEL_VALUE_BYTES_MAX + 1)),
    ];
    let labels = prop_oneof![
        4 => vec(text.clone(), 0..3).prop_map(|texts| {
            let names: &[&str] = if texts.len() == 2 { &["kind", "name"] } else { &["queue"] };
            names.iter().map(|name| (*name).to_owned()).zip(texts).collect::<Vec<_>>()
        }),
        1 => vec((name, text), 0..4),
    ];
    (function, metric, value, labels).prop_map(|(function, metric, value, labels)| Op {
        function,
        metric: metric.to_owned(),
        value,
        labels,
    })
}

/// The values of each metric's series: of a histogram how many are in each bucket, of others their number.
type Model = BTreeMap<String, BTreeMap<Vec<String>, Vec<f64>>>;

/// What a call answers, and makes of the model. The order of the checks is the host's.
fn expected(model: &mut Model, manifest: &Manifest, op: &Op) -> Result<(), ErrorCode> {
    use Function::{Add, Observe, Replace, Set};
    let Some((_, declared)) = manifest.metric(&op.metric) else {
        return Err(ErrorCode::Invalid);
    };
    let fits = match declared.kind {
        MetricKind::Counter => matches!(op.function, Add),
        MetricKind::Gauge => matches!(op.function, Add | Set | Replace),
        MetricKind::Histogram => matches!(op.function, Observe),
    };
    let decreases = declared.kind == MetricKind::Counter && op.value.is_some_and(|value| value < 0.0);
    if !fits || decreases {
        return Err(ErrorCode::Invalid);
    }
    let mut named = BTreeMap::new();
    for (name, value) in &op.labels {
        if !declared.labels.contains(name) {
            return Err(ErrorCode::Invalid);
        }
        if value.len() > METRIC_LABEL_VALUE_BYTES_MAX {
            return Err(ErrorCode::TooLarge);
        }
        if named.insert(name.clone(), without_controls(value.clone())).is_some() {
            return Err(ErrorCode::Invalid);
        }
    }
    let values: Option<Vec<String>> = declared.labels.iter().map(|name| named.get(name).cloned()).collect();
    let (Some(values), Some(value)) = (values, op.value) else {
        return Err(ErrorCode::Invalid);
    };
    let series = model.entry(op.metric.clone()).or_default();
    if matches!(op.function, Replace) {
        series.clear();
    }
    let row = series
        .entry(values)
        .or_insert_with(|| vec![0.0; declared.buckets.len() + 1]);
    match op.function {
        Add => row[0] += value,
        Set | Replace => row[0] = value,
        Observe => row[declared.buckets.iter().filter(|bound| **bound < value).count()] += 1.0,
    }
    Ok(())
}

fn answered(caller: &mut MetricsCaller, op: &Op) -> Result<(), ErrorCode> {
    let (name, value) = (op.metric.clone(), op.value.unwrap_or(f64::NAN));
    let pairs: Vec<(&str, &str)> = op.labels.iter().map(|(name, value)| (&**name, &**value)).collect();
    let labels = labels(&pairs);
    let answer = match op.function {
        Function::Add => caller.add(name, value, labels),
        Function::Set => caller.set(name, value, labels),
        Function::Observe => caller.observe(name, value, labels),
        Function::Replace => caller.replace(name, vec![Sample { value, labels }]),
    };
    answer.unwrap().map_err(|error| {
        assert!(!error.message.is_empty());
        error.code
    })
}

fn found(series: &PluginSeries) -> Model {
    let of_row = |row: &series::Row| match &row.value {
        series::Value::Number(value) => vec![*value],
        series::Value::Histogram(observed) => observed.counts.iter().map(|count| *count as f64).collect(),
    };
    let of_metric = |metric: series::Metric| {
        let rows = metric.rows.iter().map(|(labels, row)| (labels.to_vec(), of_row(row)));
        (metric.declared.name.clone(), rows.collect())
    };
    series.scrape().metrics.into_iter().map(of_metric).collect()
}

#[test]
fn series_are_what_the_successful_calls_made_of_them() {
    let calls = vec(
        (vec(op(), 0..8), any::<bool>()).prop_map(|(ops, succeeds)| Called { ops, succeeds }),
        0..6,
    );
    fuzz(corpus!("metrics"), calls, |calls| {
        let world = World::default();
        let (series, manifest) = world.plugin("a", METRICS);
        let mut model = Model::new();
        for made in calls {
            let mut caller = call(&manifest);
            let mut changed = model.clone();
            for op in &made.ops {
                let answer = answered(&mut caller, op);
                prop_assert_eq!(answer, expected(&mut changed, &manifest, op), "{:?}", op);
            }
            if made.succeeds {
                model = changed;
                if let Some(changes) = caller.finish(CallEnd::Succeeded) {
                    series.commit(changes);
                }
            }
            prop_assert_eq!(&found(&series), &model);
        }
        // What is exported can be read: each sample is a line.
        for line in world.exported() {
            prop_assert!(line.rsplit(' ').next().unwrap().parse::<f64>().is_ok(), "{line}");
        }
        Ok(())
    });
}
