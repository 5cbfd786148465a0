//! `init`: the context that it receives, and that it is tried again while it asks for it.

use std::fs;
use std::path::PathBuf;

use informant_plugin_host::{Plugin, PluginState};
use informant_spec::OnFailure;
use serde_json::{Value, json};

use crate::world::{Pods, Reload, World, guest, idle, spec};

const GUEST: &str = "guest_starts";

fn is_init(line: &Value) -> bool {
    line["event"] == "init" && line["role"] == "events"
}

fn is_event(line: &Value) -> bool {
    line["name"].is_string()
}

/// Why each instance for events was created, and whose state it was to receive.
fn causes(world: &World) -> Vec<String> {
    let lines = world.log.json().into_iter().filter(is_init);
    lines
        .map(|line| match &line["previous"] {
            Value::Null => line["because"].as_str().unwrap().to_owned(),
            previous => format!("{} after {}", line["because"].as_str().unwrap(), previous[0]),
        })
        .collect()
}

/// The same component in a file of another digest.
fn next_version(world: &World) -> PathBuf {
    let path = world.cache.path().join("next.wasm");
    // An empty custom section named "x".
    fs::write(&path, [&fs::read(guest(GUEST)).unwrap()[..], &[0, 2, 1, b'x']].concat()).unwrap();
    path
}

async fn loaded(world: &World, config: Value) -> (Plugin, Pods) {
    let plugin = world.load(spec(GUEST, config)).await.unwrap();
    plugin.start().await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    (plugin, pods)
}

