//! One run: one subject over one cluster's pods, phase by phase.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::cores::Cores;
use super::figure::{Figure, Figures, Phase};
use super::rig::{Rig, Used};
use super::subject::{Lags, Program, Subject, Sync, Told};
use super::usage::Usage;
use super::{Args, DONE_WITHIN};
use crate::wait;

/// How many events come at once in a burst: less than a watch may leave unread before the API server closes it.
const BURST_EVENTS: u32 = 3_000;

/// How many updates a second the lag is measured at.
const LAG_EVENTS_PER_SECOND: u32 = 1_000;

/// How long a subject is given to become quiet before its memory is read.
const SETTLES_IN: Duration = Duration::from_secs(2);

/// What the program costs with an empty cluster: start, artifact, first list.
pub(super) async fn base(program: &Program, sync: Sync, cores: &Cores, tls: bool) -> Result<Usage> {
    let rig = Rig::empty(cores, tls).await?;
    let start = async || program.start(cores, &rig.cluster, sync).await;
    // Once to fill caches on disk, once to measure.
    drop(start().await?);
    let subject = start().await?;
    tokio::time::sleep(SETTLES_IN).await;
    subject.usage()
}

/// Starts `program` on the rig's pods, and measures all phases.
pub(super) async fn run(args: &Args, program: &Program, sync: Sync, base: Usage, rig: &mut Rig) -> Result<Figures> {
    let mut figures = Figures::default();
    let (subject, synced) = start(program, sync, rig, Phase::Sync, &mut figures).await?;
    let objects = f64::from(rig.load.objects());
    let cpu_us = micros(synced.cpu.saturating_sub(base.cpu));
    figures.set(Figure::SyncCpu, cpu_us);
    figures.set(Figure::Sync, cpu_us / objects);
    figures.set(Figure::Base, base.resident_bytes);
    figures.set(Figure::Steady, synced.resident_bytes);
    let per_object = |bytes: f64| (bytes - base.resident_bytes) / objects;
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

/// The same over TLS, for what it adds: the sync, and events in bursts.
pub(super) async fn run_tls(args: &Args, program: &Program, sync: Sync, base: Usage, rig: &mut Rig) -> Result<Figures> {
    let mut figures = Figures::default();
    let (subject, synced) = start(program, sync, rig, Phase::TlsSync, &mut figures).await?;
    let cpu_us = micros(synced.cpu.saturating_sub(base.cpu));
    figures.set(Figure::TlsSync, cpu_us / f64::from(rig.load.objects()));
    let burst = bursts(args.events, &subject, rig, Phase::TlsBursts, &mut figures).await?;
    figures.set(Figure::TlsBurst, burst);
    Ok(figures)
}

/// Starts `program` and waits until it was told of each object; what it had used then, once it was quiet.
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
    until(&subject, "the adds", |told| told.adds >= objects).await?;
    rig.used(&since, &subject)?.note(phase, figures);
    tokio::time::sleep(SETTLES_IN).await;
    let usage = subject.usage()?;
    Ok((subject, usage))
}

/// Stopped, the subject finds all events of a burst at once when it goes on. CPU an event, in microseconds.
async fn bursts(count: u32, subject: &Subject, rig: &mut Rig, phase: Phase, figures: &mut Figures) -> Result<f64> {
    let (mut cpu, mut used, mut events) = (Duration::ZERO, Used::default(), 0);
    while events < count {
        let before = subject.told().await?.updates;
        let usage = subject.usage()?;
        subject.process().signal("STOP").await?;
        rig.load.update(BURST_EVENTS).await?;
        let (began, since) = (Instant::now(), rig.begin(Some(subject))?);
        subject.process().signal("CONT").await?;
        let expected = before + u64::from(BURST_EVENTS);
        let wall = quiet(subject, began).await?;
        let during = rig.used(&since, subject)?;
        used.add(Used { wall, ..during });
        until(subject, "a burst", |told| told.updates >= expected).await?;
        cpu += subject.usage()?.cpu - usage.cpu;
        events += BURST_EVENTS;
    }
    used.note(phase, figures);
    Ok(per(cpu, events))
}

/// As fast as the API server takes writes, each event on its own.
async fn one_by_one(args: &Args, subject: &Subject, rig: &mut Rig, figures: &mut Figures) -> Result<()> {
    if args.singles == 0 {
        return Ok(());
    }
    let expected = subject.told().await?.updates + u64::from(args.singles);
    let since = rig.begin(Some(subject))?;
    rig.load.update(args.singles).await?;
    rig.used(&since, subject)?.note(Phase::Singles, figures);
    until(subject, "single updates", |told| told.updates >= expected).await?;
    let cpu = rig.used(&since, subject)?.subject;
    figures.set(Figure::Single, per(cpu, args.singles));
    Ok(())
}

/// The watch is ended with 410, and the list that follows holds nothing new.
async fn relist(subject: &Subject, rig: &Rig, figures: &mut Figures) -> Result<()> {
    let lists = subject.told().await?.lists;
    let since = rig.begin(Some(subject))?;
    let expired = serde_json::json!({"drop-watches": {"filter": {"resource": "pods"}, "ending": "expired"}});
    let client = rig.cluster.client().await?;
    client.post("/informant/faults", &expired).await?;
    until(subject, "a list after 410", |told| told.lists > lists).await?;
    rig.used(&since, subject)?.note(Phase::Relist, figures);
    tokio::time::sleep(SETTLES_IN).await;
    let cpu = rig.used(&since, subject)?.subject;
    figures.set(Figure::Relist, micros(cpu) / f64::from(rig.load.objects()));
    Ok(())
}

/// A steady rate far below what anybody can take.
async fn lag(args: &Args, subject: &Subject, rig: &mut Rig, figures: &mut Figures) -> Result<()> {
    if args.lag_seconds == 0 {
        return Ok(());
    }
    // The last line of lags may still be due.
    let seconds = args.lag_seconds + 1;
    // What was measured before is about writes of an earlier subject's time.
    let earlier = subject.lags().len();
    let since = rig.begin(Some(subject))?;
    rig.load.paced(LAG_EVENTS_PER_SECOND, seconds).await?;
    rig.used(&since, subject)?.note(Phase::Lag, figures);
    let mut lags: Vec<Lags> = subject.lags().split_off(earlier);
    // The first line begins with those, and finds cold caches and a cold server.
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

/// Waits until the subject is quiet and `enough` was told. It is asked only while it is quiet: answering is work for
/// it.
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
