//! A rolling update under load: the replicas end and start again one after the other, as a StatefulSet does it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::group::{Group, REPLICAS};
use super::{Bench, PUBLISHED};
use crate::bench::figure::thousands;
use crate::wait;

/// Updates per second.
const EVENTS_PER_SECOND: u32 = 1_000;

/// For how long it lasts before the first replica ends, and after the last has started.
const BEFORE_AND_AFTER: Duration = Duration::from_secs(3);

/// The annotation that each update changes.
const WRITTEN: &str = "bench/written-us";

/// The deadline for the last states.
const DONE_WITHIN: Duration = Duration::from_secs(120);

/// Measures it. Returns whether nothing was lost, which is an error otherwise.
pub(super) async fn measure(bench: &mut Bench) -> Result<bool> {
    let mut group = bench.group("rolling", "normal", "config = { each = true }\n").await?;
    let is_done = AtomicBool::new(false);
    let (began, load) = (Instant::now(), &mut bench.load);
    let load = async {
        let mut updates = 0;
        while !is_done.load(Ordering::Relaxed) {
            load.paced(EVENTS_PER_SECOND, 1).await?;
            updates += EVENTS_PER_SECOND;
        }
        anyhow::Ok((updates, began.elapsed()))
    };
    let roll = async {
        let rolled = roll(&mut group).await;
        is_done.store(true, Ordering::Relaxed);
        rolled
    };
    let (loaded, rolled) = tokio::join!(load, roll);
    let ((updates, took), handovers) = (loaded?, rolled?);
    wait_for_last_states(bench, &group).await?;
    println!(
        "a rolling update of {REPLICAS} replicas in {:.0} s, {handovers} hand-overs, {} updates, {:.0} a second: \
         the last state of each pod was accepted",
        took.as_secs_f64(),
        thousands(f64::from(updates)),
        f64::from(updates) / took.as_secs_f64(),
    );
    Ok(true)
}

/// Replaces the replicas from the last to the first. Returns how often another one acted.
async fn roll(group: &mut Group) -> Result<u32> {
    tokio::time::sleep(BEFORE_AND_AFTER).await;
    let mut handovers = 0;
    for number in (0..REPLICAS).rev() {
        let acting = group.acting().await?;
        group.end(number, "TERM").await?;
        group.start_again(number).await?;
        handovers += u32::from(group.acting().await? != acting);
    }
    tokio::time::sleep(BEFORE_AND_AFTER).await;
    Ok(handovers)
}

/// Waits until one of the replicas has handled the last update of each pod.
pub(super) async fn wait_for_last_states(bench: &Bench, group: &Group) -> Result<()> {
    let list = bench.cluster.client().await?.get("/api/v1/pods").await?;
    let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
    let annotations = items.iter().map(|pod| &pod["metadata"]["annotations"][WRITTEN]);
    let last: BTreeSet<u64> = annotations
        .filter_map(|written| written.as_str()?.parse().ok())
        .collect();
    ensure!(!last.is_empty(), "no pod was updated");
    wait::until("the last state of each pod", DONE_WITHIN, async || {
        tokio::time::sleep(PUBLISHED / 10).await;
        let handled = group.replicas.iter().flat_map(|replica| replica.handled());
        let handled: BTreeSet<u64> = handled.map(|event| event.written_us).collect();
        match last.difference(&handled).count() {
            0 => Ok(()),
            left => Err(format!("{left} of {} are not handled", last.len())),
        }
    })
    .await
}
