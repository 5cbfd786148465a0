//! What timers cost: those of which none is due, and a run of one that is due, compared with an event. The clock is
//! tokio's, and paused: an hour passes when nothing is left to do.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use informant_cache::{BoxFuture, Environment, Moment};
use informant_informer::TokioEnvironment;
use informant_spec::PluginSpec;
use serde_json::json;

use crate::handler::{Bench, Handler, SMALL, cpu_of_this_thread, updates};
use crate::setup::built;

/// Timers of one plugin: as many as it may have.
const OF_PLUGIN: u32 = 100;

/// Plugins with timers of which none is due.
const QUIET_PLUGINS: usize = 100;

/// Within which none of them is due.
const QUIET: Duration = Duration::from_secs(3_600);

/// The period of those that are due: the shortest.
const PERIOD: Duration = Duration::from_millis(100);

/// The most that a run costs, in events.
const TIMES_MAX: f64 = 1.2;

/// Measures both. Returns what is missed.
pub(crate) async fn measure(calls: usize, runs: usize, folder: &Path) -> Result<Vec<String>> {
    let missed = [count_wakes(folder).await?, compare(calls, runs, folder).await?];
    Ok(missed.into_iter().flatten().collect())
}

/// Counts how often a task of the plugins is polled while no timer is due.
async fn count_wakes(folder: &Path) -> Result<Option<String>> {
    let env = Arc::new(CountsPolls::new());
    let bench = Bench::with_clock(folder, Arc::<CountsPolls>::clone(&env))?;
    let mut plugins = Vec::new();
    for _ in 0..QUIET_PLUGINS {
        plugins.push(bench.start(section(2 * QUIET)?).await?);
    }
    tokio::time::pause();
    // The last one has begun to wait.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = env.polls();
    tokio::time::sleep(QUIET).await;
    let wakes = env.polls() - before;
    // They do run.
    tokio::time::sleep(QUIET).await;
    tokio::time::resume();
    let ran: u64 = plugins.iter().map(Handler::calls).sum();
    let timers = u64::from(OF_PLUGIN) * QUIET_PLUGINS as u64;
    ensure!(ran == timers, "{ran} runs of {timers} timers in the hour after");
    println!("\n{timers} timers of {QUIET_PLUGINS} plugins, none due for an hour: {wakes} wakes");
    if wakes == 0 {
        println!("ok: no wake");
        return Ok(None);
    }
    Ok(Some(format!(
        "{wakes} wakes in an hour in which no timer is due, 0 expected"
    )))
}

/// Compares runs of timers with events of a handler in the same language that does as little.
async fn compare(calls: usize, runs: usize, folder: &Path) -> Result<Option<String>> {
    println!("\nRust, does nothing: an event of 300 bytes, and a run of one of {OF_PLUGIN} timers");
    let bench = Bench::with_clock(folder, Arc::new(CountsPolls::new()))?;
    let handler = bench
        .start(PluginSpec::new("events", built("guest_no_op.wasm")?))
        .await?;
    let changes = updates(SMALL, OF_PLUGIN as usize, bench.env.now())?;
    handler.call(&changes, calls / 100).await?;
    let (mut event, mut run) = (f64::INFINITY, f64::INFINITY);
    for number in 1..=runs {
        let of_event = handler.call(&changes, calls).await?;
        let of_run = us_of_run(&bench, calls).await?;
        println!(
            "run {number}: {of_event:.2} us of CPU per event, {of_run:.2} us per run of a timer ({calls} of each)"
        );
        (event, run) = (event.min(of_event), run.min(of_run));
    }
    let times = run / event;
    let text = format!("a run of a timer costs {times:.2} times an event, at most {TIMES_MAX}");
    if times <= TIMES_MAX {
        println!("ok: {text}");
        return Ok(None);
    }
    Ok(Some(text))
}

/// The microseconds of CPU of one of `count` runs, which begin when they are due.
async fn us_of_run(bench: &Bench, count: usize) -> Result<f64> {
    let plugin = bench.start(section(PERIOD)?).await?;
    tokio::time::pause();
    // Into the middle of a period.
    tokio::time::sleep(PERIOD * 3 / 2).await;
    let (before, began) = (plugin.calls(), cpu_of_this_thread()?);
    let periods = u32::try_from(count)? / OF_PLUGIN;
    tokio::time::sleep(PERIOD * periods).await;
    let (ran, used) = (plugin.calls() - before, cpu_of_this_thread()? - began);
    tokio::time::resume();
    plugin.ensure_none_failed()?;
    ensure!(ran == u64::from(periods * OF_PLUGIN), "{ran} runs in {periods} periods");
    Ok(used.as_secs_f64() * 1e6 / ran as f64)
}

/// A plugin with as many timers as it may have, of this period. Their runs do nothing.
fn section(period: Duration) -> Result<PluginSpec> {
    let mut spec = PluginSpec::new("timers", built("guest_timers.wasm")?);
    spec.config = json!({ "count": OF_PLUGIN, "every_ms": u64::try_from(period.as_millis())? });
    Ok(spec)
}

/// tokio's clock, and how often tasks were polled.
struct CountsPolls {
    env: TokioEnvironment,
    polls: Arc<AtomicU64>,
}

impl CountsPolls {
    fn new() -> CountsPolls {
        CountsPolls {
            env: TokioEnvironment::current(0),
            polls: Arc::default(),
        }
    }

    fn polls(&self) -> u64 {
        self.polls.load(Ordering::Relaxed)
    }
}

impl Environment for CountsPolls {
    fn now(&self) -> Moment {
        self.env.now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture {
        self.env.sleep(duration)
    }

    fn spawn(&self, name: &'static str, mut task: BoxFuture) {
        let polls = Arc::clone(&self.polls);
        let counted = std::future::poll_fn(move |context| {
            polls.fetch_add(1, Ordering::Relaxed);
            Pin::new(&mut task).poll(context)
        });
        self.env.spawn(name, Box::pin(counted));
    }

    fn random(&self) -> u64 {
        self.env.random()
    }
}
