//! A guest that misbehaves costs its own instance, but no event and no other plugin's time.

use std::time::{Duration, Instant};

use informant_plugin_host::PluginState;
use informant_spec::{Limits, OnFailure, PluginSpec};
use serde_json::{Value, json};

use crate::world::{NAMESPACES, World};

/// Limits at which a loop ends soon, and memory is exhausted long before that.
fn short(spec: &mut PluginSpec) {
    spec.limits = Limits {
        cpu: Duration::from_millis(500),
        memory_bytes: 8 << 20,
        ..Limits::default()
    };
}

fn of(name: &str) -> impl Fn(&Value) -> bool + use<'_> {
    move |line| line["name"] == name && line["outcome"] == "ok"
}

#[tokio::test(start_paused = true)]
async fn every_trap_is_reported_and_survived() {
    let world = World::new();
    let actions = ["trap", "loop", "grow", "recurse", "exit"];
    let rules: Vec<Value> = actions
        .iter()
        .map(|action| json!({ "name": format!("{action}-*"), "attempts": 1, "do": action }))
        .collect();
    let plugin = world.run("guest_recorder", json!({ "rules": rules }), short).await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    for action in actions {
        pods.apply(&format!("{action}-0"));
    }
    pods.apply("after");
    world.recorded(1, of("after")).await;
    for action in actions {
        let name = format!("{action}-0");
        let lines = world.recorded(1, of(&name)).await;
        assert_eq!(lines[0]["attempt"], 1, "{action}");
    }
    let mut reports: Vec<String> = world
        .log
        .lines()
        .into_iter()
        .filter(|line| line.message == "plugin instance lost")
        .map(|line| line.fields)
        .collect();
    reports.sort();
    insta::assert_snapshot!(reports.join("\n"), @r#"
    plugin="guest_recorder" export="on-add" object="v1 Pod default/exit-0" error="it called exit(1); a plugin must return instead of exiting"
    plugin="guest_recorder" export="on-add" object="v1 Pod default/grow-0" error="it requested 8.1 MiB of memory, but limits.memory = \"8MiB\" of [plugin.guest_recorder]" last_lines="memory allocation of 1048576 bytes failed\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace"
    plugin="guest_recorder" export="on-add" object="v1 Pod default/loop-0" error="it ran for more than 500ms, the limit for one call (limits.cpu)"
    plugin="guest_recorder" export="on-add" object="v1 Pod default/recurse-0" error="out-of-bounds memory access: unbounded recursion exhausted its stack, or a pointer is invalid"
    plugin="guest_recorder" export="on-add" object="v1 Pod default/trap-0" error="it panicked" last_lines="panicked at tests/guests/recorder/src/behavior.rs:137:27: asked to trap"
    "#);
    insta::assert_snapshot!(world.metrics("informant_plugin_restarts"), @r#"
    informant_plugin_restarts_total{plugin="guest_recorder",reason="memory"} 1
    informant_plugin_restarts_total{plugin="guest_recorder",reason="timeout"} 1
    informant_plugin_restarts_total{plugin="guest_recorder",reason="trap"} 3
    "#);
    insta::assert_snapshot!(world.metrics("informant_handler_events_total").lines().filter(|line| !line.ends_with(" 0")).collect::<Vec<_>>().join("\n"), @r#"
    informant_handler_events_total{plugin="guest_recorder",informer="pods",event="add",result="ok"} 6
    informant_handler_events_total{plugin="guest_recorder",informer="pods",event="add",result="timeout"} 1
    informant_handler_events_total{plugin="guest_recorder",informer="pods",event="add",result="trap"} 4
    informant_handler_events_total{plugin="guest_recorder",informer="pods",event="sync",result="ok"} 1
    "#);
    assert_eq!(plugin.status().restarts, 5);
    assert_eq!(plugin.status().state, PluginState::Running);
}

#[tokio::test(start_paused = true)]
async fn a_poisoned_object_is_dead_lettered_without_delaying_others() {
    let world = World::new();
    let plugin = world
        .run(
            "guest_recorder",
            json!({ "rules": [{ "name": "a-poison", "do": "trap" }] }),
            |_| {},
        )
        .await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    // First in its batch, so that the calls for the others are still pending when it traps.
    pods.apply("a-poison");
    pods.apply_all(&(0..200).map(|number| format!("good-{number}")).collect::<Vec<_>>());
    let good = world
        .recorded(200, |line| {
            line["name"].as_str().is_some_and(|name| name.starts_with("good"))
        })
        .await;
    assert_eq!(good.len(), 200);
    world
        .until("a dead letter", || plugin.listener().ledger().dead_letters().len() == 1)
        .await;
    let attempts = world.recorded(5, |line| line["name"] == "a-poison").await;
    assert_eq!(attempts.len(), 5);
    let letter = &plugin.listener().ledger().dead_letters()[0];
    assert!(letter.error.contains("asked to trap"), "{}", letter.error);
    assert_eq!(plugin.status().dead_letters, 1);
    // Its last instance was lost a moment ago.
    world
        .until("it to run", || plugin.status().state == PluginState::Running)
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_loops_is_dead_lettered() {
    let world = World::new();
    let rules = json!({ "rules": [{ "name": "poison", "do": "loop" }] });
    let plugin = world.run("guest_recorder", rules, short).await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    pods.apply("poison");
    for number in 0..100 {
        pods.apply_in("other", &format!("good-{number}"), "");
        world.recorded(1, of(&format!("good-{number}"))).await;
    }
    world.until("a dead letter", || plugin.status().dead_letters == 1).await;
    let letters = plugin.listener().ledger().dead_letters();
    assert_eq!((letters[0].attempts, letters[0].result), (3, "timeout"));
    assert_eq!(plugin.listener().ledger().suspects(3), (1, vec!["default".to_owned()]));
    let status = plugin.status();
    assert_eq!((status.state, status.restarts), (PluginState::Running, 3));
}

#[tokio::test(start_paused = true)]
async fn crashes_of_one_namespace_never_quarantine() {
    let world = World::new();
    let rules = json!({ "quiet": true, "rules": [{ "name": "bad-*", "do": "trap" }] });
    let plugin = world.run("guest_recorder", rules, |_| {}).await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    pods.apply_all(&(0..100).map(|number| format!("bad-{number}")).collect::<Vec<_>>());
    world.until("all failures", || plugin.status().restarts >= 100).await;
    // It fails on everything, and its state shows that, until it succeeds.
    let status = plugin.status();
    assert_eq!(status.state, PluginState::Failing);
    insta::assert_snapshot!(status.because.unwrap(), @"its last 10 calls or more have failed");
    let metric = r#"informant_plugin_state{plugin="guest_recorder",state="failing"}"#;
    assert_eq!(world.metrics(metric), format!("{metric} 1"));
    pods.apply_in("other", "good", "");
    world
        .until("a success", || plugin.status().state == PluginState::Running)
        .await;
    assert_eq!(plugin.status().because, None);
    assert_eq!(world.metrics(metric), format!("{metric} 0"));
    world
        .until("the dead letters", || plugin.status().dead_letters == 100)
        .await;
    assert!(plugin.status().restarts >= 500);
}

#[tokio::test(start_paused = true)]
async fn constant_traps_lead_to_quarantine_and_resume_loses_nothing() {
    let world = World::new();
    let rules = json!({ "rules": [{ "name": "bad-*", "event": "add", "do": "trap" }] });
    let plugin = world.run("guest_recorder", rules, |_| {}).await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    let bad: Vec<_> = (0..30).map(|number| format!("bad-{number}")).collect();
    pods.apply_everywhere(&bad);
    world
        .until("quarantine", || plugin.status().state == PluginState::Quarantined)
        .await;
    let status = plugin.status();
    assert!(
        status.because.as_deref().unwrap().contains("asked to trap"),
        "{status:?}"
    );
    assert!(status.restarts >= 10);
    insta::assert_snapshot!(world.metrics("informant_plugin_state{"), @r#"
    informant_plugin_state{plugin="guest_recorder",state="draining"} 0
    informant_plugin_state{plugin="guest_recorder",state="failing"} 0
    informant_plugin_state{plugin="guest_recorder",state="loaded"} 0
    informant_plugin_state{plugin="guest_recorder",state="paused"} 0
    informant_plugin_state{plugin="guest_recorder",state="quarantined"} 1
    informant_plugin_state{plugin="guest_recorder",state="restarting"} 0
    informant_plugin_state{plugin="guest_recorder",state="running"} 0
    informant_plugin_state{plugin="guest_recorder",state="standby"} 0
    informant_plugin_state{plugin="guest_recorder",state="stopped"} 0
    "#);
    for namespace in NAMESPACES {
        bad.iter().for_each(|name| pods.delete_in(namespace, name));
    }
    pods.apply("good");
    tokio::time::sleep(Duration::from_secs(600)).await;
    world.recorded(0, of("good")).await;
    assert_eq!(
        world.log.json().iter().filter(|line| of("good")(line)).count(),
        0,
        "called in quarantine"
    );
    plugin.resume().await;
    world.recorded(1, of("good")).await;
    world.until("nothing pending", || plugin.status().pending == 0).await;
    assert_eq!(plugin.status().state, PluginState::Running);
    assert_eq!(plugin.status().because, None);
}

#[tokio::test(start_paused = true)]
async fn on_failure_quarantine_stops_at_the_first_permanent_failure() {
    let world = World::new();
    let rules = json!({ "rules": [{ "name": "bad", "times": 1, "do": "permanent" }] });
    let plugin = world
        .run("guest_recorder", rules, |spec| spec.on_failure = OnFailure::Quarantine)
        .await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    pods.apply("bad");
    world
        .until("quarantine", || plugin.status().state == PluginState::Quarantined)
        .await;
    pods.apply("good");
    plugin.resume().await;
    world.recorded(1, of("good")).await;
}

#[tokio::test]
async fn a_call_cut_off_by_a_stop_is_no_loss() {
    let world = World::new();
    let rules = json!({ "rules": [{ "do": "loop" }] });
    let plugin = world
        .run("guest_recorder", rules, |spec| {
            spec.limits.cpu = Duration::from_secs(3_600);
            spec.on_failure = OnFailure::Quarantine;
        })
        .await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    pods.apply("loop");
    world.until("the loop", || plugin.status().stuck_on.is_some()).await;
    plugin.stop(Duration::from_millis(100)).await;
    let (status, log) = (plugin.status(), world.log.text());
    assert_eq!((status.state, status.restarts), (PluginState::Stopped, 0));
    assert!(!log.contains("instance lost") && !log.contains("quarantined"), "{log}");
}

#[tokio::test(start_paused = true)]
async fn memory_is_limited_and_reported() {
    let world = World::new();
    let rules = json!({ "rules": [{ "name": "big", "do": { "keep": 8_000_000 } }] });
    let plugin = world
        .run("guest_recorder", rules, |spec| spec.limits.memory_bytes = 16 << 20)
        .await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    let before = plugin.status().memory_bytes;
    assert!(before > 0 && before < 8_000_000, "{before}");
    pods.apply("big");
    world.recorded(1, of("big")).await;
    world
        .until("memory in the status", || plugin.status().memory_bytes > 8_000_000)
        .await;
    // The second one does not fit: the instance is lost together with its memory.
    pods.apply("big");
    world.until("a restart", || plugin.status().restarts == 1).await;
    assert!(
        plugin.status().last_error.unwrap().1.contains("limits.memory"),
        "{:?}",
        plugin.status().last_error
    );
    world
        .until("the second one handled", || plugin.status().pending == 0)
        .await;
}

#[tokio::test(start_paused = true)]
async fn log_output_of_one_call_is_bounded() {
    let world = World::new();
    let rules = json!({ "quiet": true, "rules": [
        { "name": "long", "do": { "log-bytes": 1_000_000 } },
        { "name": "many", "do": { "log-lines": 100_000 } },
        { "name": "print", "do": "print" }] });
    let plugin = world.run("guest_recorder", rules, |_| {}).await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    pods.apply("long");
    pods.apply("many");
    pods.apply("print");
    world
        .until("all handled", || world.log.text().contains("printed to stderr"))
        .await;
    let lines = world.log.lines();
    assert!(lines.iter().map(|line| line.message.len()).sum::<usize>() < 3 * 64 * 1_024);
    let dropped: Vec<&str> = lines
        .iter()
        .filter(|line| line.message == "plugin log truncated")
        .map(|line| line.fields.trim_start())
        .collect();
    insta::assert_snapshot!(dropped.join("\n"), @r#"
    plugin="guest_recorder" dropped_bytes=991808 bytes_max=65536
    plugin="guest_recorder" dropped_bytes=930024 bytes_max=65536
    "#);
    insta::assert_snapshot!(world.metrics("informant_plugin_log_dropped"), @r#"informant_plugin_log_dropped_bytes_total{plugin="guest_recorder"} 1921832"#);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endless_loop_delays_no_other_plugin() {
    let world = World::new();
    let rules = json!({ "rules": [{ "name": "loop", "do": "loop" }] });
    let hog = world
        .run("guest_recorder", rules, |spec| spec.name = "hog".into())
        .await;
    let good = world
        .run("guest_recorder_v2", json!({ "quiet": true }), |spec| {
            spec.name = "good".into()
        })
        .await;
    let (mut for_hog, mut for_good) = (world.pods("a"), world.pods("b"));
    for_hog.attach(&hog.listener());
    for_good.attach(&good.listener());
    for_hog.apply("loop");
    world.until("the hog to loop", || hog.status().stuck_on.is_some()).await;
    let stuck_on = hog.status().stuck_on.unwrap();
    assert_eq!(
        (stuck_on.key.unwrap().to_string().as_str(), stuck_on.event),
        ("default/loop", "add")
    );
    // Some ticks of 2 ms as a rule. A shared machine adds its own delays, to some rounds.
    let mut rounds = Vec::new();
    while rounds.len() < 10 && rounds.last().is_none_or(|worst| *worst >= Duration::from_millis(500)) {
        let mut worst = Duration::ZERO;
        for number in 0..100 {
            let began = Instant::now();
            for_good.apply(&format!("good-{number}"));
            while good.listener().ledger().pending() + good.listener().consumer().in_flight() > 0 {
                tokio::task::yield_now().await;
            }
            worst = worst.max(began.elapsed());
        }
        rounds.push(worst);
    }
    assert!(
        rounds.last().is_some_and(|worst| *worst < Duration::from_millis(500)),
        "{rounds:?}"
    );
}
