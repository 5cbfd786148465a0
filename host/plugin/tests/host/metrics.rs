//! Metrics of plugins' own: changes take effect with a call's success, and the manifest says what there is.

use std::fs;
use std::time::Duration;

use informant_plugin_host::{LoadProblem, Plugin};
use informant_spec::{PluginSpec, RetryPolicy};

use crate::scripts::can_run;
use crate::world::{Pods, Reload, World, idle};

/// A script that counts its pods by name, and fails and never returns at the first attempt for some.
fn script(manifest: &str) -> String {
    format!(
        r#"
        import {{ metrics }} from "informant";
        export const manifest = {{ {manifest} }};
        export function onAdd(pod, event) {{
          metrics.add("seen", 1, {{ name: event.name }});
          if (event.attempt === 0 && event.name.startsWith("fails")) throw new Error("asked to");
          while (event.attempt === 0 && event.name.startsWith("spins"));
        }}
        export const onUpdate = onAdd;
    "#
    )
}

fn declares(kind: &str) -> String {
    format!(r#"metrics: [{{ name: "seen", type: "{kind}", help: "Pods", labels: ["name"] }}]"#)
}

fn spec(world: &World, plugin: &str, text: &str) -> PluginSpec {
    let path = world.cache.path().join(format!("{plugin}.js"));
    fs::write(&path, text).unwrap();
    let mut spec = PluginSpec::new(plugin, path);
    spec.informers = vec![("pods".into(), "pods".into())];
    spec.limits.cpu = Duration::from_millis(500);
    spec.retry = RetryPolicy {
        initial: Duration::from_millis(10),
        ..RetryPolicy::default()
    };
    spec
}

async fn run(world: &World, plugin: &str, text: &str) -> (Plugin, Pods) {
    let plugin = world.load(spec(world, plugin, text)).await.unwrap();
    plugin.start().await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    (plugin, pods)
}

async fn apply(world: &World, plugin: &Plugin, pods: &mut Pods, name: &str) {
    pods.apply(name);
    idle(world, plugin).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_that_fails_or_times_out_changes_no_metrics() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let (plugin, mut pods) = run(&world, "counter", &script(&declares("counter"))).await;
    for name in ["fails-a", "spins-a", "b", "b"] {
        apply(&world, &plugin, &mut pods, name).await;
    }
    // The timeout cost an instance, and the series stay.
    assert_eq!(plugin.status().restarts, 1);
    insta::assert_snapshot!(world.metrics("informant_plugin_custom"), @r#"
    informant_plugin_custom_seen_total{plugin="counter",name="b"} 2.0
    informant_plugin_custom_seen_total{plugin="counter",name="fails-a"} 1.0
    informant_plugin_custom_seen_total{plugin="counter",name="spins-a"} 1.0
    "#);
    insta::assert_snapshot!(world.metrics("informant_plugin_metric"), @r#"
    informant_plugin_metric_dropped_total{plugin="counter"} 0
    informant_plugin_metric_series{plugin="counter"} 3
    "#);
    plugin.stop(Duration::from_secs(10)).await;
    drop(plugin);
    assert_eq!(world.metrics("informant_plugin_custom"), "", "its series go with it");
}

#[tokio::test(start_paused = true)]
async fn a_metric_that_the_manifest_lacks_is_invalid() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let (plugin, mut pods) = run(&world, "counter", &script("")).await;
    apply(&world, &plugin, &mut pods, "a").await;
    let letters = plugin.listener().ledger().dead_letters();
    let error = &letters[0].error;
    assert!(
        error.contains(r#"add {"name": "seen", "type": "counter", "help": …} to its `metrics`"#),
        "{error}"
    );
    assert_eq!(world.metrics("informant_plugin_custom"), "");
    // The version that declares it works.
    fs::write(world.cache.path().join("counter.js"), script(&declares("counter"))).unwrap();
    plugin.swap(plugin.spec().content.path()).await.unwrap();
    apply(&world, &plugin, &mut pods, "b").await;
    let metrics = world.metrics("informant_plugin_custom");
    assert_eq!(
        metrics,
        r#"informant_plugin_custom_seen_total{plugin="counter",name="b"} 1.0"#
    );
}

#[tokio::test(start_paused = true)]
async fn replacing_by_something_else_than_a_list_changes_nothing() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let text = r#"
        import { metrics, Permanent } from "informant";
        export const manifest = { metrics: [{ name: "seen", type: "gauge", help: "Pods", labels: ["name"] }] };
        const given = { list: [{ value: 1, labels: { name: "a" } }], object: { value: 2 }, text: "3", none: undefined };
        export function onAdd(pod, event) {
          try { metrics.replace("seen", given[event.name]); } catch (error) { throw new Permanent(String(error)); }
        }
    "#;
    let (plugin, mut pods) = run(&world, "counter", text).await;
    for name in ["list", "object", "text", "none"] {
        apply(&world, &plugin, &mut pods, name).await;
    }
    let letters = plugin.listener().ledger().dead_letters();
    assert_eq!(letters.len(), 3);
    for (letter, shown) in letters.iter().zip(["", "\"3\"", "undefined"]) {
        let error = &letter.error;
        let is_clear = error.contains("metrics: the samples of \"seen\" are") && error.contains("which is not a list");
        assert!(is_clear && error.contains(shown), "{error}");
    }
    let metrics = world.metrics("informant_plugin_custom");
    assert_eq!(
        metrics,
        r#"informant_plugin_custom_seen{plugin="counter",name="a"} 1.0"#
    );
}

#[tokio::test(start_paused = true)]
async fn metrics_survive_a_swap_unless_their_type_changes() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let (plugin, mut pods) = run(&world, "counter", &script(&declares("counter"))).await;
    let file = world.cache.path().join("counter.js");
    apply(&world, &plugin, &mut pods, "a").await;
    for (kind, expected) in [
        (
            "counter",
            r#"informant_plugin_custom_seen_total{plugin="counter",name="a"} 2.0"#,
        ),
        (
            "gauge",
            r#"informant_plugin_custom_seen{plugin="counter",name="a"} 1.0"#,
        ),
    ] {
        fs::write(&file, script(&declares(kind))).unwrap();
        plugin.swap(&file).await.unwrap();
        apply(&world, &plugin, &mut pods, "a").await;
        assert_eq!(world.metrics("informant_plugin_custom"), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_plugin_cannot_change_the_type_of_a_metric() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let (first, mut pods) = run(&world, "counter", &script(&declares("counter"))).await;
    let other = spec(&world, "other", &script(&declares("gauge")));
    let refused = world.load(other).await.err().unwrap();
    assert!(matches!(refused.problem(), LoadProblem::MetricType { .. }), "{refused}");
    // A swap is refused, too, and the running version continues.
    let (second, mut others) = run(&world, "other", &script(&declares("counter"))).await;
    fs::write(world.cache.path().join("other.js"), script(&declares("gauge"))).unwrap();
    second.swap(second.spec().content.path()).await.unwrap_err();
    apply(&world, &first, &mut pods, "a").await;
    apply(&world, &second, &mut others, "a").await;
    insta::assert_snapshot!(world.metrics("informant_plugin_custom"), @r#"
    informant_plugin_custom_seen_total{plugin="counter",name="a"} 1.0
    informant_plugin_custom_seen_total{plugin="other",name="a"} 1.0
    "#);
}
