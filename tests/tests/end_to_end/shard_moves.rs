//! Replicas that divide the objects, and are killed, stopped, cut off, ended and started: no write of a former holder
//! of an object's shard follows one of its successor, none overlaps with one, and nothing is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use informant_cache::{Division, ShardHash};
use informant_tests::chaos::Mode;
use informant_tests::client::Client;
use informant_tests::cluster::{Cluster, Request};
use informant_tests::wait;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::takeovers::{Replica, Write, Writes, states, watch};

/// The deadline of every wait.
const WITHIN: Duration = Duration::from_secs(90);

/// How long the client pauses between two changes.
const PAUSE: Duration = Duration::from_millis(10);

const TEAMS: usize = 24;

const SHARDS: u8 = 8;

/// From a kill to the first write for each object of the shards of the replica, with `speed = "fast"`. The bound on a
/// machine that does nothing else is 8 s; here other tests run at the same time.
const FAST_MAX: Duration = Duration::from_secs(25);

/// Each instance of the handler has a number of its own, which each of its writes carries.
const WRITER: &str = r#"import { kube } from "informant";
const term = Math.random().toString(36).slice(2);
const write = (rev, event) => {
  const name = `copy-${event.name}`;
  const metadata = { name, namespace: event.namespace };
  const copy = { apiVersion: "v1", kind: "ConfigMap", metadata, data: { rev, term, of: event.uid } };
  kube.defer.apply({ resource: "v1/configmaps", namespace: event.namespace, name }, copy, { force: true });
};
export const onAdd = (map, event) => write(map.data.value, event);
export const onUpdate = (map, event) => write(map.data.value, event);
export const onDelete = (map, event) => write("gone", event);
"#;

const CONFIG: &str = "[ha]\ngroup = \"informant\"\nspeed = \"fast\"\nnamespace = \"default\"\nshards = 8\n\n\
    [informer.maps]\nresource = \"v1/configmaps\"\nlabel-selector = \"app=test\"\n\n\
    [plugin.writer]\nscript = \"writer.js\"\ninformers = [\"maps\"]\n\
    allow.kube = [{ verbs = [\"patch\", \"create\"], resource = \"v1/configmaps\" }]\n";

/// The same, by the hash of the API server, which sends a replica only what it has if it can.
static RAW: LazyLock<String> = LazyLock::new(|| CONFIG.replace("shards = 8\n", "shards = 8\nhash = \"raw\"\n"));

/// The long form has more moves, each from equal shares: a shard is handed over at most once a minute.
fn is_long() -> bool {
    std::env::var_os("INFORMANT_TESTS_FULL").is_some()
}

fn moves() -> usize {
    if is_long() { 20 } else { 2 }
}

fn team(number: usize) -> String {
    format!("team-{}", number % TEAMS)
}

/// The object of a team has its name.
fn map(team: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": team, "namespace": team, "labels": { "app": "test" } },
        "data": { "value": value },
    })
}

/// Changes, deletes and creates objects until `stop`. Returns the last value of each; none if it is deleted.
async fn change(client: Client, stop: Arc<AtomicBool>) -> Result<BTreeMap<String, Option<String>>> {
    let mut values: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) || number % TEAMS != 0 {
        let (team, rev) = (team(number), number.to_string());
        let maps = format!("/api/v1/namespaces/{team}/configmaps");
        let own = format!("{maps}/{team}");
        // Each object is deleted in every seventh turn.
        let is_deleted = number / TEAMS % 7 == number % 7;
        let value = match values.get(&team).cloned().flatten() {
            Some(_) if is_deleted => client.delete(&own).await.map(|_| None)?,
            Some(_) => client.put(&own, &map(&team, &rev)).await.map(|_| Some(rev))?,
            None => client.post(&maps, &map(&team, &rev)).await.map(|_| Some(rev))?,
        };
        values.insert(team, value);
        number += 1;
        tokio::time::sleep(PAUSE).await;
    }
    Ok(values)
}

/// The shards that a replica holds, as it says.
async fn shards_of(replica: &Replica) -> BTreeSet<u8> {
    let seen = replica.daemon.json("/api/v1/replicas").await.unwrap_or_default();
    let shards = seen["shards"].as_array().into_iter().flatten();
    let held = shards.filter(|shard| shard["holder"] == replica.name.as_str());
    let numbers = held.filter_map(|shard| u8::try_from(shard["shard"].as_u64()?).ok());
    numbers.collect()
}

