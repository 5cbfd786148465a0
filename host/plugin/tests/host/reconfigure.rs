//! A plugin's section changes while it runs.

use std::time::Duration;

use informant_spec::{OnFailure, PluginSpec, ReplayPolicy};
use serde_json::{Value, json};

use crate::world::{Reload, World, guest};

fn continuing(spec: &mut PluginSpec) {
    spec.on_reload = ReplayPolicy::Continue;
}

fn changed(plugin: &informant_plugin_host::Plugin, change: impl FnOnce(&mut PluginSpec)) -> PluginSpec {
    let mut spec = plugin.spec();
    change(&mut spec);
    spec
}

fn inits(line: &Value) -> bool {
    line["event"] == "init"
}

#[tokio::test(start_paused = true)]
async fn a_changed_config_swaps_the_instance_and_continues() {
    let world = World::new();
    let plugin = world.run("guest_recorder", json!({ "label": "old" }), continuing).await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    pods.apply("a");
    world.recorded(1, |line| line["name"] == "a").await;

    let spec = changed(&plugin, |spec| spec.config = json!({ "label": "new" }));
    let swapped = plugin.reconfigure(spec).await.unwrap().unwrap();
    assert_eq!(swapped.previous, swapped.digest);
    pods.apply("b");
    let lines = world.recorded(2, |line| line["name"].is_string()).await;
    let delivered: Vec<String> = lines
        .iter()
        .map(|line| format!("{} {} {}", line["label"], line["name"], line["event"]))
        .collect();
    assert_eq!(delivered, [r#""old" "a" "add""#, r#""new" "b" "add""#]);
    let status = plugin.status();
    assert_eq!((status.reloads, status.previous_digest), (1, None));
}

#[tokio::test(start_paused = true)]
async fn a_changed_config_with_replay_replays_the_cache() {
    let world = World::new();
    let plugin = world
        .run("guest_recorder", json!({}), |spec| {
            spec.on_reload = ReplayPolicy::Replay
        })
        .await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    pods.apply("a");
    world.recorded(1, |line| line["name"] == "a").await;
    let spec = changed(&plugin, |spec| spec.config = json!({ "label": "new" }));
    plugin.reconfigure(spec).await.unwrap().unwrap();
    world
        .recorded(1, |line| {
            line["label"] == "new" && line["name"] == "a" && line["reason"] == "replay"
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn other_settings_apply_at_once_and_keep_the_instance() {
    let world = World::new();
    let plugin = world.run("guest_recorder", json!({}), continuing).await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    pods.apply("a");
    world.recorded(1, |line| line["name"] == "a").await;

    let copy = world.cache.path().join("copy.wasm");
    std::fs::copy(guest("guest_recorder"), &copy).unwrap();
    let spec = changed(&plugin, |spec| {
        spec.limits.pending = 3;
        spec.resync = Some(Duration::from_secs(7));
        spec.on_failure = OnFailure::Skip;
        // The same component in another file is not a new version.
        spec.content = copy.clone().into();
        spec.sha256 = Some(plugin.digest());
    });
    assert!(plugin.reconfigure(spec).await.unwrap().is_none());
    world
        .recorded(1, |line| line["name"] == "a" && line["reason"] == "resync")
        .await;
    assert_eq!(world.log.json().iter().filter(|line| inits(line)).count(), 1);
    assert_eq!(plugin.status().reloads, 0);
    assert_eq!(plugin.spec().content.path(), copy);
    // Nothing is pulled before this thread's runtime yields, so four are pending.
    pods.apply_all(&["b", "c", "d", "e"].map(str::to_owned));
    assert!(plugin.listener().control().stats().keyed);
}

#[tokio::test(start_paused = true)]
async fn changed_interval_and_rate_apply_to_the_running_instance() {
    let world = World::new();
    let plugin = world.run("guest_recorder", json!({}), continuing).await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    pods.apply("a");
    world.recorded(1, |line| line["name"] == "a").await;

    let spec = changed(&plugin, |spec| spec.min_interval = Some(Duration::from_secs(3_600)));
    assert!(plugin.reconfigure(spec).await.unwrap().is_none());
    pods.apply("a");
    world.recorded(2, |line| line["name"] == "a").await;
    for _ in 0..1_000 {
        pods.apply("a");
    }
    assert_eq!(
        plugin.listener().control().stats().spaced,
        1,
        "its calls are an hour apart from now on"
    );
    let spec = changed(&plugin, |spec| spec.min_interval = None);
    assert!(plugin.reconfigure(spec).await.unwrap().is_none());
    world.recorded(3, |line| line["name"] == "a").await;
    assert_eq!(
        plugin.listener().control().stats().pending,
        0,
        "one call for all of them"
    );

    let spec = changed(&plugin, |spec| spec.calls_per_second_max = Some(1));
    assert!(plugin.reconfigure(spec).await.unwrap().is_none());
    let began = tokio::time::Instant::now();
    pods.apply_all(&["b", "c", "d", "e"].map(str::to_owned));
    world.recorded(1, |line| line["name"] == "e").await;
    assert!(began.elapsed() >= Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(plugin.status().reloads, 0);
}

#[tokio::test(start_paused = true)]
async fn a_config_that_the_component_rejects_changes_nothing() {
    let world = World::new();
    let plugin = world.run("guest_recorder", json!({ "label": "old" }), continuing).await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    for refused in [
        changed(&plugin, |spec| spec.config = json!({ "lable": "new" })),
        changed(&plugin, |spec| spec.content = guest("guest_no_role").into()),
        changed(&plugin, |spec| {
            spec.sha256 = Some("0".repeat(64).parse().unwrap());
            spec.limits.pending = 1;
        }),
    ] {
        let error = plugin.reconfigure(refused).await.map(|_| ()).unwrap_err();
        assert_eq!(plugin.status().last_error.unwrap().1, error.to_string());
    }
    pods.apply("a");
    world
        .recorded(1, |line| line["label"] == "old" && line["name"] == "a")
        .await;
    assert_eq!(plugin.spec().limits.pending, 1_024);
    assert_eq!(plugin.spec().sha256, None);
}

#[tokio::test(start_paused = true)]
async fn a_running_instance_can_read_an_informer_granted_later() {
    let world = World::new();
    // The recorder looks up each object while it handles its event.
    let plugin = world
        .run("guest_recorder", json!({ "read-back": true }), |spec| {
            continuing(spec);
            spec.informers = vec![("others".to_owned(), "others".to_owned())];
        })
        .await;
    let mut pods = world.pods("pods");
    let spec = changed(&plugin, |spec| {
        spec.informers.push(("pods".to_owned(), "pods".to_owned()));
    });
    assert!(plugin.reconfigure(spec).await.unwrap().is_none());
    pods.attach(&plugin.listener());
    pods.apply("a");
    let lines = world.recorded(1, |line| line["name"] == "a").await;
    assert_eq!(lines[0]["seen"], lines[0]["version"], "{}", lines[0]);
}
