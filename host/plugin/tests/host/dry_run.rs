//! Dry run: what a plugin would change is withheld and listed.

use std::fs;
use std::sync::Arc;

use informant_plugin_host::{KubeAction, KubeCall, Plugin};
use informant_spec::PluginSpec;
use serde_json::json;

use crate::kube::{Cluster, grants};
use crate::scripts::can_run;
use crate::world::{Pods, Reload, World, guest, idle};

/// Writes to each pod directly and deferred, reads it, remembers it, and counts it.
const SCRIPT: &str = r#"
    import { kube, kv, log, metrics } from "informant";
    export const manifest = {
      writes: "seen",
      metrics: [{ name: "seen", type: "counter", help: "Pods" }],
    };
    export function onAdd(pod, event) {
      kube.get(event);
      kube.patch(event, { metadata: { labels: { direct: "yes" } } });
      kube.defer.delete(event);
      log.info(`calls=${kv.get("calls") ?? 0}`);
      kv.set("calls", (kv.get("calls") ?? 0) + 1);
      metrics.add("seen");
    }
"#;

fn spec(world: &World, is_dry_run: bool) -> PluginSpec {
    let path = world.cache.path().join("greeter.js");
    fs::write(&path, SCRIPT).unwrap();
    let mut spec = PluginSpec::new("greeter", path);
    spec.informers = vec![("pods".into(), "pods".into())];
    spec.allow_kube = grants(json!([{ "verbs": ["get", "patch", "delete"], "resource": "v1/pods" }]));
    spec.is_dry_run = is_dry_run;
    spec
}

/// Counts its starts in a key.
fn starter(config: u32, is_dry_run: bool) -> PluginSpec {
    let mut spec = PluginSpec::new("starter", guest("guest_kv"));
    spec.informers = vec![("pods".into(), "pods".into())];
    spec.config = json!({ "number": config });
    spec.is_dry_run = is_dry_run;
    spec
}

async fn run(world: &World) -> (Plugin, Pods) {
    let plugin = world.load(spec(world, true)).await.unwrap();
    plugin.start().await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    idle(world, &plugin).await;
    (plugin, pods)
}

/// `patch a true`: the verb, the name, and whether it is a dry run.
fn sent(cluster: &Cluster) -> Vec<String> {
    let shown = |call: KubeCall| {
        let is_dry_run = match &call.action {
            KubeAction::Get | KubeAction::List(_) => false,
            KubeAction::Create(_, options) | KubeAction::Update(_, options) | KubeAction::Patch(_, _, options) => {
                options.dry_run
            }
            KubeAction::Delete(options) => options.dry_run,
        };
        format!("{} {} {is_dry_run}", call.action.verb(), call.address.name)
    };
    cluster.take().into_iter().map(shown).collect()
}

fn listed(plugin: &Plugin) -> Vec<String> {
    let effects = plugin.effects().effects.into_iter();
    let shown = effects.map(|effect| {
        assert_eq!(effect.error, None);
        let text = format!(
            "{} {} {} {}",
            effect.kind.as_str(),
            effect.action,
            effect.target,
            effect.detail
        );
        text.trim_end().to_owned()
    });
    shown.collect()
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_withholds_and_lists_writes_and_keys() {
    if !can_run() {
        return;
    }
    let cluster = Cluster::answering(Some(0));
    let world = World::for_conformance(Arc::clone(&cluster) as _);
    let (plugin, mut pods) = run(&world).await;
    for name in ["a", "b"] {
        pods.apply(name);
        idle(&world, &plugin).await;
        let expected = [
            format!("get {name} false"),
            format!("patch {name} true"),
            format!("delete {name} true"),
        ];
        assert_eq!(sent(&cluster), expected);
    }
    assert_eq!(world.keys.text(), "", "nothing is stored");
    let lines: Vec<String> = world.log.lines().into_iter().map(|line| line.message).collect();
    assert!(
        lines.contains(&"calls=1".to_owned()),
        "a call sees the keys of the one before"
    );
    insta::assert_snapshot!(listed(&plugin).join("\n"), @r#"
    kube patch v1/pods default/a {"metadata":{"labels":{"direct":"yes"}}}
    kv set calls 1 B
    kube delete v1/pods default/a
    kube patch v1/pods default/b {"metadata":{"labels":{"direct":"yes"}}}
    kv set calls 1 B
    kube delete v1/pods default/b
    "#);
    insta::assert_snapshot!(world.metrics("informant_plugin_effects"), @r#"
    informant_plugin_effects_withheld_total{plugin="greeter",kind="kube"} 4
    informant_plugin_effects_withheld_total{plugin="greeter",kind="kv"} 2
    "#);
    assert_eq!(
        world.metrics("informant_plugin_dry_run"),
        r#"informant_plugin_dry_run{plugin="greeter"} 1"#
    );
    // Its metrics are Informant's own affair.
    assert!(world.metrics("informant_plugin_custom_seen").ends_with(" 2.0"));
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_ends_without_a_new_instance() {
    if !can_run() {
        return;
    }
    let cluster = Cluster::answering(Some(0));
    let world = World::for_conformance(Arc::clone(&cluster) as _);
    let (plugin, mut pods) = run(&world).await;
    pods.apply("a");
    idle(&world, &plugin).await;
    assert!(plugin.status().is_dry_run);
    assert_eq!(sent(&cluster).len(), 3);
    let swapped = plugin.reconfigure(spec(&world, false)).await.unwrap();
    assert!(swapped.is_none(), "the instance is kept");
    pods.apply("b");
    idle(&world, &plugin).await;
    assert_eq!(sent(&cluster), ["get b false", "patch b false", "delete b false"]);
    assert_eq!(world.keys.text(), "calls=1", "the keys of the dry run are gone");
    let list = plugin.effects();
    assert_eq!(
        (list.is_dry_run, list.effects.len()),
        (false, 3),
        "they can still be listed"
    );
    plugin.reconfigure(spec(&world, true)).await.unwrap();
    assert!(plugin.effects().effects.is_empty(), "a new dry run has a new list");
}

#[tokio::test]
async fn a_dry_run_begins_before_init_of_its_first_instance() {
    let world = World::new();
    let plugin = world.load(starter(1, false)).await.unwrap();
    plugin.start().await;
    let swapped = plugin.reconfigure(starter(2, true)).await.unwrap();
    assert!(swapped.is_some(), "a new instance");
    assert_eq!(listed(&plugin), ["kv set starts 1 B"]);
    plugin.reconfigure(starter(2, false)).await.unwrap();
    assert_eq!(world.keys.text(), "starts=1");
    // It begins even if that instance is refused.
    let mut missing = starter(3, true);
    missing.content = "missing.wasm".into();
    let refused = plugin.reconfigure(missing).await;
    assert!(refused.is_err() && plugin.status().is_dry_run, "{refused:?}");
}
