//! State transfer: the next version gets the state of the old one, or the old one keeps running.

use std::time::Duration;

use informant_plugin_host::{Plugin, PluginState, Role};
use informant_spec::{PluginSpec, ReplayPolicy};
use serde_json::{Value, json};

use crate::world::{Pods, Reload, World, guest};

async fn stateful(world: &World) -> Plugin {
    let adjust = |spec: &mut PluginSpec| {
        spec.on_reload = ReplayPolicy::Continue;
        spec.limits.pending = 100_000;
        // Enough memory for two states above the transfer limit.
        spec.limits.memory_bytes = 256 << 20;
    };
    world.run("guest_stateful", json!({}), adjust).await
}

fn is_event(line: &Value) -> bool {
    line["guest"] == "stateful"
}

/// Writes `name` and waits until the plugin has handled it. Returns the plugin's event count.
async fn remembered(world: &World, pods: &mut Pods, name: &str) -> u64 {
    pods.apply(name);
    let version = pods.version.to_string();
    let is_it = |line: &Value| is_event(line) && line["name"] == *name && line["version"] == *version;
    let lines = world.recorded(1, is_it).await;
    lines[0]["events"].as_u64().unwrap()
}

#[tokio::test(start_paused = true)]
async fn state_is_transferred_between_versions_without_losing_events() {
    let world = World::new();
    let plugin = stateful(&world).await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    assert_eq!(remembered(&world, &mut pods, "first").await, 1);
    let swapping = {
        let plugin = plugin.clone();
        tokio::spawn(async move {
            for _ in 0..10 {
                let swapped = plugin.swap(&guest("guest_stateful")).await.unwrap();
                assert!(swapped.state_bytes.unwrap() > 10, "{swapped:?}");
            }
        })
    };
    let written = 1 + pods.apply_during(swapping).await;
    let lines = world.recorded(written, is_event).await;
    // Each event once, and the count continues across versions.
    let events: Vec<u64> = lines.iter().map(|line| line["events"].as_u64().unwrap()).collect();
    assert_eq!(events, (1..=written as u64).collect::<Vec<_>>());
    assert_eq!(plugin.status().restarts, 0);
    assert!(!plugin.listener().control().stats().paused);
}

#[tokio::test(start_paused = true)]
async fn a_failed_state_transfer_rejects_the_swap() {
    let world = World::new();
    let mut errors = Vec::new();
    for how in [
        "save-fails",
        "save-is-large",
        "restore-fails",
        "restore-traps",
        "restore-loops",
    ] {
        let plugin = stateful(&world).await;
        let mut pods = world.pods(how);
        pods.attach(&plugin.listener());
        assert_eq!(remembered(&world, &mut pods, &format!("before-{how}")).await, 1);
        assert_eq!(remembered(&world, &mut pods, how).await, 2);
        let refused = plugin.swap(&guest("guest_stateful")).await.map(|_| ()).unwrap_err();
        errors.push(format!("{how}: {}", refused.problem()));
        assert_eq!(remembered(&world, &mut pods, &format!("after-{how}")).await, 3, "{how}");
        let status = plugin.status();
        assert_eq!((status.reloads, status.state), (0, PluginState::Running), "{how}");
        assert_eq!(status.restarts, 0, "{how}");
        assert!(!plugin.listener().control().stats().paused, "{how}");
        plugin.stop(Duration::from_secs(1)).await;
    }
    insta::assert_snapshot!(errors.join("\n"), @"
    save-fails: cannot transfer the old version's state: save failed: asked to fail
    save-is-large: cannot transfer the old version's state: save returned 17.0 MiB; a state may have at most 16 MiB
    restore-fails: cannot transfer the old version's state: restore failed: asked to fail
    restore-traps: cannot transfer the old version's state: restore trapped: it panicked; it wrote: panicked at tests/guests/stateful/src/lib.rs:90:26: asked to trap
    restore-loops: cannot transfer the old version's state: restore did not return: it ran for more than 1s, the limit for one call (limits.cpu)
    ");
}

#[tokio::test(start_paused = true)]
async fn a_version_that_traps_in_save_is_replaced() {
    for how in ["save-traps", "save-loops"] {
        let world = World::new();
        let plugin = stateful(&world).await;
        let mut pods = world.pods(how);
        pods.attach(&plugin.listener());
        assert_eq!(remembered(&world, &mut pods, "before").await, 1);
        assert_eq!(remembered(&world, &mut pods, how).await, 2);
        let swapped = plugin.swap(&guest("guest_stateful")).await.unwrap();
        assert_eq!(swapped.state_bytes, None);
        // The new version starts without the state, and receives a replay of both objects.
        world
            .recorded(2, |line| is_event(line) && line["name"] == "before")
            .await;
        assert_eq!(remembered(&world, &mut pods, "after").await, 3);
        let status = plugin.status();
        assert_eq!((status.reloads, status.restarts), (1, 1), "{how}");
        assert_eq!(
            (status.state, plugin.listener().control().stats().paused),
            (PluginState::Running, false)
        );
        let lost = "plugin state lost in save; the new version starts without it and receives a replay";
        let lines = world.log.lines();
        let warning = lines.iter().find(|line| line.message == lost).unwrap();
        assert!(
            warning.level == "WARN" && warning.fields.contains("save"),
            "{}",
            warning.fields
        );
        assert!(world.metrics("informant_plugin_state_lost").ends_with(" 1"));
        plugin.stop(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn versions_without_the_state_role_are_swapped_without_state() {
    let world = World::new();
    let plugin = stateful(&world).await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    remembered(&world, &mut pods, "a").await;
    assert!(plugin.roles().has(Role::State));
    let to_other = plugin.swap(&guest("guest_recorder")).await.unwrap();
    let back = plugin.swap(&guest("guest_stateful")).await.unwrap();
    assert_eq!((to_other.state_bytes, back.state_bytes), (None, None));
    assert_eq!(remembered(&world, &mut pods, "a").await, 1);
}
