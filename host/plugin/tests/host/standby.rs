//! Standby: compiled and indexed, without an instance that handles events, until the plugin is to act.

use std::time::Duration;

use informant_plugin_host::{Plugin, PluginState, TimerTriggered};
use serde_json::json;

use crate::kv;
use crate::pauses::{delivered, for_a_minute};
use crate::timers::{self, pass, ran};
use crate::world::{Pods, Reload, World, guest, idle};
use crate::writes::{Api, merge, run, until_sent};

/// A plugin that was loaded in standby.
async fn standby(world: &World) -> (Plugin, Pods) {
    world.gate.set(None);
    let plugin = world.run("guest_recorder", json!({}), |_| {}).await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    (plugin, pods)
}

/// This replica acts from now on.
async fn act(world: &World, plugin: &Plugin) {
    world.gate.set(Some(Duration::MAX));
    plugin.act().await;
}

#[tokio::test(start_paused = true)]
async fn a_standby_has_no_instance_until_it_acts() {
    let world = World::new();
    let (plugin, mut pods) = standby(&world).await;
    for _ in 0..3 {
        pods.apply("a");
    }
    pods.apply("b");
    for_a_minute().await;
    let status = plugin.status();
    assert_eq!((status.state, status.instances), (PluginState::Standby, 0));
    assert_eq!(status.because.as_deref(), Some("this replica stands by"));
    assert!(world.metrics("informant_plugin_state").contains("state=\"standby\"} 1"));
    assert_eq!(delivered(&world), Vec::<String>::new());
    act(&world, &plugin).await;
    idle(&world, &plugin).await;
    assert_eq!(delivered(&world), ["v1 add a", "v1 add b"]);
    let status = plugin.status();
    assert_eq!(
        (status.state, status.instances, status.restarts),
        (PluginState::Running, 1, 0)
    );
    assert!(!plugin.is_standby());
    plugin.act().await;
    pods.apply("c");
    idle(&world, &plugin).await;
    assert_eq!(plugin.status().instances, 1, "it acts already");
}

#[tokio::test(start_paused = true)]
async fn instances_are_created_by_init_as_at_a_start() {
    let world = World::new();
    let (plugin, mut pods) = kv::run(&world).await;
    pods.apply("a");
    idle(&world, &plugin).await;
    plugin.stand_by().await;
    assert_eq!(plugin.status().instances, 0);
    act(&world, &plugin).await;
    pods.apply("a");
    idle(&world, &plugin).await;
    assert_eq!(world.keys.text(), "count/a=2 starts=2");
}

#[tokio::test]
async fn standing_by_ends_a_call_that_loops_at_once() {
    let world = World::new();
    let rules = json!({ "rules": [{ "name": "loop", "times": 1, "do": "loop" }] });
    let plugin = world
        .run("guest_recorder", rules, |spec| {
            spec.limits.cpu = Duration::from_secs(3_600);
            spec.limits.call = Duration::from_secs(3_600);
        })
        .await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    idle(&world, &plugin).await;
    pods.apply("loop");
    world.until("the loop", || plugin.status().stuck_on.is_some()).await;
    let began = std::time::Instant::now();
    plugin.stand_by().await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    let (status, stats) = (plugin.status(), plugin.listener().control().stats());
    assert_eq!(
        (status.state, status.instances, status.restarts),
        (PluginState::Standby, 0, 0)
    );
    assert_eq!(
        (stats.pending, stats.in_flight, stats.counters.ok),
        (1, 0, 1),
        "the sync was handled"
    );
}

#[tokio::test]
async fn effects_of_an_aborted_call_are_dropped() {
    let api = Api::new();
    let world = World::with_cluster(api.clone());
    let mut direct = merge("direct");
    direct["defers"] = json!(false);
    let (plugin, mut pods) = run(&world, json!({ "calls": [merge("deferred"), direct] }), |_| {}).await;
    api.hold(true);
    pods.apply("web-0");
    until_sent(&world, &api, 1).await;
    plugin.stand_by().await;
    api.hold(false);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(
        (api.sent(), plugin.status().writes.waiting),
        (vec!["direct".to_owned()], 0)
    );
    act(&world, &plugin).await;
    idle(&world, &plugin).await;
    assert_eq!(api.sent(), ["direct", "direct", "deferred"]);
}

