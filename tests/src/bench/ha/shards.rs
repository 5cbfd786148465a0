//! Replicas that divide the objects: what each costs, how long the shards of one that is killed are without it, and
//! whether a group that grows and shrinks under load loses something.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::Bench;
use super::group::{Group, called_once};
use super::model::{self, Comparison, Kill, Measured, Part};
use super::rolling::wait_for_last_states;
use crate::bench::cores::Cores;
use crate::bench::figure::thousands;
use crate::bench::load::{self, Load, Spread};
use crate::bench::usage::{self, Usage};
use crate::bench::{subject, targets};
use crate::cluster::{Cluster, Kind};
use crate::{guests, wait};

const SHARDS: u8 = 8;

const REPLICAS: usize = 4;

const NAMESPACES: u32 = 200;

/// Pods while replicas are killed, come and go: at most so many, as the API server of a small machine needs longer for
/// its lists than all else takes.
const MOVED_PODS: u32 = 20_000;

/// The deadline for equal shares: a shard moves after the one before it, to a replica that has been ready for 10 s.
const SHARED_WITHIN: Duration = Duration::from_secs(600);

/// The deadline for their lists, of which each that gains a shard needs one.
const LISTED_WITHIN: Duration = Duration::from_secs(900);

/// How long replicas run before their memory is compared.
const SETTLED: Duration = Duration::from_secs(15);

/// Updates per second while the group grows and shrinks.
const EVENTS_PER_SECOND: u32 = 500;

const NAMESPACES_CONFIG: &str = "\n[informer.namespaces]\nresource = \"v1/namespaces\"\n";

/// Measures all parts, the shares of what is read with `objects` pods, and prints them, next to what the model says.
/// A replica is killed `times` times at each speed. Returns whether all meet the targets.
pub(in crate::bench) async fn measure(cores: &Cores, objects: u32, times: u32) -> Result<bool> {
    println!(
        "\nshards: {SHARDS} on {REPLICAS} replicas, {} pods in {NAMESPACES} namespaces",
        thousands(f64::from(objects))
    );
    let (teams, random) = (Spread::Teams(NAMESPACES), Spread::Random(NAMESPACES));
    let mut is_met = true;
    let mut measured = Measured::new(SHARDS, objects, NAMESPACES);
    // With gate, the API server sends what `hash = "raw"` selects.
    for (hash, has_gate, spread, most_cpu) in [
        ("mixed", false, teams, targets::SHARD_SYNC_CPU),
        ("raw", true, random, targets::RAW_SHARD_SYNC_CPU),
    ] {
        let bench = Bench::filled(cores, has_gate, objects, spread).await?;
        is_met &= parts(&bench, hash, most_cpu, &mut measured).await?;
    }
    let moved = objects.min(MOVED_PODS);
    println!("with {} pods:", thousands(f64::from(moved)));
    let mut bench = Bench::filled(cores, false, moved, teams).await?;
    is_met &= events(&mut bench, &mut measured).await?;
    for (speed, most_seconds) in [
        ("fast", targets::FAST_SHARD_SECONDS),
        ("normal", targets::SHARD_SECONDS),
    ] {
        is_met &= kills(&bench, ("mixed", speed), (times, most_seconds), &mut measured).await?;
    }
    is_met &= grow_and_shrink(&mut bench, &mut measured).await?;
    drop(bench);
    let bench = Bench::filled(cores, true, moved, random).await?;
    let most_seconds = targets::FAST_SHARD_SECONDS;
    is_met &= kills(&bench, ("raw", "fast"), (times, most_seconds), &mut measured).await?;
    let lines: Vec<String> = model::compare(&measured).iter().map(Comparison::line).collect();
    println!("computed by the model, which has no targets:\n{}", lines.join("\n"));
    Ok(is_met)
}

impl Bench {
    async fn filled(cores: &Cores, has_gate: bool, objects: u32, spread: Spread) -> Result<Bench> {
        let cluster = match has_gate {
            true => Cluster::start_with_shards().await?,
            false => Cluster::start(Kind::Real).await?,
        };
        load::copy_in(&cluster, objects, spread).await?;
        Ok(Bench {
            cores: cores.clone(),
            load: Load::of(cluster.client().await?, objects, spread),
            cluster,
        })
    }

    /// A group that has grown to so many replicas, one after the other, and has equal shares. `measured` receives how
    /// long that took.
    async fn divided(
        &self,
        (name, ha): (&str, &str),
        replicas: usize,
        plugin: &str,
        measured: &mut Measured,
    ) -> Result<Group> {
        let component = guests::component("guest-measured")?;
        // A small list shows soon that the API server supports WatchList: one of all pods takes it longer.
        let config = subject::config_of("", &component, plugin) + NAMESPACES_CONFIG;
        let ha = format!("shards = {SHARDS}\n{ha}");
        let mut group = Group { replicas: Vec::new() };
        for _ in 0..replicas {
            group.add(&self.cores, &self.cluster, (name, &ha), &config).await?;
        }
        let ready = Instant::now();
        shared(&group).await?;
        let seconds = ready.elapsed().as_secs_f64();
        measured.equal_shares.push((u32::try_from(replicas)?, seconds));
        self.listed(&group).await?;
        Ok(group)
    }

