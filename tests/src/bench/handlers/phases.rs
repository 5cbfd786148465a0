//! The phases that each subject goes through.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::running::{Cpu, Running};
use super::setup::Setup;
use crate::bench::DONE_WITHIN;
use crate::bench::rig::Rig;
use crate::wait;

/// Updates per second that are tried, from the highest.
const RATES: [u32; 11] = [1_000, 700, 500, 300, 200, 100, 50, 20, 10, 5, 2];

/// What may be handled this much after the last update.
const GRACE: Duration = Duration::from_secs(1);

/// Events of a burst at most: fewer than a watch may leave unread before the API server closes it.
const BURST_EVENTS: u32 = 3_000;

/// Bursts, and the seconds that a subject with its rate has for one: slow ones get smaller bursts.
const BURSTS: u32 = 3;
const BURST_SECONDS: u32 = 10;

/// How long the CPU time is sampled to find out whether a subject is busy, and what an idle one uses at most: ten
/// processes wake up to report, and Go's collect garbage.
const BUSY_SAMPLE: Duration = Duration::from_millis(50);
const IDLE_MAX: Duration = Duration::from_millis(8);

/// A subject that is idle for this long does nothing more.
const QUIET: Duration = Duration::from_secs(2);

/// Requests that a rule can count.
const COUNTED_MAX: u32 = 1_000_000_000;

/// What clients of Kubernetes do. `get` includes discovery.
const VERBS: [&str; 7] = ["get", "list", "watch", "create", "update", "patch", "delete"];

/// A subject after its start.
pub(super) struct Restarted {
    pub(super) running: Running,
    /// From the start of the process until a handler is called.
    pub(super) first_call: Duration,
    /// Until every handler was called for every pod.
    pub(super) all_calls: Duration,
}

/// What a subject used at a rate with which it keeps up.
pub(super) struct Paced {
    pub(super) rate: u32,
    /// Per event, by all handlers together.
    pub(super) cpu_us: f64,
    pub(super) memory_bytes: f64,
    pub(super) received_bytes: Option<f64>,
    pub(super) lag_p99_us: Option<f64>,
}

/// What it handled of one series of updates.
struct Attempt {
    figures: Paced,
    handled: f64,
    offered: f64,
    handled_per_second: f64,
}

/// Updates each pod in both ways, so that pods have the same size for all subjects.
pub(super) async fn update_each(rig: &mut Rig) -> Result<()> {
    let objects = rig.load.objects();
    rig.load.update(objects).await?;
    rig.load.paced(RATES[0], objects.div_ceil(RATES[0])).await
}

/// Starts the subject, and waits until all handlers have received all pods.
pub(super) async fn restart(rig: &Rig, setup: &Setup, handlers: u32) -> Result<Restarted> {
    let began = Instant::now();
    let running = setup.start(rig, handlers).await?;
    let text = |error: anyhow::Error| format!("{error:#}");
    wait::until("the first call", DONE_WITHIN, async || {
        let is_called = running.is_called().map_err(text)?;
        is_called.then_some(()).ok_or_else(|| "no call".to_owned())
    })
    .await
    .with_context(|| setup.name.clone())?;
    let first_call = began.elapsed();
    let all = u64::from(handlers) * u64::from(rig.load.objects());
    wait::until("all calls", DONE_WITHIN, async || {
        let calls = running.calls().await.map_err(text)?;
        (calls.adds >= all).then_some(()).ok_or_else(|| format!("{calls:?}"))
    })
    .await
    .with_context(|| setup.name.clone())?;
    let all_calls = began.elapsed();
    Ok(Restarted {
        running,
        first_call,
        all_calls,
    })
}

/// Measures at 1,000 updates a second, or at the highest tried rate with which the subject keeps up.
pub(super) async fn sustained(rig: &mut Rig, running: &Running, name: &str, seconds: u32) -> Result<Paced> {
    let mut rate = RATES[0];
    loop {
        let attempt = attempt(rig, running, rate, seconds).await?;
        let kept_up = attempt.handled >= attempt.offered;
        if !kept_up {
            println!(
                "{name} with {} handler(s) does not keep up with {rate} events/s: {:.0} handled per second, {:.0} behind at \
                 the end",
                running.handlers,
                attempt.handled_per_second,
                attempt.offered - attempt.handled
            );
        }
        match next_rate(rate, attempt.handled_per_second) {
            Some(lower) if !kept_up => rate = lower,
            _ => return Ok(attempt.figures),
        }
    }
}

/// The highest rate below `rate` that a subject may keep up with which has just handled so many per second.
fn next_rate(rate: u32, handled_per_second: f64) -> Option<u32> {
    let mut lower = RATES.into_iter().filter(|lower| *lower < rate);
    let possible = lower.clone().find(|lower| f64::from(*lower) <= handled_per_second);
    possible.or(lower.next_back())
}

