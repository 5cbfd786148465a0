//! Several replicas of one Informant, which divide the objects.

mod commands;

use std::collections::BTreeSet;
use std::time::Duration;

use informant_lease::READY_FOR;

use serde_json::{Value, json};

use super::program::Program;
use super::replicas::calls;
use super::world::{World, http_get, until};

const CONFIG: &str = "[ha]\ngroup = \"informant\"\nspeed = \"fast\"\nshards = 4\n\
    [informer.pods]\nresource = \"v1/pods\"\n\
    [plugin.recorder]\ncomponent = \"recorder.wasm\"\ninformers = [\"pods\"]\n";

/// Namespaces with a pod each.
const TEAMS: usize = 24;

fn create(world: &World, team: usize, name: &str) {
    let namespace = format!("team-{team}");
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": format!("{name}-{team}"), "namespace": namespace },
        "spec": { "containers": [{ "name": "main", "image": "nginx" }] },
    });
    world.server.create("v1/pods", &namespace, pod).unwrap();
}

fn create_all(world: &World, name: &str) -> BTreeSet<String> {
    (0..TEAMS).for_each(|team| create(world, team, name));
    (0..TEAMS).map(|team| format!("{name}-{team}")).collect()
}

async fn world() -> World {
    let world = World::start().await;
    world.install("guest-recorder", "recorder.wasm");
    for team in 0..TEAMS {
        let namespace = json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": { "name": format!("team-{team}") },
        });
        world.server.create("v1/namespaces", "", namespace).unwrap();
    }
    world
}

async fn replica(world: &World, config: &str, number: usize) -> Program {
    let name = format!("informant-{number}");
    let program = Program::run_in(world, config, &[("HOSTNAME", &name)]).await;
    program.wait_until_ready().await;
    program
}

/// The shards that a replica holds, as it says.
async fn shards_of(program: &Program, name: &str) -> BTreeSet<u64> {
    let (_, seen) = http_get(program.address(), "/api/v1/replicas").await;
    let seen: Value = serde_json::from_str(&seen).unwrap();
    let shards = seen["shards"].as_array().into_iter().flatten();
    let held = shards.filter(|shard| shard["holder"] == name);
    held.filter_map(|shard| shard["shard"].as_u64()).collect()
}

async fn holds(program: &Program, name: &str, number: usize) -> BTreeSet<u64> {
    until(&format!("{name} to hold {number} shards"), async || {
        let held = shards_of(program, name).await;
        (held.len() == number)
            .then(|| held.clone())
            .ok_or_else(|| format!("{held:?}"))
    })
    .await
}

/// The pods named `NAME-TEAM` with this event and one of these reasons.
fn called(program: &Program, event: &str, name: &str) -> BTreeSet<String> {
    let calls = calls(program).into_iter();
    let pods = calls.filter_map(|call| {
        let mut words = call.split(' ').skip(1);
        let is_event = words.next() == Some(event);
        let pod = words.next().filter(|_| is_event)?;
        pod.starts_with(&format!("{name}-")).then(|| pod.to_owned())
    });
    pods.collect()
}

