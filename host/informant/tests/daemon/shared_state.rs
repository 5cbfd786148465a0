//! What plugins remember, over replicas of which one acts at a time.

use std::time::{Duration, Instant};

use informant_apiserver::Filter;
use serde_json::{Value, json};

use super::program::{Program, transcript};
use super::world::{World, http_get, http_post, until};

const HA: &str = "[ha]\ngroup = \"informant\"\nspeed = \"fast\"\n";
const STATE: &str = "[state]\nstore = \"kubernetes\"\n";
const COUNTER: &str = "[informer.pods]\nresource = \"v1/pods\"\n\
    [plugin.counter]\ncomponent = \"kv.wasm\"\ninformers = [\"pods\"]\non-start = \"continue\"\nrequired = true\n";

const JOURNAL: &str = "informant-state-journal";

/// The Secret of its first chunk.
const CHUNK: &str = "informant-state-chunk-0";

/// Replicas that start one after the other, the first of which acts.
async fn replicas(world: &World, count: usize) -> Vec<Program> {
    world.install("guest-kv", "kv.wasm");
    world.create_pod("web-0", "nginx");
    let mut programs = Vec::new();
    for number in 0..count {
        let program = replica(world, number).await;
        if number == 0 {
            program.logged("shared state opened").await;
        }
        programs.push(program);
    }
    programs
}

async fn replica(world: &World, number: usize) -> Program {
    let (config, name) = (format!("{HA}{STATE}{COUNTER}"), format!("informant-{number}"));
    let program = Program::run_in(world, &config, &[("HOSTNAME", &name)]).await;
    program.wait_until_ready().await;
    program
}

/// The calls for `web-0`: the label `round`, the count of calls, and that of starts.
fn calls(program: &Program) -> Vec<(Option<String>, u64, u64)> {
    let lines = program.lines().into_iter();
    let calls = lines.filter_map(|line| serde_json::from_str::<Value>(line["fields"]["message"].as_str()?).ok());
    let calls = calls.filter(|call| call["guest"] == "kv" && call["name"] == "web-0");
    let call = |call: Value| {
        let round = call["round"].as_str().map(str::to_owned);
        Some((round, call["count"].as_u64()?, call["starts"].as_u64()?))
    };
    calls.filter_map(call).collect()
}

/// Waits for the call with this label. Returns its count.
async fn called(program: &Program, round: Option<&str>) -> u64 {
    until(&format!("the call for round {round:?}"), async || {
        let calls = calls(program);
        let call = calls.iter().find(|(of, ..)| of.as_deref() == round);
        call.map(|(_, count, _)| *count).ok_or_else(|| format!("{calls:?}"))
    })
    .await
}

/// Changes `web-0`, and waits for the call. Returns its count.
async fn change(world: &World, program: &Program, round: &str) -> u64 {
    label(world, round);
    called(program, Some(round)).await
}

fn label(world: &World, round: &str) {
    let label = json!({ "metadata": { "labels": { "round": round } } });
    world.server.patch("v1/pods", "default", "web-0", label).unwrap();
}

async fn in_flight(program: &Program) -> u64 {
    let (_, plugins) = http_get(program.address(), "/api/v1/plugins").await;
    let plugins: Value = serde_json::from_str(&plugins).unwrap();
    let in_flight = plugins["items"][0]["inFlight"].as_u64();
    in_flight.unwrap_or_else(|| panic!("{plugins}"))
}

/// Waits until the events of all calls have ended.
async fn have_ended(program: &Program) {
    until("the ends of events", async || match in_flight(program).await {
        0 => Ok(()),
        events => Err(format!("{events} in flight")),
    })
    .await;
}

