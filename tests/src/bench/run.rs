//! One run: one subject over one cluster's pods, phase by phase.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::figures::Figures;
use super::load::{self, Load};
use super::subject::{Lags, Program, Subject, Sync, Told};
use super::usage::Usage;
use super::{Args, DONE_WITHIN};
use crate::cluster::{Cluster, Kind};
use crate::wait;

/// How many events come at once in a burst: less than a watch may leave unread before the API server closes it.
const BURST_EVENTS: u32 = 3_000;

/// How many updates a second the lag is measured at.
const LAG_EVENTS_PER_SECOND: u32 = 1_000;

/// How long a subject is given to become quiet before its memory is read.
const SETTLES_IN: Duration = Duration::from_secs(2);

/// What the program costs with an empty cluster: start, artefact, first list.
pub(super) async fn base(program: &Program, sync: Sync) -> Result<Usage> {
    let cluster = Cluster::start(Kind::Embedded).await?;
    let start = async || program.start(cluster.folder(), &cluster.kubeconfig(), sync).await;
    // Once to fill caches on disk, once to measure.
    drop(start().await?);
    let subject = start().await?;
    tokio::time::sleep(SETTLES_IN).await;
    subject.usage()
}

/// Starts `program` on a cluster that holds `load`'s pods, and measures all phases.
pub(super) async fn run(
    args: &Args,
    program: &Program,
    sync: Sync,
    base: Usage,
    cluster: &Cluster,
    load: &mut Load,
) -> Result<Figures> {
    let subject = program.start(cluster.folder(), &cluster.kubeconfig(), sync).await?;
    let objects = load.objects();
    until(&subject, "the adds", |told| told.adds >= u64::from(objects)).await?;
    tokio::time::sleep(SETTLES_IN).await;
    let synced = subject.usage()?;
    let mut figures = Figures {
        objects: f64::from(objects),
        sync_cpu_us: micros(synced.cpu.saturating_sub(base.cpu)),
        base_bytes: base.resident_bytes,
        steady_bytes: synced.resident_bytes,
        ..Figures::default()
    };
    figures.sync_us = figures.sync_cpu_us / figures.objects;
    bursts(args, &subject, load, &mut figures).await?;
    one_by_one(args, &subject, load, &mut figures).await?;
    figures.updated_bytes = subject.usage()?.resident_bytes;
    relist(&subject, cluster, &mut figures).await?;
    lag(args, &subject, load, &mut figures).await?;
    figures.peak_bytes = subject.usage()?.peak_bytes;
    Ok(figures)
}

/// Stopped, the subject finds all events of a burst at once when it goes on.
async fn bursts(args: &Args, subject: &Subject, load: &mut Load, figures: &mut Figures) -> Result<()> {
    let (mut cpu, mut wall, mut events) = (Duration::ZERO, Duration::ZERO, 0);
    while events < args.events {
        let before = subject.told().await?.updates;
        let usage = subject.usage()?;
        subject.process().signal("STOP").await?;
        load.update(BURST_EVENTS).await?;
        let began = Instant::now();
        subject.process().signal("CONT").await?;
        let expected = before + u64::from(BURST_EVENTS);
        wall += quiet(subject, began).await?;
        until(subject, "a burst", |told| told.updates >= expected).await?;
        cpu += subject.usage()?.cpu - usage.cpu;
        events += BURST_EVENTS;
    }
    figures.burst_event_us = per(cpu, events);
    figures.burst_rate = f64::from(events) / wall.as_secs_f64();
    figures.burst_busy = cpu.as_secs_f64() / wall.as_secs_f64();
    Ok(())
}

/// As fast as the API server takes writes, each event on its own.
async fn one_by_one(args: &Args, subject: &Subject, load: &mut Load, figures: &mut Figures) -> Result<()> {
    if args.singles == 0 {
        return Ok(());
    }
    let expected = subject.told().await?.updates + u64::from(args.singles);
    let before = subject.usage()?.cpu;
    load.update(args.singles).await?;
    until(subject, "single updates", |told| told.updates >= expected).await?;
    figures.single_event_us = per(subject.usage()?.cpu - before, args.singles);
    Ok(())
}

/// The watch is ended with 410, and the list that follows holds nothing new.
async fn relist(subject: &Subject, cluster: &Cluster, figures: &mut Figures) -> Result<()> {
    let lists = subject.told().await?.lists;
    let before = subject.usage()?.cpu;
    let expired = serde_json::json!({"drop-watches": {"filter": {"resource": "pods"}, "ending": "expired"}});
    cluster.client().await?.post("/informant/faults", &expired).await?;
    until(subject, "a list after 410", |told| told.lists > lists).await?;
    tokio::time::sleep(SETTLES_IN).await;
    figures.relist_us = micros(subject.usage()?.cpu - before) / figures.objects;
    Ok(())
}

/// A steady rate far below what anybody can take.
async fn lag(args: &Args, subject: &Subject, load: &mut Load, figures: &mut Figures) -> Result<()> {
    if args.lag_seconds == 0 {
        return Ok(());
    }
    // The last line of lags may still be due.
    let seconds = args.lag_seconds + 1;
    // What was measured before is about writes of an earlier subject's time.
    let earlier = subject.lags().len();
    load.paced(LAG_EVENTS_PER_SECOND, seconds).await?;
    let mut lags: Vec<Lags> = subject.lags().split_off(earlier);
    // The first line begins with those, and finds cold caches and a cold server.
    if lags.len() > 1 {
        lags.remove(0);
    }
    let median = |pick: fn(&Lags) -> u64| {
        let mut values: Vec<u64> = lags.iter().map(pick).collect();
        values.sort_unstable();
        values.get(values.len() / 2).map_or(f64::NAN, |value| *value as f64)
    };
    figures.lag_p50_us = median(|lags| lags.p50_us);
    figures.lag_p99_us = median(|lags| lags.p99_us);
    Ok(())
}

/// Waits until the subject is quiet and `enough` was told. It is asked only while it is quiet: answering is work for it.
async fn until(subject: &Subject, what: &str, enough: impl Fn(&Told) -> bool) -> Result<()> {
    wait::until(what, DONE_WITHIN, async || {
        if subject.is_busy().await.map_err(|error| format!("{error:#}"))? {
            return Err("it is busy".to_owned());
        }
        let told = subject.told().await.map_err(|error| format!("{error:#}"))?;
        if enough(&told) {
            Ok(())
        } else {
            Err(format!("{told:?}"))
        }
    })
    .await
}

/// Waits until the subject is quiet; how long it was busy since `began`, the last glance not counted.
async fn quiet(subject: &Subject, began: Instant) -> Result<Duration> {
    let mut busy_until = began;
    let deadline = began + DONE_WITHIN;
    while Instant::now() < deadline {
        if !subject.is_busy().await? {
            return Ok(busy_until - began);
        }
        busy_until = Instant::now();
    }
    None.context("the subject was busy for longer than a burst may take")
}

fn micros(cpu: Duration) -> f64 {
    cpu.as_secs_f64() * 1e6
}

fn per(cpu: Duration, events: u32) -> f64 {
    micros(cpu) / f64::from(events)
}

/// The pods in a new cluster.
pub(super) async fn filled(objects: u32) -> Result<(Cluster, Load)> {
    let cluster = Cluster::start(Kind::Embedded).await?;
    let client = cluster.client().await?;
    load::create(&client, objects).await?;
    Ok((cluster, Load::new(client, objects)))
}
