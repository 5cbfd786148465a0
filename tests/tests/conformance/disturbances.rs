//! Connections that are sliced, slow, cut, reset, held or half open.

use std::time::Duration;

use anyhow::{Result, ensure};
use informant_cache::SourceState;
use informant_informer::WatchListUse;
use informant_tests::chaos::Mode;
use informant_tests::cluster::Cluster;
use informant_tests::conformance::{ARRIVES_WITHIN, Setting, Testbed};
use informant_tests::wait;

use crate::label;

/// The modes of a bad network: half of the connections end before an initial state is complete.
const BAD_NETWORK: &[Mode] = &[
    Mode::Pass,
    Mode::Slice { bytes_max: 100 },
    Mode::Slow {
        bytes_per_second: 200_000,
    },
    Mode::CutAfter { bytes: 1_000 },
    Mode::CutAfter { bytes: 20_000 },
    Mode::CutAfter { bytes: 60_000 },
    Mode::Reset,
];

/// The number of rounds of writes; in each at least one connection is cut.
const ROUNDS: usize = 16;

/// After this many writes without a cut, the open connections are cut.
const CUT_AFTER_WRITES: usize = 16;

pub(crate) async fn everything_arrives_through_slices_drips_cuts_and_resets(
    cluster: &Cluster,
    name: &str,
) -> Result<()> {
    let testbed = Testbed::prepare(cluster, &label(name), 7).await?;
    testbed.fill("kept", 40, 1_000).await?;
    testbed.proxy.draw_new(BAD_NETWORK);
    let streamed = testbed.observe(Setting::config_maps(&testbed.namespace)).await?;
    let paged = Setting {
        watch_list: false,
        page_items: Some(7),
        ..Setting::config_maps(&testbed.namespace)
    };
    let paged = testbed.observe(paged).await?;
    for round in 0..ROUNDS {
        let resets = testbed.proxy.resets();
        testbed.proxy.set_open(Mode::CutAfter { bytes: 500 });
        for number in 0..4 {
            let value = round.to_string();
            testbed
                .change(&format!("kept-{}", 10 + (round * 3 + number) % 30), &value)
                .await?;
        }
        testbed.create(&format!("new-{round}"), "new").await?;
        if round % 3 == 2 {
            testbed.delete(&format!("new-{}", round - 1)).await?;
            // The same name again is another incarnation.
            testbed.create(&format!("new-{}", round - 1), "again").await?;
            if round < 10 {
                testbed.delete(&format!("kept-{round}")).await?;
            }
        }
        until_cut(&testbed, resets).await?;
    }
    testbed.proxy.set(Mode::Pass);
    for observed in [&streamed, &paged] {
        observed.settle(&testbed.direct).await?;
        ensure!(
            !observed.last_error().is_empty(),
            "no connection failed: {:?}",
            observed.status()
        );
    }
    Ok(())
}

/// Waits until more than `resets` connections were cut: by the random modes or, if that takes too long, explicitly. A
/// connection without traffic is not cut, so writes continue as long as it takes.
async fn until_cut(testbed: &Testbed, resets: usize) -> Result<()> {
    let mut writes = 0;
    wait::until("a connection to be cut", ARRIVES_WITHIN, async || {
        if testbed.proxy.resets() > resets {
            return Ok(());
        }
        writes += 1;
        if writes % CUT_AFTER_WRITES == 0 {
            testbed.proxy.set_open(Mode::CutAfter { bytes: 500 });
        }
        let written = testbed.change("kept-10", &"y".repeat(1_000 + writes)).await;
        written.map_err(|error| format!("{error:#}"))?;
        Err(format!("none after {writes} writes"))
    })
    .await
}

