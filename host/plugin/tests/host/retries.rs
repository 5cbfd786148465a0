//! Retries of a plugin's events: visible, unlimited by default, configurable while it runs.

use std::time::Duration;

use informant_spec::{OnFailure, RetryPolicy};
use serde_json::json;

use crate::world::{Reload, World, idle};

fn warnings(world: &World) -> Vec<String> {
    let lines = world.log.lines().into_iter();
    let ours = lines.filter(|line| line.message == "events under retry");
    ours.map(|line| format!("{}{}", line.level, line.fields)).collect()
}

#[tokio::test(start_paused = true)]
async fn failures_are_logged_once_a_minute_with_the_oldest() {
    let world = World::new();
    let rules = json!({ "rules": [{ "name": "bad-*", "do": "retryable" }] });
    let plugin = world.run("guest_recorder", rules, |_| {}).await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    pods.apply("bad-1");
    tokio::time::sleep(Duration::from_millis(500)).await;
    pods.apply("bad-2");
    pods.apply("fine");
    tokio::time::sleep(Duration::from_secs(50)).await;
    let line = warnings(&world).join("\n");
    for field in [
        "WARN",
        "plugin=\"guest_recorder\"",
        "retrying=1",
        "informer=\"pods\"",
        "event=\"add\"",
        "key=\"default/bad-1\"",
        "attempts=1",
        "result=\"retryable\"",
        "error=\"asked to fail\"",
    ] {
        assert!(line.contains(field), "{field} in {line}");
    }
    assert_eq!(line.lines().count(), 1);
    tokio::time::sleep(Duration::from_secs(600)).await;
    let lines = warnings(&world);
    assert!((3..=9).contains(&lines.len()), "{lines:?}");
    assert!(
        lines[1].contains("retrying=2") && lines[1].contains("bad-1"),
        "{}",
        lines[1]
    );
    assert_eq!(
        (
            plugin.status().dead_letters,
            plugin.listener().control().stats().failing
        ),
        (0, 2)
    );
}

#[tokio::test(start_paused = true)]
async fn each_cause_of_failures_has_a_line_a_minute() {
    let world = World::new();
    let rules = json!({ "quiet": true, "rules": [
        { "name": "bad-*", "do": "retryable" },
        { "name": "worse-*", "do": "trap" }] });
    let plugin = world.run("guest_recorder", rules, |_| {}).await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    for number in 0..50 {
        pods.apply(&format!("bad-{number}"));
        pods.apply_in("other", &format!("worse-{number}"), "");
    }
    tokio::time::sleep(Duration::from_secs(50)).await;
    let lines = warnings(&world);
    let of = |cause: &str| {
        lines
            .iter()
            .filter(|line| line.contains(&format!("result={cause:?}")))
            .count()
    };
    assert_eq!((lines.len(), of("retryable"), of("trap")), (2, 1, 1), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn skipped_failures_have_a_line_a_minute() {
    let world = World::new();
    let rules = json!({ "quiet": true, "rules": [{ "do": "retryable" }] });
    let plugin = world
        .run("guest_recorder", rules, |spec| spec.on_failure = OnFailure::Skip)
        .await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    let skipped = || -> Vec<String> {
        let lines = world.log.lines().into_iter();
        let ours = lines.filter(|line| line.message == "event skipped after a failure");
        ours.map(|line| line.fields).collect()
    };
    for number in 0..50 {
        pods.apply(&format!("bad-{number}"));
    }
    idle(&world, &plugin).await;
    assert!(
        skipped().len() == 1 && skipped()[0].contains("asked to fail"),
        "{:?}",
        skipped()
    );
    tokio::time::sleep(Duration::from_secs(60)).await;
    pods.apply("late");
    idle(&world, &plugin).await;
    assert!(
        skipped().len() == 2 && skipped()[1].contains("suppressed=49"),
        "{:?}",
        skipped()
    );
}

#[tokio::test(start_paused = true)]
async fn a_changed_retry_policy_applies_to_the_running_instance() {
    let world = World::new();
    let rules = json!({ "rules": [{ "name": "bad", "do": "retryable" }] });
    let plugin = world
        .run("guest_recorder", rules, |spec| {
            spec.retry.initial = Duration::from_secs(3_600);
            spec.retry.max = Duration::from_secs(3_600);
        })
        .await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    pods.apply("bad");
    tokio::time::sleep(Duration::from_secs(5)).await;
    let mut spec = plugin.spec();
    spec.retry = RetryPolicy {
        attempts: 3,
        ..RetryPolicy::default()
    };
    assert!(
        plugin.reconfigure(spec).await.unwrap().is_none(),
        "the instance is kept"
    );
    tokio::time::sleep(Duration::from_secs(600)).await;
    let letters = plugin.listener().ledger().dead_letters();
    assert_eq!((letters.len(), letters[0].attempts), (1, 3));
    assert_eq!(plugin.status().restarts, 0);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_may_ask_for_later_without_end() {
    let world = World::new();
    let rules = json!({ "rules": [{ "times": 30, "do": { "retry-after-ms": 100 } }] });
    let plugin = world.run("guest_recorder", rules, |spec| spec.retry.attempts = 1).await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    pods.apply("a");
    world.recorded(31, |line| line["name"] == "a").await;
    assert_eq!(plugin.status().dead_letters, 0);
    assert_eq!(warnings(&world), Vec::<String>::new(), "that is no failure");
}
