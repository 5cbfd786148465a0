use informant_plugin_sdk::prelude::*;
use informant_plugin_sdk::testing::Driver;
use serde_json::json;

use super::*;

fn driver(config: Value) -> Driver<CrashLoop> {
    Driver::start(config).expect("the plugin starts")
}

fn pod(uid: &str, container: Value) -> Value {
    let mut container = container;
    container["name"] = json!("app");
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "namespace": "web", "name": "checkout", "uid": uid },
        "status": { "phase": "Running", "containerStatuses": [container, { "name": "proxy", "restartCount": 0 }] },
    })
}

fn running(restarts: u32) -> Value {
    json!({ "restartCount": restarts, "state": { "running": { "startedAt": "2026-11-21T00:00:00Z" } } })
}

fn crashed(restarts: u32, reason: &str, code: i32) -> Value {
    json!({ "restartCount": restarts, "state": { "terminated": { "reason": reason, "exitCode": code } } })
}

fn backing_off(restarts: u32, reason: &str, code: i32) -> Value {
    json!({
        "restartCount": restarts,
        "state": { "waiting": { "reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container" } },
        "lastState": { "terminated": { "reason": reason, "exitCode": code } },
    })
}

#[track_caller]
fn check(driver: &mut Driver<CrashLoop>, container: Value, expected: &[&str]) {
    driver.put(pod("u1", container)).expect("the plugin accepts every pod");
    assert_eq!(driver.take_log(), expected);
}

#[test]
fn a_crash_loop_is_reported_once_for_each_restart() {
    let mut driver = driver(json!({}));
    check(&mut driver, running(0), &[]);
    check(&mut driver, crashed(0, "Error", 1), &[]);
    check(
        &mut driver,
        backing_off(1, "Error", 1),
        &["warn: web/checkout: container app is crash-looping: 1 restart, last exit code 1 (Error)"],
    );
    check(&mut driver, backing_off(1, "Error", 1), &[]);
    check(&mut driver, running(2), &[]);
    check(&mut driver, crashed(2, "Error", 3), &[]);
    check(
        &mut driver,
        backing_off(2, "Error", 3),
        &["warn: web/checkout: container app is crash-looping: 2 restarts, last exit code 3 (Error)"],
    );
}

#[test]
fn restarts_below_the_configured_minimum_are_not_reported() {
    let mut driver = driver(json!({ "min-restarts": 3 }));
    check(&mut driver, backing_off(2, "Error", 1), &[]);
    check(
        &mut driver,
        backing_off(3, "Error", 1),
        &["warn: web/checkout: container app is crash-looping: 3 restarts, last exit code 1 (Error)"],
    );
}

#[test]
fn an_oom_kill_is_reported_once() {
    let mut driver = driver(json!({}));
    let first = ["warn: web/checkout: container app was OOM-killed: exit code 137, seen once, 0 restarts"];
    check(&mut driver, crashed(0, "OOMKilled", 137), &first);
    let mut restarted = running(1);
    restarted["lastState"] = json!({ "terminated": { "reason": "OOMKilled", "exitCode": 137 } });
    check(&mut driver, restarted, &[]);
    let second = ["warn: web/checkout: container app was OOM-killed: exit code 137, seen 2 times, 1 restart"];
    check(&mut driver, crashed(1, "OOMKilled", 137), &second);
    let looping = ["warn: web/checkout: container app is crash-looping: 1 restart, last exit code 137 (OOMKilled)"];
    check(&mut driver, backing_off(1, "OOMKilled", 137), &looping);
}

#[test]
fn an_oom_kill_before_the_plugin_started_is_reported() {
    let mut driver = driver(json!({}));
    let mut restarted = running(4);
    restarted["lastState"] = json!({ "terminated": { "reason": "OOMKilled", "exitCode": 137 } });
    let news = ["warn: web/checkout: container app was OOM-killed: exit code 137, seen once, 4 restarts"];
    check(&mut driver, restarted, &news);
}

#[test]
fn an_init_container_counts_too() {
    let mut driver = driver(json!({}));
    let mut pod = pod("u1", running(0));
    let mut migrate = backing_off(4, "Error", 2);
    migrate["name"] = json!("migrate");
    pod["status"]["initContainerStatuses"] = json!([migrate]);
    driver.put(pod).expect("the plugin accepts every pod");
    let news = "warn: web/checkout: container migrate is crash-looping: 4 restarts, last exit code 2 (Error)";
    assert_eq!(driver.take_log(), [news]);
}

#[test]
fn a_new_pod_is_reported_again_but_not_a_replay() {
    let mut driver = driver(json!({}));
    let news = ["warn: web/checkout: container app is crash-looping: 5 restarts, last exit code 1 (Error)"];
    check(&mut driver, backing_off(5, "Error", 1), &news);
    driver.set_reason(Reason::Replay);
    check(&mut driver, backing_off(5, "Error", 1), &[]);
    driver
        .put(pod("u2", backing_off(5, "Error", 1)))
        .expect("the plugin accepts every pod");
    assert_eq!(driver.take_log(), news);
}

#[test]
fn a_deleted_pod_is_forgotten() {
    let mut driver = driver(json!({}));
    driver
        .put(pod("u1", backing_off(5, "Error", 1)))
        .expect("the plugin accepts every pod");
    assert_eq!(driver.plugin().reported.len(), 1);
    driver
        .vanish(SourceId(0), "web", "checkout")
        .expect("the plugin accepts every delete");
    assert!(driver.plugin().reported.is_empty());
}

#[test]
fn a_healthy_pod_takes_no_memory() {
    let mut driver = driver(json!({}));
    driver.put(pod("u1", running(0))).expect("the plugin accepts every pod");
    driver
        .put(json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "new" } }))
        .expect("no status yet");
    assert!(driver.plugin().reported.is_empty());
}

#[test]
fn a_reset_restart_count_is_followed() {
    let mut driver = driver(json!({}));
    let at =
        |count: &str| format!("warn: web/checkout: container app is crash-looping: {count}, last exit code 1 (Error)");
    check(&mut driver, backing_off(5, "Error", 1), &[&at("5 restarts")]);
    check(&mut driver, backing_off(1, "Error", 1), &[&at("1 restart")]);
    check(&mut driver, running(0), &[]);
    driver.synced(SourceId(0)).expect("the summary is logged");
    assert_eq!(
        driver.take_log(),
        ["info: source 0 is synced; in all sources 0 containers crash-looping, 0 OOM kills seen"]
    );
}

#[test]
fn the_summary_counts_the_current_state() {
    let mut driver = driver(json!({}));
    driver
        .put(pod("u1", backing_off(5, "OOMKilled", 137)))
        .expect("the plugin accepts every pod");
    driver.take_log();
    driver.synced(SourceId(0)).expect("the summary is logged");
    driver.put(pod("u1", running(6))).expect("the plugin accepts every pod");
    driver.synced(SourceId(0)).expect("the summary is logged");
    let summary = |looping| {
        format!("info: source 0 is synced; in all sources {looping} containers crash-looping, 1 OOM kills seen")
    };
    assert_eq!(driver.take_log(), [summary(1), summary(0)]);
}

#[test]
fn an_unknown_key_in_the_config_is_refused() {
    assert!(matches!(
        Driver::<CrashLoop>::start(json!({ "min_restarts": 3 })),
        Err(Failure::Permanent(_))
    ));
}
