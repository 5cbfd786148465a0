//! Scripts and the cache: the index values that they compute, and what they read.

use crate::indexes::Loop;
use crate::scripts::{can_run, run};
use crate::world::{World, hello_log, idle};

#[tokio::test(start_paused = true)]
async fn a_script_computes_index_values_and_invalid_ones_are_errors() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let text = r#"
        export function index(pod) {
          if (pod.metadata.name === "odd") return { color: "red" };
          if (pod.metadata.name === "nested") return { app: { a: 1 }, tier: "front" };
          if (pod.metadata.name === "number") return { app: [7, true, null] };
          const { app, tiers } = pod.metadata.labels ?? {};
          return { app, tier: (tiers ?? "").split("-").filter(Boolean) };
        }
    "#;
    let plugin = run(&world, text, |_| {}).await;
    assert_eq!(plugin.manifest().index_names(), ["app", "tier"]);
    let mut running = Loop::new(&world, &plugin);
    running.apply("a", r#","labels":{"app":"web","tiers":"front-back"}"#);
    running.apply("b", r#","labels":{"app":"web"}"#);
    running.apply("odd", "");
    running.apply("nested", "");
    running.apply("number", "");
    running.attach().await;
    assert_eq!(running.under("app", "web"), ["a", "b"]);
    assert_eq!(running.under("tier", "back"), ["a"]);
    assert_eq!(running.under("app", "7"), ["number"]);
    assert!(running.under("tier", "front").iter().all(|name| name != "nested"));
    let failures = running.feed.failures();
    let failed: Vec<_> = failures.iter().map(|failure| failure.error.as_str()).collect();
    assert_eq!(
        failed,
        [
            r#"handler.js: TypeError: index returned {"a":1} as a value of "app"; a value must be a string, a number or a boolean, or an array of these"#,
            r#"handler.js: TypeError: index returned values for "color", which the manifest does not declare; write export const manifest = { indexes: ["app","tier","color"] }"#
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn the_empty_value_of_an_index_is_listed_once() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let text = r#"
        import { store } from "informant";
        export const onSynced = ({ informer }) => console.log(store.indexValues(informer, "namespace"));
    "#;
    let plugin = run(&world, text, |_| {}).await;
    let mut pods = world.pods("pods");
    pods.apply_in("", "a", "");
    pods.attach(&plugin.listener());
    world.until("it to be synced", || !hello_log(&world).is_empty()).await;
    idle(&world, &plugin).await;
    assert_eq!(hello_log(&world), [r#"INFO [""]"#]);
}

#[tokio::test(start_paused = true)]
async fn a_script_reads_the_cache() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let text = r#"
        import { store } from "informant";
        export const manifest = { name: "reader", version: "1.2.3", events: [{ apiVersion: "v1", kind: "Pod", payload: "metadata" }] };
        export function onSynced({ informer }) {
          const names = (objects) => objects.map((object) => object.metadata.name).join(" ");
          console.log(names(store.list(informer)), "|", names(store.list("pods", { limit: 2 })));
          console.log(names(store.list("pods", { labelSelector: "app=web", namespace: "default", fields: ["/metadata/name"] })));
          console.log(store.get("pods", "default", "a").metadata.uid, store.get("pods", "default", "none"));
          console.log(store.get("pods", "default", "b", { fields: ["/metadata/labels"] }));
          try { store.byIndex("pods", "color", "red") } catch (error) { console.log(error.name, error.code, error.message) }
          console.log(store.byIndex("pods", "namespace", "default").length, store.indexValues("pods", "namespace"));
          console.log(store.indexKeys("pods", "namespace", "default"));
        }
    "#;
    let plugin = run(&world, text, |_| {}).await;
    assert_eq!(
        (plugin.manifest().name.as_str(), plugin.manifest().version.as_str()),
        ("reader", "1.2.3")
    );
    let mut pods = world.pods("pods");
    pods.apply("a");
    pods.apply_with("b", r#","labels":{"app":"web"}"#);
    pods.apply("c");
    pods.attach(&plugin.listener());
    world.until("it to be synced", || !hello_log(&world).is_empty()).await;
    idle(&world, &plugin).await;
    insta::assert_snapshot!(hello_log(&world).join("\n"), @r#"
    INFO a b c | a b
    INFO b
    INFO uid-a undefined
    INFO {"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"app":"web"}}}
    INFO HostError unknown-index index with name color does not exist; available: namespace
    INFO 3 ["default"]
    INFO [{"source":1,"namespace":"default","name":"a"},{"source":1,"namespace":"default","name":"b"},{"source":1,"namespace":"default","name":"c"}]
    "#);
}

#[tokio::test(start_paused = true)]
async fn on_synced_of_a_script_reads_its_cluster() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let text = r#"
        import { store } from "informant";
        export function onSynced(source) {
          const name = `pod-${source.cluster}`;
          const values = store.indexValues("pods", "namespace");
          console.log(source.cluster, store.list("pods").map((pod) => pod.metadata.name), store.get("pods", "default", name)?.kind);
          console.log(store.byIndex("pods", "namespace", "default").length, store.indexKeys("pods", "namespace", "default").length, values);
          console.log(store.list("pods", { clusters: "all" }).length);
        }
    "#;
    let plugin = run(&world, text, |_| {}).await;
    let mut clusters = ["east", "west"].map(|cluster| {
        let mut pods = world.pods_of("pods", cluster);
        pods.apply(&format!("pod-{cluster}"));
        pods
    });
    for pods in &mut clusters {
        pods.attach(&plugin.listener());
    }
    idle(&world, &plugin).await;
    insta::assert_snapshot!(hello_log(&world).join("\n"), @r#"
    INFO east ["pod-east"] Pod
    INFO 1 1 ["default"]
    INFO 2
    INFO west ["pod-west"] Pod
    INFO 1 1 ["default"]
    INFO 2
    "#);
}
