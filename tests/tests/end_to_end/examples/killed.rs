//! `plugins/secret-replicator` and `plugins/website` on the real kube-apiserver, while Informant is killed at random
//! moments: nothing is lost, doubled or left behind.

mod replicas;
mod websites;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow, ensure};
use informant_tests::chaos::Rng;
use informant_tests::client::Client;
use informant_tests::cluster::Cluster;
use informant_tests::daemon::Daemon;
use informant_tests::wait;
use serde_json::Value;

use super::{SEEN_WITHIN, writes};

/// How long a process lives, at most, once its plugin works or once it listens, in turn.
const LIFE_MS: u64 = 1000;

/// The pause between two changes, at most.
const PAUSE_MS: u64 = 50;

/// With a cold cache of artifacts, the first process compiles the plugin.
const WORKS_WITHIN: Duration = Duration::from_secs(120);

/// How long nothing may be written once everything is as wanted.
const QUIET: Duration = Duration::from_secs(1);

/// Counts what a plugin wrote.
const WRITES: &str = "informant_plugin_kube_calls_total";

/// How many kills, and the seed of their times and of the changes.
fn size() -> (u32, u64) {
    let seed = std::env::var("INFORMANT_TESTS_SEED").ok();
    let seed = seed.and_then(|seed| seed.parse().ok());
    match std::env::var_os("INFORMANT_TESTS_FULL") {
        Some(_) => (100, seed.unwrap_or_else(fresh)),
        None => (5, seed.unwrap_or(1)),
    }
}

fn fresh() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}

/// What users and the controllers of Kubernetes change, and what the plugin has to make of it.
trait World {
    /// A random change by a user.
    async fn change(&mut self, rng: &mut Rng) -> Result<()>;

    /// One round of those controllers of Kubernetes that the plugin relies on: kube-apiserver has none.
    async fn control(&self) -> Result<()>;

    /// What the plugin writes, each with its kind.
    async fn objects(&self) -> Result<Vec<Value>>;

    /// What counts of an object.
    fn summary(&self, object: &Value, all: &[Value]) -> Value;

    /// The summaries that the objects have in the end.
    fn wanted(&self) -> BTreeMap<String, Value>;

    /// The Events of what never changes that are not there.
    async fn missing_events(&self) -> Result<Vec<String>>;
}

fn id_of(object: &Value) -> String {
    let text = |member: &str| object["metadata"][member].as_str().unwrap_or_default();
    let kind = object["kind"].as_str().unwrap_or_default();
    format!("{kind} {}/{}", text("namespace"), text("name"))
}

/// Which incarnation and version each object has.
fn versions(objects: &[Value]) -> BTreeMap<String, [Value; 2]> {
    let version = |object: &Value| ["uid", "resourceVersion"].map(|member| object["metadata"][member].clone());
    objects.iter().map(|object| (id_of(object), version(object))).collect()
}

/// The versions of the objects that no user changes.
async fn steady(world: &impl World) -> Result<BTreeMap<String, [Value; 2]>> {
    let mut versions = versions(&world.objects().await?);
    versions.retain(|id, _| id.ends_with("/steady"));
    ensure!(!versions.is_empty(), "nothing is steady");
    Ok(versions)
}

/// What is not as wanted, if anything.
async fn differences(world: &impl World) -> Result<Vec<String>> {
    world.control().await?;
    let (objects, wanted) = (world.objects().await?, world.wanted());
    let summary = |object: &Value| (id_of(object), world.summary(object, &objects));
    let found: BTreeMap<String, Value> = objects.iter().map(summary).collect();
    let ids = wanted.keys().chain(found.keys().filter(|id| !wanted.contains_key(*id)));
    let wrong = ids
        .filter(|id| wanted.get(*id) != found.get(*id))
        .map(|id| match (wanted.get(id), found.get(id)) {
            (Some(wanted), Some(found)) => format!("{id} is {found}, wanted {wanted}"),
            (Some(_), None) => format!("{id} is lost"),
            _ => format!("{id} is left behind"),
        });
    Ok(wrong.chain(world.missing_events().await?).collect())
}

/// Waits until the plugin has handled something.
async fn works(daemon: &Daemon) -> Result<()> {
    let works = wait::until("a call of the plugin", WORKS_WITHIN, async || {
        let handled = daemon
            .metric("informant_handler_events_total", &["result=\"ok\""])
            .await;
        match handled.map_err(|error| format!("{error:#}"))? {
            Some(1.0..) => Ok(()),
            handled => Err(format!("{handled:?} are handled")),
        }
    });
    works.await.with_context(|| daemon.process().tail())
}

