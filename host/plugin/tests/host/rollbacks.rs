//! A version that fails its probation is rolled back to the last good one.

use std::fs;
use std::path::Path;

use informant_plugin_host::{Plugin, PluginState};
use informant_spec::{PluginSpec, ReplayPolicy};
use serde_json::{Value, json};

use crate::world::{Reload, World, guest};

/// The config with which the recorder traps on everything; the first guest ignores it.
const GOOD: &str = "guest_stateful";
const BAD: &str = "guest_recorder";

fn traps() -> Value {
    json!({ "quiet": true, "rules": [{ "do": "trap" }] })
}

async fn good(world: &World) -> Plugin {
    world
        .run(GOOD, traps(), |spec| spec.on_reload = ReplayPolicy::Continue)
        .await
}

fn delivered(world: &World, name: &str) -> usize {
    let lines = world.log.json();
    lines
        .iter()
        .filter(|line| line["guest"] == "stateful" && line["name"] == name)
        .count()
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("pod-{number}")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_trapping_version_is_rolled_back_without_losing_events() {
    let world = World::new();
    let plugin = good(&world).await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    pods.apply("before");
    plugin.probation_ends().await;
    assert!(plugin.conclude_probation().await.is_none(), "it is good");
    let digest = plugin.digest();

    let bad = plugin.swap(&guest(BAD)).await.unwrap();
    pods.apply_all(&names(40));
    plugin.probation_ends().await;
    assert_eq!(plugin.status().state, PluginState::Quarantined);
    let swapped = plugin.conclude_probation().await.unwrap();
    assert_eq!((swapped.previous, swapped.digest), (bad.digest, digest));
    assert_eq!(plugin.status().state, PluginState::Running);
    world.until("all delivered", || plugin.status().pending == 0).await;
    for name in names(40) {
        assert!(delivered(&world, &name) >= 1, "{name}");
    }
    assert_eq!(
        delivered(&world, "before"),
        2,
        "its state is gone, so the cache is replayed"
    );
    let status = plugin.status();
    let because = status.rolled_back.unwrap();
    assert!(
        because.starts_with("rolled back from ") && because.contains("asked to trap"),
        "{because}"
    );
    insta::assert_snapshot!(world.metrics("informant_plugin_reloads"), @r#"
    informant_plugin_reloads_total{plugin="guest_stateful",result="ok"} 1
    informant_plugin_reloads_total{plugin="guest_stateful",result="rolled-back"} 1
    "#);
    // The last good one is not on probation, and the next swap is an ordinary one.
    assert!(plugin.conclude_probation().await.is_none());
    plugin.swap(&guest(GOOD)).await.unwrap();
    assert_eq!(plugin.status().rolled_back, None);
}

#[tokio::test(start_paused = true)]
async fn a_failed_version_without_a_predecessor_stays_quarantined() {
    let world = World::new();
    let plugin = world.run(BAD, traps(), |_| {}).await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    // One in each namespace, so none is suspect before its call.
    for number in 0..20 {
        pods.apply_in(&format!("team-{number}"), "web", "");
    }
    plugin.probation_ends().await;
    assert!(plugin.conclude_probation().await.is_none());
    assert_eq!(plugin.status().state, PluginState::Quarantined);
    let log = world.log.text();
    assert!(log.contains("plugin failed soon after its start"), "{log}");
    assert!(!log.contains("new version failed"), "{log}");
}

#[tokio::test(start_paused = true)]
async fn a_version_that_fails_later_is_not_rolled_back() {
    let world = World::new();
    let plugin = good(&world).await;
    plugin.swap(&guest(BAD)).await.unwrap();
    plugin.probation_ends().await;
    assert!(plugin.conclude_probation().await.is_none(), "no event in its probation");
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    pods.apply_everywhere(&names(20));
    world
        .until("quarantine", || plugin.status().state == PluginState::Quarantined)
        .await;
    assert!(plugin.conclude_probation().await.is_none());
}

/// A section with the component in `file`, as at a start of Informant.
fn section(file: &Path) -> PluginSpec {
    PluginSpec::new("greeter", file)
}

#[tokio::test(start_paused = true)]
async fn the_last_good_version_replaces_a_rejected_file_at_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("greeter.wasm");
    fs::copy(guest(GOOD), &file).unwrap();
    let world = World::new();
    let plugin = world.load(section(&file)).await.unwrap();
    plugin.start().await;
    let digest = plugin.digest();
    plugin.probation_ends().await;
    plugin.conclude_probation().await;
    let World { cache, .. } = world;

    let world = World::with_cache(cache);
    fs::write(&file, "half a file").unwrap();
    let refused = world.load(section(&file)).await.map(|_| ()).unwrap_err();
    let pinned = PluginSpec {
        sha256: Some(informant_spec::Digest::of(b"another")),
        ..section(&file)
    };
    assert!(
        world.host.load_last_good(pinned, &refused).await.is_none(),
        "the pin counts"
    );
    let elsewhere = section(&folder.path().join("other.wasm"));
    assert!(world.host.load_last_good(elsewhere, &refused).await.is_none());
    let plugin = world.host.load_last_good(section(&file), &refused).await.unwrap();
    plugin.start().await;
    assert_eq!(plugin.digest(), digest);
    let because = plugin.status().rolled_back.unwrap();
    assert!(
        because.contains("the last good version: ") && because.contains("not WebAssembly"),
        "{because}"
    );
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    pods.apply("a");
    world.until("it delivered", || delivered(&world, "a") == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_version_that_failed_probation_is_not_used_at_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("greeter.wasm");
    fs::copy(guest(GOOD), &file).unwrap();
    let world = World::new();
    world.load(section(&file)).await.unwrap();
    fs::write(&file, "").unwrap();
    let refused = world.load(section(&file)).await.map(|_| ()).unwrap_err();
    assert!(world.host.load_last_good(section(&file), &refused).await.is_none());
}