/// The seconds after which `init` was tried again.
fn waits(world: &World) -> Vec<String> {
    let lines = world.log.lines().into_iter();
    let ours = lines.filter(|line| line.message == "plugin not initialized; trying again");
    ours.filter(|line| line.fields.contains("role=\"events\""))
        .map(|line| line.fields.rsplit_once('=').unwrap().1.to_owned())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn describe_and_init_receive_their_contexts() {
    let world = World::new();
    let (plugin, _pods) = loaded(&world, json!({ "label": "x" })).await;
    world.recorded(2, |line| line["event"] == "init").await;
    plugin.pause().await;
    let lines: Vec<String> = world.log.json().iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    {"because":"start","contract":"0.3.0","denied":[true,true],"event":"init","guest":"starts","instance":0,"instances":1,"label":"x","log_level":"trace","offers":["store","kube","kv","metrics","recorder","log"],"plugin":"guest_starts","previous":null,"role":"events"}
    {"because":"start","contract":"0.3.0","denied":[true,true],"event":"init","guest":"starts","instance":0,"instances":1,"label":"x","log_level":"trace","offers":["store","kube","kv","metrics","recorder","log"],"plugin":"guest_starts","previous":null,"role":"index"}
    "#);
}

#[tokio::test(start_paused = true)]
async fn init_learns_why_its_instance_is_created() {
    let world = World::new();
    let (plugin, mut pods) = loaded(&world, json!({})).await;
    pods.apply("trap");
    world.recorded(2, is_init).await;
    pods.delete("trap");
    let before = plugin.digest().to_string();
    plugin.swap(&next_version(&world)).await.unwrap();
    let swapped = world.recorded(3, is_init).await.pop().unwrap();
    assert_eq!(swapped["previous"][1], before);
    insta::assert_snapshot!(causes(&world).join("\n"), @r#"
    start
    rebuild
    swap after "0.1.0"
    "#);
}

#[tokio::test(start_paused = true)]
async fn a_resumed_plugin_is_initialized_with_that_cause() {
    let world = World::new();
    let plugin = world
        .run(GUEST, json!({}), |spec| {
            spec.on_failure = OnFailure::Quarantine;
        })
        .await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    pods.apply("trap");
    world
        .until("quarantine", || plugin.status().state == PluginState::Quarantined)
        .await;
    pods.delete("trap");
    plugin.resume().await;
    world.recorded(2, is_init).await;
    assert_eq!(causes(&world), ["start", "resume"]);
}

#[tokio::test(start_paused = true)]
async fn init_that_asks_for_it_is_retried_at_a_start() {
    let world = World::new();
    let (plugin, mut pods) = loaded(&world, json!({ "fails-while-traced": true })).await;
    pods.apply("a");
    world.until("its failures", || waits(&world).len() >= 9).await;
    let status = plugin.status();
    assert_eq!((status.state, status.instances), (PluginState::Restarting, 0));
    let because = status.because.unwrap();
    assert!(
        because.ends_with("failed and will be tried again: asked to fail while traced"),
        "{because}"
    );
    insta::assert_snapshot!(waits(&world)[..9].join(" "), @"1.0 2.0 4.0 8.0 16.0 32.0 60.0 60.0 60.0");
    world.log.stop_tracing();
    world.recorded(1, is_event).await;
    world
        .until("both roles", || plugin.status().state == PluginState::Running)
        .await;
    assert!(
        causes(&world).iter().all(|cause| cause == "start"),
        "{:?}",
        causes(&world)
    );
}

#[tokio::test(start_paused = true)]
async fn init_is_retried_after_the_time_it_names() {
    let world = World::new();
    let config = json!({ "fails-while-traced": true, "retry-after-ms": 1_500 });
    let (_plugin, _pods) = loaded(&world, config).await;
    world.recorded(4, is_init).await;
    assert_eq!(waits(&world)[..3], ["1.5", "1.5", "1.5"]);
}

#[tokio::test(start_paused = true)]
async fn the_old_version_runs_while_a_new_init_is_retried() {
    let world = World::new();
    let (plugin, mut pods) = loaded(&world, json!({ "label": "old" })).await;
    idle(&world, &plugin).await;
    world
        .log
        .stop_tracing_after(|line| is_init(line) && line["label"] == "new", 2);
    let mut section = plugin.spec();
    section.config = json!({ "label": "new", "fails-while-traced": true });
    let swapping = {
        let plugin = plugin.clone();
        tokio::spawn(async move { plugin.reconfigure(section).await.map(|_| ()) })
    };
    world.until("the first failure", || !waits(&world).is_empty()).await;
    pods.apply("meanwhile");
    world.recorded(1, is_event).await;
    assert_eq!(plugin.status().state, PluginState::Running);
    assert_eq!(plugin.status().reloads, 0);
    swapping.await.unwrap().unwrap();
    let of_new = world
        .log
        .json()
        .into_iter()
        .filter(|line| is_init(line) && line["label"] == "new");
    assert_eq!(of_new.count(), 3);
    assert_eq!(plugin.status().reloads, 1);
}

#[tokio::test(start_paused = true)]
async fn a_swap_whose_init_keeps_failing_ends_after_a_minute() {
    let world = World::new();
    let (plugin, mut pods) = loaded(&world, json!({ "label": "old" })).await;
    idle(&world, &plugin).await;
    let mut section = plugin.spec();
    section.config = json!({ "label": "new", "fails-while-traced": true });
    let before = plugin.now();
    let error = plugin.reconfigure(section).await.map(|_| ()).unwrap_err();
    let seconds = (plugin.now() - before).as_secs();
    assert!((60..62).contains(&seconds), "{seconds}");
    let folder = guest(GUEST).parent().unwrap().display().to_string();
    insta::assert_snapshot!(error.to_string().replace(&folder, "FOLDER"), @r#"plugin "guest_starts": FOLDER/guest_starts.wasm: init for the role events still failed after 60 s: asked to fail while traced; reload it when that is solved"#);
    pods.apply("a");
    world.recorded(1, is_event).await;
    assert_eq!(plugin.spec().config, json!({ "label": "old" }));
}

#[tokio::test(start_paused = true)]
async fn retries_of_init_after_a_trap_cause_no_quarantine() {
    let world = World::new();
    world.log.stop_tracing();
    let (plugin, mut pods) = loaded(&world, json!({ "fails-while-traced": true, "retry-after-ms": 100 })).await;
    idle(&world, &plugin).await;
    world.log.start_tracing();
    pods.apply("trap");
    // A trap each 100 ms would lead to quarantine after 30.
    world
        .recorded(60, |line| is_init(line) && line["because"] == "rebuild")
        .await;
    assert_eq!(plugin.status().state, PluginState::Restarting);
    pods.delete("trap");
    pods.apply("a");
    world.log.stop_tracing();
    world.recorded(1, |line| line["name"] == "a").await;
    assert_eq!(plugin.status().state, PluginState::Running);
}

#[tokio::test(start_paused = true)]
async fn a_manifest_depends_on_config_and_changes_with_it() {
    let world = World::new();
    let (plugin, mut pods) = loaded(&world, json!({ "kind": "Node" })).await;
    assert_eq!(plugin.manifest().index_names(), ["by-node"]);
    pods.apply("a");
    idle(&world, &plugin).await;
    let mut section = plugin.spec();
    section.config = json!({ "kind": "Pod" });
    plugin.reconfigure(section).await.unwrap().unwrap();
    assert_eq!(plugin.manifest().index_names(), ["by-pod"]);
    pods.apply("b");
    world.recorded(1, |line| line["name"] == "b").await;
    assert!(world.log.json().iter().all(|line| line["name"] != "a"));
}

#[tokio::test(start_paused = true)]
async fn a_manifest_that_refuses_its_config_says_why() {
    let world = World::new();
    let error = world
        .load(spec(GUEST, json!({ "kinds": ["Pod"] })))
        .await
        .err()
        .unwrap();
    let folder = guest(GUEST).parent().unwrap().display().to_string();
    insta::assert_snapshot!(error.to_string().replace(&folder, "FOLDER"), @r#"plugin "guest_starts": FOLDER/guest_starts.wasm: describe failed: config: unknown field `kinds`, expected one of `label`, `kind`, `fails-while-traced`, `retry-after-ms`; check the plugin's `config` in config.toml"#);
}