#[tokio::test]
async fn deferred_writes_are_dropped_and_their_events_stay() {
    let api = Api::new();
    let world = World::with_cluster(api.clone());
    let config = json!({ "calls": [merge("$name")] });
    let (plugin, mut pods) = run(&world, config, |spec| spec.limits.writes_in_flight = 1).await;
    idle(&world, &plugin).await;
    api.hold(true);
    pods.apply_all(&["a", "b", "c"].map(str::to_owned));
    world.until("all calls", || plugin.status().writes.waiting == 3).await;
    plugin.stand_by().await;
    api.hold(false);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(api.sent().len(), 1, "the one that was in flight");
    let (status, stats) = (plugin.status(), plugin.listener().control().stats());
    assert_eq!((status.writes.waiting, status.writes.in_flight), (0, 0));
    assert_eq!((stats.pending, stats.in_flight, stats.counters.ok), (3, 0, 0));
    let counted = world.metrics("informant_plugin_writes_total");
    assert!(counted.contains(r#"verb="patch",result="dropped"} 3"#), "{counted}");
    act(&world, &plugin).await;
    idle(&world, &plugin).await;
    let mut sent = api.sent().split_off(1);
    sent.sort();
    assert_eq!(sent, ["a", "b", "c"]);
    assert_eq!(plugin.listener().control().stats().counters.ok, 3);
}

#[tokio::test(start_paused = true)]
async fn a_pause_in_standby_holds_when_the_plugin_acts() {
    let world = World::new();
    let (plugin, mut pods) = standby(&world).await;
    pods.apply("a");
    assert!(plugin.pause().await);
    let status = plugin.status();
    assert_eq!((status.state, status.paused), (PluginState::Standby, true));
    act(&world, &plugin).await;
    for_a_minute().await;
    assert_eq!(
        (plugin.status().state, plugin.status().instances),
        (PluginState::Paused, 0)
    );
    plugin.stand_by().await;
    assert!(plugin.resume().await);
    act(&world, &plugin).await;
    idle(&world, &plugin).await;
    assert_eq!(delivered(&world), ["v1 add a"]);
}

#[tokio::test(start_paused = true)]
async fn a_version_swapped_in_standby_begins_probation_when_acting() {
    let world = World::new();
    let (plugin, mut pods) = standby(&world).await;
    let section = informant_spec::PluginSpec {
        config: json!({ "label": "new" }),
        ..plugin.spec()
    };
    assert!(plugin.reconfigure(section).await.unwrap().is_some());
    plugin.swap(&guest("guest_recorder_v2")).await.unwrap();
    assert_eq!(plugin.status().instances, 0);
    tokio::select! {
        () = plugin.probation_ends() => panic!("it has not run"),
        () = tokio::time::sleep(Duration::from_secs(600)) => {}
    }
    pods.apply("a");
    act(&world, &plugin).await;
    idle(&world, &plugin).await;
    assert_eq!(delivered(&world), ["v2 add a"]);
    let began = tokio::time::Instant::now();
    plugin.probation_ends().await;
    assert!(began.elapsed() > Duration::from_secs(50), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_version_prepared_in_standby_is_applied_with_instances() {
    let world = World::new();
    let (plugin, mut pods) = standby(&world).await;
    let path = guest("guest_recorder_v2");
    let content = informant_spec::Content::new(path.as_path(), std::fs::read(&path).unwrap());
    let prepared = plugin.prepare_version(content).await.unwrap();
    act(&world, &plugin).await;
    assert!(plugin.apply(prepared).await.unwrap().is_some());
    pods.apply("a");
    idle(&world, &plugin).await;
    assert_eq!(
        (delivered(&world), plugin.status().restarts),
        (vec!["v2 add a".to_owned()], 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_quarantine_ends_with_the_term() {
    let world = World::new();
    let rules = json!({ "rules": [{ "name": "bad", "times": 1, "do": "permanent" }] });
    let plugin = world
        .run("guest_recorder", rules, |spec| {
            spec.on_failure = informant_spec::OnFailure::Quarantine
        })
        .await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    pods.apply("bad");
    world
        .until("quarantine", || plugin.status().state == PluginState::Quarantined)
        .await;
    plugin.stand_by().await;
    assert_eq!(plugin.status().state, PluginState::Standby);
    act(&world, &plugin).await;
    pods.apply("good");
    idle(&world, &plugin).await;
    assert_eq!(plugin.status().state, PluginState::Running);
    assert_eq!(plugin.listener().control().stats().dead_letters, 1);
}

#[tokio::test(start_paused = true)]
async fn timers_continue_from_the_record_of_runs() {
    let world = timers::world();
    let plugin = timers::start(&world, timers::spec(json!({}))).await;
    let mut seen = 0;
    pass(&world, &plugin, 15).await;
    plugin.stand_by().await;
    ran(&world, &mut seen, "");
    // Another replica has made runs until then.
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(ran(&world, &mut seen, "").is_empty());
    assert_eq!(plugin.trigger_timer("poll"), TimerTriggered::Unknown);
    let recorded = world
        .keys
        .replace("\0timers", |json| json.replace("23:00:10Z", "23:09:50Z"));
    assert!(recorded, "{}", world.keys.text());
    act(&world, &plugin).await;
    pass(&world, &plugin, 1).await;
    assert_eq!(
        ran(&world, &mut seen, ""),
        ["poll 2026-03-28T23:10:10Z missed=1 attempt=0"]
    );
}

#[tokio::test(start_paused = true)]
async fn the_record_of_runs_is_awaited_while_the_replica_acts() {
    let world = timers::world();
    let plugin = timers::start(&world, timers::spec(json!({}))).await;
    let mut seen = 0;
    pass(&world, &plugin, 15).await;
    plugin.stand_by().await;
    ran(&world, &mut seen, "");
    world.keys.set_stuck(true);
    for _ in 0..2 {
        act(&world, &plugin).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        // The wait ends with the term.
        let began = plugin.now();
        plugin.stand_by().await;
        assert_eq!(plugin.now(), began);
    }
    act(&world, &plugin).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.keys.set_stuck(false);
    pass(&world, &plugin, 1).await;
    assert_eq!(
        ran(&world, &mut seen, ""),
        ["poll 2026-03-28T23:03:10Z missed=17 attempt=0"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_stop_in_standby_is_immediate() {
    let world = World::new();
    let (plugin, mut pods) = standby(&world).await;
    pods.apply_all(&["a", "b"].map(str::to_owned));
    let began = tokio::time::Instant::now();
    let stopped = plugin.stop(Duration::from_secs(30)).await;
    assert_eq!(stopped.undelivered, 2);
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test]
async fn several_instances_stand_by_and_act() {
    let world = World::new();
    world.gate.set(None);
    let plugin = world
        .run("guest_http", json!({}), |spec| spec.limits.instances = 3)
        .await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    assert_eq!(plugin.status().instances, 0);
    for _ in 0..3 {
        act(&world, &plugin).await;
        world.until("its instances", || plugin.status().instances == 3).await;
        pods.apply("a");
        idle(&world, &plugin).await;
        plugin.stand_by().await;
        assert_eq!(plugin.status().instances, 0);
    }
}
