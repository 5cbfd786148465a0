//! Instances that wait to be swapped in: what they may do before, and what `init` has changed in the plugin's keys.

use std::fs;
use std::sync::Arc;

use informant_plugin_host::Plugin;
use informant_spec::{HttpGrant, PluginSpec};
use serde_json::json;

use crate::fetch::{Service, Shared};
use crate::kube::{Cluster, grants};
use crate::scripts::can_run;
use crate::world::{Reload, World, hello_log, read};

/// Counts its starts, and notes which of them was the first. `describe` evaluates it, too.
const COUNTER: &str = r#"
    import { kv } from "informant";
    export const manifest = { parallel: true };
    try {
      kv.set("starts", (kv.get("starts") ?? 0) + 1);
      kv.setIfAbsent(`first/${VERSION}`, kv.get("starts"));
    } catch (error) {
      if (error.code !== "not-here") throw error;
    }
    export function onAdd() {}
    export const save = () => ({});
    export function restore() { if (VERSION === 2) throw new Error("asked to"); }
"#;

fn counter(world: &World, version: u32) -> PluginSpec {
    let text = COUNTER.replace("VERSION", &version.to_string());
    let mut spec = spec(world, &text);
    spec.limits.instances = 2;
    spec
}

fn spec(world: &World, text: &str) -> PluginSpec {
    let path = world.cache.path().join("hello.js");
    fs::write(&path, text).unwrap();
    let mut spec = PluginSpec::new("hello", path);
    spec.informers = vec![("pods".into(), "pods".into())];
    spec
}

async fn run(world: &World, spec: PluginSpec) -> Plugin {
    let plugin = world.load(spec).await.unwrap();
    plugin.start().await;
    plugin
}

#[tokio::test(start_paused = true)]
async fn keys_of_a_refused_candidate_are_not_stored() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let plugin = run(&world, counter(&world, 1)).await;
    assert_eq!(world.keys.text(), "first/1=1 starts=2");
    let refused = plugin.swap(counter(&world, 2).content.path()).await.unwrap_err();
    assert!(refused.to_string().contains("asked to"), "{refused}");
    assert_eq!(
        world.keys.text(),
        "first/1=1 starts=2",
        "the old version keeps its keys"
    );
    plugin.swap(counter(&world, 3).content.path()).await.unwrap();
    assert_eq!(
        world.keys.text(),
        "first/1=1 first/3=3 starts=4",
        "each instance sees what the one before has set"
    );
}

#[tokio::test(start_paused = true)]
async fn keys_of_a_candidate_wait_until_it_is_applied() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let plugin = run(&world, counter(&world, 1)).await;
    let prepared = async |version| {
        let spec = counter(&world, version);
        let file = read(&spec.content).unwrap();
        plugin.prepare_section(spec, file).await.unwrap()
    };
    let (outdated, newer) = (prepared(3).await, prepared(4).await);
    assert_eq!(world.keys.text(), "first/1=1 starts=2");
    plugin.apply(newer).await.unwrap();
    assert_eq!(world.keys.text(), "first/1=1 first/4=3 starts=4");
    plugin.apply(outdated).await.map(|_| ()).unwrap_err();
    assert_eq!(world.keys.text(), "first/1=1 first/4=3 starts=4");
}

#[tokio::test(start_paused = true)]
async fn dry_run_decides_where_init_of_a_new_section_writes() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let plugin = run(&world, counter(&world, 1)).await;
    assert_eq!(world.keys.text(), "first/1=1 starts=2");
    let mut section = counter(&world, 3);
    section.is_dry_run = true;
    section.config = json!({ "edited": "too" });
    assert!(plugin.reconfigure(section).await.unwrap().is_some(), "a new instance");
    assert_eq!(world.keys.text(), "first/1=1 starts=2", "withheld");
    let effects = plugin.effects().effects.into_iter();
    let effects: Vec<String> = effects
        .map(|effect| format!("{} {}", effect.action, effect.target))
        .collect();
    assert_eq!(effects, ["set first/3", "set starts"]);
    // What the dry run has set does not exist for the version that ends it.
    plugin.reconfigure(counter(&world, 3)).await.unwrap();
    assert_eq!(world.keys.text(), "first/1=1 first/3=3 starts=4");
}

#[tokio::test(start_paused = true)]
async fn save_and_restore_reach_neither_cluster_nor_services() {
    if !can_run() {
        return;
    }
    const SCRIPT: &str = r#"
        import { fetch, kube, log } from "informant";
        const pod = { resource: "v1/pods", namespace: "default", name: "a" };
        async function attempt(where) {
          for (const call of [() => kube.get(pod), () => fetch("http://a.svc/echo")]) {
            try { await call(); log.info(`${where}: done`); }
            catch (error) { log.info(`${where}: ${error.code}`); }
          }
        }
        export function onAdd() {}
        export async function save() { await attempt("save"); return {}; }
        export async function restore() { await attempt("restore"); }
    "#;
    let (service, cluster) = (Arc::<Service>::default(), Cluster::answering(Some(0)));
    let http = Arc::new(Shared(Arc::clone(&service)));
    let world = World::for_scripts_with_http(Some(Arc::clone(&cluster) as _), http);
    let mut spec = spec(&world, SCRIPT);
    spec.allow_http = vec![HttpGrant::parse("http://a.svc").unwrap()];
    spec.allow_kube = grants(json!([{ "verbs": ["get"], "resource": "v1/pods" }]));
    let path = spec.content.path().to_owned();
    let plugin = run(&world, spec).await;
    plugin.swap(&path).await.unwrap();
    insta::assert_snapshot!(hello_log(&world).join("\n"), @"
    INFO save: not-here
    WARN HTTP request failed: in save and restore, only log and store can be called: act in a handler
    INFO save: denied
    INFO restore: not-here
    WARN HTTP request failed: in save and restore, only log and store can be called: act in a handler
    INFO restore: denied
    ");
    assert!(service.seen().is_empty() && cluster.take().is_empty());
}
