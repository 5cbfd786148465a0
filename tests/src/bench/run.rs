//! One run: one subject, or several at the same time, on one cluster's pods, phase by phase.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::cores::Cores;
use super::figure::{Figure, Figures, Phase};
use super::rig::{Rig, Since, Used};
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

/// A subject and its figures so far.
struct Run {
    subject: Subject,
    /// What it needs without objects.
    baseline: Usage,
    /// What it used until it was idle after its sync.
    synced: Usage,
    figures: Figures,
}

/// The baselines of programs that run at the same time on an empty cluster: start, artifact, first list.
pub(super) async fn baselines(programs: &[Program], sync: Sync, cores: &Cores, tls: bool) -> Result<Vec<Usage>> {
    let rig = Rig::empty(cores, tls).await?;
    // The first run fills the caches on disk, the second is measured.
    drop(started(programs, sync, &rig).await?);
    let subjects = started(programs, sync, &rig).await?;
    tokio::time::sleep(SETTLES_IN).await;
    subjects.iter().map(Subject::usage).collect()
}

/// Starts `programs` on the rig's pods and measures all phases: the figures of each. What the machine or the API server
/// does meanwhile affects all of them.
pub(super) async fn run(
    args: &Args,
    programs: &[Program],
    sync: Sync,
    baselines: &[Usage],
    rig: &mut Rig,
) -> Result<Vec<Figures>> {
    let mut runs = start(programs, sync, baselines, rig, Phase::Sync).await?;
    let objects = f64::from(rig.load.objects());
    for run in &mut runs {
        let cpu_us = micros(run.synced.cpu.saturating_sub(run.baseline.cpu));
        run.figures.set(Figure::SyncCpu, cpu_us);
        run.figures.set(Figure::Sync, cpu_us / objects);
        run.figures.set(Figure::Base, run.baseline.resident_bytes);
        run.figures.set(Figure::Steady, run.synced.resident_bytes);
        let per_object = run.per_object(run.synced, objects);
        run.figures.set(Figure::PerObject, per_object);
    }
    bursts(args.events, &mut runs, rig, Phase::Bursts, Figure::Burst).await?;
    one_by_one(args, &mut runs, rig).await?;
    for run in &mut runs {
        if let Some(burst) = run.figures.get(Figure::Burst) {
            run.figures.set(Figure::BurstRate, 1e6 / burst);
        }
        let per_object = run.per_object(run.subject.usage()?, objects);
        run.figures.set(Figure::PerObjectUpdated, per_object);
    }
    relist(&mut runs, rig).await?;
    lag(args, &mut runs, rig).await?;
    for run in &mut runs {
        let peak = run.subject.usage()?.peak_bytes;
        run.figures.set(Figure::Peak, peak);
        run.figures.set(Figure::PeakRatio, peak / run.synced.resident_bytes);
    }
    Ok(runs.into_iter().map(|run| run.figures).collect())
}

/// The same over TLS, to show its additional cost: the sync, and events in bursts.
pub(super) async fn run_tls(
    args: &Args,
    programs: &[Program],
    sync: Sync,
    baselines: &[Usage],
    rig: &mut Rig,
) -> Result<Vec<Figures>> {
    let mut runs = start(programs, sync, baselines, rig, Phase::TlsSync).await?;
    for run in &mut runs {
        let cpu_us = micros(run.synced.cpu.saturating_sub(run.baseline.cpu));
        let objects = f64::from(rig.load.objects());
        run.figures.set(Figure::TlsSync, cpu_us / objects);
    }
    bursts(args.events, &mut runs, rig, Phase::TlsBursts, Figure::TlsBurst).await?;
    Ok(runs.into_iter().map(|run| run.figures).collect())
}

async fn started(programs: &[Program], sync: Sync, rig: &Rig) -> Result<Vec<Subject>> {
    let all = programs
        .iter()
        .map(|program| program.start(&rig.cores, &rig.cluster, sync));
    futures::future::try_join_all(all).await
}

/// Starts `programs` and waits until the handler of each received each object, and all were idle.
async fn start(programs: &[Program], sync: Sync, baselines: &[Usage], rig: &Rig, phase: Phase) -> Result<Vec<Run>> {
    let since = rig.begin(None)?;
    let subjects = started(programs, sync, rig).await?;
    let objects = u64::from(rig.load.objects());
    let mut runs = Vec::new();
    for (subject, baseline) in subjects.into_iter().zip(baselines) {
        until(&subject, "the adds", |counts| counts.adds >= objects).await?;
        let mut figures = Figures::default();
        rig.used(&since, &subject)?.note(phase, &mut figures);
        runs.push(Run {
            synced: *baseline,
            baseline: *baseline,
            subject,
            figures,
        });
    }
    tokio::time::sleep(SETTLES_IN).await;
    for run in &mut runs {
        run.synced = run.subject.usage()?;
    }
    Ok(runs)
}

/// The subjects are stopped with SIGSTOP, so that they find all events of a burst at once. CPU per event, in
/// microseconds.
async fn bursts(count: u32, runs: &mut [Run], rig: &mut Rig, phase: Phase, figure: Figure) -> Result<()> {
    let mut sums = vec![(Duration::ZERO, Used::default()); runs.len()];
    let mut events = 0;
    while events < count {
        let mut before = Vec::new();
        for run in runs.iter() {
            let updates = run.subject.counts().await?.updates;
            before.push((updates, run.subject.usage()?));
            run.subject.process().signal("STOP").await?;
        }
        rig.load.update(BURST_EVENTS).await?;
        let began = Instant::now();
        let mut since = Vec::new();
        for run in runs.iter() {
            since.push(rig.begin(Some(&run.subject))?);
            run.subject.process().signal("CONT").await?;
        }
        let wall = quiet(runs, began).await?;
        for (((run, sum), (updates, usage)), since) in runs.iter().zip(&mut sums).zip(before).zip(since) {
            let during = rig.used(&since, &run.subject)?;
            sum.1.add(Used { wall, ..during });
            let expected = updates + u64::from(BURST_EVENTS);
            let done = until(&run.subject, "a burst", |counts| counts.updates >= expected).await?;
            sum.0 += done.cpu - usage.cpu;
        }
        events += BURST_EVENTS;
    }
    for (run, (cpu, used)) in runs.iter_mut().zip(sums) {
        used.note(phase, &mut run.figures);
        run.figures.set(figure, per(cpu, events));
    }
    Ok(())
}

