//! Several replicas of one Informant, of which one acts.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::program::{Program, transcript};
use super::world::{World, http_get, http_post, until};

const CONFIG: &str = "[ha]\ngroup = \"informant\"\nspeed = \"fast\"\n\
    [informer.pods]\nresource = \"v1/pods\"\n\
    [plugin.recorder]\ncomponent = \"recorder.wasm\"\ninformers = [\"pods\"]\n";

/// A successor acts within this time after the holder was killed, with `speed = "fast"`: a Lease lasts 4 s. Other tests
/// run at the same time.
const AFTER_KILL_MAX: Duration = Duration::from_secs(10);

/// The same after an orderly stop, which waits for no Lease.
const AFTER_STOP_MAX: Duration = Duration::from_millis(3_500);

/// Replicas that start one after the other, the first of which acts.
async fn replicas(world: &World, config: &str, count: usize) -> Vec<Program> {
    world.install("guest-recorder", "recorder.wasm");
    let mut programs = Vec::new();
    for number in 0..count {
        let name = format!("informant-{number}");
        let program = Program::run_in(world, config, &[("HOSTNAME", &name)]).await;
        program.wait_until_ready().await;
        if number == 0 {
            program.logged("this replica acts").await;
        }
        programs.push(program);
    }
    programs
}

/// A replica that has handled the pod `web-0`, and one that stands by.
async fn holder_and_standby(world: &World, config: &str) -> (Program, Program) {
    let mut replicas = replicas(world, config, 2).await;
    let (standby, holder) = (replicas.pop().unwrap(), replicas.pop().unwrap());
    has_called(&holder, "initial add web-0").await;
    (holder, standby)
}

/// What the plugin of a replica was called with: reason, event, object.
pub(crate) fn calls(program: &Program) -> Vec<String> {
    let lines = program.lines().into_iter();
    let records = lines.filter_map(|line| serde_json::from_str::<Value>(line["fields"]["message"].as_str()?).ok());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let calls = records.map(|record| {
        format!(
            "{} {} {}",
            text(&record["reason"]),
            text(&record["event"]),
            text(&record["name"])
        )
    });
    calls.collect()
}

async fn has_called(program: &Program, call: &str) {
    until(call, async || {
        let calls = calls(program);
        calls
            .iter()
            .any(|made| made == call)
            .then_some(())
            .ok_or_else(|| calls.join("\n"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_successor_handles_everything_after_a_kill() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    let (mut holder, standby) = holder_and_standby(&world, CONFIG).await;
    assert_eq!(calls(&standby), Vec::<String>::new());

    let killed = Instant::now();
    holder.signal("-KILL").await;
    holder.exit_code().await;
    // No replica acts now.
    world.server.delete("v1/pods", "default", "web-0").unwrap();
    world.create_pod("web-1", "nginx");
    standby.logged("this replica acts").await;
    has_called(&standby, "takeover delete web-0").await;
    assert!(killed.elapsed() < AFTER_KILL_MAX, "{:?}", killed.elapsed());
    has_called(&standby, "takeover add web-1").await;
    has_called(&standby, " synced ").await;
    world.create_pod("web-2", "nginx");
    has_called(&standby, "watch add web-2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_is_ready_when_its_plugins_are_compiled() {
    let world = World::start().await;
    world.install("guest-recorder", "recorder.wasm");
    // Nothing is compiled there.
    let cache = tempfile::tempdir().unwrap();
    let environment = [
        ("HOSTNAME", "informant-0"),
        ("XDG_CACHE_HOME", cache.path().to_str().unwrap()),
    ];
    let program = Program::run_in(&world, CONFIG, &environment).await;
    let ready = until("the replica to be ready", async || {
        let (status, checks) = http_get(program.address(), "/readyz?verbose").await;
        (status == 200).then_some(checks.clone()).ok_or(checks)
    })
    .await;
    assert!(ready.contains("[+]plugin/recorder ok: "), "{ready}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_orderly_stop_hands_over_at_once() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    let (mut holder, standby) = holder_and_standby(&world, CONFIG).await;

    let stopped = Instant::now();
    holder.signal("-TERM").await;
    has_called(&standby, "takeover add web-0").await;
    assert!(stopped.elapsed() < AFTER_STOP_MAX, "{:?}", stopped.elapsed());
    assert_eq!(holder.exit_code().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_successor_continues_where_the_handler_was() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    let config = CONFIG.to_owned() + "on-start = \"continue\"\n";
    let (mut holder, standby) = holder_and_standby(&world, &config).await;

    holder.signal("-TERM").await;
    has_called(&standby, " synced ").await;
    world.create_pod("web-1", "nginx");
    has_called(&standby, "watch add web-1").await;
    // The instance's start, and that everything was delivered, which is nothing.
    assert_eq!(calls(&standby), [" init ", " synced ", "watch add web-1"]);
    holder.exit_code().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_by_command_ends_with_the_term() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    let (holder, standby) = holder_and_standby(&world, CONFIG).await;
    let (status, _) = http_post(holder.address(), "/api/v1/plugins/recorder/pause", "{}").await;
    assert_eq!(status, 200);

    // It stands still for longer than its Lease lasts.
    holder.signal("-STOP").await;
    has_called(&standby, "takeover add web-0").await;
    holder.signal("-CONT").await;
    holder.logged("this replica no longer acts").await;

    standby.signal("-KILL").await;
    has_called(&holder, "takeover add web-0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_answers_queries_and_names_who_acts() {
    let world = World::start().await;
    world.create_pod("web-0", "nginx");
    let replicas = replicas(&world, CONFIG, 2).await;
    let [holder, standby] = &*replicas else {
        panic!("two replicas")
    };
    until("the standby to know the holder", async || {
        let (_, seen) = http_get(standby.address(), "/api/v1/replicas").await;
        seen.contains("\"holder\":\"informant-0\"").then_some(()).ok_or(seen)
    })
    .await;
    let (status, pods) = http_get(standby.address(), "/api/v1/get/pods").await;
    assert!(status == 200 && pods.contains("web-0"), "{status}: {pods}");
    let (status, answer) = http_post(standby.address(), "/api/v1/plugins/recorder/pause", "{}").await;
    assert_eq!(status, 409, "{answer}");
    assert!(answer.contains("informant-0 acts"), "{answer}");
    let admin = standby.address().to_string();
    let letters = transcript(&world, &["plugin", "dead-letters", "recorder", "--admin", &admin]).await;
    assert!(
        letters.contains("this replica is a standby: informant-0 acts; ask that one"),
        "{letters}"
    );
    assert_eq!(
        http_post(holder.address(), "/api/v1/plugins/recorder/pause", "{}")
            .await
            .0,
        200
    );

    let (_, metrics) = http_get(standby.address(), "/metrics").await;
    for shown in [
        "informant_acting 0",
        "informant_replicas{state=\"live\"} 2",
        "informant_lease_transitions 1",
    ] {
        assert!(metrics.contains(shown), "{shown}: {metrics}");
    }
    let (_, plugins) = http_get(standby.address(), "/api/v1/plugins").await;
    let plugins: Value = serde_json::from_str(&plugins).unwrap();
    let plugin = &plugins["items"][0];
    assert_eq!(
        (&plugin["state"], &plugin["instances"]),
        (&"standby".into(), &0.into()),
        "{plugin}"
    );
    let (_, seen) = http_get(standby.address(), "/api/v1/replicas").await;
    let seen: Value = serde_json::from_str(&seen).unwrap();
    assert_eq!(
        (&seen["holder"], &seen["standing"]),
        (&"informant-0".into(), &"standby".into()),
        "{seen}"
    );
}
