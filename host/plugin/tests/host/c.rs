//! The C SDK: state transfer between versions, and standard output.

use informant_plugin_host::{PluginSpec, ReplayPolicy};
use serde_json::{Value, json};

use crate::world::{Pods, World, guest, is_built};

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