pub(crate) async fn half_open_watch_is_detected_and_loses_nothing(cluster: &Cluster, name: &str) -> Result<()> {
    let testbed = Testbed::prepare(cluster, &label(name), 1).await?;
    testbed.fill("kept", 5, 10).await?;
    let observed = testbed.observe(Setting::config_maps(&testbed.namespace)).await?;
    observed.settle(&testbed.direct).await?;
    let before = observed.status();

    testbed.proxy.set_open(Mode::HalfOpen);
    testbed.create("new", "1").await?;
    testbed.change("kept-0", "2").await?;
    testbed.delete("kept-1").await?;
    observed.settle(&testbed.direct).await?;

    let after = observed.status();
    ensure!(after.watches > before.watches, "the same watch: {after:?}");
    ensure!(after.last_error.is_some(), "{after:?}");
    // It resumed where it was: nothing was relisted, and the delete came from the watch, not from a list.
    ensure!(after.relists == 0, "{after:?}");
    let gone = observed.handler.calls_of("kept-1");
    ensure!(gone.len() == 2, "{gone:?}");
    Ok(())
}

pub(crate) async fn blackholed_network_shows_as_stale_and_recovers(cluster: &Cluster, name: &str) -> Result<()> {
    let testbed = Testbed::prepare(cluster, &label(name), 1).await?;
    testbed.fill("kept", 5, 10).await?;
    let observed = testbed.observe(Setting::config_maps(&testbed.namespace)).await?;
    observed.settle(&testbed.direct).await?;

    testbed.proxy.set(Mode::HalfOpen);
    testbed.delete("kept-0").await?;
    testbed.create("kept-0", "another").await?;
    let stale = observed.until_state(SourceState::Stale).await?;
    ensure!(stale.synced && observed.informer().snapshot().len() == 5, "{stale:?}");
    ensure!(stale.last_error.is_some(), "{stale:?}");

    // The blackholed connections stay blackholed; only new ones pass.
    testbed.proxy.set_new(Mode::Pass);
    observed.settle(&testbed.direct).await?;
    Ok(())
}

pub(crate) async fn stalled_watch_list_falls_back_to_list_without_partial_state(
    cluster: &Cluster,
    name: &str,
) -> Result<()> {
    let testbed = Testbed::prepare(cluster, &label(name), 1).await?;
    testbed.fill("kept", 40, 1_000).await?;
    testbed.proxy.set_new(Mode::HoldAfter { bytes: 20_000 });
    let observed = testbed.observe(Setting::config_maps(&testbed.namespace)).await?;
    observed
        .until("the WatchList to be given up", |status| {
            matches!(status.watch_list, WatchListUse::Refused(_))
        })
        .await?;
    let waiting = observed.until_state(SourceState::Syncing).await?;
    ensure!(
        !waiting.synced && observed.informer().snapshot().is_empty(),
        "{waiting:?}"
    );
    ensure!(observed.handler.calls().is_empty(), "a partial state was delivered");

    testbed.proxy.set_new(Mode::Pass);
    testbed.proxy.set_open(Mode::Reset);
    observed.settle(&testbed.direct).await?;
    let late = observed.metric("informant_reflector_watch_lists_total", &["result=\"late\""]);
    ensure!(late >= 1.0, "{late}");
    Ok(())
}

pub(crate) async fn frequent_clean_watch_ends_lose_nothing(cluster: &Cluster, name: &str) -> Result<()> {
    let testbed = Testbed::prepare(cluster, &label(name), 1).await?;
    testbed.fill("kept", 5, 10).await?;
    let second = Duration::from_secs(1);
    for watch_list in [true, false] {
        let setting = Setting {
            watch_list,
            watch_timeout_min: second,
            speed: 1,
            ..Setting::config_maps(&testbed.namespace)
        };
        let observed = testbed.observe(setting).await?;
        let mut round = 0;
        wait::until(
            "a third watch, while something is written",
            ARRIVES_WITHIN,
            async || {
                round += 1;
                let name = format!("kept-{}", round % 5);
                let written = testbed.change(&name, &round.to_string()).await;
                written.map_err(|error| format!("{error:#}"))?;
                match observed.status().watches {
                    3.. => Ok(()),
                    watches => Err(format!("{watches} watches")),
                }
            },
        )
        .await?;
        observed.settle(&testbed.direct).await?;
        let status = observed.status();
        ensure!(status.relists == 0 && status.lists == 1, "{status:?}");
    }
    Ok(())
}
