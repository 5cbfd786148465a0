mod fuzz;

use std::sync::atomic::{AtomicU64, Ordering};

use informant_cache::{BoxFuture, Environment, Moment};
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

use super::*;
use crate::capability::parts::HostPart as _;
use crate::component::roles::{Role, Roles};
use crate::error::LoadProblem;
use crate::testing::call_about;

/// A clock that is set by hand.
#[derive(Default)]
struct Clock(AtomicU64);

impl Clock {
    fn pass(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap();
        self.0.fetch_add(nanos, Ordering::Relaxed);
    }
}

impl Environment for Clock {
    fn now(&self) -> Moment {
        Moment::from_nanos(self.0.load(Ordering::Relaxed))
    }

    fn sleep(&self, _: Duration) -> BoxFuture {
        Box::pin(std::future::pending())
    }

    fn spawn(&self, _: &'static str, _: BoxFuture) {}

    fn random(&self) -> u64 {
        0
    }
}

/// The metrics of all plugins, on one clock.
#[derive(Default)]
struct World {
    series: MetricSeries,
    clock: Arc<Clock>,
}

impl World {
    /// The plugin `name`, with these metrics in its manifest.
    fn plugin(&self, name: &str, metrics: &str) -> (Arc<PluginSeries>, Arc<Manifest>) {
        let env: Arc<dyn Environment> = Arc::clone(&self.clock) as _;
        let series = self.series.of(&Arc::from(name), &env);
        let manifest = manifest(metrics);
        series.declare(&manifest);
        (series, manifest)
    }

    /// The output, without metadata and prefixes.
    fn exported(&self) -> Vec<String> {
        let text = self.text();
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        samples.map(|line| line.replace("plugin_custom_", "")).collect()
    }

    fn text(&self) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self.series.clone()));
        let mut out = String::new();
        text::encode(&mut out, &registry).unwrap();
        out
    }
}

fn manifest(metrics: &str) -> Arc<Manifest> {
    let json = format!(r#"{{"name": "n", "version": "1", "metrics": {metrics}}}"#);
    let roles = Roles::of(&[Role::EventHandler]);
    Arc::new(Manifest::parse(json.as_bytes(), roles).unwrap())
}

const METRICS: &str = r#"[
    {"name": "seen", "type": "counter", "help": "Seen", "labels": ["kind", "name"]},
    {"name": "depth", "type": "gauge", "help": "Depth", "labels": ["queue"]},
    {"name": "size", "type": "histogram", "help": "Sizes", "buckets": [1, 2.5]}
]"#;

/// A call of the plugin's handler.
fn call(manifest: &Arc<Manifest>) -> MetricsCaller {
    let mut caller = MetricsCaller::new(manifest);
    caller.begin(call_about(None, Ok(())));
    caller
}

fn labels(pairs: &[(&str, &str)]) -> Vec<Label> {
    let label = |(name, value): &(&str, &str)| Label {
        name: (*name).to_owned(),
        value: (*value).to_owned(),
    };
    pairs.iter().map(label).collect()
}

fn set(caller: &mut MetricsCaller, queue: &str, value: f64) -> Answer<()> {
    caller
        .set("depth".to_owned(), value, labels(&[("queue", queue)]))
        .unwrap()
}

fn add(caller: &mut MetricsCaller, name: &str, amount: f64, pairs: &[(&str, &str)]) -> Answer<()> {
    caller.add(name.to_owned(), amount, labels(pairs)).unwrap()
}

fn commit(series: &PluginSeries, mut caller: MetricsCaller) {
    series.commit(caller.finish(CallEnd::Succeeded).unwrap());
}

