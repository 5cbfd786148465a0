//! The gate: while another replica may act, nothing that a plugin does takes effect.

use std::time::Duration;

use informant_plugin_host::PluginState;
use serde_json::json;

use crate::http::{Behavior, HOOK, Setup};
use crate::kube::Cluster;
use crate::kv;
use crate::timers;
use crate::world::{World, idle};
use crate::writes::{Api, merge, run, until_sent};

/// What the guest was answered, once.
async fn answer(world: &World) -> (String, String) {
    let line = world.recorded(1, |line| line["event"] == "add").await.remove(0);
    let text = |member: &str| line[member].as_str().unwrap().to_owned();
    (text("code"), text("message"))
}

fn refused(world: &World) -> String {
    world.metrics("informant_plugin_effects_refused_total")
}

fn direct() -> serde_json::Value {
    let mut call = merge("a");
    call["defers"] = json!(false);
    call
}

#[tokio::test]
async fn a_direct_write_is_refused_and_its_event_called_again() {
    let api = Api::new();
    let world = World::with_cluster(api.clone());
    let (plugin, mut pods) = run(&world, json!({ "calls": [direct()] }), |_| {}).await;
    idle(&world, &plugin).await;
    // Before the batch.
    world.gate.close_after(1);
    pods.apply("web-0");
    let (code, message) = answer(&world).await;
    assert_eq!(code, "unavailable");
    assert!(message.contains("another replica of Informant acts now"), "{message}");
    world
        .until("the end of the call", || {
            plugin.listener().control().stats().in_flight == 0
        })
        .await;
    assert_eq!(api.sent(), Vec::<String>::new());
    insta::assert_snapshot!(refused(&world), @r#"
    informant_plugin_effects_refused_total{plugin="guest_kube",kind="call"} 1
    informant_plugin_effects_refused_total{plugin="guest_kube",kind="kube"} 1
    "#);
    let stats = plugin.listener().control().stats();
    assert_eq!((stats.counters.ok, stats.counters.dead_lettered), (0, 0));
    world.gate.set(Some(Duration::MAX));
    idle(&world, &plugin).await;
    assert_eq!(api.sent(), ["a"]);
}

#[tokio::test]
async fn reads_pass_a_closed_gate() {
    let api = Api::new();
    let world = World::with_cluster(api.clone());
    let mut get = direct();
    get["verb"] = json!("get");
    let (plugin, mut pods) = run(&world, json!({ "calls": [get] }), |spec| {
        spec.allow_kube = crate::kube::grants(json!([{ "verbs": ["get"], "resource": "v1/pods" }]));
    })
    .await;
    idle(&world, &plugin).await;
    world.gate.close_after(1);
    pods.apply("web-0");
    let line = world.recorded(1, |line| line["event"] == "add").await.remove(0);
    assert_eq!(line["code"], "ok");
}

#[tokio::test]
async fn deferred_writes_of_a_late_call_are_dropped() {
    let api = Api::new();
    let world = World::with_cluster(api.clone());
    let (plugin, mut pods) = run(&world, json!({ "calls": [merge("a")] }), |_| {}).await;
    idle(&world, &plugin).await;
    world.gate.close_after(1);
    pods.apply("web-0");
    world.until("the refusal", || !refused(&world).is_empty()).await;
    let stats = plugin.listener().control().stats();
    assert_eq!((stats.pending, plugin.status().writes.waiting), (1, 0));
    assert_eq!(api.sent(), Vec::<String>::new());
    world.gate.set(Some(Duration::MAX));
    idle(&world, &plugin).await;
    assert_eq!(api.sent(), ["a"], "the event was delivered again");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_write_is_not_sent_through_a_closed_gate() {
    let api = Api::new();
    let world = World::with_cluster(api.clone());
    let (plugin, mut pods) = run(&world, json!({ "calls": [merge("a")] }), |_| {}).await;
    idle(&world, &plugin).await;
    // Before the batch, and after the call.
    world.gate.close_after(2);
    pods.apply("web-0");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((api.sent().len(), plugin.status().writes.waiting), (0, 1));
    let counters = plugin.listener().control().stats().counters;
    assert_eq!((counters.ok, counters.retried, counters.dead_lettered), (0, 0, 0));
    world.gate.set(Some(Duration::MAX));
    idle(&world, &plugin).await;
    assert_eq!(api.sent(), ["a"]);
}

#[tokio::test]
async fn a_closed_shard_refuses_writes_about_its_own_objects() {
    let api = Api::new();
    let world = World::with_cluster(api.clone());
    let mut call = direct();
    call["name"] = json!("$name");
    let (plugin, mut pods) = run(&world, json!({ "calls": [call] }), |spec| spec.is_divided = true).await;
    idle(&world, &plugin).await;
    let accepted = || plugin.listener().control().stats().counters.ok;
    let before = accepted();
    world.gate.close_for(pods.id, "web-0");
    pods.apply("web-0");
    pods.apply("web-1");
    for (object, code) in [("web-0", "unavailable"), ("web-1", "ok")] {
        let is_answer = |line: &serde_json::Value| line["event"] == "add" && line["object"] == object;
        let line = world.recorded(1, is_answer).await.remove(0);
        assert_eq!(line["code"], code, "{line}");
    }
    world.until("web-1 to be accepted", || accepted() > before).await;
    // The refused call is made again and again meanwhile.
    assert_eq!((accepted() - before, api.sent()), (1, vec!["web-1".to_owned()]));
    assert!(refused(&world).contains(r#"kind="call"}"#), "{}", refused(&world));
}

#[tokio::test(start_paused = true)]
async fn a_waiting_write_about_a_closed_shard_is_not_sent() {
    let api = Api::new();
    let world = World::with_cluster(api.clone());
    let config = json!({ "calls": [merge("a"), merge("b")] });
    let (plugin, mut pods) = run(&world, config, |spec| spec.is_divided = true).await;
    idle(&world, &plugin).await;
    api.hold(true);
    pods.apply("web-0");
    until_sent(&world, &api, 1).await;
    world.gate.close_for(pods.id, "web-0");
    api.hold(false);
    let written = || world.metrics("informant_plugin_writes_total");
    let is_refused = || written().contains(r#"result="refused""#);
    world.until("the refusal", is_refused).await;
    assert_eq!(api.sent(), ["a"]);
    world.gate.set(Some(Duration::MAX));
    idle(&world, &plugin).await;
    assert_eq!(api.sent(), ["a", "b"]);
}

#[tokio::test]
async fn a_post_is_refused_and_a_get_is_not() {
    let mut setup = Setup::new(Behavior::Status(200), |_| ()).await;
    idle(&setup.world, &setup.plugin).await;
    for (method, answered) in [("POST", "Unreachable"), ("GET", "")] {
        setup.world.gate.set(Some(Duration::MAX));
        idle(&setup.world, &setup.plugin).await;
        setup.world.gate.close_after(1);
        let line = setup.handle(&json!({ "url": HOOK, "method": method })).await.remove(0);
        assert_eq!(line["error"].as_str().unwrap_or_default(), answered, "{line}");
    }
    assert!(setup.world.log.text().contains("another replica of Informant acts now"));
    assert!(refused(&setup.world).contains(r#"kind="http"} 1"#));
}

#[tokio::test(start_paused = true)]
async fn a_write_takes_no_longer_than_the_gate_is_open() {
    let world = World::with_cluster(Cluster::answering(None));
    world.gate.set(Some(Duration::from_millis(700)));
    let (_plugin, mut pods) = run(&world, json!({ "calls": [direct()] }), |_| {}).await;
    pods.apply("web-0");
    let (code, message) = answer(&world).await;
    assert_eq!(code, "timeout");
    assert!(message.contains("no response within 700ms"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_post_takes_no_longer_than_the_gate_is_open() {
    let mut setup = Setup::new(Behavior::Silent, |_| ()).await;
    setup.world.gate.set(Some(Duration::from_millis(700)));
    let began = tokio::time::Instant::now();
    let line = setup.handle(&json!({ "url": HOOK, "method": "POST" })).await.remove(0);
    assert_eq!(line["error"], "Timeout");
    let took = began.elapsed();
    assert!(
        took >= Duration::from_millis(700) && took < Duration::from_secs(1),
        "{took:?}"
    );
}

#[tokio::test]
async fn keys_that_a_call_changed_too_late_are_not_visible() {
    let world = World::new();
    let (plugin, mut pods) = kv::run(&world).await;
    idle(&world, &plugin).await;
    world.gate.close_after(1);
    pods.apply("a");
    world.until("the refusal", || !refused(&world).is_empty()).await;
    assert_eq!(world.keys.text(), "starts=1");
    assert_eq!(plugin.listener().control().stats().counters.ok, 0);
    world.gate.set(Some(Duration::MAX));
    idle(&world, &plugin).await;
    assert_eq!(world.keys.text(), "count/a=1 starts=1");
}

#[tokio::test]
async fn a_failure_behind_a_closed_gate_makes_no_dead_letter() {
    let world = World::new();
    let rules = json!({ "rules": [{ "name": "a", "times": 1, "do": "permanent" }] });
    let plugin = world.run("guest_recorder", rules, |_| {}).await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    idle(&world, &plugin).await;
    world.gate.close_after(1);
    pods.apply("a");
    world.until("the refusal", || !refused(&world).is_empty()).await;
    world.gate.set(Some(Duration::MAX));
    idle(&world, &plugin).await;
    let counters = plugin.listener().control().stats().counters;
    assert_eq!((counters.ok, counters.dead_lettered), (2, 0), "with that of the sync");
    assert_eq!(plugin.status().state, PluginState::Running);
}

#[tokio::test(start_paused = true)]
async fn nothing_begins_while_the_gate_is_closed() {
    let world = timers::world();
    let plugin = timers::start(&world, timers::spec(json!({}))).await;
    world.gate.set(None);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(timers::ran(&world, &mut 0, "").is_empty());
    let stopped = plugin.stop(Duration::from_secs(10)).await;
    assert_eq!(stopped.undelivered, 0);
}
