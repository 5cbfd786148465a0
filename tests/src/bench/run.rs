//! One run: one subject on one cluster's pods, phase by phase.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::cores::Cores;
use super::figure::{Figure, Figures, Phase};
use super::rig::{Rig, Used};
use super::subject::{HandlerCounts, Lags, Program, Subject, Sync};
use super::usage::Usage;
use super::{Args, DONE_WITHIN};
use crate::wait;

/// The number of events of a burst: fewer than a watch may leave unread before the API server closes it.
const BURST_EVENTS: u32 = 3_000;

/// The updates per second at which the lag is measured.
const LAG_EVENTS_PER_SECOND: u32 = 1_000;

/// How long a subject may take to become idle before its memory is read.
const SETTLES_IN: Duration = Duration::from_secs(2);

/// The program's baseline with an empty cluster: start, artifact, first list.
pub(super) async fn baseline(program: &Program, sync: Sync, cores: &Cores, tls: bool) -> Result<Usage> {
    let rig = Rig::empty(cores, tls).await?;
    let start = async || program.start(cores, &rig.cluster, sync).await;
    // The first run fills the caches on disk, the second is measured.
    drop(start().await?);
    let subject = start().await?;
    tokio::time::sleep(SETTLES_IN).await;
    subject.usage()
}

/// Starts `program` on the rig's pods and measures all phases.
pub(super) async fn run(args: &Args, program: &Program, sync: Sync, baseline: Usage, rig: &mut Rig) -> Result<Figures> {
    let mut figures = Figures::default();
    let (subject, synced) = start(program, sync, rig, Phase::Sync, &mut figures).await?;
    let objects = f64::from(rig.load.objects());
    let cpu_us = micros(synced.cpu.saturating_sub(baseline.cpu));
    figures.set(Figure::SyncCpu, cpu_us);
    figures.set(Figure::Sync, cpu_us / objects);
    figures.set(Figure::Base, baseline.resident_bytes);
    figures.set(Figure::Steady, synced.resident_bytes);
    let per_object = |bytes: f64| (bytes - baseline.resident_bytes) / objects;
    figures.set(Figure::PerObject, per_object(synced.resident_bytes));
    let burst = bursts(args.events, &subject, rig, Phase::Bursts, &mut figures).await?;
    figures.set(Figure::Burst, burst);
    figures.set(Figure::BurstRate, 1e6 / burst);
    one_by_one(args, &subject, rig, &mut figures).await?;
    figures.set(Figure::PerObjectUpdated, per_object(subject.usage()?.resident_bytes));
    relist(&subject, rig, &mut figures).await?;
    lag(args, &subject, rig, &mut figures).await?;
    let peak = subject.usage()?.peak_bytes;
    figures.set(Figure::Peak, peak);
    figures.set(Figure::PeakRatio, peak / synced.resident_bytes);
    Ok(figures)
}

/// The same over TLS, to show its additional cost: the sync, and events in bursts.
pub(super) async fn run_tls(
    args: &Args,
    program: &Program,
    sync: Sync,
    baseline: Usage,
    rig: &mut Rig,
) -> Result<Figures> {
    let mut figures = Figures::default();
    let (subject, synced) = start(program, sync, rig, Phase::TlsSync, &mut figures).await?;
    let cpu_us = micros(synced.cpu.saturating_sub(baseline.cpu));
    figures.set(Figure::TlsSync, cpu_us / f64::from(rig.load.objects()));
    let burst = bursts(args.events, &subject, rig, Phase::TlsBursts, &mut figures).await?;
    figures.set(Figure::TlsBurst, burst);
    Ok(figures)
}

/// Starts `program` and waits until its handler received each object; returns its usage once it was idle.
async fn start(
    program: &Program,
    sync: Sync,
    rig: &Rig,
    phase: Phase,
    figures: &mut Figures,
) -> Result<(Subject, Usage)> {
    let since = rig.begin(None)?;
    let subject = program.start(&rig.cores, &rig.cluster, sync).await?;
    let objects = u64::from(rig.load.objects());
    until(&subject, "the adds", |counts| counts.adds >= objects).await?;
    rig.used(&since, &subject)?.note(phase, figures);
    tokio::time::sleep(SETTLES_IN).await;
    let usage = subject.usage()?;
    Ok((subject, usage))
}