    /// Waits until the replicas have the objects of their shards: a list may take longer than a hand-over.
    async fn listed(&self, group: &Group) -> Result<()> {
        let all = u64::from(self.load.objects());
        wait::until("each object in one replica", LISTED_WITHIN, async || {
            let mut held = Vec::new();
            let mut list = false;
            for replica in &group.replicas {
                held.push(replica.objects().await.map_err(|error| format!("{error:#}"))?);
                list |= replica.lists().await.map_err(|error| format!("{error:#}"))?;
            }
            let is_done = !list && held.iter().sum::<u64>() == all;
            is_done.then_some(()).ok_or_else(|| format!("{held:?}"))
        })
        .await
    }
}

/// Waits until each replica holds an equal share.
async fn shared(group: &Group) -> Result<()> {
    wait::until("equal shares", SHARED_WITHIN, async || {
        let mut held = Vec::new();
        for replica in &group.replicas {
            held.push(replica.shards().await.map_err(|error| format!("{error:#}"))?);
        }
        let share = usize::from(SHARDS) / group.replicas.len();
        held.iter()
            .all(|held| *held == share)
            .then_some(())
            .ok_or_else(|| format!("{held:?}"))
    })
    .await
}

/// Compares the largest replica with one process that has everything.
async fn parts(bench: &Bench, hash: &str, most_cpu: f64, measured: &mut Measured) -> Result<bool> {
    let began = Instant::now();
    let name = format!("whole-{hash}");
    let whole = bench.divided((&name, ""), 1, "", measured).await?;
    called_once(&whole.replicas[0], bench.load.objects()).await?;
    measured.whole_seconds.get_or_insert(began.elapsed().as_secs_f64());
    tokio::time::sleep(SETTLED).await;
    let whole = whole.replicas[0].usage()?;
    let (name, ha) = (format!("parts-{hash}"), format!("hash = {hash:?}"));
    let mut group = bench.divided((&name, &ha), REPLICAS, "", measured).await?;
    // The first one has had everything for a while, until the others came.
    group.end(0, "TERM").await?;
    group.start_again(0).await?;
    shared(&group).await?;
    bench.listed(&group).await?;
    tokio::time::sleep(SETTLED).await;
    let mut parts: Vec<Usage> = Vec::new();
    for replica in &group.replicas {
        parts.push(replica.usage()?);
    }
    let memory = parts.iter().map(|part| part.resident_bytes).fold(0.0, f64::max) / whole.resident_bytes;
    let cpu = parts[0].cpu.as_secs_f64() / whole.cpu.as_secs_f64();
    measured.parts.push(Part {
        replicas: u32::try_from(REPLICAS)?,
        selects: hash == "raw",
        memory_ratio: memory,
        cpu_ratio: cpu,
    });
    let (small, cheap) = (memory <= targets::SHARD_MEMORY, cpu <= most_cpu);
    println!(
        "hash = {hash:?}: memory {:.0} MiB of one process with everything; the largest replica has {memory:.2} of it (at \
         most {}: {}); CPU until it is synced {:.2} s, of a replica that comes {cpu:.2} of it (at most {most_cpu}: {})",
        whole.resident_bytes / 1_048_576.0,
        targets::SHARD_MEMORY,
        targets::word(small),
        whole.cpu.as_secs_f64(),
        targets::word(cheap)
    );
    Ok(small && cheap)
}

/// The CPU of a handled event, of two replicas together, compared with that of one, and that of the API server. Each
/// pod is updated once, in the database: the API server accepts so few updates a second that the time between them
/// would cost more than they do.
async fn events(bench: &mut Bench, measured: &mut Measured) -> Result<bool> {
    let updates = bench.load.objects();
    let server = bench.cluster.apiserver_id().context("the API server has ended")?;
    let us = |cpu: Duration| cpu.as_secs_f64() * 1e6 / f64::from(updates);
    let (mut per_event, mut of_server) = (Vec::new(), Vec::new());
    for replicas in [1, 2] {
        let name = format!("events-{replicas}");
        let group = bench.divided((&name, ""), replicas, "", measured).await?;
        tokio::time::sleep(SETTLED).await;
        let (before, server_before) = (cpu(&group)?, usage::of(server)?.cpu);
        let handled = calls(&group, "update").await?;
        bench.load.update_copies(&bench.cluster).await?;
        wait::until("each update to be handled", SHARED_WITHIN, async || {
            let now = calls(&group, "update").await.map_err(|error| format!("{error:#}"))?;
            (now >= handled + u64::from(updates))
                .then_some(())
                .ok_or_else(|| format!("{now}"))
        })
        .await?;
        per_event.push(us(cpu(&group)? - before));
        of_server.push(us(usage::of(server)?.cpu - server_before));
    }
    let ratio = per_event[1] / per_event[0];
    let is_met = ratio <= targets::SHARD_EVENT_CPU;
    println!(
        "CPU of a handled event: {:.1} us of one replica, {:.1} us of two together: {ratio:.2} (at most {}: {}); of the \
         API server {:.0} and {:.0} us",
        per_event[0],
        per_event[1],
        targets::SHARD_EVENT_CPU,
        targets::word(is_met),
        of_server[0],
        of_server[1]
    );
    Ok(is_met)
}