/// Waits until everything is as wanted; then nothing more is written.
async fn settled(daemon: &Daemon, world: &impl World) -> Result<()> {
    let settles = wait::until("everything to be as wanted", SEEN_WITHIN, async || {
        let differences = differences(world).await.map_err(|error| format!("{error:#}"))?;
        match differences.is_empty() {
            true => Ok(()),
            false => Err(differences.join("\n")),
        }
    });
    settles.await.with_context(|| daemon.process().tail())?;
    let now = async || anyhow::Ok((writes(daemon, 0.0).await?, versions(&world.objects().await?)));
    let before = now().await?;
    tokio::time::sleep(QUIET).await;
    let after = now().await?;
    ensure!(before == after, "it still writes: {before:?}, then {after:?}");
    let letters = daemon.metric("informant_dead_letters", &[]).await?;
    ensure!(letters.unwrap_or_default() == 0.0, "{letters:?} dead letters");
    Ok(())
}

/// Kills Informant again and again while the world changes. Returns the last process once everything is as wanted, and
/// the number of those before.
async fn killed(cluster: &Cluster, config: &str, world: &mut impl World) -> Result<(Daemon, u32)> {
    let (kills, seed) = size();
    let daemon = killed_by(cluster, config, world, kills, seed).await;
    let daemon = daemon.with_context(|| format!("{kills} kills with INFORMANT_TESTS_SEED={seed}"))?;
    Ok((daemon, kills))
}

async fn killed_by(cluster: &Cluster, config: &str, world: &mut impl World, kills: u32, seed: u64) -> Result<Daemon> {
    let config = format!("[state]\npath = \"state.redb\"\n\n{config}");
    let start = async || Daemon::start(cluster.folder(), &cluster.kubeconfig(), &config).await;
    let mut daemon = start().await?;
    works(&daemon).await?;
    settled(&daemon, world).await?;
    let before = steady(world).await?;

    let (stop, mut changed, mut written) = (AtomicBool::new(false), 0, 0.0);
    let changes = async {
        let mut rng = Rng::new(seed);
        while !stop.load(Ordering::Relaxed) {
            world.change(&mut rng).await?;
            world.control().await?;
            changed += 1;
            tokio::time::sleep(Duration::from_millis(rng.below(PAUSE_MS))).await;
        }
        anyhow::Ok(())
    };
    let processes = async {
        let mut rng = Rng::new(!seed);
        for kill in 0..kills {
            if kill % 2 == 0 {
                works(&daemon).await?;
            }
            tokio::time::sleep(Duration::from_millis(rng.below(LIFE_MS))).await;
            written += daemon.metric(WRITES, &["result=\"ok\""]).await?.unwrap_or_default();
            daemon.process().signal("KILL").await?;
            daemon.process_mut().wait_for_end(SEEN_WITHIN).await?;
            daemon = start().await?;
        }
        // The last changes are made while the last process works.
        works(&daemon).await?;
        tokio::time::sleep(Duration::from_millis(rng.below(LIFE_MS))).await;
        stop.store(true, Ordering::Relaxed);
        Ok(daemon)
    };
    let (daemon, ()) = tokio::try_join!(processes, changes)?;
    settled(&daemon, world).await?;
    ensure!(written > 0.0, "no process wrote anything before it was killed");
    let after = steady(world).await?;
    ensure!(before == after, "written without a change: {before:?}, then {after:?}");
    #[expect(clippy::print_stdout, reason = "the figures are the result of the long form")]
    {
        println!("{kills} kills, {changed} changes, {written} writes by killed processes, seed {seed}");
    }
    Ok(daemon)
}

/// How often each reason was recorded about each object of a namespace, as `NAME: REASON`.
async fn recorded(client: &Client, namespace: &str) -> Result<BTreeMap<String, u64>> {
    let events = format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events");
    let mut counts = BTreeMap::new();
    for event in items(client, &events).await? {
        let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let id = format!("{}: {}", text("/regarding/name"), text("/reason"));
        *counts.entry(id).or_default() += event["series"]["count"].as_u64().unwrap_or(1);
    }
    Ok(counts)
}

/// Those of `expected` that are not recorded.
async fn missing(client: &Client, namespace: &str, expected: &[&str]) -> Result<Vec<String>> {
    let recorded = recorded(client, namespace).await?;
    let missing = expected.iter().filter(|id| !recorded.contains_key(**id));
    Ok(missing.map(|id| format!("the Event {id} is missing")).collect())
}

/// The objects of a list.
async fn items(client: &Client, path: &str) -> Result<Vec<Value>> {
    let mut list = client.get(path).await?;
    match list["items"].take() {
        Value::Array(items) => Ok(items),
        _ => Err(anyhow!("{path} is not a list: {list}")),
    }
}

/// The result of a change of what may be gone meanwhile.
fn unless_gone(changed: Result<Value>) -> Result<()> {
    match changed {
        Err(error) if !matches!(error.downcast_ref(), Some(kube::Error::Api(status)) if status.code == 404) => {
            Err(error)
        }
        _ => Ok(()),
    }
}

/// One of them, if there is any.
fn pick<T: Clone>(rng: &mut Rng, from: impl IntoIterator<Item = T>) -> Option<T> {
    let from: Vec<T> = from.into_iter().collect();
    let at = rng.below(from.len().max(1) as u64);
    from.get(at as usize).cloned()
}
