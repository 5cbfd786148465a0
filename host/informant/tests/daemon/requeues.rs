//! Calls that a handler or an operator asked for.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::program::{Program, transcript};
use super::world::{World, until};

const RECORDER: &str = "[plugin.recorder]\ncomponent = \"recorder.wasm\"\ninformers = [\"pods\", \"maps\"]\n\
    required = true\n";
const MAPS: &str = "[informer.maps]\nresource = \"v1/configmaps\"\n";

fn config(pods: &str, rules: &str) -> String {
    format!("[informer.pods]\nresource = \"v1/pods\"\n{pods}{MAPS}{RECORDER}config = {{ rules = [{rules}] }}\n")
}

/// The recorder's calls for objects, each as `event name reason`, sorted.
fn calls(program: &Program) -> Vec<String> {
    let lines = program.lines();
    let call = |line: &Value| {
        let call: Value = serde_json::from_str(line["fields"]["message"].as_str()?).ok()?;
        let text = |member: &str| call[member].as_str();
        Some(format!("{} {} {}", text("event")?, text("name")?, text("reason")?))
    };
    let mut calls: Vec<String> = lines.iter().filter_map(call).collect();
    calls.sort_unstable();
    calls
}

/// The numbers of the sources whose objects the recorder was called for.
fn sources(program: &Program) -> BTreeSet<u64> {
    let lines = program.lines();
    let call = |line: &Value| {
        let call: Value = serde_json::from_str(line["fields"]["message"].as_str()?).ok()?;
        call["name"].as_str().and(call["source"].as_u64())
    };
    lines.iter().filter_map(call).collect()
}

/// Waits until there are `count` calls for this reason.
async fn called(program: &Program, reason: &str, count: usize) -> Vec<String> {
    until(&format!("{count} calls for {reason}"), async || {
        let mut calls = calls(program);
        calls.retain(|call| call.ends_with(&format!(" {reason}")));
        if calls.len() < count {
            Err(format!("{calls:?}"))
        } else {
            Ok(calls)
        }
    })
    .await
}

/// A program whose recorder has been called for three pods and a config map.
async fn four_objects() -> (World, Program) {
    let world = World::start().await;
    world.install("guest-recorder", "recorder.wasm");
    let other = json!({ "metadata": { "name": "other" } });
    world.server.create("v1/namespaces", "", other).unwrap();
    for (namespace, name) in [("default", "web-0"), ("default", "db-0"), ("other", "web-1")] {
        let pod = json!({
            "metadata": { "name": name, "namespace": namespace, "labels": { "app": name.split('-').next() } },
            "spec": { "containers": [] },
        });
        world.server.create("v1/pods", namespace, pod).unwrap();
    }
    let map = json!({ "metadata": { "name": "map", "namespace": "default" } });
    world.server.create("v1/configmaps", "default", map).unwrap();
    let program = Program::run(&world, &config("", "")).await;
    program.wait_until_ready().await;
    called(&program, "initial", 4).await;
    (world, program)
}