fn cpu(group: &Group) -> Result<Duration> {
    let mut sum = Duration::ZERO;
    for replica in &group.replicas {
        sum += replica.usage()?.cpu;
    }
    Ok(sum)
}

async fn calls(group: &Group, event: &str) -> Result<u64> {
    let mut sum = 0;
    for replica in &group.replicas {
        sum += replica.calls(event).await?;
    }
    Ok(sum)
}

/// Kills one of the replicas: until each object of its shards was called once more elsewhere.
async fn kills(
    bench: &Bench,
    (hash, speed): (&str, &str),
    (times, most_seconds): (u32, f64),
    measured: &mut Measured,
) -> Result<bool> {
    let (name, ha) = (
        format!("kills-{hash}-{speed}"),
        format!("hash = {hash:?}\nspeed = {speed:?}"),
    );
    let mut group = bench.divided((&name, &ha), REPLICAS, "", measured).await?;
    let mut longest: f64 = 0.0;
    for kill in 0..times {
        let number = kill as usize % REPLICAS;
        let lost = group.replicas[number].objects().await?;
        let before = calls_but(&group, number).await?;
        let began = Instant::now();
        group.end(number, "KILL").await?;
        wait::until("the objects of a killed replica", SHARED_WITHIN, async || {
            let now = calls_but(&group, number).await.map_err(|error| format!("{error:#}"))?;
            (now >= before + lost)
                .then_some(())
                .ok_or_else(|| format!("{} of {lost}", now - before))
        })
        .await?;
        longest = longest.max(began.elapsed().as_secs_f64());
        group.start_again(number).await?;
        shared(&group).await?;
        bench.listed(&group).await?;
    }
    measured.kills.push(Kill {
        replicas: u32::try_from(REPLICAS)?,
        objects: bench.load.objects(),
        selects: hash == "raw",
        is_fast: speed == "fast",
        seconds: longest,
    });
    let is_met = longest <= most_seconds;
    println!(
        "hash = {hash:?}, speed = {speed:?}: one of {REPLICAS} killed {times} times: at most {longest:.2} s until each object of its shards \
         was called elsewhere (first calls at most {most_seconds} s: {})",
        targets::word(is_met)
    );
    Ok(is_met)
}

async fn calls_but(group: &Group, number: usize) -> Result<u64> {
    let mut sum = 0;
    for (_, replica) in group.replicas.iter().enumerate().filter(|(of, _)| *of != number) {
        sum += replica.calls("add").await?;
    }
    Ok(sum)
}

/// From one replica to four and to two, under load.
async fn grow_and_shrink(bench: &mut Bench, measured: &mut Measured) -> Result<bool> {
    let config = "config = { each = true }\n";
    let mut group = bench.divided(("grows", ""), 1, config, measured).await?;
    called_once(&group.replicas[0], bench.load.objects()).await?;
    let began = Instant::now();
    let (cores, component) = (bench.cores.clone(), guests::component("guest-measured")?);
    let (config, ha) = (
        subject::config_of("", &component, config),
        format!("shards = {SHARDS}\n"),
    );
    let is_done = std::sync::atomic::AtomicBool::new(false);
    let (cluster, load) = (&bench.cluster, &mut bench.load);
    let load = async {
        while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
            load.paced(EVENTS_PER_SECOND, 1).await?;
        }
        anyhow::Ok(())
    };
    let moves = async {
        let moved = async {
            for _ in 1..REPLICAS {
                group.add(&cores, cluster, ("grows", &ha), &config).await?;
            }
            shared(&group).await?;
            for number in (REPLICAS / 2..REPLICAS).rev() {
                group.end(number, "TERM").await?;
            }
            anyhow::Ok(())
        };
        let moved = moved.await;
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        moved
    };
    let (loaded, moved) = tokio::join!(load, moves);
    loaded?;
    moved?;
    wait_for_last_states(bench, &group).await?;
    println!(
        "1, {REPLICAS} and {} replicas under {EVENTS_PER_SECOND} updates a second, in {:.0} s: the last state of each pod was \
         accepted",
        REPLICAS / 2,
        began.elapsed().as_secs_f64()
    );
    Ok(true)
}
