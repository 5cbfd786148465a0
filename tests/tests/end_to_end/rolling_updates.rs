//! The chart with three replicas is installed, upgraded and rolled back while objects change all the time. Nothing is
//! lost, and the work moves at most twice.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::try_join_all;
use informant_tests::client::Client;
use informant_tests::cluster::Cluster;
use informant_tests::kubelet::{Image, Kubelet, RunningPod, StatefulSet};
use informant_tests::objects::{config_map, config_maps, version_of};
use informant_tests::recording::{Call, calls_of};
use informant_tests::{guests, kubelet, wait};
use serde_json::{Value, json};
use tokio::time::MissedTickBehavior;

use crate::as_pod::rights::Account;
use crate::as_pod::{NAME, NAMESPACE, READY_WITHIN, forbidden};
use crate::chart::Helm;

/// The deadline of every wait.
const WITHIN: Duration = Duration::from_secs(60);

/// How many changes of objects are made in a second. Less, if two cores do not carry it next to three replicas.
const CHANGES_PER_SECOND: u32 = 1_000;

/// How many clients make them, and how many objects each changes.
const CLIENTS: u32 = 8;
const NAMES: usize = 25;

/// How often a rolling update may move the work.
const HAND_OVERS_MAX: u64 = 2;

/// How long a replica must have been ready before others prefer it to one that has just become ready. Nothing shows
/// when that time is over.
const SETTLES_WITHIN: Duration = Duration::from_secs(11);

const CONFIG: &str = "[admin]\ntls = \"self-signed\"\n\n[ha]\n\n\
    [informer.maps]\nresource = \"v1/configmaps\"\nnamespaces = [\"default\"]\nlabel-selector = \"app=test\"\n\n\
    [plugin.recorder]\ncomponent = \"recorder.wasm\"\ninformers = [\"maps\"]\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rolling_updates_of_three_replicas_lose_nothing() -> Result<()> {
    let Some(helm) = Helm::new()? else { return Ok(()) };
    if !kubelet::can_run().await? {
        return Ok(());
    }
    let cluster = Cluster::start_with_audit_log().await?;
    install_upgrade_and_roll_back(&helm, &cluster).await
}

async fn install_upgrade_and_roll_back(helm: &Helm, cluster: &Cluster) -> Result<()> {
    let client = cluster.client().await?;
    let account = Account::new(NAMESPACE, NAME);
    let mut audit = cluster.audit_log();
    helm.upgrade(cluster, &values(helm, CONFIG, "1").await?).await?;
    let mut kubelet = Kubelet::new(cluster).await?;
    kubelet.prepare_namespace(NAMESPACE).await?;
    for version in ["1", "2"] {
        kubelet.add_image(&format!("informant:{version}"), Image::informant()?);
    }
    let mut set = StatefulSet::start(&kubelet, NAMESPACE, NAME, READY_WITHIN).await?;
    terms(&client).await?;

    let (stop, began) = (Arc::new(AtomicBool::new(false)), Instant::now());
    let clients = (0..CLIENTS).map(|number| tokio::spawn(change(client.clone(), number, Arc::clone(&stop))));
    let clients: Vec<_> = clients.collect();
    // Read when the process starts only.
    let changed = CONFIG.replace("tls", "hosts = [\"informant.example.com\"]\ntls");
    let upgrade = values(helm, &changed, "2").await?;
    let upgraded = moves(&client, &mut set, helm.upgrade(cluster, &upgrade));
    let upgraded = upgraded.await.context("upgrade")?;
    tokio::time::sleep(SETTLES_WITHIN).await;
    let rolled_back = moves(&client, &mut set, helm.rollback(cluster, "1"));
    let moved = [upgraded, rolled_back.await.context("rollback")?];
    stop.store(true, Ordering::Relaxed);
    let mut objects = Objects::default();
    for client in try_join_all(clients).await? {
        objects.add(client?);
    }
    let rate = objects.changes as f64 / began.elapsed().as_secs_f64();
    objects.are_accepted(&set).await?;
    for pod in set.all() {
        nothing_came_twice(pod)?;
    }
    let denied = forbidden(&mut audit, &account)?;
    ensure!(denied.is_none(), "forbidden, with the rights of the chart: {denied:?}");
    ensure!(moved.iter().all(|moved| *moved <= HAND_OVERS_MAX), "{moved:?}");
    #[expect(clippy::print_stdout, reason = "what two cores carry is a result")]
    {
        println!("{rate:.0} changes per second; hand-overs of the upgrade and the rollback: {moved:?}");
    }
    Ok(())
}

/// The chart's values for three replicas of this version, with the recorder.
async fn values(helm: &Helm, config: &str, version: &str) -> Result<Vec<String>> {
    let generated = helm.generated(config, &["recorder.wasm"]).await?;
    let generated_here = format!("{generated}.{version}");
    std::fs::rename(&generated, &generated_here)?;
    let component = STANDARD.encode(std::fs::read(guests::component("guest-recorder")?)?);
    let own = json!({"replicas": 3, "image": {"tag": version}, "components": {"recorder.wasm": component}});
    Ok(vec![generated_here, helm.values(&format!("own-{version}.json"), &own)?])
}

