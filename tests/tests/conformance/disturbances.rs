//! Connections that are sliced, slow, cut, reset, held, half open.

use std::time::Duration;

use anyhow::{Result, ensure};
use informant_cache::SourceState;
use informant_informer::WatchListUse;
use informant_tests::chaos::Mode;
use informant_tests::cluster::Cluster;
use informant_tests::conformance::{ARRIVES_WITHIN, Ground, Setting};
use informant_tests::wait;

use crate::label;

/// The weather of a bad day: half of the connections end before a state has come whole.
const WEATHER: &[Mode] = &[
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

/// How many rounds of writes there are; in each at least one connection is cut.
const ROUNDS: usize = 16;

/// After so many writes without a cut the connections that are open by then are cut.
const PATIENCE_WRITES: usize = 16;

pub(crate) async fn everything_arrives_through_slices_drips_cuts_and_resets(
    cluster: &Cluster,
    name: &str,
) -> Result<()> {
    let ground = Ground::prepare(cluster, &label(name), 7).await?;
    ground.fill("kept", 40, 1_000).await?;
    ground.proxy.draw_new(WEATHER);
    let streamed = ground.observe(Setting::config_maps(&ground.namespace)).await?;
    let paged = Setting {
        watch_list: false,
        page_items: Some(7),
        ..Setting::config_maps(&ground.namespace)
    };
    let paged = ground.observe(paged).await?;
    for round in 0..ROUNDS {
        let resets = ground.proxy.resets();
        ground.proxy.set_open(Mode::CutAfter { bytes: 500 });
        for number in 0..4 {
            let value = round.to_string();
            ground
                .change(&format!("kept-{}", 10 + (round * 3 + number) % 30), &value)
                .await?;
        }
        ground.create(&format!("new-{round}"), "new").await?;
        if round % 3 == 2 {
            ground.delete(&format!("new-{}", round - 1)).await?;
            // The same name again is another object.
            ground.create(&format!("new-{}", round - 1), "again").await?;
            if round < 10 {
                ground.delete(&format!("kept-{round}")).await?;
            }
        }
        until_cut(&ground, resets).await?;
    }
    ground.proxy.set(Mode::Pass);
    for observed in [&streamed, &paged] {
        observed.settle(&ground.direct).await?;
        ensure!(
            !observed.last_error().is_empty(),
            "nothing went wrong: {:?}",
            observed.status()
        );
    }
    Ok(())
}

/// Waits until more than `resets` connections were cut: by the weather or, if that is too fine, by us. One without
/// traffic is not cut, so that something is written for as long as it takes.
async fn until_cut(ground: &Ground, resets: usize) -> Result<()> {
    let mut writes = 0;
    wait::until("a connection to be cut", ARRIVES_WITHIN, async || {
        if ground.proxy.resets() > resets {
            return Ok(());
        }
        writes += 1;
        if writes % PATIENCE_WRITES == 0 {
            ground.proxy.set_open(Mode::CutAfter { bytes: 500 });
        }
        let written = ground.change("kept-10", &"y".repeat(1_000 + writes)).await;
        written.map_err(|error| format!("{error:#}"))?;
        Err(format!("after {writes} writes none is"))
    })
    .await
}

pub(crate) async fn a_half_open_watch_is_found_out_and_loses_nothing(cluster: &Cluster, name: &str) -> Result<()> {
    let ground = Ground::prepare(cluster, &label(name), 1).await?;
    ground.fill("kept", 5, 10).await?;
    let observed = ground.observe(Setting::config_maps(&ground.namespace)).await?;
    observed.settle(&ground.direct).await?;
    let before = observed.status();

    ground.proxy.set_open(Mode::HalfOpen);
    ground.create("new", "1").await?;
    ground.change("kept-0", "2").await?;
    ground.delete("kept-1").await?;
    observed.settle(&ground.direct).await?;

    let after = observed.status();
    ensure!(after.watches > before.watches, "the same watch: {after:?}");
    ensure!(after.last_error.is_some(), "{after:?}");
    // It went on where it was: nothing was listed again, and the delete was seen, not concluded.
    ensure!(after.relists == 0, "{after:?}");
    let gone = observed.witness.calls_of("kept-1");
    ensure!(gone.len() == 2, "{gone:?}");
    Ok(())
}

pub(crate) async fn a_network_that_swallows_everything_shows_as_stale_and_heals(
    cluster: &Cluster,
    name: &str,
) -> Result<()> {
    let ground = Ground::prepare(cluster, &label(name), 1).await?;
    ground.fill("kept", 5, 10).await?;
    let observed = ground.observe(Setting::config_maps(&ground.namespace)).await?;
    observed.settle(&ground.direct).await?;

    ground.proxy.set(Mode::HalfOpen);
    ground.delete("kept-0").await?;
    ground.create("kept-0", "another").await?;
    let stale = observed.until_state(SourceState::Stale).await?;
    ensure!(stale.synced && observed.informer().snapshot().len() == 5, "{stale:?}");
    ensure!(stale.last_error.is_some(), "{stale:?}");

    // The connections that were swallowed stay so; only new ones get through.
    ground.proxy.set_new(Mode::Pass);
    observed.settle(&ground.direct).await?;
    Ok(())
}

pub(crate) async fn a_first_state_that_stops_half_way_is_not_shown_and_asked_for_otherwise(
    cluster: &Cluster,
    name: &str,
) -> Result<()> {
    let ground = Ground::prepare(cluster, &label(name), 1).await?;
    ground.fill("kept", 40, 1_000).await?;
    ground.proxy.set_new(Mode::HoldAfter { bytes: 20_000 });
    let observed = ground.observe(Setting::config_maps(&ground.namespace)).await?;
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
    ensure!(observed.witness.calls().is_empty(), "half a state was told");

    ground.proxy.set_new(Mode::Pass);
    ground.proxy.set_open(Mode::Reset);
    observed.settle(&ground.direct).await?;
    let late = observed.metric("informant_reflector_watch_lists_total", &["result=\"late\""]);
    ensure!(late >= 1.0, "{late}");
    Ok(())
}

pub(crate) async fn watches_that_end_cleanly_all_the_time_lose_nothing(cluster: &Cluster, name: &str) -> Result<()> {
    let ground = Ground::prepare(cluster, &label(name), 1).await?;
    ground.fill("kept", 5, 10).await?;
    let second = Duration::from_secs(1);
    for watch_list in [true, false] {
        let setting = Setting {
            watch_list,
            watch_timeout_min: second,
            haste: 1,
            ..Setting::config_maps(&ground.namespace)
        };
        let observed = ground.observe(setting).await?;
        let mut round = 0;
        wait::until(
            "a third watch, while something is written",
            ARRIVES_WITHIN,
            async || {
                round += 1;
                let name = format!("kept-{}", round % 5);
                let written = ground.change(&name, &round.to_string()).await;
                written.map_err(|error| format!("{error:#}"))?;
                match observed.status().watches {
                    3.. => Ok(()),
                    watches => Err(format!("{watches} watches")),
                }
            },
        )
        .await?;
        observed.settle(&ground.direct).await?;
        let status = observed.status();
        ensure!(status.relists == 0 && status.lists == 1, "{status:?}");
    }
    Ok(())
}
