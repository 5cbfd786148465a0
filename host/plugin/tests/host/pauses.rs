//! A paused plugin: its event handler is not called until it is resumed, and then receives the difference.

use std::time::Duration;

use informant_plugin_host::{Plugin, PluginState};
use informant_spec::{OnFailure, PluginSpec};
use serde_json::{Value, json};

use crate::world::{Reload, World, guest, idle};

fn is_event(line: &Value) -> bool {
    line["name"].is_string()
}

pub(crate) fn delivered(world: &World) -> Vec<String> {
    let lines = world.log.json().into_iter().filter(is_event);
    lines
        .map(|line| format!("{} {} {}", line["guest"], line["event"], line["name"]).replace('"', ""))
        .collect()
}

pub(crate) async fn for_a_minute() {
    tokio::time::sleep(Duration::from_secs(60)).await;
}

fn section(plugin: &Plugin, change: impl FnOnce(&mut PluginSpec)) -> PluginSpec {
    let mut spec = plugin.spec();
    change(&mut spec);
    spec
}

#[tokio::test(start_paused = true)]
async fn a_pause_survives_swap_and_reload_and_merges_events() {
    let world = World::new();
    let plugin = world.run("guest_recorder", json!({}), |_| {}).await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    pods.apply("a");
    idle(&world, &plugin).await;
    assert!(plugin.pause().await);
    assert!(!plugin.pause().await, "it is paused already");
    for _ in 0..5 {
        pods.apply("a");
    }
    pods.apply("b");
    for_a_minute().await;
    plugin.swap(&guest("guest_recorder_v2")).await.unwrap();
    plugin
        .reconfigure(section(&plugin, |spec| spec.config = json!({ "label": "new" })))
        .await
        .unwrap();
    for_a_minute().await;
    let status = plugin.status();
    assert_eq!(
        (status.state, status.paused, status.pending),
        (PluginState::Paused, true, 2)
    );
    assert_eq!(status.because.as_deref(), Some("requested by command"));
    assert!(world.metrics("informant_plugin_state").contains("state=\"paused\"} 1"));
    assert_eq!(delivered(&world), ["v1 add a"]);
    assert!(plugin.resume().await);
    idle(&world, &plugin).await;
    assert_eq!(delivered(&world), ["v1 add a", "v1 update a", "v1 add b"]);
    assert_eq!(
        (plugin.status().state, plugin.status().because),
        (PluginState::Running, None)
    );
    assert!(!plugin.resume().await);
}

#[tokio::test(start_paused = true)]
async fn only_a_change_of_the_section_overrides_a_command() {
    let world = World::new();
    let plugin = world.run("guest_recorder", json!({}), |spec| spec.paused = true).await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    pods.apply("a");
    for_a_minute().await;
    assert_eq!(plugin.status().because.as_deref(), Some("paused = true in its section"));
    assert_eq!(delivered(&world), Vec::<String>::new());
    assert!(plugin.resume().await);
    idle(&world, &plugin).await;
    // Its section still says `paused = true`: the command holds.
    let apply = async |change: fn(&mut PluginSpec)| {
        let swapped = plugin.reconfigure(section(&plugin, change)).await.unwrap();
        assert!(swapped.is_none(), "the instance is kept");
        plugin.status().paused
    };
    assert!(!apply(|spec| spec.limits.pending = 7).await);
    assert!(!apply(|spec| spec.paused = false).await);
    assert!(plugin.pause().await);
    assert!(apply(|spec| spec.limits.pending = 8).await);
    assert!(apply(|spec| spec.paused = true).await);
    assert!(!apply(|spec| spec.paused = false).await);
    assert_eq!(delivered(&world), ["v1 add a"]);
}

#[tokio::test]
async fn a_running_call_ends_and_no_other_begins() {
    let world = World::new();
    let rules = json!({ "rules": [{ "do": { "spin": 300_000_000 } }] });
    let plugin = world
        .run("guest_recorder", rules, |spec| {
            spec.limits.cpu = Duration::from_secs(60);
            spec.limits.call = Duration::from_secs(60);
            spec.paused = true;
        })
        .await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    pods.apply_all(&["a", "b", "c"].map(str::to_owned));
    // They are one batch.
    plugin.resume().await;
    world
        .until("the slow call", || plugin.status().stuck_on.is_some())
        .await;
    plugin.pause().await;
    assert_eq!(plugin.status().state, PluginState::Paused);
    let listener = plugin.listener();
    world
        .until("the call ends", || listener.consumer().in_flight() == 0)
        .await;
    let calls = delivered(&world);
    assert!(calls.len() < 3, "{calls:?}");
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(delivered(&world), calls);
    plugin.resume().await;
    idle(&world, &plugin).await;
    assert_eq!(delivered(&world).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_neither_pause_nor_back_off() {
    let world = World::new();
    for paused in [true, false] {
        let rules = json!({ "rules": [{ "do": "retryable" }] });
        let plugin = world.run("guest_recorder", rules, |spec| spec.paused = paused).await;
        let mut pods = world.pods(&format!("pods-{paused}"));
        pods.attach(&plugin.listener());
        for_a_minute().await;
        pods.apply_all(&["a", "b"].map(str::to_owned));
        tokio::time::sleep(Duration::from_millis(500)).await;
        let before = tokio::time::Instant::now();
        let stopped = plugin.stop(Duration::from_secs(10)).await;
        assert_eq!(stopped.undelivered, 2);
        assert!(before.elapsed() < Duration::from_millis(900), "{:?}", before.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_replaces_instances_and_ends_a_quarantine() {
    let world = World::new();
    let rules = json!({ "rules": [{ "name": "bad", "attempts": 1, "do": "trap" }] });
    let plugin = world
        .run("guest_recorder", rules, |spec| spec.on_failure = OnFailure::Quarantine)
        .await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    pods.apply("a");
    idle(&world, &plugin).await;
    plugin.restart().await;
    pods.apply("b");
    idle(&world, &plugin).await;
    let status = plugin.status();
    assert_eq!(
        (status.state, status.instances, status.restarts),
        (PluginState::Running, 1, 0)
    );
    pods.apply("bad");
    world
        .until("a quarantine", || plugin.status().state == PluginState::Quarantined)
        .await;
    plugin.restart().await;
    idle(&world, &plugin).await;
    assert_eq!(plugin.status().state, PluginState::Running);
    assert_eq!(delivered(&world).last().map(String::as_str), Some("v1 add bad"));
}
