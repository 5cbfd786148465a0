//! Ten plugin swaps, two of them with broken files, while 500 updates a second flow for 20 seconds.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use informant_tests::cluster::{Cluster, Kind};
use informant_tests::daemon::Daemon;
use informant_tests::recording::{self, Call};
use informant_tests::{guests, wait};
use tokio::time::Instant;

use crate::load::{self, Load, Versions, put_broken, put_in_place};

const LOAD: Load = Load {
    updates_per_second: 500,
    seconds: 20,
};
const SWAPS: u64 = 10;
/// The swaps with a file that must be refused.
const BROKEN_SWAPS: [u64; 2] = [3, 7];

const HANDLED_WITHIN: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn continue_handles_every_event_exactly_once_in_order() {
    let (written, calls) = swap_under_load("continue").await.unwrap();
    load::assert_handled_exactly_once(&written, &calls);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replay_ends_with_a_view_equal_to_the_store() {
    let (written, calls) = swap_under_load("replay").await.unwrap();
    load::assert_view_equals_the_store(&written, &calls);
}

async fn swap_under_load(on_reload: &str) -> Result<(Versions, Vec<Call>)> {
    let cluster = Cluster::start(Kind::Embedded).await?;
    let client = cluster.client().await?;
    let mut written = Load::prepare(&client).await?;
    let component = cluster.folder().join("recorder.wasm");
    put_in_place(&guests::component("guest-recorder")?, &component)?;
    let config = format!(
        "[informer.maps]\nresource = \"v1/configmaps\"\nlabel-selector = \"app=test\"\n\n\
         [plugin.recorder]\ncomponent = {component:?}\ninformers = [\"maps\"]\non-reload = {on_reload:?}\n"
    );
    let daemon = Daemon::start(cluster.folder(), &cluster.kubeconfig(), &config).await?;
    daemon.wait_until_ready().await?;
    wait::until("the first list to be handled", HANDLED_WITHIN, async || {
        let calls = recording::calls(&daemon, "recorder", 0);
        if calls.iter().any(|call| call.event == "synced") {
            Ok(())
        } else {
            Err(format!("{} calls so far", calls.len()))
        }
    })
    .await?;

    let writing = tokio::spawn(LOAD.write(client));
    swap_periodically(&daemon, &component).await?;
    load::append(&mut written, writing.await??);
    wait_until_handled(&daemon, &written).await?;
    let calls = recording::calls(&daemon, "recorder", 0);
    let lost = daemon.metric("informant_listener_coalesced_total", &[]).await?;
    ensure!(
        on_reload != "continue" || lost.unwrap_or_default() == 0.0,
        "{lost:?} events were coalesced"
    );
    Ok((written, calls))
}

async fn swap_periodically(daemon: &Daemon, component: &Path) -> Result<()> {
    let builds = [
        guests::component("guest-recorder-v2")?,
        guests::component("guest-recorder")?,
    ];
    let begin = Instant::now();
    for swap in 1..=SWAPS {
        tokio::time::sleep_until(begin + Duration::from_secs(LOAD.seconds) * swap as u32 / (SWAPS as u32 + 1)).await;
        let counted = if BROKEN_SWAPS.contains(&swap) { "refused" } else { "ok" };
        let before = load::reloads(daemon, "recorder", counted).await?;
        if BROKEN_SWAPS.contains(&swap) {
            put_broken(component, swap == BROKEN_SWAPS[0])?;
        } else {
            let good = BROKEN_SWAPS.iter().filter(|broken| **broken < swap).count() as u64;
            // Never the running bytes: Informant correctly ignores those.
            put_in_place(&builds[((swap - good + 1) % 2) as usize], component)?;
        }
        wait::until(
            &format!("swap {swap} to be counted as {counted}"),
            HANDLED_WITHIN,
            async || {
                let now = load::reloads(daemon, "recorder", counted)
                    .await
                    .map_err(|error| format!("{error:#}"))?;
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

/// Waits until the last version of each object was handled.
async fn wait_until_handled(daemon: &Daemon, written: &Versions) -> Result<()> {
    wait::until(
        "every object's last version to be handled",
        HANDLED_WITHIN,
        async || {
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
        },
    )
    .await
}
