//! What a tenant costs the others that fills its namespace with large objects: how late their events are.
//!
//! The same writes happen twice, first as Secrets, which Informant does not watch, so that what the API server takes
//! for them is in both figures.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::cores::Cores;
use super::{subject, targets, usage};
use crate::client::Client;
use crate::cluster::{Cluster, EmbeddedOptions};
use crate::daemon::Daemon;
use crate::{scripts, wait};

const TENANTS: usize = 10;

/// Objects of the tenants together.
const SMALL: usize = 200;

/// Objects of the one that attacks: 630 MB. Then it changes them.
const LARGE: usize = 700;

const LARGE_BYTES: usize = 900_000;

/// Time between two writes of the attacker, and between two of the tenants.
const WRITE_EVERY: Duration = Duration::from_millis(20);

/// Of a pod with 256 MiB.
const MEMORY_BYTES_MAX: f64 = 256.0 * 1_048_576.0;

/// 60 % of 256 MiB, as a pod with that limit has by default. `all` is called for the large objects, too.
const CONFIG: &str = r#"
[cache]
max-bytes = "153MiB"

[informer.maps]
resource = "v1/configmaps"

[plugin.all]
script = "lag.js"
informers = ["maps"]

[plugin.tenants]
script = "lag.js"
informers = ["maps"]
namespaces = [
  "tenant-0", "tenant-1", "tenant-2", "tenant-3", "tenant-4", "tenant-5", "tenant-6", "tenant-7", "tenant-8", "tenant-9",
]
"#;

/// Buckets grow by 20 %, from 1 ms to 7.5 s.
const SCRIPT: &str = r#"
import { metrics } from "informant";
const buckets = Array.from({ length: 50 }, (_, at) => 1.2 ** at);
export const manifest = {
  metrics: [{ name: "lag_ms", type: "histogram", help: "Time since the write", labels: ["phase"], buckets }],
};
function seen(map) {
  const { at, phase } = map.data;
  if (at !== undefined) metrics.observe("lag_ms", Date.now() - Number(at), { phase });
}
export function onAdd(map) { seen(map); }
export function onUpdate(map) { seen(map); }
export function onDelete() {}
"#;

/// Measures `seconds` of each phase, and prints the figures. Returns whether they meet the targets.
pub(super) async fn measure(cores: &Cores, seconds: u32) -> Result<bool> {
    ensure!(scripts::can_run().await?, "the script runner is not built");
    println!("\nattack: {LARGE} ConfigMaps of {LARGE_BYTES} bytes in one namespace, max-bytes = 153MiB, {seconds} s");
    let under = cores.server();
    let cluster = Cluster::embedded(&EmbeddedOptions { under, tls: false }).await?;
    let client = cluster.client().await?;
    fill(&client).await?;
    let folder = cluster.folder();
    std::fs::write(folder.join("lag.js"), SCRIPT)?;
    let daemon = Daemon::start_under(&cores.subject(), folder, &cluster.kubeconfig(), CONFIG).await?;
    daemon.wait_until_ready().await?;
    let during = Duration::from_secs(seconds.into());
    for (phase, attacked) in [("before", "secrets"), ("attack", "configmaps")] {
        tokio::try_join!(tenants(&client, phase, during), attack(&client, attacked, during))?;
    }
    let all_handled = async || {
        let pending = daemon.metric("informant_listener_pending", &[]).await;
        match pending.map_err(|error| error.to_string())? {
            Some(0.0) => Ok(()),
            pending => Err(format!("{pending:?} events are pending")),
        }
    };
    wait::until("all calls", subject::BUDGET_DONE_WITHIN, all_handled).await?;
    let peak = usage::of(daemon.process().id().context("the daemon has ended")?)?.peak_bytes;
    let mut met = peak < MEMORY_BYTES_MAX;
    println!(
        "peak memory {:.0} MiB (below 256): {}",
        peak / 1_048_576.0,
        targets::word(met)
    );
    for plugin in ["tenants", "all"] {
        let before = p99(&daemon, plugin, "before").await?;
        let attack = p99(&daemon, plugin, "attack").await?;
        let is_met = attack <= targets::ATTACK_LAG_RATIO * before;
        println!(
            "plugin {plugin}: p99 lag of the other namespaces {before:.1} ms before, {attack:.1} ms during the attack \
             (at most {} times): {}",
            targets::ATTACK_LAG_RATIO,
            targets::word(is_met)
        );
        met &= is_met;
    }
    Ok(met)
}