async fn have_called(programs: &[&Program], event: &str, name: &str, wanted: &BTreeSet<String>) {
    until(&format!("calls for each {name}"), async || {
        let all: BTreeSet<String> = programs
            .iter()
            .flat_map(|program| called(program, event, name))
            .collect();
        (all == *wanted).then_some(()).ok_or_else(|| format!("{all:?}"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_divide_the_objects_by_namespace() {
    let world = world().await;
    let old = create_all(&world, "old");
    let first = replica(&world, CONFIG, 0).await;
    holds(&first, "informant-0", 4).await;
    have_called(&[&first], "add", "old", &old).await;

    let mut second = replica(&world, CONFIG, 1).await;
    let moved = holds(&second, "informant-1", 2).await;
    assert_eq!(holds(&first, "informant-0", 2).await.intersection(&moved).count(), 0);
    let new = create_all(&world, "new");
    have_called(&[&first, &second], "add", "new", &new).await;
    let (one, other) = (called(&first, "add", "new"), called(&second, "add", "new"));
    assert!(
        one.is_disjoint(&other) && !one.is_empty() && !other.is_empty(),
        "{one:?} {other:?}"
    );
    // Each object that has moved comes once more, and no other.
    let again = called(&second, "add", "old");
    let name_of = |pod: &String| pod.replace("new", "old");
    assert_eq!(again, other.iter().map(name_of).collect());
    assert_eq!(called(&first, "delete", "old"), BTreeSet::new());
    let reads = http_get(second.address(), "/api/v1/get/pods").await.1;
    assert!(one.iter().all(|pod| !reads.contains(&format!("\"{pod}\""))), "{reads}");

    // Deletes at the moment of a hand-over reach one of them.
    second.signal("-TERM").await;
    for team in 0..TEAMS {
        world
            .server
            .delete("v1/pods", &format!("team-{team}"), &format!("old-{team}"))
            .unwrap();
    }
    have_called(&[&first, &second], "delete", "old", &old).await;
    assert_eq!(second.exit_code().await, Some(0));
    holds(&first, "informant-0", 4).await;
    let last = create_all(&world, "last");
    have_called(&[&first], "add", "last", &last).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_of_a_killed_replica_are_handled_elsewhere() {
    let world = world().await;
    let config = CONFIG.to_owned() + "on-start = \"continue\"\n";
    let first = replica(&world, &config, 0).await;
    let mut second = replica(&world, &config, 1).await;
    holds(&first, "informant-0", 2).await;
    let pods = create_all(&world, "web");
    have_called(&[&first, &second], "add", "web", &pods).await;

    second.signal("-KILL").await;
    second.exit_code().await;
    let new = create_all(&world, "new");
    have_called(&[&first], "add", "new", &new).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_shards_changes_while_replicas_roll() {
    let world = world().await;
    let whole = CONFIG.replace("shards = 4", "shards = 1");
    let mut first = replica(&world, &whole, 0).await;
    let pods = create_all(&world, "web");
    have_called(&[&first], "add", "web", &pods).await;
    let second = replica(&world, CONFIG, 1).await;
    first.signal("-TERM").await;
    assert_eq!(first.exit_code().await, Some(0));
    holds(&second, "informant-1", 4).await;
    let new = create_all(&world, "new");
    have_called(&[&second], "add", "new", &new).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_without_shards_acts_once_it_is_alone() {
    let world = world().await;
    let first_pods = create_all(&world, "web");
    let mut first = replica(&world, CONFIG, 0).await;
    holds(&first, "informant-0", 4).await;
    have_called(&[&first], "add", "web", &first_pods).await;
    let second = replica(&world, &CONFIG.replace("shards = 4\n", ""), 1).await;
    // It is ready, and another one would get its share now.
    tokio::time::sleep(READY_FOR + Duration::from_secs(2)).await;
    assert_eq!(shards_of(&first, "informant-0").await.len(), 4);
    assert_eq!(called(&second, "add", "web"), BTreeSet::new());
    first.signal("-TERM").await;
    assert_eq!(first.exit_code().await, Some(0));
    have_called(&[&second], "add", "web", &first_pods).await;
    let new = create_all(&world, "new");
    have_called(&[&second], "add", "new", &new).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_that_divides_otherwise_changes_nothing() {
    let world = world().await;
    let first = replica(&world, CONFIG, 0).await;
    holds(&first, "informant-0", 4).await;
    let by_name = CONFIG.replace("\"v1/pods\"\n", "\"v1/pods\"\nshard-by = \"name\"\n");
    world.configure(&by_name);
    until("the configuration to be refused", async || {
        let (_, configuration) = http_get(first.address(), "/api/v1/configuration").await;
        let says = "[informer.pods] is divided otherwise among the replicas";
        configuration.contains(says).then_some(()).ok_or(configuration)
    })
    .await;
    let pods = create_all(&world, "web");
    have_called(&[&first], "add", "web", &pods).await;
    // That takes effect after a restart, and is no error.
    world.configure(&CONFIG.replace("shards = 4\n", ""));
    until("the section to be pending", async || {
        let (_, configuration) = http_get(first.address(), "/api/v1/configuration").await;
        let is_pending = configuration.contains("takes effect after a restart") && !configuration.contains("divided");
        is_pending.then_some(()).ok_or(configuration)
    })
    .await;
}
