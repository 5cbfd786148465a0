//! Replicas on a real kube-apiserver: how long a takeover takes, what it repeats, what a standby costs, and what it
//! costs to keep what plugins remember in the API server.

mod group;
pub(super) mod model;
mod remembered;
mod rolling;
pub(super) mod shards;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::cores::Cores;
use super::figure::thousands;
use super::load::{self, Load};
use super::targets;
use crate::cluster::{Cluster, Kind};
use crate::guests;
use group::{Group, called_once};

/// Orderly stops that are measured.
const STOPS: u32 = 10;

/// How long replicas run before their memory is compared.
const SETTLED: Duration = Duration::from_secs(10);

/// Longer than a holder takes to publish how far its handlers are.
const PUBLISHED: Duration = Duration::from_secs(4);

/// Pods that change between a kill and the successor's first call.
const CHANGED: u32 = 100;

/// Updates per second while replicas are killed that continue.
const CONTINUED_PER_SECOND: u32 = 200;

/// What all parts share: a cluster with its pods.
struct Bench {
    cores: Cores,
    cluster: Cluster,
    load: Load,
}

/// Measures all parts with `objects` pods and `kills` kills at each speed, and prints them. Returns whether all meet
/// the targets.
pub(super) async fn measure(cores: &Cores, objects: u32, kills: u32) -> Result<bool> {
    println!(
        "\nreplicas: {} of them, {} pods",
        group::REPLICAS,
        thousands(f64::from(objects))
    );
    let cluster = Cluster::start(Kind::Real).await?;
    let client = cluster.client().await?;
    load::create(&client, objects).await?;
    let mut bench = Bench {
        cores: cores.clone(),
        load: Load::new(client, objects),
        cluster,
    };
    let mut is_met = takeovers(&bench, "normal", kills, targets::TAKEOVER_SECONDS).await?;
    is_met &= takeovers(&bench, "fast", kills, targets::FAST_TAKEOVER_SECONDS).await?;
    is_met &= continued(&mut bench).await?;
    is_met &= rolling::measure(&mut bench).await?;
    is_met &= remembered::measure(cores, &bench.cluster).await?;
    Ok(is_met)
}

impl Bench {
    async fn group(&self, name: &str, speed: &str, plugin: &str) -> Result<Group> {
        let component = guests::component("guest-measured")?;
        let config = super::subject::config_of("", &component, plugin);
        Group::start(&self.cores, &self.cluster, name, speed, &config).await
    }
}

/// Kills and orderly stops without changes: each takeover calls once for each object. At the start the memory of the
/// replicas is compared.
async fn takeovers(bench: &Bench, speed: &str, kills: u32, most_seconds: f64) -> Result<bool> {
    let objects = bench.load.objects();
    let mut group = bench.group(speed, speed, "config = { first = true }\n").await?;
    called_once(group.holder().await?, objects).await?;
    tokio::time::sleep(SETTLED).await;
    let mut is_met = memory(&group).await?;
    for (what, signal, count, most) in [
        ("kill", "KILL", kills, most_seconds),
        ("orderly stop", "TERM", STOPS, targets::HANDOVER_SECONDS),
    ] {
        let mut seconds = Vec::new();
        for _ in 0..count {
            let (ended_us, successor) = group.succeed(signal).await?;
            called_once(&group.replicas[successor.number], objects).await?;
            seconds.push(successor.first_call_us.saturating_sub(ended_us) as f64 / 1e6);
        }
        seconds.sort_by(f64::total_cmp);
        let at = |per_cent: usize| seconds[(seconds.len() * per_cent).div_ceil(100).max(1) - 1];
        let ok = at(99) <= most;
        println!(
            "speed = {speed:?}: {what} to the successor's first call, {count} times: p50 {:.2} s, p99 {:.2} s, longest \
             {:.2} s (p99 at most {most} s: {}); each takeover called once for each of the {} pods",
            at(50),
            at(99),
            at(100),
            targets::word(ok),
            thousands(f64::from(objects))
        );
        is_met &= ok;
    }
    Ok(is_met)
}

/// Compares the memory of the standbys with that of the holder.
async fn memory(group: &Group) -> Result<bool> {
    let acting = group.acting().await?;
    let mut standby_bytes: f64 = 0.0;
    for (number, replica) in group.replicas.iter().enumerate() {
        if number != acting {
            standby_bytes = standby_bytes.max(replica.usage()?.resident_bytes);
        }
    }
    let holder_bytes = group.replicas[acting].usage()?.resident_bytes;
    let ratio = standby_bytes / holder_bytes;
    let ok = ratio <= targets::STANDBY_MEMORY_RATIO;
    println!(
        "memory: {:.1} MiB of the replica that acts, at most {:.1} MiB of a standby: {ratio:.2} (at most {}: {})",
        holder_bytes / 1_048_576.0,
        standby_bytes / 1_048_576.0,
        targets::STANDBY_MEMORY_RATIO,
        targets::word(ok)
    );
    Ok(ok)
}

/// With `on-start = "continue"` a takeover repeats what was not published as accepted, and nothing else.
async fn continued(bench: &mut Bench) -> Result<bool> {
    let plugin = "on-start = \"continue\"\nconfig = { each = true, first = true }\n";
    let mut group = bench.group("continue", "fast", plugin).await?;
    called_once(group.holder().await?, bench.load.objects()).await?;
    tokio::time::sleep(PUBLISHED).await;

    let acting = group.acting().await?;
    group.end(acting, "KILL").await?;
    bench.load.paced(CHANGED, 1).await?;
    let successor = group.successor(acting).await?;
    called_once(&group.replicas[successor.number], CHANGED).await?;
    println!(
        "on-start = \"continue\": {CHANGED} of the pods had changed before the takeover, which called for these alone"
    );
    group.start_again(acting).await?;

    let acting = successor.number;
    let (loaded, ended_us) = tokio::join!(bench.load.paced(CONTINUED_PER_SECOND, 20), async {
        tokio::time::sleep(PUBLISHED).await;
        group.end(acting, "KILL").await
    });
    loaded?;
    let ended_us = ended_us?;
    let successor = group.successor(acting).await?.number;
    rolling::wait_for_last_states(bench, &group).await?;
    let again: BTreeSet<u64> = group.replicas[successor]
        .handled()
        .iter()
        .map(|event| event.written_us)
        .collect();
    let before = group.replicas[acting].handled();
    let repeated: Vec<_> = before
        .iter()
        .filter(|event| again.contains(&event.written_us))
        .collect();
    let oldest_us = repeated
        .iter()
        .map(|event| ended_us.saturating_sub(event.handled_us))
        .max();
    let oldest_seconds = oldest_us.unwrap_or_default() as f64 / 1e6;
    let ok = oldest_seconds <= targets::WATERMARK_SECONDS;
    println!(
        "on-start = \"continue\", {CONTINUED_PER_SECOND} updates a second: a kill repeated {} calls, the oldest from \
         {oldest_seconds:.2} s before it (at most {} s: {}); nothing was lost",
        repeated.len(),
        targets::WATERMARK_SECONDS,
        targets::word(ok)
    );
    ensure!(!before.is_empty(), "the replica that was killed has handled nothing");
    Ok(ok)
}