/// The counts of all calls of a successor.
async fn counts_of(world: &World, successor: &Program, round: &str) -> Vec<u64> {
    successor.logged("shared state opened").await;
    change(world, successor, round).await;
    calls(successor).into_iter().map(|(_, count, _)| count).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn successors_of_killed_holders_continue_their_keys() {
    let world = World::start().await;
    let mut replicas = replicas(&world, 3).await.into_iter();
    let mut holder = replicas.next().unwrap();
    assert_eq!(called(&holder, None).await, 1);
    for round in ["0", "1", "2"] {
        change(&world, &holder, round).await;
    }
    have_ended(&holder).await;
    holder.signal("-KILL").await;
    holder.exit_code().await;

    let mut second = replicas.next().unwrap();
    let mut third = replicas.next().unwrap();
    until("a successor", async || {
        let acts = |program: &Program| {
            program
                .lines()
                .iter()
                .any(|line| line["fields"]["message"] == "this replica acts")
        };
        match (acts(&second), acts(&third)) {
            (true, _) => Ok(()),
            (_, true) => {
                std::mem::swap(&mut second, &mut third);
                Ok(())
            }
            _ => Err("none".to_owned()),
        }
    })
    .await;
    let counts = counts_of(&world, &second, "3").await;
    assert_eq!(counts[0], 5, "what has ended is remembered: {counts:?}");
    assert!(counts.is_sorted_by(|before, after| before + 1 == *after), "{counts:?}");
    assert!(calls(&second).iter().all(|(.., starts)| *starts == 2));

    // Killed as soon as it has counted: its change may be written, or its event is handled again.
    let last = change(&world, &second, "4").await;
    second.signal("-KILL").await;
    second.exit_code().await;
    let counts = counts_of(&world, &third, "5").await;
    // The call that is repeated may be the one for the next change already.
    assert!(counts[0] == last || counts[0] == last + 1, "{last}, then {counts:?}");
    assert!(counts.is_sorted_by(|before, after| before + 1 == *after), "{counts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hand_over_counts_every_change_once() {
    let world = World::start().await;
    let mut replicas = replicas(&world, 2).await;
    let (standby, mut holder) = (replicas.pop().unwrap(), replicas.pop().unwrap());
    assert_eq!(called(&holder, None).await, 1);
    assert_eq!(change(&world, &holder, "0").await, 2);
    let stopped = Instant::now();
    holder.signal("-TERM").await;
    assert_eq!(counts_of(&world, &standby, "1").await, [3]);
    // Less than a Lease lasts, while other tests run.
    assert!(
        stopped.elapsed() < Duration::from_millis(3_500),
        "{:?}",
        stopped.elapsed()
    );
    assert_eq!(holder.exit_code().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_journal_is_written_again() {
    let world = World::start().await;
    let mut replicas = replicas(&world, 2).await;
    let (standby, holder) = (replicas.pop().unwrap(), replicas.pop().unwrap());
    assert_eq!(called(&holder, None).await, 1);
    have_ended(&holder).await;
    let secret = world.server.get("v1/secrets", "default", JOURNAL).unwrap().unwrap();
    assert_eq!(secret["metadata"]["labels"]["informant.dev/state"], "informant");
    world.server.delete("v1/secrets", "default", JOURNAL).unwrap();
    assert_eq!(change(&world, &holder, "0").await, 2);
    have_ended(&holder).await;
    holder
        .logged("shared state was deleted or changed by somebody else")
        .await;
    assert!(world.server.get("v1/secrets", "default", JOURNAL).unwrap().is_some());
    holder.signal("-TERM").await;
    assert_eq!(counts_of(&world, &standby, "1").await, [3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_end_only_once_their_changes_are_written() {
    let world = World::start().await;
    let replicas = replicas(&world, 1).await;
    let holder = &replicas[0];
    assert_eq!(called(holder, None).await, 1);
    have_ended(holder).await;
    world.server.faults().hold(Filter::any().resource("secrets"), u32::MAX);
    assert_eq!(change(&world, holder, "0").await, 2);
    // Its end waits, and what it has changed is seen.
    label(&world, "1");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(in_flight(holder).await > 0);
    world.server.faults().clear();
    called(holder, Some("1")).await;
    have_ended(holder).await;
    assert_eq!(change(&world, holder, "2").await, 4);
    let (_, metrics) = http_get(holder.address(), "/metrics").await;
    assert!(metrics.contains("\ninformant_shared_state_failing 0\n"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_in_a_file_of_each_replica_are_denied() {
    let world = World::start().await;
    world.install("guest-kv", "kv.wasm");
    world.configure(&format!("{HA}{COUNTER}"));
    let checked = transcript(&world, &["check", "--offline"]).await;
    assert!(
        checked.contains("[plugin.counter] uses kv, which is denied with [ha]"),
        "{checked}"
    );
    assert!(
        checked.contains("set store = \"kubernetes\" in [state], or remove [ha]"),
        "{checked}"
    );
    assert!(checked.starts_with("exit 3"), "{checked}");
    world.configure(&format!("{HA}{STATE}{COUNTER}"));
    let checked = transcript(&world, &["check", "--offline"]).await;
    assert!(checked.starts_with("exit 0"), "{checked}");
}

#[tokio::test(flavor = "multi_thread")]
async fn plugin_with_keys_cannot_be_divided() {
    let world = World::start().await;
    world.install("guest-kv", "kv.wasm");
    world.configure(&format!("{HA}shards = 4\n{STATE}{COUNTER}"));
    let checked = transcript(&world, &["check", "--offline"]).await;
    assert!(
        checked.starts_with("exit 3") && checked.contains("[plugin.counter] uses kv, and its objects are divided"),
        "{checked}"
    );
    world.configure(&format!("{HA}shards = 4\n{STATE}{COUNTER}run-once = true\n"));
    let checked = transcript(&world, &["check", "--offline"]).await;
    assert!(
        checked.starts_with("exit 0") && checked.contains("[plugin.counter] runs once"),
        "{checked}"
    );
}

/// `informant state copy`, for the group of these tests.
async fn copy(world: &World, from: &str, to: &str, more: &[&str]) -> String {
    let command = ["state", "copy", "--from", from, "--to", to, "--file", "copy.redb"];
    let place = ["--group", "informant", "-n", "default"];
    transcript(world, &[&command[..], &place[..], more].concat()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_copied_to_a_file_and_back() {
    let world = World::start().await;
    let mut holder = replicas(&world, 1).await.remove(0);
    assert_eq!(called(&holder, None).await, 1);
    holder.signal("-TERM").await;
    holder.exit_code().await;

    let copied = copy(&world, "kubernetes", "file", &[]).await;
    assert!(
        copied.starts_with("exit 0\n2 rows copied from the Secrets informant-state-*"),
        "{copied}"
    );
    let again = copy(&world, "kubernetes", "file", &[]).await;
    assert!(again.contains("the target has 2 rows already"), "{again}");
    assert!(
        copy(&world, "kubernetes", "file", &["--replace"])
            .await
            .starts_with("exit 0")
    );

    world.server.delete("v1/secrets", "default", JOURNAL).unwrap();
    let missing = copy(&world, "kubernetes", "file", &[]).await;
    assert!(
        missing.contains("there is no Secret informant-state-journal"),
        "{missing}"
    );
    world.server.delete("v1/secrets", "default", CHUNK).unwrap();
    let copied = copy(&world, "file", "kubernetes", &[]).await;
    assert!(
        copied.starts_with("exit 0\n2 rows copied from copy.redb to the Secrets"),
        "{copied}"
    );
    let holder = replica(&world, 0).await;
    assert_eq!(change(&world, &holder, "0").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_loses_shared_state_continues_from_it() {
    let world = World::start().await;
    let holder = replicas(&world, 1).await.remove(0);
    assert_eq!(called(&holder, None).await, 1);
    have_ended(&holder).await;
    assert!(copy(&world, "kubernetes", "file", &[]).await.starts_with("exit 0"));
    change(&world, &holder, "0").await;
    holder.logged("shared state is lost to another replica").await;
    // It is called again for the change whose count is lost.
    until("the second term", async || {
        let calls = calls(&holder);
        let rounds = calls.iter().filter(|(round, ..)| round.as_deref() == Some("0"));
        let counts: Vec<(u64, u64)> = rounds.map(|(_, count, starts)| (*count, *starts)).collect();
        (counts == [(2, 1), (2, 2)])
            .then_some(())
            .ok_or_else(|| format!("{calls:?}"))
    })
    .await;
    have_ended(&holder).await;
    assert_eq!(change(&world, &holder, "1").await, 3);
}

const RECORDER: &str = "[informer.pods]\nresource = \"v1/pods\"\n\
    [plugin.recorder]\ncomponent = \"recorder.wasm\"\ninformers = [\"pods\"]\non-start = \"continue\"\n\
    config = { rules = [{ name = \"fails-*\", do = \"permanent\", times = 1 }] }\n";

/// A replica with the plugin `recorder`.
async fn recorder(world: &World, number: usize) -> Program {
    world.install("guest-recorder", "recorder.wasm");
    let name = format!("informant-{number}");
    let program = Program::run_in(world, &format!("{HA}{STATE}{RECORDER}"), &[("HOSTNAME", &name)]).await;
    program.wait_until_ready().await;
    program
}

/// The names of the pods for which the recorder was called.
fn recorded(program: &Program) -> Vec<String> {
    let lines = program.lines().into_iter();
    let calls = lines.filter_map(|line| serde_json::from_str::<Value>(line["fields"]["message"].as_str()?).ok());
    calls
        .filter_map(|call| call["name"].as_str().map(str::to_owned))
        .collect()
}

async fn has_recorded(program: &Program, name: &str) {
    until(name, async || {
        let calls = recorded(program);
        calls
            .iter()
            .any(|call| call == name)
            .then_some(())
            .ok_or_else(|| format!("{calls:?}"))
    })
    .await;
}

async fn command(program: &Program, command: &str) -> String {
    let path = format!("/api/v1/plugins/recorder/{command}");
    let (status, answer) = http_post(program.address(), &path, "{}").await;
    assert_eq!(status, 200, "{answer}");
    answer
}

async fn is_paused(program: &Program) -> bool {
    let (_, plugins) = http_get(program.address(), "/api/v1/plugins").await;
    let plugins: Value = serde_json::from_str(&plugins).unwrap();
    plugins["items"][0]["paused"].as_bool().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_outlives_its_replica_until_it_is_resumed() {
    let world = World::start().await;
    world.create_pod("first", "nginx");
    let mut holder = recorder(&world, 0).await;
    has_recorded(&holder, "first").await;
    let mut standby = recorder(&world, 1).await;
    command(&holder, "pause").await;
    holder.signal("-KILL").await;
    holder.exit_code().await;
    standby.logged("shared state opened").await;
    until("the pause", async || {
        is_paused(&standby)
            .await
            .then_some(())
            .ok_or_else(|| "not paused".to_owned())
    })
    .await;
    world.create_pod("second", "nginx");
    // Long enough for a call.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(recorded(&standby), [""; 0]);

    command(&standby, "resume").await;
    has_recorded(&standby, "second").await;
    let next = recorder(&world, 0).await;
    standby.signal("-TERM").await;
    standby.exit_code().await;
    world.create_pod("third", "nginx");
    has_recorded(&next, "third").await;
    assert!(!is_paused(&next).await);
}

async fn letters(program: &Program) -> Vec<Value> {
    let (_, letters) = http_get(program.address(), "/api/v1/dead-letters").await;
    let letters: Value = serde_json::from_str(&letters).unwrap();
    letters["items"].as_array().unwrap().clone()
}

async fn letters_are(program: &Program, expected: &[&str]) {
    until("the dead letters", async || {
        let letters = letters(program).await;
        let names: Vec<&str> = letters.iter().filter_map(|letter| letter["name"].as_str()).collect();
        (names == expected).then_some(()).ok_or_else(|| format!("{letters:?}"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_outlive_their_replica_until_a_retry_succeeds() {
    let world = World::start().await;
    world.create_pod("fails-0", "nginx");
    let mut holder = recorder(&world, 0).await;
    letters_are(&holder, &["fails-0"]).await;
    let error = letters(&holder).await[0]["error"].clone();
    let mut standby = recorder(&world, 1).await;
    holder.signal("-TERM").await;
    holder.exit_code().await;
    letters_are(&standby, &["fails-0"]).await;
    assert_eq!(letters(&standby).await[0]["error"], error);
    assert_eq!(recorded(&standby), [""; 0], "it is not called for a dead letter");

    // The first call of its instance fails, too.
    command(&standby, "requeue").await;
    has_recorded(&standby, "fails-0").await;
    letters_are(&standby, &["fails-0"]).await;
    command(&standby, "requeue").await;
    letters_are(&standby, &[]).await;
    let next = recorder(&world, 0).await;
    standby.signal("-TERM").await;
    standby.exit_code().await;
    world.create_pod("last", "nginx");
    has_recorded(&next, "last").await;
    letters_are(&next, &[]).await;
}