/// Waits until the replicas hold all shards, in equal shares if that `is_equal`.
async fn shared(replicas: &[Replica], is_equal: bool) -> Result<()> {
    let all = usize::from(SHARDS);
    wait::until("shares of all shards", WITHIN, async || {
        let mut held = Vec::new();
        for replica in replicas {
            held.push(shards_of(replica).await.len());
        }
        let is_whole = held.iter().sum::<usize>() == all;
        let is_done = is_whole && (!is_equal || held.iter().all(|held| held * replicas.len() == all));
        is_done.then_some(()).ok_or_else(|| format!("{held:?}"))
    })
    .await
}

/// The last term of each object of these shards.
fn terms(writes: &Writes, hash: ShardHash, shards: &BTreeSet<u8>) -> BTreeMap<String, String> {
    let division = Division { shards: SHARDS, hash };
    let of_shards = |write: &Write| shards.contains(&division.shard_of(&write.name));
    let writes = writes.all().into_iter().filter(of_shards);
    writes.map(|write| (write.name, write.term)).collect()
}

/// No write for an object is about an earlier state than the one before it: that would be one of a former holder, whose
/// successor had written already. All replicas read from one API server, so none of them lists an earlier state.
fn check(writes: &Writes) -> Result<()> {
    let mut last: BTreeMap<String, u64> = BTreeMap::new();
    for Write { name, term, rev, .. } in writes.all() {
        // A delete has no number.
        let Ok(rev) = rev.parse::<u64>() else { continue };
        let before = last.insert(name.clone(), rev).unwrap_or_default();
        ensure!(before <= rev, "{name}: {term} wrote {rev} after {before} was written");
    }
    Ok(())
}

/// Between any two writes for one object, by different instances, the API server had answered the one before the other
/// reached it. Returns how many there were.
fn do_not_overlap(requests: &[Request]) -> Result<usize> {
    // What was refused for sure has written nothing.
    let written = requests.iter().filter(|request| !(400..500).contains(&request.code));
    let mut written: Vec<&Request> = written.collect();
    written.sort_by_key(|request| request.began);
    let mut last: BTreeMap<&str, BTreeMap<&str, &Request>> = BTreeMap::new();
    for request in &written {
        let object = request.request.split('?').next().unwrap_or_default();
        let term = request.body["data"]["term"].as_str();
        let term = term.with_context(|| format!("{request:?} has no term"))?;
        let of_object = last.entry(object).or_default();
        for before in of_object
            .iter()
            .filter(|(of, _)| **of != term)
            .map(|(_, before)| before)
        {
            ensure!(before.ended <= request.began, "{before:?} overlaps with {request:?}");
        }
        let newest = of_object.entry(term).or_insert(request);
        if newest.ended < request.ended {
            *newest = request;
        }
    }
    Ok(written.len())
}

/// Waits until another term has written for each of these objects. Returns how long after `began` the last of the first
/// writes were.
async fn succeeded(writes: &Writes, before: &BTreeMap<String, String>, began: Instant) -> Result<Duration> {
    wait::until("a write of a successor for each object", WITHIN, async || {
        let all = writes.all();
        let first = |(name, term): (&String, &String)| {
            let mut later = all.iter().filter(|write| write.at > began && write.name == *name);
            later.find(|write| write.term != *term).map(|write| write.at - began)
        };
        let firsts: Vec<Option<Duration>> = before.iter().map(first).collect();
        let missing = firsts.iter().filter(|first| first.is_none()).count();
        let longest = firsts.into_iter().flatten().max().unwrap_or_default();
        (missing == 0)
            .then_some(longest)
            .ok_or_else(|| format!("{missing} of {} lack one", before.len()))
    })
    .await
}

