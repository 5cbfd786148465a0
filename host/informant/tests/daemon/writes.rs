//! Deferred writes over the API: lost replies, throttling, changes of the plugin and ends of processes lead to the
//! wanted state.

use std::time::Duration;

use informant_apiserver::{Action, Answer, Ending, Filter, Rule, Status};
use serde_json::{Value, json};

use super::program::Program;
use super::world::{Running, World, http_get, http_post, pod, until};

pub(crate) const WAITING: &str = "informant_plugin_writes_waiting";

/// A plugin that copies the label `want` of each pod to its label `is`.
pub(crate) fn config(limits: &str) -> String {
    format!(
        "[informer.pods]\nresource = \"v1/pods\"\n[plugin.mark]\ncomponent = \"kube.wasm\"\ninformers = [\"pods\"]\n\
         allow.kube = [{{ verbs = [\"patch\"], resource = \"v1/pods\" }}]\nretry = {{ initial = \"10ms\" }}\n\
         limits = {{ {limits} }}\nrequired = true\n\
         [plugin.mark.config]\non-updates = true\n\
         calls = [{{ verb = \"merge\", defers = true, document = {{ metadata = {{ labels = {{ is = \"$want\" }} }} }} }}]\n"
    )
}

pub(crate) async fn world(pods: usize) -> World {
    let world = World::start().await;
    world.install("guest-kube", "kube.wasm");
    for number in 0..pods {
        let mut pod = pod(&format!("web-{number}"), "nginx");
        pod["metadata"]["labels"]["want"] = json!("a");
        world.server.create("v1/pods", "default", pod).unwrap();
    }
    world
}

pub(crate) fn want(world: &World, name: &str, label: &str) {
    let patch = json!({ "metadata": { "labels": { "want": label } } });
    world.server.patch("v1/pods", "default", name, patch).unwrap();
}

fn label(pod: &Value, name: &str) -> String {
    pod["metadata"]["labels"][name].as_str().unwrap_or_default().to_owned()
}

fn marked(world: &World) -> usize {
    let pods = world.server.list("v1/pods").unwrap();
    pods.iter().filter(|pod| label(pod, "is") == label(pod, "want")).count()
}

pub(crate) async fn wait_until_marked(world: &World, count: usize) {
    until("that many pods to have the wanted label", async || {
        match marked(world) {
            marked if marked >= count => Ok(()),
            marked => Err(format!("{marked} of {count}")),
        }
    })
    .await;
}

