//! Killed repeatedly while objects of a few names come and go: no delete is lost, and none invented.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use informant_tests::client::Client;
use informant_tests::cluster::{Cluster, Kind};
use informant_tests::daemon::Daemon;
use informant_tests::objects::{config_map, config_maps};
use informant_tests::recording::{self, Call};
use informant_tests::{guests, wait};
use tokio::task::JoinSet;

/// The deadline of every wait.
const WITHIN: Duration = Duration::from_secs(60);

/// How many names are deleted and created again all the time, by how many clients, and how long each pauses.
const NAMES: usize = 40;
const CLIENTS: usize = 4;
const PAUSE: Duration = Duration::from_millis(3);

/// How many calls a process makes before it is killed, at least.
const CALLS: usize = 150;

/// How many kills, and how many incarnations have to be delivered meanwhile.
fn size() -> (usize, usize) {
    match std::env::var_os("INFORMANT_TESTS_FULL") {
        Some(_) => (200, 10_000),
        None => (10, 300),
    }
}

/// The uids that clients have deleted, or are about to.
type Deleted = Arc<Mutex<HashSet<String>>>;

/// What the plugin has received, in all processes.
#[derive(Default)]
struct Received {
    adds: BTreeSet<String>,
    deletes: BTreeSet<String>,
    /// Deletes that came more than once, and for incarnations whose add is not recorded.
    repeated: usize,
    without_add: usize,
}

