//! What the caches take that have a budget: all pods are listed, indexed and handled, although not all fit.
//!
//! The handler reads fields that the cache does not have of pods that were shed, so each of these is read again.

use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::Value;

use super::cores::Cores;
use super::figure::thousands;
use super::rig::Rig;
use super::subject::budget_config;
use super::{subject, targets, usage};
use crate::daemon::Daemon;
use crate::guests;
use crate::wait;

/// So little that all pods are shed.
const LEAST: &str = "1MiB";

/// What one round has shown.
struct Round {
    synced_seconds: f64,
    handled_seconds: f64,
    heads: u64,
    peak_bytes: f64,
    /// Of one pod in the store once all are shed, with its index entries.
    shed_pod_bytes: f64,
    indexed: bool,
}

/// Measures `rounds` rounds with `objects` pods each and the budget `max_bytes`, and prints them. Returns whether all
/// meet the targets.
pub(super) async fn measure(cores: &Cores, objects: u32, max_bytes: &str, rounds: u32) -> Result<bool> {
    println!(
        "\nbudget of the caches: {} pods, max-bytes = {max_bytes}",
        thousands(f64::from(objects))
    );
    let mut met = true;
    for number in 1..=rounds {
        let round = measure_round(cores, objects, max_bytes).await?;
        let is_met = round.indexed && round.shed_pod_bytes <= targets::SHED_POD_BYTES;
        println!(
            "run {number}: synced in {:.1} s, all handled in {:.1} s; {} pods are heads; peak memory {:.0} MiB; a shed pod \
             takes {:.0} bytes (at most {}): {}",
            round.synced_seconds,
            round.handled_seconds,
            thousands(round.heads as f64),
            round.peak_bytes / 1_048_576.0,
            round.shed_pod_bytes,
            targets::SHED_POD_BYTES,
            targets::word(is_met)
        );
        met &= is_met;
    }
    Ok(met)
}

async fn measure_round(cores: &Cores, objects: u32, max_bytes: &str) -> Result<Round> {
    let rig = Rig::filled(cores, false, objects).await?;
    let component = guests::component("guest-measured")?;
    let config = budget_config(&component, max_bytes);
    let began = Instant::now();
    let daemon = Daemon::start_under(
        &cores.subject(),
        rig.cluster.folder(),
        &rig.cluster.kubeconfig(),
        &config,
    )
    .await?;
    wait_for(
        &daemon,
        "objects in the cache",
        async || Ok(source(&daemon).await?["objects"].as_u64()),
        objects,
    )
    .await?;
    let synced_seconds = began.elapsed().as_secs_f64();
    wait_for(
        &daemon,
        "handled pods",
        async || handled(&daemon).await.map(Some),
        objects,
    )
    .await?;
    let handled_seconds = began.elapsed().as_secs_f64();
    let heads = source(&daemon).await?["heads"].as_u64().unwrap_or_default();
    let peak_bytes = usage::of(daemon.process().id().context("the daemon has ended")?)?.peak_bytes;
    let (code, out, _) = daemon
        .command(&["get", "pods", "--index", "node=node-1", "-o", "name"])
        .await?;
    daemon.write_config(&budget_config(&component, LEAST)).await?;
    wait_for(
        &daemon,
        "shed pods",
        async || Ok(source(&daemon).await?["heads"].as_u64()),
        objects,
    )
    .await?;
    let bytes = source(&daemon).await?["bytes"].as_f64().unwrap_or(f64::INFINITY);
    Ok(Round {
        synced_seconds,
        handled_seconds,
        heads,
        peak_bytes,
        shed_pod_bytes: bytes / f64::from(objects),
        indexed: code == 0 && !out.is_empty(),
    })
}

/// The only source.
async fn source(daemon: &Daemon) -> Result<Value> {
    let sources = daemon.json("/api/v1/sources").await?;
    sources["items"].get(0).cloned().context("there is no source")
}

async fn handled(daemon: &Daemon) -> Result<u64> {
    let labels = ["event=\"add\"", "result=\"ok\""];
    let handled = daemon.metric("informant_handler_events_total", &labels).await?;
    Ok(handled.unwrap_or_default() as u64)
}

async fn wait_for(
    daemon: &Daemon,
    what: &str,
    count: impl AsyncFn() -> Result<Option<u64>>,
    wanted: u32,
) -> Result<()> {
    let reached = async || match count().await.map_err(|error| format!("{error:#}"))? {
        Some(count) if count >= u64::from(wanted) => Ok(()),
        count => Err(format!("{count:?} of {wanted}")),
    };
    let waited = wait::until(what, subject::BUDGET_DONE_WITHIN, reached).await;
    waited.with_context(|| daemon.process().tail())
}
