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

/// Starts of each program on an empty cluster, of which one is its baseline.
const BASELINE_STARTS: usize = 5;

/// How long the CPU time of subjects is sampled to find out whether one is busy.
const BUSY_SAMPLE: Duration = Duration::from_millis(20);

/// A subject that uses less than this in a sample is idle.
const IDLE_MAX: Duration = Duration::from_millis(1);

/// A subject and its figures so far.
struct Run {
    subject: Subject,
    /// What it needs without objects.
    baseline: Usage,
    /// What it used until it was idle after its sync.
    synced: Usage,
    figures: Figures,
}

/// The baselines of programs that run at the same time on an empty cluster: start, artifact, first list. Of several
/// starts, that with the median of CPU time: starts differ by milliseconds, which a sync of few objects does not
/// outweigh.
pub(super) async fn baselines(programs: &[Program], sync: Sync, cores: &Cores, tls: bool) -> Result<Vec<Usage>> {
    let rig = Rig::empty(cores, tls).await?;
    // The first run fills the caches on disk, the others are measured.
    drop(started(programs, sync, &rig).await?);
    let mut starts = vec![Vec::with_capacity(BASELINE_STARTS); programs.len()];
    for _ in 0..BASELINE_STARTS {
        let subjects = started(programs, sync, &rig).await?;
        tokio::time::sleep(SETTLES_IN).await;
        for (starts, subject) in starts.iter_mut().zip(&subjects) {
            starts.push(subject.usage()?);
        }
    }
    let median = starts.into_iter().map(|mut starts| {
        starts.sort_by_key(|usage| usage.cpu);
        starts.swap_remove(BASELINE_STARTS / 2)
    });
    Ok(median.collect())
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
        let cpu_us = run.sync_us();
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
        let per_object = run.sync_us() / f64::from(rig.load.objects());
        run.figures.set(Figure::TlsSync, per_object);
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
    let runs = subjects.into_iter().zip(baselines).map(|(subject, baseline)| Run {
        subject,
        baseline: *baseline,
        synced: *baseline,
        figures: Figures::default(),
    });
    let mut runs: Vec<Run> = runs.collect();
    let objects = u64::from(rig.load.objects());
    until(&runs, "the adds", |_, counts| counts.adds >= objects).await?;
    let used = used(&runs, rig, &vec![since; runs.len()])?;
    note(&mut runs, &used, phase);
    tokio::time::sleep(SETTLES_IN).await;
    for run in &mut runs {
        run.synced = run.subject.usage()?;
    }
    Ok(runs)
}

/// The subjects are stopped with SIGSTOP, so that they find all events of a burst at once. CPU per event, in
/// microseconds.
async fn bursts(count: u32, runs: &mut [Run], rig: &mut Rig, phase: Phase, figure: Figure) -> Result<()> {
    let mut cpu = vec![Duration::ZERO; runs.len()];
    let mut sums = vec![Used::default(); runs.len()];
    let mut events = 0;
    while events < count {
        let before = counts(runs).await?;
        let usages = usages(runs)?;
        signal(runs, "STOP").await?;
        rig.load.update(BURST_EVENTS).await?;
        let (began, since) = (Instant::now(), begin(runs, rig)?);
        signal(runs, "CONT").await?;
        let wall = quiet(runs, began).await?;
        for (sum, during) in sums.iter_mut().zip(used(runs, rig, &since)?) {
            sum.add(Used { wall, ..during });
        }
        let expected = |place: usize| before[place].updates + u64::from(BURST_EVENTS);
        let done = until(runs, "a burst", |place, counts| counts.updates >= expected(place)).await?;
        for ((cpu, usage), done) in cpu.iter_mut().zip(usages).zip(done) {
            *cpu += done.cpu - usage.cpu;
        }
        events += BURST_EVENTS;
    }
    note(runs, &sums, phase);
    for (run, cpu) in runs.iter_mut().zip(cpu) {
        run.figures.set(figure, per(cpu, events));
    }
    Ok(())
}

/// As fast as the API server accepts writes, each event on its own.
async fn one_by_one(args: &Args, runs: &mut [Run], rig: &mut Rig) -> Result<()> {
    if args.singles == 0 {
        return Ok(());
    }
    let before = counts(runs).await?;
    let since = begin(runs, rig)?;
    rig.load.update(args.singles).await?;
    let used = used(runs, rig, &since)?;
    note(runs, &used, Phase::Singles);
    let expected = |place: usize| before[place].updates + u64::from(args.singles);
    let done = until(runs, "single updates", |place, counts| {
        counts.updates >= expected(place)
    })
    .await?;
    for ((run, since), done) in runs.iter_mut().zip(since).zip(done) {
        let cpu = since.subject_until(done);
        run.figures.set(Figure::Single, per(cpu, args.singles));
    }
    Ok(())
}

