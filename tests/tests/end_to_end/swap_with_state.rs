//! Swaps under load whose versions hand over their state: together they count each update once.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use informant_tests::cluster::{Cluster, Kind};
use informant_tests::daemon::Daemon;
use informant_tests::{guests, wait};
use serde::Deserialize;
use tokio::time::Instant;

use crate::load::{self, Load, Versions, put_in_place};

const SWAP_EVERY: Duration = Duration::from_secs(2);

/// How much longer than planned the updates may take in the long form: it is about their rate.
const LATE_MAX: Duration = Duration::from_secs(1);

/// The deadline of every wait.
const WITHIN: Duration = Duration::from_secs(120);

/// The load, and whether its rate has to be reached.
fn size() -> (Load, bool) {
    let load = |updates_per_second, seconds| Load {
        updates_per_second,
        seconds,
    };
    match std::env::var_os("INFORMANT_TESTS_FULL") {
        Some(_) => (load(1_000, 30), true),
        None => (load(200, 5), false),
    }
}

/// A line of the guest: after this event it has counted so many of the object, and of all objects.
#[derive(Deserialize)]
struct Counted {
    name: String,
    version: String,
    times: u64,
    instance: u64,
    events: u64,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_that_hand_over_state_count_each_update_once() {
    let cluster = Cluster::start(Kind::Embedded).await.unwrap();
    swaps(&cluster, 1).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_instances_that_hand_over_state_count_each_update_once() {
    let cluster = Cluster::start(Kind::Embedded).await.unwrap();
    swaps(&cluster, 4).await.unwrap();
}

async fn swaps(cluster: &Cluster, instances: usize) -> Result<()> {
    let client = cluster.client().await?;
    let mut written = Load::prepare(&client).await?;
    let versions = guests::two_versions("guest-stateful", cluster.folder())?;
    let component = cluster.folder().join("counter.wasm");
    put_in_place(&versions[0], &component)?;
    // Events that do not fit would be merged: then an update is not counted by itself.
    let config = format!(
        "[informer.maps]\nresource = \"v1/configmaps\"\nlabel-selector = \"app=test\"\n\n\
         [plugin.counter]\ncomponent = {component:?}\ninformers = [\"maps\"]\n\
         limits = {{ pending = 100000, instances = {instances} }}\n"
    );
    let daemon = Daemon::start(cluster.folder(), &cluster.kubeconfig(), &config).await?;
    wait_for_results(&daemon, "add", written.len()).await?;
    // The other version is compiled before the load.
    swap(&daemon, &versions[1], &component).await?;

    let (load, must_be_fast) = size();
    let begin = Instant::now();
    let writing = tokio::spawn(load.write(client));
    let mut swaps = 0;
    while begin.elapsed() + SWAP_EVERY < Duration::from_secs(load.seconds) && !writing.is_finished() {
        tokio::time::sleep_until(begin + SWAP_EVERY * (swaps + 1)).await;
        swap(&daemon, &versions[swaps as usize % 2], &component).await?;
        swaps += 1;
    }
    load::append(&mut written, writing.await??);
    let took = begin.elapsed();

    let updates: usize = written.values().map(|versions| versions.len() - 1).sum();
    let counted = wait_until_counted(&daemon, &written).await?;
    assert_counted_once(&written, &counted, instances)?;
    let merged = daemon.metric("informant_listener_coalesced_total", &[]).await?;
    ensure!(merged.unwrap_or_default() == 0.0, "{merged:?} events were merged");
    #[expect(clippy::print_stdout, reason = "the figures are the result of the long form")]
    {
        let rate = updates as f64 / took.as_secs_f64();
        println!("{swaps} swaps during {updates} updates, {rate:.0} updates/s; each was counted once");
    }
    let in_time = took < Duration::from_secs(load.seconds) + LATE_MAX;
    let all_swaps = u64::from(swaps + 1) * SWAP_EVERY.as_secs() >= load.seconds;
    ensure!(
        !must_be_fast || (in_time && all_swaps),
        "{updates} updates took {took:?}, with {swaps} swaps"
    );
    Ok(())
}

/// Puts a version in place, and waits until it runs.
async fn swap(daemon: &Daemon, version: &Path, component: &Path) -> Result<()> {
    let count = async || load::reloads(daemon, "counter", "ok").await;
    let before = count().await?;
    put_in_place(version, component)?;
    let swapped = wait::until("the swap", WITHIN, async || match count().await {
        Ok(now) if now > before => Ok(()),
        other => Err(format!("{other:?} reloads")),
    });
    swapped.await.with_context(|| daemon.process().tail())
}

/// Waits until as many events were counted as were written, and returns the lines of all versions.
async fn wait_until_counted(daemon: &Daemon, written: &Versions) -> Result<Vec<Counted>> {
    let total: usize = written.values().map(Vec::len).sum();
    wait_for_results(daemon, "update", total - written.len()).await?;
    wait::until("every line", WITHIN, async || {
        // The log is read a little later than it is written.
        let lines = daemon.process().lines(0, counted);
        if lines.len() < total {
            return Err(format!("{} of {total} lines", lines.len()));
        }
        Ok(lines)
    })
    .await
    .with_context(|| daemon.process().tail())
}

/// Waits until so many events of this kind were handled.
async fn wait_for_results(daemon: &Daemon, event: &str, wanted: usize) -> Result<()> {
    let labels = [&*format!("event=\"{event}\""), "result=\"ok\""];
    wait::until(&format!("every {event} to be handled"), WITHIN, async || {
        let handled = daemon.metric("informant_handler_events_total", &labels).await;
        match handled.map_err(|error| format!("{error:#}"))?.unwrap_or_default() {
            handled if handled as usize >= wanted => Ok(()),
            handled => Err(format!("{handled} of {wanted}")),
        }
    })
    .await
}

fn counted(line: &str) -> Option<Counted> {
    let line: serde_json::Value = serde_json::from_str(line).ok()?;
    serde_json::from_str(line.pointer("/fields/message")?.as_str()?).ok()
}

fn assert_counted_once(written: &Versions, counted: &[Counted], instances: usize) -> Result<()> {
    let mut handled = Versions::new();
    let mut times = BTreeMap::new();
    for line in counted {
        handled.entry(line.name.clone()).or_default().push(line.version.clone());
        times.insert(line.name.as_str(), line.times);
    }
    for (name, versions) in written {
        let (handled, times) = (handled.get(name), times.get(name.as_str()));
        ensure!(
            handled == Some(versions),
            "{name}: handled {handled:?}, written {versions:?}"
        );
        ensure!(
            times == Some(&(versions.len() as u64)),
            "{name}: {times:?} times, not {}",
            versions.len()
        );
    }
    let last: BTreeMap<u64, u64> = counted.iter().map(|line| (line.instance, line.events)).collect();
    let (sum, total) = (last.values().sum::<u64>(), counted.len() as u64);
    ensure!(
        sum == total && last.len() == instances,
        "the last version has counted {last:?} events in its instances, of {total}"
    );
    Ok(())
}
