//! What Informant costs: CPU per object at sync and per watch event, memory per object, with one Rust handler.
//!
//! The load comes from the embedded API server in a process of its own; only `informant run` is measured, from /proc. What the
//! process costs before it has any objects is measured apart and taken off.

#![expect(clippy::print_stdout, reason = "the benchmark's table is its result")]

mod load;
mod usage;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::cluster::{Cluster, Kind};
use crate::daemon::Daemon;
use crate::{guests, wait};

use usage::Usage;

/// How large the measurement is.
#[derive(clap::Parser)]
pub struct Args {
    /// How many pods there are.
    #[arg(long, default_value_t = 20_000)]
    pub objects: u32,
    /// How many updates are made after the sync.
    #[arg(long, default_value_t = 50_000)]
    pub events: u32,
    /// How many times everything is measured.
    #[arg(long, default_value_t = 3)]
    pub rounds: u32,
}

const CONFIG: &str = "[informer.pods]\nresource = \"v1/pods\"\n\n[informer.pods.index]\nnode = \"/spec/nodeName\"\n\n\
[plugin.crash-loop]\ncomponent = COMPONENT\ninformers = [\"pods\"]\nconfig = { min-restarts = 1000000 }\n";

/// How long a sync or a stretch of updates may take.
const DONE_WITHIN: Duration = Duration::from_secs(300);

/// How many events come at once in a burst: less than a watch may leave unread before the API server closes it.
const BURST_EVENTS: u32 = 3_000;

/// How many bursts there are.
const BURSTS: u32 = 10;

/// One round's figures.
struct Figures {
    sync_us: f64,
    event_us: f64,
    burst_event_us: f64,
    memory_bytes: f64,
    memory_after_bytes: f64,
    base_bytes: f64,
}

/// Measures and prints.
pub async fn run(args: &Args) -> ExitCode {
    match measure(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("the benchmark failed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(args: &Args) -> Result<()> {
    println!("{} pods, {} updates, {} rounds", args.objects, args.events, args.rounds);
    let mut all = Vec::new();
    for _ in 0..args.rounds {
        let figures = round(args).await?;
        println!("{}", row(&figures));
        all.push(figures);
    }
    let median = |pick: fn(&Figures) -> f64| {
        let mut values: Vec<f64> = all.iter().map(pick).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let medians = Figures {
        sync_us: median(|figures| figures.sync_us),
        event_us: median(|figures| figures.event_us),
        burst_event_us: median(|figures| figures.burst_event_us),
        memory_bytes: median(|figures| figures.memory_bytes),
        memory_after_bytes: median(|figures| figures.memory_after_bytes),
        base_bytes: median(|figures| figures.base_bytes),
    };
    println!("median: {}", row(&medians));
    Ok(())
}

fn row(figures: &Figures) -> String {
    format!(
        "sync {:.1} us an object, {:.1} us an event one by one, {:.1} in bursts, {:.0} bytes an object after sync, {:.0} after the updates, base {:.1} MB",
        figures.sync_us,
        figures.event_us,
        figures.burst_event_us,
        figures.memory_bytes,
        figures.memory_after_bytes,
        figures.base_bytes / 1e6,
    )
}

async fn round(args: &Args) -> Result<Figures> {
    let component = format!("{:?}", guests::component("crash-loop")?);
    let config = CONFIG.replace("COMPONENT", &component);
    let base = without_objects(&config).await?;

    let cluster = Cluster::start(Kind::Embedded).await?;
    let client = cluster.client().await?;
    load::create(&client, args.objects).await?;
    let daemon = Daemon::start(cluster.folder(), &cluster.kubeconfig(), &config).await?;
    daemon.wait_until_ready().await?;
    wait_for_events(&daemon, "add", args.objects).await?;
    let synced = usage_of(&daemon)?;
    load::update(&client, args.objects, 1, args.events).await?;
    wait_for_seen(&daemon, args.events).await?;
    let updated = usage_of(&daemon)?;
    for burst in 1..=BURSTS {
        // Stopped, it finds them all at once when it goes on.
        daemon.process().signal("STOP").await?;
        load::update(&client, args.objects, args.events + burst * BURST_EVENTS, BURST_EVENTS).await?;
        daemon.process().signal("CONT").await?;
        wait_for_seen(&daemon, args.events + burst * BURST_EVENTS).await?;
    }
    let burst = usage_of(&daemon)?;

    let objects = f64::from(args.objects);
    Ok(Figures {
        sync_us: (synced.cpu - base.cpu).as_secs_f64() * 1e6 / objects,
        event_us: (updated.cpu - synced.cpu).as_secs_f64() * 1e6 / f64::from(args.events),
        burst_event_us: (burst.cpu - updated.cpu).as_secs_f64() * 1e6 / f64::from(BURSTS * BURST_EVENTS),
        memory_bytes: (synced.resident_bytes - base.resident_bytes) / objects,
        memory_after_bytes: (updated.resident_bytes - base.resident_bytes) / objects,
        base_bytes: base.resident_bytes,
    })
}

/// What the process costs with an empty cluster: start, artefact, first list.
async fn without_objects(config: &str) -> Result<Usage> {
    let cluster = Cluster::start(Kind::Embedded).await?;
    // Once to fill the artefact cache, once to measure.
    drop(start(&cluster, config).await?);
    usage_of(&start(&cluster, config).await?)
}

async fn start(cluster: &Cluster, config: &str) -> Result<Daemon> {
    let daemon = Daemon::start(cluster.folder(), &cluster.kubeconfig(), config).await?;
    daemon.wait_until_ready().await?;
    Ok(daemon)
}

fn usage_of(daemon: &Daemon) -> Result<Usage> {
    usage::of(daemon.process().id().context("informant has ended")?)
}

async fn wait_for_events(daemon: &Daemon, event: &str, count: u32) -> Result<()> {
    let label = format!("event=\"{event}\"");
    wait_for(daemon, "informant_handler_events_total", &[&label], count).await
}

/// Handlers that look at some fields are not called for updates that leave them alone, so the watch's own count is awaited.
async fn wait_for_seen(daemon: &Daemon, count: u32) -> Result<()> {
    wait_for(daemon, "informant_handler_events_total", &["event=\"update\""], count).await
}

async fn wait_for(daemon: &Daemon, metric: &str, labels: &[&str], count: u32) -> Result<()> {
    wait::until(
        &format!("{metric}{labels:?} to reach {count}"),
        DONE_WITHIN,
        async || {
            let value = daemon
                .metric(metric, labels)
                .await
                .map_err(|error| format!("{error:#}"))?
                .unwrap_or_default();
            if value >= f64::from(count) {
                Ok(())
            } else {
                Err(format!("it is {value}"))
            }
        },
    )
    .await
}
