//! What plugins remember, in a file and in Secrets: when the events of calls that use it end, and how many of them are
//! handled.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::json;

use super::group::Group;
use crate::bench::cores::Cores;
use crate::bench::figure::thousands;
use crate::bench::subject::wait_until_it_runs;
use crate::bench::targets;
use crate::client::Client;
use crate::cluster::Cluster;
use crate::daemon::Daemon;
use crate::objects::{SELECTOR, config_map, config_maps};
use crate::{guests, wait};

/// Objects whose events are counted in `kv`: as many that the time until the last ones are written is small.
const OBJECTS: u32 = 20_000;

/// Changes that are made one by one.
const SINGLES: u32 = 100;

/// How often all objects are handled, one time after the other.
const BURSTS: u32 = 10;

/// Requests of this process at a time.
const REQUESTS_AT_ONCE: usize = 16;

/// What one store has shown.
struct Figures {
    /// From the answer to a change to the end of its event, in seconds: sorted.
    ends: Vec<f64>,
    events_per_second: f64,
}

/// The only plugin.
struct Plugin {
    delivered: u64,
    is_at_rest: bool,
}

/// Measures both, and prints them. Returns whether they meet the targets.
pub(super) async fn measure(cores: &Cores, cluster: &Cluster) -> Result<bool> {
    let client = cluster.client().await?;
    create_all(&client).await?;
    let component = guests::component("guest-kv")?;
    let folder = cluster.folder().join("remembered");
    tokio::fs::create_dir_all(&folder).await?;
    let state = folder.join("state");
    let config = format!("[state]\npath = {state:?}\n\n{}", config_of(&component));
    let daemon = Daemon::start_under(&cores.subject(), &folder, &cluster.kubeconfig(), &config).await?;
    daemon.wait_until_ready().await?;
    wait_until_it_runs(&daemon).await?;
    let in_file = measure_daemon(&daemon, &client, 1).await.context("in a file")?;
    drop(daemon);

    let config = format!("[state]\nstore = \"kubernetes\"\n\n{}", config_of(&component));
    let group = Group::start(cores, cluster, "remembered", "fast", &config).await?;
    let holder = &group.holder().await?.daemon;
    let shared = measure_daemon(holder, &client, 2).await.context("in Secrets")?;

    let later = shared.p99() - in_file.p99();
    let rate = shared.events_per_second / in_file.events_per_second;
    let (is_soon, is_fast) = (
        later <= targets::SHARED_LATER_SECONDS,
        rate >= targets::SHARED_RATE_RATIO,
    );
    for (store, figures) in [("file", &in_file), ("kubernetes", &shared)] {
        println!(
            "kv, store = {store:?}: an event ends {:.0} ms after the change (p99 {:.0} ms); {} events a second",
            figures.ends[figures.ends.len() / 2] * 1e3,
            figures.p99() * 1e3,
            thousands(figures.events_per_second.round())
        );
    }
    println!(
        "kv: with the shared store p99 is {:.0} ms later (at most {:.0} ms: {}), at {rate:.2} of the rate (at least {}: {})",
        later * 1e3,
        targets::SHARED_LATER_SECONDS * 1e3,
        targets::word(is_soon),
        targets::SHARED_RATE_RATIO,
        targets::word(is_fast)
    );
    Ok(is_soon && is_fast)
}

impl Figures {
    fn p99(&self) -> f64 {
        self.ends[(self.ends.len() * 99).div_ceil(100) - 1]
    }
}

fn config_of(component: &Path) -> String {
    format!(
        "[informer.maps]\nresource = \"v1/configmaps\"\nnamespaces = [\"default\"]\nlabel-selector = {SELECTOR:?}\n\n\
         [plugin.measured]\ncomponent = {component:?}\ninformers = [\"maps\"]\n"
    )
}

async fn measure_daemon(daemon: &Daemon, client: &Client, round: u32) -> Result<Figures> {
    let mut handled = at_rest(daemon, u64::from(OBJECTS)).await?;
    let mut ends = Vec::new();
    for number in 0..SINGLES {
        put(client, number, round * 1_000).await?;
        let began = Instant::now();
        handled = at_rest(daemon, handled + 1).await?;
        ends.push(began.elapsed().as_secs_f64());
        // Not always at the same time after a commit.
        tokio::time::sleep(Duration::from_millis(u64::from(number * 37 % 200))).await;
    }
    ends.sort_by(f64::total_cmp);
    let began = Instant::now();
    let before = handled;
    for _ in 0..BURSTS {
        // Those whose last call has not ended are left out.
        handled += call_for_all(daemon).await?;
        // Not until all have ended: what is measured is how many are handled, not how long the last ones take.
        delivered(daemon, handled, |_| true).await?;
    }
    let events = at_rest(daemon, handled).await? - before;
    let events_per_second = events as f64 / began.elapsed().as_secs_f64();
    Ok(Figures {
        ends,
        events_per_second,
    })
}

/// Waits until this many events were delivered, and all have ended. Returns how many were.
async fn at_rest(daemon: &Daemon, events: u64) -> Result<u64> {
    delivered(daemon, events, |plugin| plugin.is_at_rest).await
}

/// Waits until this many events were delivered, and the plugin `is_ready`. Returns how many were.
async fn delivered(daemon: &Daemon, events: u64, is_ready: fn(&Plugin) -> bool) -> Result<u64> {
    let waited = wait::until("the ends of events", crate::bench::DONE_WITHIN, async || {
        let plugin = plugin(daemon).await.map_err(|error| format!("{error:#}"))?;
        match plugin.delivered >= events && is_ready(&plugin) {
            true => Ok(plugin.delivered),
            false => Err(format!("{} of {events} delivered", plugin.delivered)),
        }
    });
    waited.await.with_context(|| daemon.process().tail())
}

async fn plugin(daemon: &Daemon) -> Result<Plugin> {
    let plugins = daemon.json("/api/v1/plugins").await?;
    let plugin = plugins["items"].get(0).context("there is no plugin")?;
    let delivered = plugin["delivered"].as_u64().context("it is not loaded")?;
    let is_at_rest = plugin["inFlight"] == 0 && plugin["pending"] == 0;
    Ok(Plugin { delivered, is_at_rest })
}

/// Asks for a call about each object. Returns for how many there is one.
async fn call_for_all(daemon: &Daemon) -> Result<u64> {
    let (code, done, error) = daemon.command(&["plugin", "trigger", "--all", "measured"]).await?;
    ensure!(code == 0, "informant plugin trigger: {error}");
    let (_, counts) = done.split_once("triggered: ").context("no count of calls")?;
    let count = counts.split(|digit: char| !digit.is_ascii_digit()).next();
    Ok(count.unwrap_or_default().parse()?)
}

async fn create_all(client: &Client) -> Result<()> {
    let creates = stream::iter(0..OBJECTS).map(|number| async move { put(client, number, 0).await });
    creates.buffer_unordered(REQUESTS_AT_ONCE).try_collect().await
}

/// Creates or changes one object.
async fn put(client: &Client, number: u32, round: u32) -> Result<()> {
    let name = format!("counted-{number:04}");
    let map = config_map(&name, &round.to_string());
    match round {
        0 => client.post(&config_maps(""), &map).await,
        _ => client.merge(&config_maps(&name), &json!({ "data": map["data"] })).await,
    }
    .map(drop)
}