/// As fast as the API server accepts writes, each event on its own.
async fn one_by_one(args: &Args, runs: &mut [Run], rig: &mut Rig) -> Result<()> {
    if args.singles == 0 {
        return Ok(());
    }
    let mut expected = Vec::new();
    for run in runs.iter() {
        expected.push(run.subject.counts().await?.updates + u64::from(args.singles));
    }
    let since = begin(runs, rig)?;
    rig.load.update(args.singles).await?;
    note(runs, rig, &since, Phase::Singles)?;
    for ((run, since), expected) in runs.iter_mut().zip(since).zip(expected) {
        let done = until(&run.subject, "single updates", |counts| counts.updates >= expected).await?;
        let cpu = since.subject_until(done);
        run.figures.set(Figure::Single, per(cpu, args.singles));
    }
    Ok(())
}

/// The watches end with 410, and the lists that follow meet no changes.
async fn relist(runs: &mut [Run], rig: &Rig) -> Result<()> {
    let mut lists = Vec::new();
    for run in runs.iter() {
        lists.push(run.subject.counts().await?.lists);
    }
    let since = begin(runs, rig)?;
    let expired = serde_json::json!({"drop-watches": {"filter": {"resource": "pods"}, "ending": "expired"}});
    let client = rig.cluster.client().await?;
    client.post("/informant/faults", &expired).await?;
    for (run, lists) in runs.iter().zip(lists) {
        until(&run.subject, "a list after 410", |counts| counts.lists > lists).await?;
    }
    note(runs, rig, &since, Phase::Relist)?;
    tokio::time::sleep(SETTLES_IN).await;
    for (run, since) in runs.iter_mut().zip(since) {
        let cpu = rig.used(&since, &run.subject)?.subject;
        run.figures
            .set(Figure::Relist, micros(cpu) / f64::from(rig.load.objects()));
    }
    Ok(())
}

/// A steady rate far below the limit of any subject.
async fn lag(args: &Args, runs: &mut [Run], rig: &mut Rig) -> Result<()> {
    if args.lag_seconds == 0 {
        return Ok(());
    }
    // The last line of lags may still arrive.
    let seconds = args.lag_seconds + 1;
    // Lags measured before this belong to writes made for an earlier subject.
    let earlier: Vec<usize> = runs.iter().map(|run| run.subject.lags().len()).collect();
    let since = begin(runs, rig)?;
    rig.load.paced(LAG_EVENTS_PER_SECOND, seconds).await?;
    note(runs, rig, &since, Phase::Lag)?;
    for (run, earlier) in runs.iter_mut().zip(earlier) {
        let mut lags: Vec<Lags> = run.subject.lags().split_off(earlier);
        // The first line includes those, cold caches and a cold server.
        if lags.len() > 1 {
            lags.remove(0);
        }
        let median = |pick: fn(&Lags) -> u64| {
            let values = lags.iter().map(|lags| pick(lags) as f64);
            super::figure::median(values.collect()).unwrap_or(f64::NAN)
        };
        run.figures.set(Figure::LagP50, median(|lags| lags.p50_us));
        run.figures.set(Figure::LagP99, median(|lags| lags.p99_us));
    }
    Ok(())
}

fn begin(runs: &[Run], rig: &Rig) -> Result<Vec<Since>> {
    runs.iter().map(|run| rig.begin(Some(&run.subject))).collect()
}

/// Records the shares of a CPU that were used since then.
fn note(runs: &mut [Run], rig: &Rig, since: &[Since], phase: Phase) -> Result<()> {
    for (run, since) in runs.iter_mut().zip(since) {
        rig.used(since, &run.subject)?.note(phase, &mut run.figures);
    }
    Ok(())
}

impl Run {
    fn per_object(&self, usage: Usage, objects: f64) -> f64 {
        (usage.resident_bytes - self.baseline.resident_bytes) / objects
    }
}

/// Waits until the subject is idle and the handler received enough. The subject is queried only while it is idle,
/// because answering is work for it. Returns its usage before it answered.
async fn until(subject: &Subject, what: &str, enough: impl Fn(&HandlerCounts) -> bool) -> Result<Usage> {
    wait::until(what, DONE_WITHIN, async || {
        if subject.is_busy().await.map_err(|error| format!("{error:#}"))? {
            return Err("it is busy".to_owned());
        }
        let usage = subject.usage().map_err(|error| format!("{error:#}"))?;
        let counts = subject.counts().await.map_err(|error| format!("{error:#}"))?;
        if enough(&counts) {
            Ok(usage)
        } else {
            Err(format!("{counts:?}"))
        }
    })
    .await
}

/// Waits until all subjects are idle; returns how long one was busy since `began`, without the last sample.
async fn quiet(runs: &[Run], began: Instant) -> Result<Duration> {
    let mut busy_until = began;
    let deadline = began + DONE_WITHIN;
    while Instant::now() < deadline {
        let mut is_busy = false;
        for run in runs {
            is_busy |= run.subject.is_busy().await?;
        }
        if !is_busy {
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
