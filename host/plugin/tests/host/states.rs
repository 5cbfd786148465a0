//! What one version remembers, the next one knows; and where that cannot be, the old one runs on.

use std::time::Duration;

use informant_plugin_host::{Plugin, PluginSpec, PluginState, ReplayPolicy};
use serde_json::{Value, json};

use crate::world::{Pods, World, guest};

async fn stateful(world: &World) -> Plugin {
    let adjust = |spec: &mut PluginSpec| {
        spec.on_reload = ReplayPolicy::Continue;
        spec.limits.pending = 100_000;
        // Room for a state that is longer than may be handed over, twice.
        spec.limits.memory_bytes = 256 << 20;
    };
    world.run("guest_stateful", json!({}), adjust).await
}

fn is_event(line: &Value) -> bool {
    line["guest"] == "stateful"
}

/// Writes `name` and waits until the plugin was told. Returns how many events it remembers then.
async fn remembered(world: &World, pods: &mut Pods, name: &str) -> u64 {
    pods.apply(name);
    let version = pods.version.to_string();
    let is_it = |line: &Value| is_event(line) && line["name"] == *name && line["version"] == *version;
    let lines = world.recorded(1, is_it).await;
    lines[0]["events"].as_u64().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_new_version_knows_what_the_old_one_did_and_no_event_is_lost_between_them() {
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
    // Each event once, and each counted on from the one before, whichever version was told of it.
    let events: Vec<u64> = lines.iter().map(|line| line["events"].as_u64().unwrap()).collect();
    assert_eq!(events, (1..=written as u64).collect::<Vec<_>>());
    assert_eq!(plugin.status().restarts, 0);
    assert!(!plugin.listener().stats().paused);
}

#[tokio::test(start_paused = true)]
async fn a_state_that_cannot_be_handed_over_refuses_the_swap_and_the_old_version_goes_on_with_it() {
    let world = World::new();
    let mut errors = Vec::new();
    for (how, keeps_memory) in [
        ("save-fails", true),
        ("save-is-large", true),
        ("restore-fails", true),
        ("restore-traps", true),
        ("restore-loops", true),
        // A trap costs the instance, as everywhere.
        ("save-traps", false),
        ("save-loops", false),
    ] {
        let plugin = stateful(&world).await;
        let mut pods = world.pods(how);
        pods.attach(&plugin.listener());
        assert_eq!(remembered(&world, &mut pods, &format!("before-{how}")).await, 1);
        assert_eq!(remembered(&world, &mut pods, how).await, 2);
        let refused = plugin.swap(&guest("guest_stateful")).await.map(|_| ()).unwrap_err();
        errors.push(format!("{how}: {}", refused.problem()));
        let expected = if keeps_memory { 3 } else { 1 };
        assert_eq!(
            remembered(&world, &mut pods, &format!("after-{how}")).await,
            expected,
            "{how}"
        );
        let status = plugin.status();
        assert_eq!((status.reloads, status.state), (0, PluginState::Running), "{how}");
        assert_eq!(status.restarts, u64::from(!keeps_memory), "{how}");
        assert!(!plugin.listener().stats().paused, "{how}");
        plugin.stop(Duration::from_secs(1)).await;
    }
    insta::assert_snapshot!(errors.join("\n"), @"
    save-fails: what the old version remembers cannot be handed over: save failed: told to fail
    save-is-large: what the old version remembers cannot be handed over: save returned 17.0 MiB, and a state may have 16 MiB
    restore-fails: what the old version remembers cannot be handed over: restore failed: told to fail
    restore-traps: what the old version remembers cannot be handed over: restore trapped: it panicked; it wrote: panicked at tests/guests/stateful/src/lib.rs:81:26: told to trap
    restore-loops: what the old version remembers cannot be handed over: restore did not return: it ran for more than 1s, the limit for one call (limits.cpu)
    save-traps: what the old version remembers cannot be handed over: save trapped: it panicked; it wrote: panicked at tests/guests/stateful/src/lib.rs:81:26: told to trap
    save-loops: what the old version remembers cannot be handed over: save did not return: it ran for more than 1s, the limit for one call (limits.cpu)
    ");
}

#[tokio::test(start_paused = true)]
async fn a_version_without_the_role_takes_over_and_gives_way_without_state() {
    let world = World::new();
    let plugin = stateful(&world).await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    remembered(&world, &mut pods, "a").await;
    assert!(plugin.roles().state);
    let to_other = plugin.swap(&guest("guest_recorder")).await.unwrap();
    let back = plugin.swap(&guest("guest_stateful")).await.unwrap();
    assert_eq!((to_other.state_bytes, back.state_bytes), (None, None));
    assert_eq!(remembered(&world, &mut pods, "a").await, 1);
}