async fn attempt(rig: &mut Rig, running: &Running, rate: u32, seconds: u32) -> Result<Attempt> {
    quiet(running).await?;
    let handlers = f64::from(running.handlers);
    let port = rig.cluster.address().port();
    let (mark, before) = (running.mark()?, running.calls().await?.updates);
    let received = running.received(port).await?;
    let (cpu, began) = (running.cpu()?, Instant::now());
    rig.load.paced(rate, seconds).await?;
    tokio::time::sleep(GRACE).await;
    let (cpu, took) = (running.cpu()?.since(&cpu), began.elapsed());
    let memory_bytes = running.memory()?;
    let handled = (running.calls().await?.updates - before) as f64 / handlers;
    let received = running.received(port).await?.zip(received);
    let each = handled.max(1.0);
    Ok(Attempt {
        figures: Paced {
            rate,
            cpu_us: cpu.as_secs_f64() * 1e6 / each,
            memory_bytes,
            received_bytes: received.map(|(now, before)| now.saturating_sub(before) as f64 / each),
            lag_p99_us: running.lag_p99(&mark)?,
        },
        handled,
        offered: f64::from(rate * seconds),
        handled_per_second: handled / took.as_secs_f64(),
    })
}

/// CPU per event in bursts, in microseconds: the subject is stopped while the updates are made, so that it finds all at
/// once. None if it handled no event.
pub(super) async fn bursts(rig: &mut Rig, running: &Running, rate: u32) -> Result<Option<f64>> {
    let events = BURST_EVENTS.min(rate * BURST_SECONDS);
    let (mut cpu, mut handled) = (Duration::ZERO, 0);
    for _ in 0..BURSTS {
        quiet(running).await?;
        let before = running.calls().await?.updates;
        let since = running.cpu()?;
        running.signal("STOP").await?;
        rig.load.update(events).await?;
        running.signal("CONT").await?;
        let expected = before + u64::from(events * running.handlers);
        let (used, updates) = drained(running, expected).await?;
        cpu += used.since(&since);
        handled += updates - before;
    }
    let events = handled as f64 / f64::from(running.handlers);
    Ok((events > 0.0).then(|| cpu.as_secs_f64() * 1e6 / events))
}

/// Waits until it has handled so many updates, or does nothing more. Returns its CPU time until then, and the updates.
async fn drained(running: &Running, expected: u64) -> Result<(Cpu, u64)> {
    let began = Instant::now();
    let mut idle_since = None;
    loop {
        let is_late = began.elapsed() > DONE_WITHIN;
        if is_busy(running).await? && !is_late {
            idle_since = None;
            continue;
        }
        let cpu = running.cpu()?;
        let updates = running.calls().await?.updates;
        let idle = idle_since.get_or_insert_with(Instant::now).elapsed();
        if updates >= expected || idle > QUIET || is_late {
            return Ok((cpu, updates));
        }
    }
}

/// Waits until it does nothing.
async fn quiet(running: &Running) -> Result<()> {
    drained(running, u64::MAX).await.map(drop)
}

async fn is_busy(running: &Running) -> Result<bool> {
    let before = running.cpu()?;
    tokio::time::sleep(BUSY_SAMPLE).await;
    Ok(running.cpu()?.since(&before) > IDLE_MAX || running.has_children()?)
}

/// Adds rules that change nothing, and count requests by their verb: before the first update.
pub(super) async fn count_requests(rig: &Rig) -> Result<()> {
    for verb in VERBS {
        let rule = json!({ "filter": { "verb": verb }, "times": COUNTED_MAX, "action": { "delay-ms": 0 } });
        rig.cluster.fault(&json!({ "rule": rule })).await?;
    }
    Ok(())
}

/// Requests so far, without those that made the updates.
pub(super) async fn requests(rig: &Rig) -> Result<u64> {
    let faults = rig.cluster.client().await?.get("/informant/faults").await?;
    let rules = faults["rules"].as_array().context("the counting rules are gone")?;
    let left = rules.iter().filter_map(|rule: &Value| rule["times"].as_u64());
    let counted: u64 = left.map(|left| u64::from(COUNTED_MAX) - left).sum();
    Ok(counted.saturating_sub(rig.load.updates().into()))
}

#[cfg(test)]
mod tests {
    use super::next_rate;

    #[test]
    fn next_rate_is_one_that_was_handled() {
        assert_eq!(next_rate(1_000, 640.0), Some(500));
        assert_eq!(next_rate(1_000, 999.0), Some(700));
        assert_eq!(next_rate(500, 3.0), Some(2));
        assert_eq!(next_rate(5, 0.0), Some(2));
        assert_eq!(next_rate(2, 0.0), None);
    }
}