async fn fill(client: &Client) -> Result<()> {
    let names = (0..TENANTS).map(tenant).chain(["attacker".to_owned()]);
    let namespaces = names.map(|name| {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        async move { client.post("/api/v1/namespaces", &namespace).await.map(drop) }
    });
    stream::iter(namespaces).buffer_unordered(8).try_collect::<()>().await?;
    let maps = (0..SMALL).map(|number| {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("map-{number}")}, "data": {},
        });
        let path = objects("configmaps", &tenant(number));
        async move { client.post(&path, &map).await.map(drop) }
    });
    stream::iter(maps).buffer_unordered(8).try_collect().await
}

/// Changes the tenants' objects at a steady rate. Each carries its send time.
async fn tenants(client: &Client, phase: &str, during: Duration) -> Result<()> {
    let mut ticks = interval(WRITE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let end = Instant::now() + during;
    for number in (0..).take_while(|_| Instant::now() < end) {
        ticks.tick().await;
        let path = format!(
            "{}/map-{}",
            objects("configmaps", &tenant(number % SMALL)),
            number % SMALL
        );
        let at = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64() * 1_000.0;
        let patch = json!({"data": {"at": at.to_string(), "phase": phase}});
        client.merge(&path, &patch).await?;
    }
    Ok(())
}

/// Creates large objects of this kind, then changes them.
async fn attack(client: &Client, resource: &str, during: Duration) -> Result<()> {
    let mut ticks = interval(WRITE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let end = Instant::now() + during;
    let text = "x".repeat(LARGE_BYTES);
    for number in (0..).take_while(|_| Instant::now() < end) {
        ticks.tick().await;
        let (path, name) = (objects(resource, "attacker"), format!("large-{}", number % LARGE));
        if number < LARGE {
            let object = json!({"metadata": {"name": name}, "data": {"text": text}});
            client.post(&path, &object).await?;
        } else {
            let patch = json!({"metadata": {"annotations": {"number": number.to_string()}}});
            client.merge(&format!("{path}/{name}"), &patch).await?;
        }
    }
    Ok(())
}

fn tenant(number: usize) -> String {
    format!("tenant-{}", number % TENANTS)
}

fn objects(resource: &str, namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/{resource}")
}

/// The 99th percentile of the lag in milliseconds, interpolated in its bucket.
async fn p99(daemon: &Daemon, plugin: &str, phase: &str) -> Result<f64> {
    let labels = [format!("plugin=\"{plugin}\""), format!("phase=\"{phase}\"")];
    let labels = labels.each_ref().map(String::as_str);
    let (_, text) = daemon.health_get("/metrics").await?;
    let mut buckets: Vec<(f64, f64)> = text.lines().filter_map(|line| bucket(line, &labels)).collect();
    buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
    let total = buckets.last().map(|bucket| bucket.1).unwrap_or_default();
    let rank = 0.99 * total;
    let (mut below, mut counted) = (0.0, 0.0);
    for (bound, count) in buckets {
        if count >= rank && total > 0.0 {
            return Ok(below + (bound - below) * (rank - counted) / (count - counted));
        }
        (below, counted) = (bound, count);
    }
    bail!("no lag of {plugin} in phase {phase}")
}

/// The upper bound and the count of a line that has these labels.
fn bucket(line: &str, labels: &[&str]) -> Option<(f64, f64)> {
    let rest = line.strip_prefix("informant_plugin_custom_lag_ms_bucket{")?;
    let (text, count) = rest.split_once("} ")?;
    let bound = text.split_once("le=\"")?.1.split('"').next()?;
    let is_wanted = labels.iter().all(|label| text.contains(label));
    is_wanted.then_some(())?;
    Some((bound.replace("+Inf", "inf").parse().ok()?, count.trim().parse().ok()?))
}