#[tokio::test(flavor = "multi_thread")]
async fn trigger_calls_the_handler_for_the_selected_objects() {
    let (world, program) = four_objects().await;
    let address = program.address().to_string();
    let mut answers = String::new();
    for (args, calls) in [
        ("--all", 4),
        ("-l app=web", 6),
        ("-l app=web -n other", 7),
        ("--key default/web-0", 8),
        ("--informer maps", 9),
        ("-n none", 9),
        ("--key default/missing", 9),
        ("--key web-0", 9),
        ("--informer nodes", 9),
        ("--cluster east --all", 9),
        ("-l a=b=c", 9),
    ] {
        let mut command = vec!["plugin", "trigger", "recorder", "--admin", &address];
        command.extend(args.split(' '));
        writeln!(answers, "{args}: {}", transcript(&world, &command).await).unwrap();
        called(&program, "trigger", calls).await;
    }
    insta::assert_snapshot!(answers, @r#"
    --all: exit 0
    plugin/recorder triggered: 4
    --
    -l app=web: exit 0
    plugin/recorder triggered: 2
    --
    -l app=web -n other: exit 0
    plugin/recorder triggered: 1
    --
    --key default/web-0: exit 0
    plugin/recorder triggered: 1
    --
    --informer maps: exit 0
    plugin/recorder triggered: 1
    --
    -n none: exit 1
    --
    plugin/recorder has no such objects: nothing is called
    --key default/missing: exit 1
    --
    error: plugin recorder handles no object default/missing that the request selects
    --key web-0: exit 1
    --
    error: plugin recorder handles no object web-0 that the request selects; the key of a namespaced object is NAMESPACE/NAME
    --informer nodes: exit 1
    --
    error: plugin recorder receives no objects of informer "nodes"; see `informant status`
    --cluster east --all: exit 1
    --
    error: plugin recorder receives no objects of cluster "east"; see `informant status`
    -l a=b=c: exit 1
    --
    error: labelSelector: label selector "a=b=c", byte 3: found "=", expected "," or the end
    "#);
    insta::assert_snapshot!(called(&program, "trigger", 9).await.join("\n"), @"
    update db-0 trigger
    update map trigger
    update map trigger
    update web-0 trigger
    update web-0 trigger
    update web-0 trigger
    update web-1 trigger
    update web-1 trigger
    update web-1 trigger
    ");
    assert_eq!(program.logged("calls triggered").await["fields"]["triggered"], 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn trigger_of_a_paused_plugin_waits_for_its_resume() {
    let (world, program) = four_objects().await;
    let address = program.address().to_string();
    let command = |verb| ["plugin", verb, "recorder", "--admin", &*address];
    transcript(&world, &command("pause")).await;
    let held = "; it is paused, and is called when it is resumed\n--";
    for counts in ["triggered: 1", "triggered: 0, already pending: 1"] {
        let trigger = [&command("trigger")[..], &["--key", "default/web-0"]].concat();
        assert_eq!(
            transcript(&world, &trigger).await,
            format!("exit 0\nplugin/recorder {counts}{held}")
        );
    }
    transcript(&world, &command("resume")).await;
    called(&program, "trigger", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requeue_moves_to_the_source_that_replaces_its_own() {
    let world = World::start().await;
    world.install("guest-recorder", "recorder.wasm");
    world.create_pod("web-0", "nginx");
    let rules = "{ event = \"add\", do = { requeue-after-ms = 5_000 } }";
    let program = Program::run(&world, &config("namespaces = [\"default\"]\n", rules)).await;
    called(&program, "initial", 1).await;
    world.configure(&config("", rules));
    program.logged("configuration applied").await;
    called(&program, "requeue-after", 1).await;
    assert_eq!(calls(&program), ["add web-0 initial", "update web-0 requeue-after"]);
    assert_eq!(sources(&program).len(), 2, "the source was replaced");
}

#[tokio::test(flavor = "multi_thread")]
async fn recreated_object_is_called_for_its_own_request_only() {
    let world = World::start().await;
    world.install("guest-recorder", "recorder.wasm");
    world.create_pod("web-0", "nginx");
    let rules = "{ event = \"add\", do = { requeue-after-ms = 5_000 } }";
    let program = Program::run(&world, &config("", rules)).await;
    called(&program, "initial", 1).await;
    world.server.delete("v1/pods", "default", "web-0").unwrap();
    called(&program, "watch", 1).await;
    world.create_pod("web-0", "nginx");
    called(&program, "requeue-after", 1).await;
    let expected = [
        "add web-0 initial",
        "add web-0 watch",
        "delete web-0 watch",
        "update web-0 requeue-after",
    ];
    assert_eq!(calls(&program), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_keeps_durable_requeues_and_their_time() {
    let world = World::start().await;
    world.install("guest-recorder", "recorder.wasm");
    world.create_pod("web-0", "nginx");
    world.create_pod("web-1", "nginx");
    let rules = "{ name = \"web-0\", event = \"add\", do = { requeue-after-ms = 6_000 } }";
    let config = config("durable = \"metadata\"\n", rules).replace("config =", "on-start = \"continue\"\nconfig =");
    let config = format!("[state]\npath = \"state.redb\"\n{config}");
    let mut program = Program::run(&world, &config).await;
    program.wait_until_ready().await;
    called(&program, "initial", 2).await;
    let asked = Instant::now();
    program.signal("-TERM").await;
    assert_eq!(program.exit_code().await, Some(0));
    let stopped = program.logged("stopped").await;
    assert_eq!(stopped["fields"]["undelivered"], 0, "{stopped}");
    assert_eq!(calls(&program), ["add web-0 initial", "add web-1 initial"]);

    let program = Program::run(&world, &config).await;
    called(&program, "requeue-after", 1).await;
    assert!(asked.elapsed() >= Duration::from_secs(5), "{:?}", asked.elapsed());
    assert_eq!(calls(&program), ["update web-0 requeue-after"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn handler_that_asks_without_end_is_spaced_and_named() {
    let world = World::start().await;
    world.install("guest-recorder", "recorder.wasm");
    world.create_pod("web-0", "nginx");
    let program = Program::run(&world, &config("", "{ do = { requeue-after-ms = 0 } }")).await;
    let address = program.address().to_string();
    let list = until("the object to be named", async || {
        let list = transcript(&world, &["plugin", "list", "--admin", &address]).await;
        if list.contains("calls in a row") {
            Ok(list)
        } else {
            Err(list)
        }
    })
    .await;
    // How many calls there were, and when the next one is due, depends on the moment.
    let lines = list
        .lines()
        .skip(3)
        .take(3)
        .map(|line| line.split(": 2").next().unwrap());
    let lines: Vec<&str> = lines.collect();
    insta::assert_snapshot!(lines.join("\n"), @"
    recorder will be called for 1 object without a change: requeued or triggered
    recorder keeps asking for calls for 1 object without a change; at least 10s pass between them: let it return a longer delay, or none
      v1/pods default/web-0
    ");
}