#[test]
fn changes_of_a_call_are_merged_and_committed_at_once() {
    let world = World::default();
    let (series, manifest) = world.plugin("a", METRICS);
    let mut first = call(&manifest);
    add(&mut first, "seen", 1.0, &[("kind", "Pod"), ("name", "x")]).unwrap();
    add(&mut first, "seen", 0.5, &[("name", "x"), ("kind", "Pod")]).unwrap();
    set(&mut first, "in", 3.0).unwrap();
    add(&mut first, "depth", -1.0, &[("queue", "in")]).unwrap();
    for value in [1.0, 2.0, 99.0] {
        first.observe("size".to_owned(), value, Vec::new()).unwrap().unwrap();
    }
    assert!(world.exported().is_empty() || !world.text().contains("seen_total"));
    commit(&series, first);
    let mut second = call(&manifest);
    add(&mut second, "depth", 10.0, &[("queue", "in")]).unwrap();
    second.observe("size".to_owned(), 0.5, Vec::new()).unwrap().unwrap();
    commit(&series, second);
    insta::assert_snapshot!(world.exported().join("\n"), @r#"
    depth{plugin="a",queue="in"} 12.0
    seen_total{plugin="a",kind="Pod",name="x"} 1.5
    size_sum{plugin="a"} 102.5
    size_count{plugin="a"} 4
    size_bucket{le="1.0",plugin="a"} 2
    size_bucket{le="2.5",plugin="a"} 3
    size_bucket{le="+Inf",plugin="a"} 4
    plugin_metric_series{plugin="a"} 7
    plugin_metric_dropped_total{plugin="a"} 0
    "#);
}

#[test]
fn a_call_that_fails_changes_nothing() {
    let world = World::default();
    let (series, manifest) = world.plugin("a", METRICS);
    let mut caller = call(&manifest);
    set(&mut caller, "in", 1.0).unwrap();
    assert!(caller.finish(CallEnd::Failed).is_none());
    set(&mut caller, "in", 2.0).unwrap();
    commit(&series, caller);
    assert_eq!(world.exported()[0], r#"depth{plugin="a",queue="in"} 2.0"#);
}

#[test]
fn sums_stay_finite() {
    let world = World::default();
    let (series, manifest) = world.plugin("a", METRICS);
    for _ in 0..2 {
        let mut caller = call(&manifest);
        for _ in 0..2 {
            add(&mut caller, "seen", f64::MAX, &[("kind", "Pod"), ("name", "x")]).unwrap();
            add(&mut caller, "depth", f64::MIN, &[("queue", "in")]).unwrap();
            let observed = caller.observe("size".to_owned(), f64::MAX, Vec::new());
            observed.unwrap().unwrap();
        }
        commit(&series, caller);
    }
    let text = world.text();
    assert!(!text.contains("inf") && !text.contains("NaN"), "{text}");
}

#[test]
fn replace_sets_all_series_of_a_gauge_at_once() {
    let world = World::default();
    let (series, manifest) = world.plugin("a", METRICS);
    let sample = |queue: &str, value| Sample {
        value,
        labels: labels(&[("queue", queue)]),
    };
    let mut first = call(&manifest);
    set(&mut first, "lost in the same call", 1.0).unwrap();
    let samples = vec![sample("a", 1.0), sample("b", 2.0), sample("b", 3.0)];
    first.replace("depth".to_owned(), samples).unwrap().unwrap();
    commit(&series, first);
    let mut second = call(&manifest);
    let samples = vec![sample("b", 4.0), sample("c", 5.0)];
    second.replace("depth".to_owned(), samples).unwrap().unwrap();
    add(&mut second, "depth", 1.0, &[("queue", "c")]).unwrap();
    commit(&series, second);
    assert_eq!(
        world.exported()[..2],
        [
            r#"depth{plugin="a",queue="b"} 4.0"#,
            r#"depth{plugin="a",queue="c"} 6.0"#
        ]
    );
    let mut third = call(&manifest);
    third.replace("depth".to_owned(), Vec::new()).unwrap().unwrap();
    commit(&series, third);
    assert!(!world.text().contains("depth"), "{}", world.text());
}

#[test]
fn label_explosions_are_dropped_and_counted() {
    let world = World::default();
    let (series, manifest) = world.plugin("a", METRICS);
    let mut first = call(&manifest);
    for number in 0..METRIC_SERIES_MAX + 500 {
        set(&mut first, &number.to_string(), 1.0).unwrap();
    }
    commit(&series, first);
    let mut second = call(&manifest);
    set(&mut second, "7", 2.0).unwrap();
    set(&mut second, "new", 2.0).unwrap();
    second.observe("size".to_owned(), 1.0, Vec::new()).unwrap().unwrap();
    commit(&series, second);
    let exported = world.exported();
    let own = |prefix: &str| exported.iter().filter(|line| line.starts_with(prefix)).count();
    assert_eq!(own("depth{"), METRIC_SERIES_MAX);
    assert_eq!(own("size"), 0);
    assert!(exported.contains(&r#"depth{plugin="a",queue="7"} 2.0"#.to_owned()));
    assert!(exported.contains(&r#"plugin_metric_series{plugin="a"} 1000"#.to_owned()));
    assert!(exported.contains(&r#"plugin_metric_dropped_total{plugin="a"} 502"#.to_owned()));
    // A histogram needs more than one.
    world.clock.pass(METRIC_SERIES_EXPIRE);
    let mut third = call(&manifest);
    third.observe("size".to_owned(), 1.0, Vec::new()).unwrap().unwrap();
    commit(&series, third);
    assert!(
        world
            .exported()
            .contains(&r#"plugin_metric_series{plugin="a"} 5"#.to_owned())
    );
}

#[test]
fn series_that_no_call_changes_expire() {
    let world = World::default();
    let (series, manifest) = world.plugin("a", METRICS);
    let change = |queue: &str| {
        let mut caller = call(&manifest);
        set(&mut caller, queue, 1.0).unwrap();
        commit(&series, caller);
    };
    change("old");
    change("kept");
    world.clock.pass(METRIC_SERIES_EXPIRE / 2);
    change("kept");
    world.clock.pass(METRIC_SERIES_EXPIRE / 2);
    assert_eq!(world.exported()[0], r#"depth{plugin="a",queue="kept"} 1.0"#);
    assert!(!world.text().contains("old"));
}

#[test]
fn metrics_that_change_their_type_begin_again() {
    let world = World::default();
    let (series, old) = world.plugin("a", METRICS);
    let mut running = call(&old);
    add(&mut running, "seen", 1.0, &[("kind", "Pod"), ("name", "x")]).unwrap();
    set(&mut running, "in", 1.0).unwrap();
    commit(&series, running);
    let mut late = call(&old);
    add(&mut late, "seen", 1.0, &[("kind", "Pod"), ("name", "x")]).unwrap();
    let changed = METRICS.replacen("counter", "gauge", 1).replace("Depth", "Other help");
    let (series, new) = world.plugin("a", &changed);
    assert_eq!(world.exported()[0], r#"depth{plugin="a",queue="in"} 1.0"#, "it stays");
    assert!(!world.text().contains("custom_seen"), "{}", world.text());
    // A call of the old version ends after the swap.
    commit(&series, late);
    assert!(
        world
            .exported()
            .contains(&r#"plugin_metric_dropped_total{plugin="a"} 1"#.to_owned())
    );
    let mut caller = call(&new);
    let pod = [("kind", "Pod"), ("name", "x")];
    caller.set("seen".to_owned(), 7.0, labels(&pod)).unwrap().unwrap();
    commit(&series, caller);
    let text = world.text();
    assert!(text.contains("# TYPE plugin_custom_seen gauge"), "{text}");
    assert!(
        text.contains(r#"plugin_custom_seen{plugin="a",kind="Pod",name="x"} 7.0"#),
        "{text}"
    );
}

#[test]
fn plugins_with_one_metric_share_its_family() {
    let world = World::default();
    let (first, manifest) = world.plugin("a", METRICS);
    let (second, other) = world.plugin(
        "b",
        r#"[{"name": "depth", "type": "gauge", "help": "Other", "labels": []}]"#,
    );
    let mut caller = call(&manifest);
    set(&mut caller, "in", 1.0).unwrap();
    commit(&first, caller);
    let mut caller = call(&other);
    caller.set("depth".to_owned(), 2.0, Vec::new()).unwrap().unwrap();
    commit(&second, caller);
    let text = world.text();
    assert_eq!(text.matches("# TYPE plugin_custom_depth gauge").count(), 1, "{text}");
    assert!(text.contains("# HELP plugin_custom_depth Depth\n"), "{text}");
    assert!(text.contains("plugin_custom_depth{plugin=\"b\"} 2.0\n"), "{text}");
    drop(first);
    assert!(world.text().contains("# HELP plugin_custom_depth Other\n"));
}

#[test]
fn another_type_of_a_shared_metric_is_refused() {
    let world = World::default();
    let (_series, _manifest) = world.plugin("a", METRICS);
    let declared = |kind: &str| manifest(&format!(r#"[{{"name": "depth", "type": "{kind}", "help": "Depth"}}]"#));
    let refused = world.series.check("b", &declared("counter")).unwrap_err();
    insta::assert_snapshot!(refused.to_string(), @r#"declares the metric "depth" as counter, but plugin a has it as gauge, and both would have one name in the output; rename it in one of them"#);
    assert!(matches!(refused, LoadProblem::MetricType { .. }));
    world.series.check("b", &declared("gauge")).unwrap();
    world.series.check("a", &declared("counter")).unwrap();
}

/// Two plugins that load at the same time pass the check, and the output stays valid.
#[test]
fn a_family_never_has_series_of_two_types() {
    let world = World::default();
    let (first, manifest) = world.plugin("a", METRICS);
    let (second, other) = world.plugin("b", r#"[{"name": "depth", "type": "counter", "help": "Depth"}]"#);
    let mut caller = call(&other);
    add(&mut caller, "depth", 1.0, &[]).unwrap();
    commit(&second, caller);
    let mut caller = call(&manifest);
    set(&mut caller, "in", 1.0).unwrap();
    commit(&first, caller);
    assert_eq!(world.text().matches("TYPE plugin_custom_depth").count(), 1);
    let exported = world.exported();
    assert_eq!(exported[0], r#"depth{plugin="a",queue="in"} 1.0"#);
    let dropped = r#"plugin_metric_dropped_total{plugin="b"} 1"#.to_owned();
    assert!(world.exported().contains(&dropped), "{}", world.text());
}

#[test]
fn texts_are_escaped_in_the_output() {
    let world = World::default();
    let metrics = r#"[{"name": "x", "type": "gauge", "help": "a\\d \"b\"", "labels": ["path"]}]"#;
    let (series, manifest) = world.plugin("a", metrics);
    let mut caller = call(&manifest);
    let path = labels(&[("path", "a\\b\"c\nd é\u{1b}[31m\0\r\u{9b}")]);
    caller.set("x".to_owned(), 1.0, path).unwrap().unwrap();
    commit(&series, caller);
    let text = world.text();
    assert!(text.contains("# HELP plugin_custom_x a\\\\d \"b\"\n"), "{text}");
    assert!(
        text.contains(r#"{plugin="a",path="a\\b\"c\nd é\\u{1b}[31m\\u{0}\\u{d}\\u{9b}"} 1.0"#),
        "{text}"
    );
}

#[test]
fn changes_that_do_not_fit_the_declaration_are_invalid() {
    let manifest = manifest(METRICS);
    let mut caller = call(&manifest);
    let pod = [("kind", "Pod"), ("name", "x")];
    let long = "x".repeat(METRIC_LABEL_VALUE_BYTES_MAX + 1);
    let answers = [
        add(&mut caller, "unknown", 1.0, &[]),
        add(&mut caller, "informant_plugin_custom_seen_total", 1.0, &pod),
        caller.observe("unknown".to_owned(), 1.0, Vec::new()).unwrap(),
        caller.set("seen".to_owned(), 1.0, labels(&pod)).unwrap(),
        caller
            .observe("depth".to_owned(), 1.0, labels(&[("queue", "in")]))
            .unwrap(),
        add(&mut caller, "size", 1.0, &[]),
        add(&mut caller, "seen", -1.0, &pod),
        add(&mut caller, "seen", 1.0, &pod[..1]),
        add(&mut caller, "seen", 1.0, &[pod[0], pod[0]]),
        add(&mut caller, "seen", 1.0, &[("kind", "Pod"), ("nam", "x")]),
        set(&mut caller, "in", f64::NAN),
        add(&mut caller, "depth", f64::INFINITY, &[("queue", "in")]),
        caller
            .observe("size".to_owned(), f64::NEG_INFINITY, Vec::new())
            .unwrap(),
        set(&mut caller, &long, 1.0),
    ];
    let text = answers.into_iter().map(|answer| answer.unwrap_err());
    let text = text.map(|error| format!("{:?}: {}", error.code, error.message));
    insta::assert_snapshot!(text.collect::<Vec<_>>().join("\n"), @r#"
    ErrorCode::Invalid: the manifest does not declare the metric "unknown": add {"name": "unknown", "type": "counter", "help": …} to its `metrics`
    ErrorCode::Invalid: the manifest does not declare the metric "informant_plugin_custom_seen_total": use "seen", because Informant adds prefix and suffix itself; if it is not declared, add {"name": "seen", "type": "counter", "help": …} to its `metrics`
    ErrorCode::Invalid: the manifest does not declare the metric "unknown": add {"name": "unknown", "type": "histogram", "help": …} to its `metrics`
    ErrorCode::Invalid: the metric "seen" is a counter: use add
    ErrorCode::Invalid: the metric "depth" is a gauge: use set, add or replace
    ErrorCode::Invalid: the metric "size" is a histogram: use observe
    ErrorCode::Invalid: the counter "seen" cannot decrease by 1: declare a gauge
    ErrorCode::Invalid: the metric "seen" has the labels ["kind", "name"], and "name" is missing
    ErrorCode::Invalid: the metric "seen" has the labels ["kind", "name"], and "kind" is given twice
    ErrorCode::Invalid: the metric "seen" has the labels ["kind", "name"], and not "nam"
    ErrorCode::Invalid: the metric "depth" cannot be NaN: a value must be a finite number
    ErrorCode::Invalid: the metric "depth" cannot be inf: a value must be a finite number
    ErrorCode::Invalid: the metric "size" cannot be -inf: a value must be a finite number
    ErrorCode::TooLarge: the label "queue" of the metric "depth" has 513 bytes, and may have 512
    "#);
}

#[test]
fn calls_that_may_not_change_metrics_are_denied() {
    let mut caller = call(&manifest(METRICS));
    caller.begin(call_about(None, Err("not here")));
    let denied = set(&mut caller, "in", 1.0).unwrap_err();
    assert_eq!((denied.code, &*denied.message), (ErrorCode::NotHere, "not here"));
}