impl Received {
    /// Adds the calls of one process.
    fn record(&mut self, calls: &[Call], deleted: &Deleted) -> Result<()> {
        let deleted = deleted.lock().expect("no holder panics");
        for call in calls {
            match call.event.as_str() {
                "add" | "update" => {
                    ensure!(!self.deletes.contains(&call.uid), "after its delete: {call:?}");
                    self.adds.insert(call.uid.clone());
                }
                "delete" => {
                    ensure!(deleted.contains(&call.uid), "a delete without cause: {call:?}");
                    self.without_add += usize::from(!self.adds.contains(&call.uid));
                    self.repeated += usize::from(!self.deletes.insert(call.uid.clone()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Incarnations that were received and whose delete was not.
    fn present(&self) -> BTreeSet<String> {
        self.adds.difference(&self.deletes).cloned().collect()
    }
}

fn config(on_start: &str) -> Result<String> {
    Ok(format!(
        "[state]\npath = \"state.redb\"\n\n\
         [informer.maps]\nresource = \"v1/configmaps\"\nnamespaces = [\"default\"]\n\
         label-selector = \"app=test\"\ndurable = \"metadata\"\n\n\
         [plugin.recorder]\ncomponent = {:?}\ninformers = [\"maps\"]\non-start = \"{on_start}\"\n\
         limits = {{ cpu = \"60s\", call = \"60s\" }}\n",
        guests::component("guest-recorder")?
    ))
}

/// Deletes and creates `names` in turn until `stop`.
async fn recreate(client: Client, names: Vec<String>, deleted: Deleted, stop: Arc<AtomicBool>) -> Result<()> {
    let mut uids = Vec::new();
    for name in &names {
        uids.push(create(&client, name).await?);
    }
    while !stop.load(Ordering::Relaxed) {
        for (name, uid) in names.iter().zip(&mut uids) {
            deleted.lock().expect("no holder panics").insert(uid.clone());
            client.delete(&config_maps(name)).await?;
            tokio::time::sleep(PAUSE).await;
            *uid = create(&client, name).await?;
            tokio::time::sleep(PAUSE).await;
        }
    }
    Ok(())
}

async fn create(client: &Client, name: &str) -> Result<String> {
    let created = client.post(&config_maps(""), &config_map(name, "1")).await?;
    let uid = created["metadata"]["uid"].as_str();
    Ok(uid.context("a created object has a uid")?.to_owned())
}

fn calls(daemon: &Daemon) -> Vec<Call> {
    recording::calls(daemon, "recorder", 0)
}

/// One process: killed after some calls, and `later`. Returns its calls.
async fn killed(cluster: &Cluster, config: &str, later: Duration) -> Result<Vec<Call>> {
    let mut daemon = Daemon::start(cluster.folder(), &cluster.kubeconfig(), config).await?;
    wait::until("calls of the plugin", WITHIN, async || {
        let calls = calls(&daemon).len();
        if calls < CALLS {
            return Err(format!("{calls} calls"));
        }
        Ok(())
    })
    .await
    .with_context(|| daemon.process().tail())?;
    tokio::time::sleep(later).await;
    daemon.process().signal("KILL").await?;
    daemon.process_mut().wait_for_end(WITHIN).await?;
    Ok(calls(&daemon))
}

async fn kills(on_start: &str) -> Result<()> {
    let cluster = Cluster::start(Kind::Embedded).await?;
    let config = config(on_start)?;
    let (kills, incarnations) = size();
    let (deleted, stop) = (Deleted::default(), Arc::new(AtomicBool::new(false)));
    let mut clients = JoinSet::new();
    for first in 0..CLIENTS {
        let names = (first..NAMES).step_by(CLIENTS).map(|name| format!("name-{name:02}"));
        let client = cluster.client().await?;
        clients.spawn(recreate(client, names.collect(), deleted.clone(), stop.clone()));
    }
    let mut received = Received::default();
    for kill in 0..kills {
        // At any moment between two looks at the acknowledgements, which are 200 ms apart.
        let later = Duration::from_millis(kill as u64 * 37 % 230);
        let calls = killed(&cluster, &config, later).await?;
        received
            .record(&calls, &deleted)
            .with_context(|| format!("kill {kill}"))?;
        ensure!(clients.try_join_next().is_none(), "a client ended");
    }
    stop.store(true, Ordering::Relaxed);
    while let Some(ended) = clients.join_next().await {
        ended??;
    }

    let list = cluster.client().await?.get(&config_maps("")).await?;
    let items = list["items"].as_array().context("a list")?;
    let uid = |item: &serde_json::Value| item["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    let named = |item: &&serde_json::Value| item["metadata"]["labels"]["app"] == "test";
    let present: BTreeSet<String> = items.iter().filter(named).map(uid).collect();
    let daemon = Daemon::start(cluster.folder(), &cluster.kubeconfig(), &config).await?;
    let before = received;
    let settled = wait::until("every delete", WITHIN, async || {
        let mut received = Received {
            adds: before.adds.clone(),
            deletes: before.deletes.clone(),
            ..Received::default()
        };
        let recorded = received.record(&calls(&daemon), &deleted);
        if let Err(error) = recorded {
            return Ok(Err(error));
        }
        let known = received.present();
        if known == present {
            return Ok(Ok(received));
        }
        let lost = known.difference(&present).count();
        let missing = present.difference(&known).count();
        Err(format!("{lost} deletes are lost, {missing} adds are missing"))
    })
    .await?;
    let received = settled.context("the last process")?;
    #[expect(clippy::print_stdout, reason = "the figures are the result of the long form")]
    {
        println!(
            "on-start = {on_start:?}: {kills} kills, {} incarnations and {} deletes delivered, {} deletes repeated, \
             {} for incarnations whose add was not recorded",
            received.adds.len(),
            received.deletes.len(),
            before.repeated,
            before.without_add,
        );
    }
    if received.adds.len() < incarnations {
        bail!("only {} incarnations were delivered", received.adds.len());
    }
    let dropped = daemon.metric("informant_state_incarnations_dropped_total", &[]).await?;
    ensure!(
        dropped.unwrap_or_default() == 0.0,
        "{dropped:?} incarnations were not stored"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_lose_and_invent_no_delete_with_continue() {
    kills("continue").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_lose_and_invent_no_delete_with_replay() {
    kills("replay").await.unwrap();
}