/// Ends what a replica does in one of several ways, and lets it return. Returns how long its objects were without it.
async fn move_from(replicas: &mut [Replica], number: usize, (writes, hash): (&Writes, ShardHash)) -> Result<Duration> {
    let at = number % replicas.len();
    let shards = shards_of(&replicas[at]).await;
    let (before, began) = (terms(writes, hash, &shards), Instant::now());
    match number % 4 {
        0 => replicas[at].end("KILL").await?,
        1 => replicas[at].daemon.process().signal("STOP").await?,
        2 => replicas[at].end("TERM").await?,
        _ => replicas[at].proxy.set(Mode::HalfOpen),
    }
    let took = succeeded(writes, &before, began).await?;
    match number % 4 {
        1 => replicas[at].daemon.process().signal("CONT").await?,
        3 => {
            // What it sent is lost.
            replicas[at].proxy.set_open(Mode::Reset);
            replicas[at].proxy.set_new(Mode::Pass);
        }
        _ => replicas[at].restart().await?,
    }
    ensure!(!number.is_multiple_of(4) || took < FAST_MAX, "it took {took:?}");
    Ok(took)
}

async fn run(hash: ShardHash) -> Result<()> {
    let config = match hash {
        ShardHash::Mixed => CONFIG,
        ShardHash::Raw => &**RAW,
    };
    let cluster = Cluster::start_with_recorded_patches(hash == ShardHash::Raw).await?;
    let mut audit = cluster.audit_log();
    let client = cluster.client().await?;
    for number in 0..TEAMS {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": team(number) } });
        client.post("/api/v1/namespaces", &namespace).await?;
    }
    let writes = Writes::default();
    let _informer = watch(&client, None, &writes)?;
    let mut replicas = vec![Replica::start(&cluster, 0, (config, WRITER)).await?];
    let stop = Arc::new(AtomicBool::new(false));
    let changes: JoinHandle<_> = tokio::spawn(change(client, Arc::clone(&stop)));
    for number in 1..4 {
        replicas.push(Replica::start(&cluster, number, (config, WRITER)).await?);
    }
    let mut longest = Duration::ZERO;
    for number in 0..moves() {
        shared(&replicas, number == 0 || is_long()).await?;
        let took = move_from(&mut replicas, number, (&writes, hash)).await;
        longest = longest.max(took.with_context(|| format!("move {number}"))?);
        // What the former one does now would be seen.
        tokio::time::sleep(Duration::from_millis(500)).await;
        check(&writes).with_context(|| format!("move {number}"))?;
    }
    // Two of them end for good.
    for mut replica in replicas.split_off(2) {
        replica.end("TERM").await?;
    }
    shared(&replicas, false).await?;
    stop.store(true, Ordering::Relaxed);
    let last = changes.await??;
    if let Err(error) = last_states(&writes, &replicas, &last).await {
        return Err(error.context(states(&replicas).await));
    }
    check(&writes)?;
    let mut requests = Vec::new();
    wait::until("all writes in the audit log", WITHIN, async || {
        requests.extend(audit.read_new().map_err(|error| format!("{error:#}"))?);
        let is_whole = requests.len() >= writes.all().len();
        is_whole.then_some(()).ok_or_else(|| format!("{}", requests.len()))
    })
    .await?;
    let requests = do_not_overlap(&requests)?;
    #[expect(clippy::print_stdout, reason = "the figures are the result of the long form")]
    {
        println!(
            "{hash:?}: {} moves, the longest {longest:?}; {} writes, {requests} requests in the audit log",
            moves(),
            writes.all().len()
        );
    }
    Ok(())
}

/// Waits until the last write for each object is about its last state.
async fn last_states(writes: &Writes, replicas: &[Replica], last: &BTreeMap<String, Option<String>>) -> Result<()> {
    wait::until("the last state of each object", WITHIN, async || {
        // Each object is written to far more often than ten times a minute, so its calls are spaced.
        for replica in replicas {
            let _ = replica.daemon.command(&["plugin", "resume", "writer"]).await;
        }
        let shown: BTreeMap<String, String> = writes.all().into_iter().map(|write| (write.name, write.rev)).collect();
        let is_other = |(name, rev): &(&String, &Option<String>)| {
            shown.get(*name).map(String::as_str) != Some(rev.as_deref().unwrap_or("gone"))
        };
        match last.iter().find(is_other) {
            None => Ok(()),
            Some((name, rev)) => Err(format!("{name}: {:?}, not {rev:?}", shown.get(name))),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn no_former_holder_of_a_shard_writes_after_its_successor() -> Result<()> {
    run(ShardHash::Mixed).await?;
    if is_long() {
        run(ShardHash::Raw).await?;
    }
    Ok(())
}
