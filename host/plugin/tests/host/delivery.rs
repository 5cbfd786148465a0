//! Events reach the guest in the listener's order, and nothing is lost when it fails.

use std::time::Duration;

use informant_cache::Division;
use informant_cache::listener::{HeldShards, Pause};
use informant_plugin_host::PluginState;
use informant_spec::ReplayPolicy;
use serde_json::{Value, json};

use crate::world::{World, idle, spec};

#[tokio::test(start_paused = true)]
async fn a_handler_receives_the_initial_list_and_changes() {
    let world = World::new();
    let mut pods = world.pods("pods");
    pods.apply("a");
    let plugin = world
        .run("guest_recorder", json!({ "read-back": true }), |spec| {
            spec.informers = vec![("pods".into(), "pods".into())]
        })
        .await;
    pods.attach(&plugin.listener());
    world.recorded(1, |line| line["event"] == "synced").await;
    pods.apply("a");
    pods.apply("b");
    pods.delete("a");
    let lines = world.recorded(4, |line| line["name"].is_string()).await;
    let delivered: Vec<String> = lines
        .iter()
        .map(|line| {
            format!(
                "{} {} {} {} seen {}",
                line["event"], line["name"], line["version"], line["reason"], line["seen"]
            )
        })
        .collect();
    insta::assert_snapshot!(delivered.join("\n"), @r#"
    "add" "a" "2" "initial" seen "2"
    "update" "a" "3" "watch" seen ""
    "add" "b" "4" "watch" seen "4"
    "delete" "a" "3" "watch" seen ""
    "#);
}

#[tokio::test(start_paused = true)]
async fn thousand_events_within_interval_call_the_guest_twice() {
    let world = World::new();
    let plugin = world
        .run("guest_recorder", json!({}), |spec| {
            spec.min_interval = Some(Duration::from_secs(60))
        })
        .await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    idle(&world, &plugin).await;
    pods.apply("a");
    world.recorded(1, |line| line["name"] == "a").await;
    for _ in 1..1_000 {
        pods.apply("a");
    }
    idle(&world, &plugin).await;
    let lines = world.recorded(2, |line| line["name"] == "a").await;
    assert_eq!(lines.len(), 2);
    assert_eq!((&lines[0]["event"], &lines[0]["version"]), (&json!("add"), &json!("2")));
    assert_eq!(
        (&lines[1]["event"], &lines[1]["version"]),
        (&json!("update"), &json!("1001"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_share_of_the_shards_has_its_share_of_calls() {
    let world = World::new();
    let plugin = world
        .run("guest_recorder", json!({}), |spec| {
            spec.is_divided = true;
            spec.calls_per_second_max = Some(4);
        })
        .await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    idle(&world, &plugin).await;
    let division = Division {
        shards: 4,
        ..Division::WHOLE
    };
    plugin.share_limits(Some(HeldShards {
        division,
        shards: [0].into_iter().collect(),
    }));
    let began = tokio::time::Instant::now();
    pods.apply_all(&["a", "b", "c"].map(str::to_owned));
    world.recorded(1, |line| line["name"] == "c").await;
    assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_changed_only_handler_skips_updates_with_an_equal_payload() {
    let world = World::new();
    let plugin = world.run("guest_recorder_fields", json!({}), |_| {}).await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    world.recorded(1, |line| line["event"] == "synced").await;
    for rest in [
        r#","labels":{"x":"1"}"#,
        r#","labels":{"x":"1"},"annotations":{"y":"1"}"#,
        r#","labels":{"x":"2"}"#,
    ] {
        pods.apply_with("a", rest);
        // An update may be skipped only if no other event of the key is pending.
        world
            .until("it to be called", || {
                plugin.listener().ledger().pending() + plugin.listener().consumer().in_flight() == 0
            })
            .await;
    }
    pods.delete("a");
    let lines = world.recorded(3, |line| line["name"].is_string()).await;
    let delivered: Vec<String> = lines
        .iter()
        .map(|line| {
            format!(
                "{} {} old {} bytes {}",
                line["event"], line["version"], line["old"], line["bytes"]
            )
        })
        .collect();
    insta::assert_snapshot!(delivered.join("\n"), @r#"
    "add" "2" old false bytes 64
    "update" "4" old false bytes 64
    "delete" "4" old true bytes 64
    "#);
    let filtered = world.metrics("informant_handler_events_total");
    assert!(
        filtered.contains(r#"event="update",result="filtered"} 1"#),
        "{filtered}"
    );
}

#[tokio::test(start_paused = true)]
async fn failures_are_retried_as_the_handler_asks() {
    let world = World::new();
    let rules = json!({ "rules": [
        { "name": "soon", "attempts": 2, "do": { "retry-after-ms": 50 } },
        { "name": "later", "attempts": 3, "do": "retryable" },
        { "name": "never", "do": "permanent" }] });
    let plugin = world.run("guest_recorder", rules, |_| {}).await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    for name in ["soon", "later", "never"] {
        pods.apply(name);
    }
    let tries = |name: &'static str| move |line: &serde_json::Value| line["name"] == name;
    assert_eq!(world.recorded(3, tries("soon")).await.last().unwrap()["outcome"], "ok");
    assert_eq!(world.recorded(4, tries("later")).await.last().unwrap()["attempt"], 3);
    let letters = plugin.listener().ledger().dead_letters();
    assert_eq!(
        (letters.len(), letters[0].error.as_str()),
        (1, "asked to fail for good")
    );
    assert_eq!(world.log.json().iter().filter(|line| tries("never")(line)).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_store_is_never_older_than_the_event() {
    let world = World::new();
    let plugin = world
        .run("guest_recorder", json!({ "read-back": true }), |spec| {
            spec.informers = vec![("pods".into(), "pods".into())];
            spec.limits.pending = 100_000;
        })
        .await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    // Until then changes are compressed into the initial list, and there would be fewer to count.
    world.recorded(1, |line| line["event"] == "synced").await;
    for round in 0..300 {
        pods.apply(&format!("pod-{}", round % 5));
        if round % 7 == 0 {
            tokio::task::yield_now().await;
        }
    }
    for line in world.recorded(300, |line| line["name"].is_string()).await {
        let number = |field: &str| line[field].as_str().unwrap().parse::<u64>().unwrap();
        assert!(number("seen") >= number("version"), "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_with_replay_replays_the_cache() {
    let world = World::new();
    let rules = json!({ "quiet": true, "rules": [{ "event": "delete", "attempts": 1, "do": "trap" }] });
    let plugin = world
        .run("guest_recorder", rules, |spec| spec.on_restart = ReplayPolicy::Replay)
        .await;
    let mut pods = world.pods("pods");
    for number in 0..49 {
        pods.apply(&format!("pod-{number}"));
    }
    // Its crash makes a suspect of no other object.
    pods.apply_in("other", "web", "");
    pods.attach(&plugin.listener());
    world
        .recorded(1, |line| line["event"] == "synced" && line["keys"] == 50)
        .await;
    pods.delete_in("other", "web");
    let expected = pods.digest();
    world
        .recorded(1, |line| {
            line["event"] == "synced" && line["digest"] == expected.as_str()
        })
        .await;
    assert_eq!(plugin.status().restarts, 1);
}

#[tokio::test(start_paused = true)]
async fn a_crash_in_each_on_synced_ends_with_a_replay() {
    let world = World::new();
    let rules = json!({ "rules": [{ "event": "synced", "do": "trap" }] });
    let plugin = world
        .run("guest_recorder", rules, |spec| spec.on_restart = ReplayPolicy::Replay)
        .await;
    let mut pods = world.pods("pods");
    pods.apply("a");
    pods.attach(&plugin.listener());
    let is_add = |line: &Value| line["event"] == "add";
    world.recorded(6, is_add).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    idle(&world, &plugin).await;
    let adds = world.recorded(6, is_add).await.len();
    let status = plugin.status();
    assert_eq!(
        (adds, status.restarts, status.state),
        (6, 5, PluginState::Running),
        "the last loss is followed by a replay, too"
    );
}

#[tokio::test(start_paused = true)]
async fn a_resync_redelivers_every_object() {
    let world = World::new();
    let plugin = world
        .run("guest_recorder", json!({}), |spec| {
            spec.resync = Some(Duration::from_secs(5))
        })
        .await;
    let mut pods = world.pods("pods");
    pods.apply("a");
    pods.attach(&plugin.listener());
    let resyncs = world.recorded(2, |line| line["reason"] == "resync").await;
    assert_eq!(
        (&resyncs[0]["event"], &resyncs[0]["old"]),
        (&json!("update"), &json!(true))
    );
}

#[tokio::test(start_paused = true)]
async fn a_changed_only_handler_receives_resyncs() {
    let world = World::new();
    let plugin = world
        .run("guest_recorder_fields", json!({}), |spec| {
            spec.resync = Some(Duration::from_secs(5))
        })
        .await;
    let mut pods = world.pods("pods");
    pods.apply("a");
    pods.attach(&plugin.listener());
    world.recorded(1, |line| line["event"] == "synced").await;
    // The change does not show in its payload.
    pods.apply_with("a", r#","annotations":{"x":"1"}"#);
    world.recorded(3, |line| line["reason"] == "resync").await;
    let updates = world.log.json().into_iter().filter(|line| line["event"] == "update");
    assert!(
        updates.clone().all(|line| line["reason"] == "resync"),
        "{:?}",
        updates.collect::<Vec<_>>()
    );
    let filtered = world.metrics("informant_handler_events_total");
    assert!(
        filtered.contains(r#"event="update",result="filtered"} 1"#),
        "{filtered}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_foreign_change_between_two_invisible_own_changes_is_delivered() {
    let world = World::new();
    let plugin = world.run("guest_recorder_fields", json!({}), |_| {}).await;
    let mut pods = world.pods("pods");
    pods.apply("a");
    let listener = plugin.listener();
    pods.attach(&listener);
    world.recorded(1, |line| line["event"] == "synced").await;
    // Its own writes set an annotation, which is not in its payload; another client sets a label before, between and
    // after them.
    let own = |label: &str, count: usize| format!(r#","labels":{{"x":"{label}"}},"annotations":{{"own":"{count}"}}"#);
    for (round, label) in ["1", "2", "3"].into_iter().enumerate() {
        let before = if round == 0 { "0" } else { ["1", "2", "3"][round - 1] };
        listener.control().pause(Pause::Swap);
        for (count, label) in [(0, before), (1, before), (2, label), (3, label)] {
            pods.apply_with("a", &own(label, count));
        }
        listener.control().resume(Pause::Swap);
        world
            .until("it to be called", || {
                listener.ledger().pending() + listener.consumer().in_flight() == 0
            })
            .await;
        let shown = pods.snapshot();
        let newest = shown.iter().next().unwrap().version().to_string();
        let lines = world.log.json();
        let last = lines.iter().rfind(|line| line["name"] == "a").unwrap();
        // The last of its own writes shows nothing; the one before has the label.
        let seen: u64 = last["version"].as_str().unwrap().parse().unwrap();
        assert!(seen + 1 >= newest.parse().unwrap(), "{last}, {newest}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_plugin_is_not_called_before_it_is_started() {
    let world = World::new();
    let plugin = world.load(spec("guest_recorder", json!({}))).await.unwrap();
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    pods.apply("a");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(plugin.status().state, PluginState::Loaded);
    plugin.start().await;
    world.recorded(1, |line| line["name"] == "a").await;
    assert_eq!(plugin.status().state, PluginState::Running);
    // The series are removed with the plugin.
    plugin.stop(Duration::from_secs(1)).await;
    drop(plugin);
    assert_eq!(world.metrics("informant_handler"), "");
}