/// Replaces all pods after `change`, and returns how often the work moved.
async fn moves(client: &Client, set: &mut StatefulSet<'_>, change: impl Future<Output = Result<()>>) -> Result<u64> {
    let before = terms(client).await?;
    change.await?;
    let replaced = set.roll_out().await?;
    ensure!(replaced == 3, "{replaced} pods were replaced");
    Ok(terms(client).await? - before)
}

/// How many times a replica has begun to act, once one does.
async fn terms(client: &Client) -> Result<u64> {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{NAME}");
    wait::until("a replica to act", WITHIN, async || {
        let lease = client.get(&path).await.map_err(|error| format!("{error:#}"))?;
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default();
        match lease["spec"]["leaseTransitions"].as_u64() {
            Some(terms) if !holder.is_empty() => Ok(terms),
            _ => Err(lease.to_string()),
        }
    })
    .await
}

/// What clients have done.
#[derive(Default)]
struct Objects {
    changes: u64,
    /// The uid and the version of each object that is there.
    last: BTreeMap<String, (String, String)>,
    /// The uids of those that were deleted.
    deleted: BTreeSet<String>,
}

impl Objects {
    fn add(&mut self, other: Self) {
        self.changes += other.changes;
        self.last.extend(other.last);
        self.deleted.extend(other.deleted);
    }

    fn set(&mut self, name: String, object: &Value) {
        let uid = object
            .pointer("/metadata/uid")
            .and_then(Value::as_str)
            .unwrap_or_default();
        self.last.insert(name, (uid.to_owned(), version_of(object)));
    }

    /// Waits until the handler has accepted the last state of each object, and each delete of an object that it had
    /// received.
    async fn are_accepted(&self, set: &StatefulSet<'_>) -> Result<()> {
        wait::until("everything to be accepted", WITHIN, async || {
            let calls: Vec<Call> = set
                .all()
                .flat_map(|pod| calls_of(pod.process(), "recorder", 0))
                .collect();
            let accepted = calls.iter().filter(|call| call.outcome == "ok");
            let (deletes, states): (Vec<&Call>, Vec<_>) = accepted.partition(|call| call.event == "delete");
            let states: BTreeSet<(&str, &str)> = states.iter().map(|call| (&*call.uid, &*call.version)).collect();
            let deletes: BTreeSet<&str> = deletes.iter().map(|call| &*call.uid).collect();
            let received: BTreeSet<&str> = states.iter().map(|(uid, _)| *uid).collect();
            let is_missing = |(uid, version): &&(String, String)| !states.contains(&(uid.as_str(), version.as_str()));
            let states = self.last.values().filter(is_missing).count();
            let is_lost = |uid: &&String| received.contains(uid.as_str()) && !deletes.contains(uid.as_str());
            let lost = self.deleted.iter().filter(is_lost).count();
            match states + lost {
                0 => Ok(()),
                _ => Err(format!("{states} last states and {lost} deletes are missing")),
            }
        })
        .await
    }
}

/// Creates, changes and deletes objects of its own until `stop`.
async fn change(client: Client, number: u32, stop: Arc<AtomicBool>) -> Result<Objects> {
    let mut objects = Objects::default();
    let mut tick = tokio::time::interval(Duration::from_secs(1) * CLIENTS / CHANGES_PER_SECOND);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for turn in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        tick.tick().await;
        let name = format!("name-{number}-{}", turn % NAMES);
        let path = config_maps(&name);
        let object = config_map(&name, &turn.to_string());
        // Each object in every seventh turn.
        let is_deleted = turn / NAMES % 7 == turn % 7;
        match objects.last.remove(&name) {
            Some((uid, _)) if is_deleted => {
                client.delete(&path).await?;
                objects.deleted.insert(uid);
            }
            Some(_) => objects.set(name, &client.put(&path, &object).await?),
            None => objects.set(name, &client.post(&config_maps(""), &object).await?),
        }
        objects.changes += 1;
    }
    Ok(objects)
}

/// In each term of a replica, its handler received each state once, and each delete.
fn nothing_came_twice(pod: &RunningPod) -> Result<()> {
    let begins = |line: &str| line.contains("this replica acts").then_some(());
    let terms = pod.process().lines(0, begins).len();
    let mut counts: BTreeMap<(String, String, bool), usize> = BTreeMap::new();
    for call in calls_of(pod.process(), "recorder", 0) {
        if ["add", "update", "delete"].contains(&&*call.event) {
            *counts
                .entry((call.uid, call.version, call.event == "delete"))
                .or_default() += 1;
        }
    }
    let too_often: Vec<_> = counts.iter().filter(|(_, count)| **count > terms).take(5).collect();
    ensure!(
        too_often.is_empty(),
        "in {terms} terms: {too_often:?}\n{}",
        pod.process().tail()
    );
    Ok(())
}
