//! Swaps while events flow: a good version is swapped in, a broken one is not.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use informant_plugin_host::PluginState;
use informant_spec::{PluginSpec, ReplayPolicy};
use serde_json::{Value, json};

use crate::world::{Reload, World, guest};

fn continuing(spec: &mut PluginSpec) {
    spec.on_reload = ReplayPolicy::Continue;
    // Nothing may be compressed: each event must be seen exactly once.
    spec.limits.pending = 100_000;
}

fn is_event(line: &Value) -> bool {
    line["name"].is_string()
}

#[tokio::test(start_paused = true)]
async fn continue_handles_every_event_exactly_once_in_order() {
    let world = World::new();
    let plugin = world.run("guest_recorder", json!({}), continuing).await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    // Until then changes are compressed into the initial list, and there would be fewer to count.
    world.recorded(1, |line| line["event"] == "synced").await;
    let swapping = {
        let plugin = plugin.clone();
        tokio::spawn(async move {
            for round in 0..10 {
                let next = if round % 2 == 0 {
                    "guest_recorder_v2"
                } else {
                    "guest_recorder"
                };
                if round == 3 || round == 7 {
                    plugin.swap(&guest("guest_wrong_type")).await.unwrap_err();
                }
                plugin.swap(&guest(next)).await.unwrap();
            }
        })
    };
    let written = pods.apply_during(swapping).await;
    let lines = world.recorded(written, is_event).await;
    assert_eq!(lines.len(), written);
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for line in &lines {
        let version: u64 = line["version"].as_str().unwrap().parse().unwrap();
        let before = last.insert(line["name"].as_str().unwrap(), version).unwrap_or(0);
        assert!(version > before, "{line}");
    }
    let guests: Vec<&Value> = lines.iter().map(|line| &line["guest"]).collect();
    assert!(guests.contains(&&json!("v1")) && guests.contains(&&json!("v2")));
    let status = plugin.status();
    assert_eq!((status.reloads, status.restarts, status.dead_letters), (10, 0, 0));
    insta::assert_snapshot!(world.metrics("informant_plugin_reloads"), @r#"
    informant_plugin_reloads_total{plugin="guest_recorder",result="ok"} 10
    informant_plugin_reloads_total{plugin="guest_recorder",result="refused"} 2
    "#);
}

#[tokio::test(start_paused = true)]
async fn after_a_replay_the_new_versions_view_equals_the_store() {
    let world = World::new();
    let config = json!({ "quiet": true, "rules": [
        { "name": "flaky-*", "attempts": 1, "do": "retryable" },
        { "name": "probe", "do": "digest" }] });
    let plugin = world
        .run("guest_recorder", config, |spec| spec.on_reload = ReplayPolicy::Replay)
        .await;
    let mut pods = world.pods("pods");
    for number in 0..300 {
        pods.apply(&format!("pod-{number}"));
        pods.apply(&format!("flaky-{number}"));
    }
    pods.attach(&plugin.listener());
    world.recorded(1, |line| line["event"] == "synced").await;
    for number in 0..100 {
        pods.apply(&format!("pod-{number}"));
        pods.delete(&format!("flaky-{number}"));
        if number == 50 {
            plugin.swap(&guest("guest_recorder_v2")).await.unwrap();
        }
    }
    world
        .recorded(1, |line| line["guest"] == "v2" && line["event"] == "synced")
        .await;
    world
        .until("everything delivered", || {
            plugin.listener().ledger().pending() + plugin.listener().consumer().in_flight() == 0
        })
        .await;
    pods.apply("probe");
    let views = world.recorded(1, |line| line["event"] == "digest").await;
    assert_eq!(
        (&views[0]["keys"], &views[0]["digest"]),
        (&json!(501), &json!(pods.digest()))
    );
}

#[tokio::test(start_paused = true)]
async fn a_broken_new_version_leaves_the_old_one_running() {
    let world = World::new();
    let plugin = world.run("guest_recorder", json!({ "label": "old" }), continuing).await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    // Until then changes are compressed into the initial list, and there would be fewer to count.
    world.recorded(1, |line| line["event"] == "synced").await;
    let before = plugin.digest();
    let truncated = world.cache.path().join("truncated.wasm");
    fs::write(&truncated, &fs::read(guest("guest_recorder_v2")).unwrap()[..30_000]).unwrap();
    for path in [
        truncated,
        guest("guest_no_role"),
        guest("guest_describe_traps"),
        guest("guest_describe_loops"),
        // Its init rejects the config.
        guest("guest_index"),
    ] {
        let error = plugin.swap(&path).await.map(|_| ()).unwrap_err();
        assert_eq!(plugin.status().last_error.unwrap().1, error.to_string());
        pods.apply("a");
    }
    world.recorded(5, |line| line["guest"] == "v1" && is_event(line)).await;
    let status = plugin.status();
    assert_eq!(
        (status.digest, status.reloads, status.restarts, status.state),
        (before, 0, 0, PluginState::Running)
    );
    assert_eq!(status.previous_digest, None);
}

#[tokio::test(start_paused = true)]
async fn a_swap_ends_a_quarantine() {
    let world = World::new();
    let plugin = world
        .run(
            "guest_recorder",
            json!({ "rules": [{ "name": "bad-*", "times": 1, "do": "trap" }] }),
            |_| {},
        )
        .await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    pods.apply_everywhere(&(0..30).map(|number| format!("bad-{number}")).collect::<Vec<_>>());
    world
        .until("quarantine", || plugin.status().state == PluginState::Quarantined)
        .await;
    let swapped = plugin.swap(&guest("guest_recorder_v2")).await.unwrap();
    assert_eq!(plugin.status().previous_digest, Some(swapped.previous));
    assert_eq!(plugin.status().state, PluginState::Running);
    world.recorded(1, |line| line["guest"] == "v2" && is_event(line)).await;
}

#[tokio::test]
async fn the_old_version_finishes_its_current_call() {
    let world = World::new();
    let rules = json!({ "rules": [{ "name": "slow", "do": { "spin": 300_000_000 } }] });
    let plugin = world
        .run("guest_recorder", rules, |spec| {
            continuing(spec);
            spec.limits.cpu = Duration::from_secs(60);
            spec.limits.call = Duration::from_secs(60);
        })
        .await;
    // Compiled beforehand, so that the swap is ready while the call is under way.
    world.inspect(&guest("guest_recorder_v2"), json!({})).await.unwrap();
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    pods.apply("slow");
    world
        .until("the slow call", || plugin.status().stuck_on.is_some())
        .await;
    pods.apply("next");
    plugin.swap(&guest("guest_recorder_v2")).await.unwrap();
    let lines = world.recorded(2, is_event).await;
    let delivered: Vec<String> = lines
        .iter()
        .map(|line| format!("{} {}", line["guest"], line["name"]))
        .collect();
    assert_eq!(delivered, [r#""v1" "slow""#, r#""v2" "next""#]);
    assert_eq!(plugin.status().restarts, 0);
}

#[tokio::test(start_paused = true)]
async fn a_graceful_stop_delivers_accepted_events() {
    let world = World::new();
    let plugin = world.run("guest_recorder", json!({}), continuing).await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    pods.apply_all(&(0..500).map(|number| format!("pod-{number}")).collect::<Vec<_>>());
    let stopped = plugin.stop(Duration::from_secs(10)).await;
    assert_eq!(stopped.undelivered, 0);
    assert_eq!(world.log.json().iter().filter(|line| is_event(line)).count(), 500);
    assert_eq!(plugin.status().state, PluginState::Stopped);
    assert_eq!(plugin.status().memory_bytes, 0);
    let error = plugin.swap(&guest("guest_recorder_v2")).await.map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("stopping"), "{error}");
}

#[tokio::test]
async fn a_stop_counts_undelivered_events_after_its_deadline() {
    let world = World::new();
    let rules = json!({ "rules": [{ "do": "loop" }] });
    let plugin = world
        .run("guest_recorder", rules, |spec| {
            spec.limits.cpu = Duration::from_secs(3_600)
        })
        .await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    pods.apply_all(&(0..5).map(|number| format!("pod-{number}")).collect::<Vec<_>>());
    world.until("the loop", || plugin.status().stuck_on.is_some()).await;
    let stopped = plugin.stop(Duration::from_millis(100)).await;
    assert_eq!(stopped.undelivered, 5);
    assert_eq!(plugin.status().state, PluginState::Stopped);
}
