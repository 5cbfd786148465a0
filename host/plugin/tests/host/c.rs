//! The C SDK: state transfer between versions, standard output, and the code of its README.

use std::sync::Arc;

use informant_spec::{PluginSpec, ReplayPolicy};
use serde_json::{Value, json};

use crate::kube::{Cluster, grants};
use crate::world::{Pods, Reload, World, guest, idle, is_built};

/// `plugin-sdk/c/tests/guest.c`. Not built where the compiler is missing, but always in CI.
const GUEST: &str = "guest_c";

/// Writes `name` and waits until the plugin has handled it. Returns the plugin's event count.
async fn counted(world: &World, pods: &mut Pods, name: &str) -> u64 {
    pods.apply(name);
    let version = pods.version.to_string();
    let is_it = |line: &Value| line["guest"] == "c" && line["name"] == *name && line["version"] == *version;
    let lines = world.recorded(1, is_it).await;
    lines[0]["events"].as_u64().unwrap()
}

#[tokio::test(start_paused = true)]
async fn state_is_transferred_between_versions_in_c() {
    if !is_built(GUEST) {
        return;
    }
    let world = World::new();
    let adjust = |spec: &mut PluginSpec| spec.on_reload = ReplayPolicy::Continue;
    let plugin = world.run(GUEST, json!({}), adjust).await;
    assert_eq!(plugin.roles().to_string(), "event-handler, state");
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    for events in 1..=3 {
        assert_eq!(counted(&world, &mut pods, &format!("pod-{events}")).await, events);
        let swapped = plugin.swap(&guest(GUEST)).await.unwrap();
        assert_eq!(swapped.state_bytes, Some(8));
    }
    assert_eq!(counted(&world, &mut pods, "restore-fails").await, 4);
    let refused = plugin.swap(&guest(GUEST)).await.unwrap_err();
    assert!(
        refused.to_string().contains("restore failed: asked to fail"),
        "{refused}"
    );
    assert_eq!(counted(&world, &mut pods, "save-fails").await, 5);
    let refused = plugin.swap(&guest(GUEST)).await.unwrap_err();
    assert!(refused.to_string().contains("save failed: asked to fail"), "{refused}");
    assert_eq!(
        counted(&world, &mut pods, "after").await,
        6,
        "the old version keeps running"
    );
}

#[tokio::test(start_paused = true)]
async fn printed_output_without_a_newline_is_logged() {
    if !is_built(GUEST) {
        return;
    }
    let world = World::new();
    let plugin = world.run(GUEST, json!({}), |_| {}).await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    assert_eq!(counted(&world, &mut pods, "prints").await, 1);
}

#[tokio::test(start_paused = true)]
async fn start_functions_cannot_reach_the_cluster() {
    if !is_built(GUEST) {
        return;
    }
    let cluster = Cluster::answering(Some(0));
    let world = World::with_cluster(Arc::clone(&cluster) as _);
    let adjust = |spec: &mut PluginSpec| {
        spec.allow_kube = grants(json!([{ "verbs": ["get"], "resource": "v1/pods" }]));
    };
    let _plugin = world.run(GUEST, json!({}), adjust).await;
    // The first one belongs to the instance that was described.
    let lines = world.recorded(2, |line| line["at"] == "start").await;
    insta::assert_snapshot!(lines[1]["error"], @r#""before init, only log can be called: read the cache from on-synced on, and act in a handler""#);
    assert!(cluster.take().is_empty());
}

/// The text without whitespace, in which the README and the source differ.
fn normalized(text: &str) -> String {
    text.split_whitespace().collect()
}

#[tokio::test(start_paused = true)]
async fn all_c_code_of_the_readme_runs_in_each_cluster() {
    const README: &str = "guest_readme_c";
    let source = normalized(include_str!("../../../../plugin-sdk/c/tests/readme.c"));
    let page = include_str!("../../../../plugin-sdk/c/README.md");
    let blocks = page.split("```c\n").skip(1);
    for block in blocks.map(|rest| rest.split("```").next().unwrap()) {
        assert!(
            source.contains(&normalized(block)),
            "this code block is not in readme.c:\n{block}"
        );
    }
    if !is_built(README) {
        return;
    }
    for clusters in [&[""][..], &["east", "west"]] {
        let api = Cluster::answering(Some(0));
        let world = World::with_cluster(Arc::clone(&api) as _);
        let granted = json!([{ "verbs": ["delete"], "resource": "v1/pods" }]);
        let plugin = world
            .run(README, json!({}), |spec| {
                spec.informers = vec![("pods".into(), "pods".into())];
                spec.allow_kube = grants(granted);
            })
            .await;
        for cluster in clusters {
            let mut pods = world.pods_of("pods", cluster);
            pods.attach(&plugin.listener());
            pods.apply_with("web", r#"},"status":{"phase":"Running""#);
            idle(&world, &plugin).await;
            let lines = world.log.lines();
            let last = lines.iter().rfind(|line| line.fields.contains("stream=")).unwrap();
            assert_eq!(last.message, "default/web is Running");
            pods.apply("web");
            idle(&world, &plugin).await;
            let sent: Vec<_> = api.take().into_iter().map(|call| call.address).collect();
            assert_eq!(sent.len(), 1, "{}", world.log.text());
            assert_eq!((&*sent[0].cluster, &*sent[0].name), (*cluster, "web"));
        }
    }
}