/// The subject is stopped with SIGSTOP, so that it finds all events of a burst at once. CPU per event, in microseconds.
async fn bursts(count: u32, subject: &Subject, rig: &mut Rig, phase: Phase, figures: &mut Figures) -> Result<f64> {
    let (mut cpu, mut used, mut events) = (Duration::ZERO, Used::default(), 0);
    while events < count {
        let before = subject.counts().await?.updates;
        let usage = subject.usage()?;
        subject.process().signal("STOP").await?;
        rig.load.update(BURST_EVENTS).await?;
        let (began, since) = (Instant::now(), rig.begin(Some(subject))?);
        subject.process().signal("CONT").await?;
        let expected = before + u64::from(BURST_EVENTS);
        let wall = quiet(subject, began).await?;
        let during = rig.used(&since, subject)?;
        used.add(Used { wall, ..during });
        until(subject, "a burst", |counts| counts.updates >= expected).await?;
        cpu += subject.usage()?.cpu - usage.cpu;
        events += BURST_EVENTS;
    }
    used.note(phase, figures);
    Ok(per(cpu, events))
}

/// As fast as the API server accepts writes, each event on its own.
async fn one_by_one(args: &Args, subject: &Subject, rig: &mut Rig, figures: &mut Figures) -> Result<()> {
    if args.singles == 0 {
        return Ok(());
    }
    let expected = subject.counts().await?.updates + u64::from(args.singles);
    let since = rig.begin(Some(subject))?;
    rig.load.update(args.singles).await?;
    rig.used(&since, subject)?.note(Phase::Singles, figures);
    until(subject, "single updates", |counts| counts.updates >= expected).await?;
    let cpu = rig.used(&since, subject)?.subject;
    figures.set(Figure::Single, per(cpu, args.singles));
    Ok(())
}

/// The watch ends with 410, and the list that follows met no changes.
async fn relist(subject: &Subject, rig: &Rig, figures: &mut Figures) -> Result<()> {
    let lists = subject.counts().await?.lists;
    let since = rig.begin(Some(subject))?;
    let expired = serde_json::json!({"drop-watches": {"filter": {"resource": "pods"}, "ending": "expired"}});
    let client = rig.cluster.client().await?;
    client.post("/informant/faults", &expired).await?;
    until(subject, "a list after 410", |counts| counts.lists > lists).await?;
    rig.used(&since, subject)?.note(Phase::Relist, figures);
    tokio::time::sleep(SETTLES_IN).await;
    let cpu = rig.used(&since, subject)?.subject;
    figures.set(Figure::Relist, micros(cpu) / f64::from(rig.load.objects()));
    Ok(())
}

/// A steady rate far below the limit of any subject.
async fn lag(args: &Args, subject: &Subject, rig: &mut Rig, figures: &mut Figures) -> Result<()> {
    if args.lag_seconds == 0 {
        return Ok(());
    }
    // The last line of lags may still arrive.
    let seconds = args.lag_seconds + 1;
    // Lags measured before this belong to writes made for an earlier subject.
    let earlier = subject.lags().len();
    let since = rig.begin(Some(subject))?;
    rig.load.paced(LAG_EVENTS_PER_SECOND, seconds).await?;
    rig.used(&since, subject)?.note(Phase::Lag, figures);
    let mut lags: Vec<Lags> = subject.lags().split_off(earlier);
    // The first line includes those, cold caches and a cold server.
    if lags.len() > 1 {
        lags.remove(0);
    }
    let median = |pick: fn(&Lags) -> u64| {
        let values = lags.iter().map(|lags| pick(lags) as f64);
        super::figure::median(values.collect()).unwrap_or(f64::NAN)
    };
    figures.set(Figure::LagP50, median(|lags| lags.p50_us));
    figures.set(Figure::LagP99, median(|lags| lags.p99_us));
    Ok(())
}

/// Waits until the subject is idle and the handler received enough. The subject is queried only while it is idle,
/// because answering is work for it.
async fn until(subject: &Subject, what: &str, enough: impl Fn(&HandlerCounts) -> bool) -> Result<()> {
    wait::until(what, DONE_WITHIN, async || {
        if subject.is_busy().await.map_err(|error| format!("{error:#}"))? {
            return Err("it is busy".to_owned());
        }
        let counts = subject.counts().await.map_err(|error| format!("{error:#}"))?;
        if enough(&counts) {
            Ok(())
        } else {
            Err(format!("{counts:?}"))
        }
    })
    .await
}

/// Waits until the subject is idle; returns how long it was busy since `began`, without the last sample.
async fn quiet(subject: &Subject, began: Instant) -> Result<Duration> {
    let mut busy_until = began;
    let deadline = began + DONE_WITHIN;
    while Instant::now() < deadline {
        if !subject.is_busy().await? {
            return Ok(busy_until - began);
        }
        busy_until = Instant::now();
    }
    None.context("the subject was busy for longer than the deadline of a burst")
}

fn micros(cpu: Duration) -> f64 {
    cpu.as_secs_f64() * 1e6
}

fn per(cpu: Duration, events: u32) -> f64 {
    micros(cpu) / f64::from(events)
}