/// The watches end with 410, and the lists that follow meet no changes.
async fn relist(runs: &mut [Run], rig: &Rig) -> Result<()> {
    let before = counts(runs).await?;
    let since = begin(runs, rig)?;
    let expired = serde_json::json!({"drop-watches": {"filter": {"resource": "pods"}, "ending": "expired"}});
    let client = rig.cluster.client().await?;
    client.post("/informant/faults", &expired).await?;
    // Long enough for most: a query before the list would count as work. The shares of the CPU are those of this time.
    tokio::time::sleep(SETTLES_IN).await;
    let done = until(runs, "a list after 410", |place, counts| {
        counts.lists > before[place].lists
    })
    .await?;
    let used = used(runs, rig, &since)?;
    note(runs, &used, Phase::Relist);
    for ((run, since), done) in runs.iter_mut().zip(since).zip(done) {
        let per_object = micros(since.subject_until(done)) / f64::from(rig.load.objects());
        run.figures.set(Figure::Relist, per_object);
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
    let used = used(runs, rig, &since)?;
    note(runs, &used, Phase::Lag);
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

/// What each used since then.
fn used(runs: &[Run], rig: &Rig, since: &[Since]) -> Result<Vec<Used>> {
    let each = runs.iter().zip(since);
    each.map(|(run, since)| rig.used(since, &run.subject)).collect()
}

/// Records the shares of a CPU that were used: that of all subjects together, as they share theirs.
fn note(runs: &mut [Run], used: &[Used], phase: Phase) {
    let together = used.iter().map(|used| used.subject).sum();
    for (run, used) in runs.iter_mut().zip(used) {
        let used = Used {
            subject: together,
            ..*used
        };
        used.note(phase, &mut run.figures);
    }
}

fn usages(runs: &[Run]) -> Result<Vec<Usage>> {
    runs.iter().map(|run| run.subject.usage()).collect()
}

async fn counts(runs: &[Run]) -> Result<Vec<HandlerCounts>> {
    futures::future::try_join_all(runs.iter().map(|run| run.subject.counts())).await
}

/// Sends a signal to all at the same time.
async fn signal(runs: &[Run], signal: &str) -> Result<()> {
    let all = runs.iter().map(|run| run.subject.process().signal(signal));
    futures::future::try_join_all(all).await.map(drop)
}

impl Run {
    /// CPU of the sync in microseconds, without that of the process start.
    fn sync_us(&self) -> f64 {
        micros(self.synced.cpu.saturating_sub(self.baseline.cpu))
    }

    fn per_object(&self, usage: Usage, objects: f64) -> f64 {
        (usage.resident_bytes - self.baseline.resident_bytes) / objects
    }
}

/// Waits until all subjects are idle and the handler of each received enough. They are queried only while all are
/// idle, each as often as the others, because answering is work for them. Returns their usages before they answered.
async fn until(runs: &[Run], what: &str, enough: impl Fn(usize, &HandlerCounts) -> bool) -> Result<Vec<Usage>> {
    wait::until(what, DONE_WITHIN, async || {
        let text = |error: anyhow::Error| format!("{error:#}");
        if is_busy(runs).await.map_err(text)? {
            return Err("it is busy".to_owned());
        }
        let usages = usages(runs).map_err(text)?;
        let counts = counts(runs).await.map_err(text)?;
        if counts.iter().enumerate().all(|(place, counts)| enough(place, counts)) {
            Ok(usages)
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
        if !is_busy(runs).await? {
            return Ok(busy_until - began);
        }
        busy_until = Instant::now();
    }
    None.context("a subject was busy for longer than the deadline of a burst")
}

/// Whether a subject uses CPU time now. Reads /proc: a query to the subject itself would be work for it.
async fn is_busy(runs: &[Run]) -> Result<bool> {
    let before = usages(runs)?;
    tokio::time::sleep(BUSY_SAMPLE).await;
    let mut samples = before.iter().zip(usages(runs)?);
    Ok(samples.any(|(before, after)| after.cpu.saturating_sub(before.cpu) > IDLE_MAX))
}

fn micros(cpu: Duration) -> f64 {
    cpu.as_secs_f64() * 1e6
}

fn per(cpu: Duration, events: u32) -> f64 {
    micros(cpu) / f64::from(events)
}