pub(crate) fn patches() -> Filter {
    Filter::any().verb("patch").resource("pods")
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_replies_and_throttling_lead_to_the_wanted_labels() {
    let world = world(20).await;
    world.server.faults().rule(Rule {
        filter: patches(),
        times: Some(7),
        action: Action::LoseAnswer,
    });
    let throttled = Answer::too_many_requests(1);
    world.server.faults().answer(patches(), 3, throttled);
    let daemon = world.daemon(&config("writes = \"1000/s\"")).await;
    wait_until_marked(&world, 20).await;
    for label in ["b", "a", "b", "a"] {
        (0..20).for_each(|number| want(&world, &format!("web-{number}"), label));
    }
    // Its event follows all others.
    world.create_pod("last", "nginx");
    want(&world, "last", "z");
    until("the last pod to be marked", async || {
        let last = world.server.get("v1/pods", "default", "last").unwrap().unwrap();
        if label(&last, "is") == "z" {
            Ok(())
        } else {
            Err(last.to_string())
        }
    })
    .await;
    until("all pods to be marked for good", async || {
        let (waiting, marked) = (daemon.metric(WAITING, &[]).await, marked(&world));
        if waiting == 0.0 && marked == 21 {
            Ok(())
        } else {
            Err(format!("{marked}, {waiting} wait"))
        }
    })
    .await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_processes_and_the_next_mark_every_pod() {
    let kills = match std::env::var_os("INFORMANT_TESTS_FULL") {
        Some(_) => 50,
        None => 5,
    };
    let world = world(300).await;
    // One write at a time, each of which takes a while: killed before, during or after any of them.
    let each = Duration::from_millis(15);
    world.server.faults().delay(patches(), u32::MAX, each);
    let config = config("writes = \"1000/s\", writes-in-flight = 1");
    let mut killed = 0;
    while killed < kills && marked(&world) < 250 {
        let program = Program::run(&world, &config).await;
        wait_until_marked(&world, marked(&world) + 1).await;
        tokio::time::sleep(Duration::from_millis(killed * 4 % 15)).await;
        program.signal("-KILL").await;
        drop(program);
        killed += 1;
    }
    assert!(killed >= 5 && marked(&world) < 300, "killed in between: {killed} times");
    world.server.faults().clear();
    let _program = Program::run(&world, &config).await;
    wait_until_marked(&world, 300).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_with_queued_writes_ends_and_loses_none() {
    let world = world(1_300).await;
    let config = config("writes = \"20/s\"");
    let mut program = Program::run(&world, &config).await;
    wait_until_marked(&world, 100).await;
    program.signal("-TERM").await;
    let code = tokio::time::timeout(Duration::from_secs(30), program.exit_code()).await;
    assert!(code.is_ok(), "it ends within its deadline");
    let marked_at_end = marked(&world);
    assert!(marked_at_end < 1_300, "{marked_at_end}");
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(marked(&world), marked_at_end, "nothing is written after the end");
    let faster = config.replace("20/s", "5000/s");
    let _program = Program::run(&world, &faster).await;
    wait_until_marked(&world, 1_300).await;
}

/// A daemon with [`QUEUED`] pods, nearly all of whose writes wait: one starts in a second.
async fn with_queued_writes(world: &World, config: &str) -> Running {
    let daemon = world.daemon(config).await;
    let enough = QUEUED as f64 - 110.0;
    until("the writes to be queued", async || {
        match daemon.metric(WAITING, &[]).await {
            waiting if waiting >= enough => Ok(()),
            waiting => Err(waiting.to_string()),
        }
    })
    .await;
    daemon
}

/// Pods whose writes are committed, apart from the burst all at once: the bound of what a plugin may have waiting.
const QUEUED: usize = 1_000;

const SLOW: &str = "writes = \"1/s\"";
pub(crate) const FAST: &str = "writes = \"1000/s\"";

/// Changes config.toml, and waits until the change was applied.
async fn change(world: &World, daemon: &Running, number: u32, config: &str) {
    world.configure(config);
    daemon
        .wait_for_metric("informant_config_reloads_total", &[], f64::from(number))
        .await;
    let now = daemon.json("/api/v1/configuration").await;
    assert_eq!(now["state"], "applied", "{now}");
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_writes_are_made_in_quarantine() {
    let world = world(QUEUED).await;
    let config = config(SLOW).replace("required = true", "on-failure = \"quarantine\"");
    let daemon = with_queued_writes(&world, &config).await;
    let invalid = Answer::Status(Status::new(422, "Invalid", "refused"));
    world.server.faults().answer(patches(), 1, invalid);
    change(&world, &daemon, 1, &config.replace(SLOW, FAST)).await;
    daemon
        .wait_for_metric("informant_plugin_state", &["state=\"quarantined\""], 1.0)
        .await;
    daemon.wait_for_metric(WAITING, &[], 0.0).await;
    assert_eq!(marked(&world), QUEUED - 1, "all but the one that was refused");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_writes_are_made_after_a_swap() {
    let world = world(QUEUED).await;
    let slow = config(SLOW);
    let daemon = with_queued_writes(&world, &slow).await;
    // A version that writes nothing.
    let (before_calls, _) = slow.split_once("calls = ").unwrap();
    change(&world, &daemon, 1, before_calls).await;
    daemon
        .wait_for_metric("informant_plugin_reloads_total", &["result=\"ok\""], 1.0)
        .await;
    assert!(marked(&world) < QUEUED / 2, "{}", marked(&world));
    change(&world, &daemon, 2, &before_calls.replace(SLOW, FAST)).await;
    wait_until_marked(&world, QUEUED).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_writes_end_with_the_grant() {
    let world = world(QUEUED).await;
    let slow = config(SLOW);
    let daemon = with_queued_writes(&world, &slow).await;
    let ungranted = slow.replace("verbs = [\"patch\"]", "verbs = [\"get\"]");
    change(&world, &daemon, 1, &ungranted).await;
    let marked_before = marked(&world);
    change(&world, &daemon, 2, &ungranted.replace(SLOW, FAST)).await;
    daemon.wait_for_metric(WAITING, &[], 0.0).await;
    // One may have been in flight.
    assert!(
        marked(&world) <= marked_before + 1,
        "{} {marked_before}",
        marked(&world)
    );
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_of_two_keys_to_one_target_are_in_order() {
    let world = world(0).await;
    let map = json!({ "metadata": { "name": "last", "namespace": "default" } });
    world.server.create("v1/configmaps", "default", map).unwrap();
    let config = config(FAST).replace("v1/pods\" }]", "v1/configmaps\" }]").replace(
        "document = { metadata = { labels = { is = \"$want\" } } }",
        "resource = \"v1/configmaps\", namespace = \"default\", name = \"last\", document = { data = { of = \"$want\" } }",
    );
    let daemon = world.daemon(&config).await;
    daemon.wait_until_ready().await;
    world.server.faults().hold(Filter::any().verb("patch"), 1);
    for (number, name) in ["first", "second"].into_iter().enumerate() {
        let mut pod = pod(name, "nginx");
        pod["metadata"]["labels"]["want"] = json!(name);
        world.server.create("v1/pods", "default", pod).unwrap();
        daemon.wait_for_metric(WAITING, &[], number as f64 + 1.0).await;
    }
    world.server.faults().release();
    daemon.wait_for_metric(WAITING, &[], 0.0).await;
    let map = world.server.get("v1/configmaps", "default", "last").unwrap().unwrap();
    assert_eq!(map["data"]["of"], "second");
    daemon.stop().await;
}

/// Calls the handler for all pods.
pub(crate) async fn trigger(daemon: &Running) {
    let answer = http_post(daemon.address(), "/api/v1/plugins/mark/trigger", "{\"all\":true}").await;
    assert_eq!(answer.0, 200, "{}", answer.1);
}

/// Patches that the API server's counting rule can count.
const COUNTED_MAX: u32 = 1_000_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_called_again_for_all_writes_nothing() {
    const PODS: u32 = 100;
    let world = world(PODS as usize).await;
    world.server.faults().rule(Rule {
        filter: patches(),
        times: Some(COUNTED_MAX),
        action: Action::DelayMs(1),
    });
    let sent = || COUNTED_MAX - world.server.faults().rules()[0].times.unwrap();
    let daemon = world.daemon(&config(FAST)).await;
    daemon.wait_for_events("mark", "add", f64::from(PODS)).await;
    // The events of its own writes.
    daemon.wait_for_events("mark", "update", f64::from(PODS)).await;
    assert_eq!(sent(), PODS);
    trigger(&daemon).await;
    daemon.wait_for_events("mark", "update", f64::from(2 * PODS)).await;
    assert_eq!(sent(), PODS, "after a trigger of all");
    daemon.stop().await;
    // A cache whose watch is not open yet does not say that a write is done.
    let paused = config(FAST).replace("[plugin.mark]\n", "[plugin.mark]\npaused = true\n");
    let daemon = world.daemon(&paused).await;
    let live = ["state=\"Live\""];
    daemon.wait_for_metric("informant_source_state", &live, 1.0).await;
    until("the plugin to be resumed", async || {
        match http_post(daemon.address(), "/api/v1/plugins/mark/resume", "{}").await {
            (200, _) => Ok(()),
            (status, answer) => Err(format!("{status}: {answer}")),
        }
    })
    .await;
    daemon.wait_for_events("mark", "add", f64::from(PODS)).await;
    assert_eq!(sent(), PODS, "after a restart");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_stale_cache_shows_as_done_is_written() {
    let world = world(1).await;
    let daemon = world.daemon(&config(FAST)).await;
    wait_until_marked(&world, 1).await;
    let pods = Filter::any().resource("pods");
    for verb in ["watch", "list"] {
        let down = Answer::internal_error();
        world.server.faults().answer(pods.clone().verb(verb), 1_000, down);
    }
    world.server.faults().drop_watches(&pods, Ending::Reset);
    daemon
        .wait_for_metric("informant_source_state", &["state=\"Stale\""], 1.0)
        .await;
    let other = json!({ "metadata": { "labels": { "is": "other" } } });
    world.server.patch("v1/pods", "default", "web-0", other).unwrap();
    trigger(&daemon).await;
    wait_until_marked(&world, 1).await;
    daemon.stop().await;
}

/// A script that marks pods as `a`, then at each further call as the other of `b` and `a`.
const ALTERNATES: &str = "import { kube } from \"informant\";\nlet calls = 0;\n\
    const mark = (pod, event) => kube.defer.patch(event, { metadata: { labels: { is: \"ab\"[calls++ % 2] } } });\n\
    export const onAdd = mark;\n\
    export const onUpdate = (pod, event) => { if (event.reason === \"trigger\") mark(pod, event); };\n";

#[tokio::test(flavor = "multi_thread")]
async fn writing_back_what_a_silent_watch_hides_is_made() {
    let world = world(1).await;
    world.write("mark.js", ALTERNATES.as_bytes());
    let config = config(FAST).replace("component = \"kube.wasm\"", "script = \"mark.js\"");
    let (config, _) = config.split_once("[plugin.mark.config]").unwrap();
    let daemon = world.daemon(config).await;
    wait_until_marked(&world, 1).await;
    daemon.wait_for_events("mark", "update", 1.0).await;
    assert_eq!(world.server.faults().freeze_watches(&Filter::any().resource("pods")), 1);
    for calls in [2.0, 3.0] {
        trigger(&daemon).await;
        daemon.wait_for_events("mark", "update", calls).await;
    }
    assert_eq!(marked(&world), 1, "a, b, a ends as a");
    let sent = daemon.metric("informant_plugin_writes_total", &["result=\"ok\""]).await;
    assert_eq!(sent, 3.0);
    daemon.stop().await;
}

/// A script that remembers deleted pods in a config map.
const BURIES: &str = "import { kube } from \"informant\";\n\
    const graves = { resource: \"v1/configmaps\", namespace: \"default\", name: \"graves\" };\n\
    export const onDelete = (last, event) => kube.defer.patch(graves, { data: { [event.name]: \"gone\" } });\n\
    export const onAdd = () => {};\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_process_and_the_next_write_each_durable_delete() {
    let world = world(300).await;
    let map = json!({ "metadata": { "name": "graves", "namespace": "default" } });
    world.server.create("v1/configmaps", "default", map).unwrap();
    world.write("bury.js", BURIES.as_bytes());
    let config = "[state]\npath = \"state.redb\"\n[informer.pods]\nresource = \"v1/pods\"\ndurable = \"metadata\"\n\
        [plugin.mark]\nscript = \"bury.js\"\ninformers = [\"pods\"]\nlimits = { writes = \"50/s\" }\nrequired = true\n\
        allow.kube = [{ verbs = [\"patch\"], resource = \"v1/configmaps\" }]\n";
    let graves = || {
        let map = world.server.get("v1/configmaps", "default", "graves").unwrap().unwrap();
        map["data"].as_object().map_or(0, serde_json::Map::len)
    };
    let wait_for_graves = async |count: usize| {
        until("that many deletes to be written", async || {
            let graves = graves();
            if graves >= count {
                Ok(())
            } else {
                Err(graves.to_string())
            }
        })
        .await;
    };
    let delete = |number: usize| {
        let name = format!("web-{number}");
        world.server.delete("v1/pods", "default", &name).unwrap();
    };
    let mut program = Program::run(&world, config).await;
    // The delete of a pod that the handler has not received yet is none for it.
    until("all pods to be handled", async || {
        let (_, text) = http_get(program.address(), "/metrics").await;
        let is_accepted = |line: &&str| line.contains("event=\"add\",result=\"ok\"");
        let adds = text.lines().find(is_accepted).unwrap_or_default();
        if adds.ends_with(" 300") {
            Ok(())
        } else {
            Err(adds.to_owned())
        }
    })
    .await;
    (0..200).for_each(delete);
    wait_for_graves(120).await;
    program.signal("-KILL").await;
    program.exit_code().await;
    assert!(graves() < 200, "it was killed in between");
    (200..300).for_each(delete);
    let _program = Program::run(&world, config).await;
    wait_for_graves(300).await;
}
