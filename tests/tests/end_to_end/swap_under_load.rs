//! Ten plugin swaps, two of them with broken files, while 500 updates a second flow for 20 seconds.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use informant_tests::client::Client;
use informant_tests::cluster::{Cluster, Kind};
use informant_tests::daemon::Daemon;
use informant_tests::objects::{config_map, config_maps, version_of};
use informant_tests::recording::{self, Call};
use informant_tests::{guests, wait};
use serde_json::{Value, json};
use tokio::time::{Instant, interval};

/// How many objects the writes go round.
const OBJECTS: usize = 100;
const WRITERS: usize = 4;
const UPDATES_PER_SECOND: u64 = 500;
const LOAD_SECONDS: u64 = 20;
const SWAPS: u64 = 10;
/// Which of the swaps are with a file that must be refused.
const BROKEN_SWAPS: [u64; 2] = [3, 7];

const CALM_WITHIN: Duration = Duration::from_secs(60);

/// By name: the versions that were written, in order.
type Versions = BTreeMap<String, Vec<String>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_continue_every_event_is_handled_exactly_once_and_in_order() {
    let (written, calls) = swap_under_load("continue").await.unwrap();
    let mut handled = Versions::new();
    for call in calls
        .iter()
        .filter(|call| call.event == "add" || call.event == "update")
    {
        assert_eq!(call.reason == "initial", call.event == "add", "{call:?}");
        handled.entry(call.name.clone()).or_default().push(call.version.clone());
    }
    for (name, versions) in &written {
        assert_eq!(
            handled.get(name),
            Some(versions),
            "{name}: what was handled is not what was written"
        );
    }
    assert_eq!(handled.len(), written.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_replay_the_view_ends_equal_to_the_store() {
    let (written, calls) = swap_under_load("replay").await.unwrap();
    // The view of the last instance: what it was told since it began.
    let begin = calls.iter().rposition(|call| call.event == "init").unwrap();
    let mut view = BTreeMap::new();
    for call in calls[begin..]
        .iter()
        .filter(|call| call.event == "add" || call.event == "update")
    {
        view.insert(call.name.clone(), call.version.clone());
    }
    let last: BTreeMap<_, _> = written
        .into_iter()
        .filter_map(|(name, mut versions)| Some((name, versions.pop()?)))
        .collect();
    assert_eq!(view, last);
    assert!(
        calls[begin..].iter().any(|call| call.event == "synced"),
        "the replay's end was never told"
    );
}

async fn swap_under_load(on_reload: &str) -> Result<(Versions, Vec<Call>)> {
    let cluster = Cluster::start(Kind::Embedded).await?;
    let client = cluster.client().await?;
    let mut written = Versions::new();
    for number in 0..OBJECTS {
        let name = format!("map-{number}");
        let created = client.post(&config_maps(""), &config_map(&name, "0")).await?;
        written.insert(name, vec![version_of(&created)]);
    }
    let component = cluster.folder().join("recorder.wasm");
    put_in_place(&guests::component("guest-recorder")?, &component)?;
    let config = format!(
        "[informer.maps]\nresource = \"v1/configmaps\"\nlabel-selector = \"app=test\"\n\n\
         [plugin.recorder]\ncomponent = {component:?}\ninformers = [\"maps\"]\non-reload = {on_reload:?}\n"
    );
    let daemon = Daemon::start(cluster.folder(), &cluster.kubeconfig(), &config).await?;
    daemon.wait_until_ready().await?;
    wait::until("the first list to be handled", CALM_WITHIN, async || {
        let calls = recording::calls(&daemon, "recorder", 0);
        if calls.iter().any(|call| call.event == "synced") {
            Ok(())
        } else {
            Err(format!("{} calls so far", calls.len()))
        }
    })
    .await?;

    let load = tokio::spawn(write_for_a_while(client));
    swap_now_and_then(&daemon, &component).await?;
    for (name, versions) in load.await?? {
        written.entry(name).or_default().extend(versions);
    }
    wait_until_calm(&daemon, &written).await?;
    let calls = recording::calls(&daemon, "recorder", 0);
    let lost = daemon.metric("informant_listener_coalesced_total", &[]).await?;
    ensure!(
        on_reload != "continue" || lost.unwrap_or_default() == 0.0,
        "{lost:?} events were coalesced"
    );
    Ok((written, calls))
}

/// Updates every object in turn at the fixed rate; returns the versions by name. Each writer has objects of its own, so that
/// the versions of one object are in order.
async fn write_for_a_while(client: Client) -> Result<Versions> {
    let writers = (0..WRITERS).map(|writer| tokio::spawn(write_some(client.clone(), writer)));
    let mut all = Versions::new();
    for writer in futures::future::try_join_all(writers).await? {
        all.extend(writer?);
    }
    Ok(all)
}

async fn write_some(client: Client, writer: usize) -> Result<Versions> {
    let mut pace = interval(Duration::from_micros(1_000_000 * WRITERS as u64 / UPDATES_PER_SECOND));
    let mut written = Versions::new();
    for round in 0..(UPDATES_PER_SECOND * LOAD_SECONDS / WRITERS as u64) as usize {
        pace.tick().await;
        let name = format!("map-{}", (round * WRITERS + writer) % OBJECTS);
        let patch = json!({"data": {"value": format!("{writer}-{round}")}});
        let object: Value = client.merge(&config_maps(&name), &patch).await?;
        written.entry(name).or_default().push(version_of(&object));
    }
    Ok(written)
}

async fn swap_now_and_then(daemon: &Daemon, component: &Path) -> Result<()> {
    let builds = [
        guests::component("guest-recorder-v2")?,
        guests::component("guest-recorder")?,
    ];
    let begin = Instant::now();
    for swap in 1..=SWAPS {
        tokio::time::sleep_until(begin + Duration::from_secs(LOAD_SECONDS) * swap as u32 / (SWAPS as u32 + 1)).await;
        let counted = if BROKEN_SWAPS.contains(&swap) { "refused" } else { "ok" };
        let before = reloads(daemon, counted).await?;
        if BROKEN_SWAPS.contains(&swap) {
            put_broken(component, swap)?;
        } else {
            let good = BROKEN_SWAPS.iter().filter(|broken| **broken < swap).count() as u64;
            // Never the bytes that run: those would rightly change nothing.
            put_in_place(&builds[((swap - good + 1) % 2) as usize], component)?;
        }
        wait::until(
            &format!("swap {swap} to be counted as {counted}"),
            CALM_WITHIN,
            async || {
                let now = reloads(daemon, counted).await.map_err(|error| format!("{error:#}"))?;
                if now > before {
                    Ok(())
                } else {
                    Err(format!("{counted} is still {now}\n{}", daemon.process().tail()))
                }
            },
        )
        .await?;
    }
    Ok(())
}

async fn reloads(daemon: &Daemon, result: &str) -> Result<f64> {
    let label = format!("result=\"{result}\"");
    Ok(daemon
        .metric("informant_plugin_reloads_total", &[&label])
        .await?
        .unwrap_or_default())
}

/// Writes beside and renames, as every careful tool does.
fn put_in_place(from: &Path, to: &Path) -> Result<()> {
    let beside = to.with_extension("new");
    std::fs::copy(from, &beside).with_context(|| format!("copying {}", from.display()))?;
    std::fs::rename(&beside, to)?;
    Ok(())
}

fn put_broken(to: &Path, swap: u64) -> Result<()> {
    let whole = std::fs::read(guests::component("guest-recorder")?)?;
    let broken = if swap == BROKEN_SWAPS[0] {
        &whole[..whole.len() / 2]
    } else {
        b"<html>not a component</html>"
    };
    std::fs::write(to, broken)?;
    Ok(())
}

/// Waits until the last version of each object was handled.
async fn wait_until_calm(daemon: &Daemon, written: &Versions) -> Result<()> {
    wait::until("every object's last version to be handled", CALM_WITHIN, async || {
        let calls = recording::calls(daemon, "recorder", 0);
        let missing = written.iter().find(|(name, versions)| {
            let last = versions.last();
            !calls
                .iter()
                .rev()
                .any(|call| &call.name == *name && Some(&call.version) == last)
        });
        match missing {
            None => Ok(()),
            Some((name, versions)) => Err(format!("{name} at {:?} was not handled", versions.last())),
        }
    })
    .await
}
