//! Handlers that ask to be called again, and operators that ask for a call.

use std::collections::BTreeSet;
use std::time::Duration;

use informant_object::Key;
use informant_plugin_host::Plugin;
use serde_json::{Value, json};

use crate::world::{Pods, World, idle};

/// A recorder that asks for another call of the objects named `later…` until it was called `times` times for them.
async fn run(world: &World, guest: &str, times: u32, after_ms: u64) -> (Plugin, Pods) {
    let rules = json!({ "rules": [{ "name": "later*", "times": times, "do": { "requeue-after-ms": after_ms } }] });
    let plugin = world.run(guest, rules, |_| {}).await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    idle(world, &plugin).await;
    (plugin, pods)
}

/// The calls for objects: event, name, version, whether there was an old or a last state, and reason.
fn calls(world: &World) -> String {
    let lines = world.log.json().into_iter().filter(|line| line["name"].is_string());
    let shown = lines.map(|line| {
        let text = |member: &str| line[member].as_str().unwrap_or_default().to_owned();
        let old = if line["old"] == Value::Bool(true) { " old" } else { "" };
        format!(
            "{} {}@{}{old} {}",
            text("event"),
            text("name"),
            text("version"),
            text("reason")
        )
    });
    shown.collect::<Vec<_>>().join("\n")
}

async fn pass(world: &World, plugin: &Plugin, seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    idle(world, plugin).await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_called_again_for_the_objects_it_names() {
    let world = World::new();
    let (plugin, mut pods) = run(&world, "guest_recorder", 2, 60_000).await;
    pods.apply("later");
    pods.apply("now");
    idle(&world, &plugin).await;
    pass(&world, &plugin, 59).await;
    assert_eq!(plugin.listener().control().stats().requeues, 1);
    pass(&world, &plugin, 2).await;
    pods.delete("later");
    idle(&world, &plugin).await;
    pass(&world, &plugin, 300).await;
    insta::assert_snapshot!(calls(&world), @"
    add later@2 watch
    add now@3 watch
    update later@2 requeue-after
    delete later@2 old watch
    ");
    assert_eq!(plugin.listener().control().stats().requeues, 0, "the delete was a call");
    let requeued = world.metrics("informant_handler_events_total");
    assert!(requeued.contains(r#"event="add",result="requeued"} 1"#), "{requeued}");
    assert!(
        requeued.contains(r#"event="update",result="requeued"} 1"#),
        "{requeued}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_requeued_delete_has_its_last_state_again() {
    let world = World::new();
    let (plugin, mut pods) = run(&world, "guest_recorder", 3, 60_000).await;
    pods.apply("later");
    idle(&world, &plugin).await;
    pods.delete("later");
    idle(&world, &plugin).await;
    pass(&world, &plugin, 61).await;
    pass(&world, &plugin, 300).await;
    insta::assert_snapshot!(calls(&world), @"
    add later@2 watch
    delete later@2 old watch
    delete later@2 old requeue-after
    delete later@2 old requeue-after
    ");
}

#[tokio::test(start_paused = true)]
async fn a_changed_only_handler_is_called_although_nothing_changed() {
    let world = World::new();
    let (plugin, mut pods) = run(&world, "guest_recorder_fields", 1, 60_000).await;
    pods.apply("later");
    idle(&world, &plugin).await;
    // Nothing that the handler subscribes to: this is no call, and cancels nothing.
    pods.apply("later");
    pass(&world, &plugin, 61).await;
    insta::assert_snapshot!(calls(&world), @"
    add later@2 watch
    update later@3 requeue-after
    ");
}

#[tokio::test(start_paused = true)]
async fn a_trigger_calls_the_handler_once_for_each_key() {
    let world = World::new();
    let (plugin, mut pods) = run(&world, "guest_recorder_fields", 1, 60_000).await;
    pods.apply("a");
    pods.apply("later");
    idle(&world, &plugin).await;
    let keys = ["a", "later", "missing"].map(|name| Key::new("default", name));
    let done = plugin.listener().control().trigger(pods.id, &keys, plugin.now());
    assert_eq!((done.triggered, done.waiting), (2, 0));
    pass(&world, &plugin, 300).await;
    insta::assert_snapshot!(calls(&world), @"
    add a@2 watch
    add later@3 watch
    update a@2 trigger
    update later@3 trigger
    ");
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_due_keys_are_called_once_within_a_second() {
    let world = World::new();
    let (plugin, mut pods) = run(&world, "guest_recorder", 10_000, 5_000).await;
    let names: Vec<String> = (0..10_000).map(|number| format!("later-{number}")).collect();
    pods.apply_all(&names);
    idle(&world, &plugin).await;
    let delivered = || plugin.listener().control().stats().counters.delivered;
    let before = delivered();
    pass(&world, &plugin, 4).await;
    assert_eq!(
        (delivered(), plugin.listener().control().stats().requeues),
        (before, 10_000)
    );
    pass(&world, &plugin, 2).await;
    assert_eq!(
        (delivered(), plugin.listener().control().stats().requeues),
        (before + 10_000, 0)
    );
    let called: BTreeSet<String> = calls(&world).lines().map(str::to_owned).collect();
    assert_eq!(
        called.iter().filter(|call| call.ends_with("requeue-after")).count(),
        10_000
    );
}
