//! The writes of a reconciler with children: `plugins/website` with Websites that have a host, from nothing to their
//! status, and after a restart. The writes are counted at the server: as the used `times` of rules. Kopf, if it is
//! installed, does the same work in the same run.

mod kopf;

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};

use super::cores::Cores;
use super::rig::Rig;
use super::targets;
use super::usage::{self, Usage};
use crate::client::Client;
use crate::daemon::Daemon;
use crate::{guests, wait};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WEBSITES: &str = "/apis/example.com/v1/namespaces/default/websites";

/// Websites that are deleted while nothing runs. They have a label.
const DELETED: u32 = 20;
const DELETED_LABEL: &str = "bench/deleted";

/// What is written, and with which verbs.
const RESOURCES: [&str; 4] = ["websites", "deployments", "services", "ingresses"];
const VERBS: [&str; 4] = ["create", "update", "patch", "delete"];

/// Writes that one rule can count.
const COUNTED_MAX: u64 = 1_000_000;

/// Nothing is written for so long when all is done.
const QUIET: Duration = Duration::from_secs(2);

/// Requests of this process at a time.
const REQUESTS_AT_ONCE: usize = 8;

/// Writes that the API server has received.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Writes {
    objects: u64,
    /// Kubernetes Events.
    events: u64,
}

/// What was needed until every Website has its status, and nothing more is written.
struct Made {
    took: Duration,
    writes: Writes,
    usage: Usage,
}

/// What one round has shown.
struct Round {
    made: Made,
    /// From the start until the deleted Websites are gone.
    restart: Duration,
    after_restart: Writes,
}

/// Measures `rounds` rounds with `count` Websites each, and prints them. Returns whether all meet the targets.
pub(super) async fn measure(cores: &Cores, count: u32, rounds: u32, kopf: Option<&Path>) -> Result<bool> {
    let most = f64::from(count) * targets::WEBSITE_WRITES;
    println!("\n{count} Websites with a Deployment, a Service, an Ingress, a finalizer and a status each");
    let mut met = true;
    for number in 1..=rounds {
        let Round {
            made,
            restart,
            after_restart,
        } = measure_round(cores, count).await?;
        let is_met = made.writes.objects as f64 <= most && restart.as_secs_f64() < targets::WEBSITE_RESTART_SECONDS;
        println!(
            "run {number}: {made}; a restart after {DELETED} deletes: {restart:.2?} until they are gone, {} writes and {} \
             Events: {}",
            after_restart.objects,
            after_restart.events,
            if is_met { "ok" } else { "missed" }
        );
        met &= is_met;
        if let Some(packages) = kopf {
            let by_kopf = kopf::measure(cores, count, packages).await?;
            println!("Kopf:  {by_kopf}");
            met &= compare(&made.usage, &by_kopf.usage);
        }
    }
    println!(
        "{}: at most {most:.0} writes without Events, the restart below {} s",
        if met { "ok" } else { "missed" },
        targets::WEBSITE_RESTART_SECONDS
    );
    Ok(met)
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Made { took, writes, usage } = self;
        let megabytes = usage.resident_bytes / 1e6;
        let (objects, events, cpu) = (writes.objects, writes.events, usage.cpu.as_secs_f64());
        write!(
            f,
            "{objects} writes and {events} Events in {took:.1?}, {cpu:.2} s of CPU, {megabytes:.0} MB"
        )
    }
}

/// Prints how much Informant needs of what Kopf does. Returns whether that is little enough.
fn compare(own: &Usage, kopf: &Usage) -> bool {
    let shares = [
        (
            "CPU",
            own.cpu.as_secs_f64() / kopf.cpu.as_secs_f64(),
            targets::CPU_BY_KOPF,
        ),
        (
            "memory",
            own.resident_bytes / kopf.resident_bytes,
            targets::MEMORY_BY_KOPF,
        ),
    ];
    for (what, share, most) in shares {
        let word = if share <= most { "ok" } else { "missed" };
        println!("{word}: {share:.2} of Kopf's {what}, at most {most:.2}");
    }
    shares.iter().all(|(_, share, most)| share <= most)
}

async fn measure_round(cores: &Cores, count: u32) -> Result<Round> {
    let rig = Rig::empty(cores, false).await?;
    let client = rig.cluster.client().await?;
    define(&client).await?;
    create(&client, count).await?;
    count_writes(&rig).await?;
    let component = guests::in_go("website")?.context("plugins/website is not built")?;
    let (config, kubeconfig, under) = (config(&component)?, rig.cluster.kubeconfig(), cores.subject());
    let start = || Daemon::start_under(&under, rig.cluster.folder(), &kubeconfig, &config);

    let began = Instant::now();
    let daemon = start().await?;
    let ready = wait_until_ready(&client, count).await;
    ready.with_context(|| daemon.process().tail())?;
    let took = began.elapsed();
    let writes = settled(&client).await?;
    let usage = usage_of(daemon.process().id().context("Informant has ended")?)?;
    drop(daemon);

    for number in 0..DELETED {
        client.delete(&format!("{WEBSITES}/{}", name(number))).await?;
    }
    let before = written(&client).await?;
    let began = Instant::now();
    let daemon = start().await?;
    let gone = wait_until_gone(&client).await;
    gone.with_context(|| daemon.process().tail())?;
    let restart = began.elapsed();
    let after = settled(&client).await?;
    Ok(Round {
        made: Made { took, writes, usage },
        restart,
        after_restart: Writes {
            objects: after.objects - before.objects,
            events: after.events - before.events,
        },
    })
}

/// Without child processes: a component is compiled in one, once.
fn usage_of(process: u32) -> Result<Usage> {
    let cpu = usage::threads(process)?;
    Ok(Usage {
        cpu,
        ..usage::of(process)?
    })
}

/// Defines Websites, and waits until they are served.
async fn define(client: &Client) -> Result<()> {
    let path = guests::workspace_folder().join("plugins/website/crd.yaml");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    client.post(DEFINITIONS, &serde_saphyr::from_str(&text)?).await?;
    wait::until("Websites to be served", super::DONE_WITHIN, async || {
        let served = client.get(WEBSITES).await;
        served.map(drop).map_err(|error| format!("{error:#}"))
    })
    .await
}

async fn create(client: &Client, count: u32) -> Result<()> {
    let posts = stream::iter(0..count).map(|number| {
        let client = client.clone();
        async move { client.post(WEBSITES, &website(number)).await.map(drop) }
    });
    posts.buffer_unordered(REQUESTS_AT_ONCE).try_collect().await
}

fn name(number: u32) -> String {
    format!("site-{number}")
}

fn website(number: u32) -> Value {
    let name = name(number);
    let labels = match number < DELETED {
        true => json!({ DELETED_LABEL: "yes" }),
        false => json!({}),
    };
    json!({
        "apiVersion": "example.com/v1", "kind": "Website", "metadata": { "name": name, "labels": labels },
        "spec": { "image": "nginx:1.29", "replicas": 2, "host": format!("{name}.example.com") },
    })
}

/// The limits of writes are raised: they are there to protect an API server.
fn config(component: &Path) -> Result<String> {
    let path = guests::workspace_folder().join("plugins/website/config.toml");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let limits = "limits = { writes = \"100000/s\", writes-in-flight = 100 }";
    Ok(text.replace("\"website.wasm\"", &format!("{component:?}\n{limits}")))
}

/// Rules that change nothing.
async fn count_writes(rig: &Rig) -> Result<()> {
    for resource in RESOURCES.into_iter().chain(["events"]) {
        for verb in VERBS {
            let filter = json!({ "verb": verb, "resource": resource });
            let rule = json!({ "filter": filter, "times": COUNTED_MAX, "action": { "delay-ms": 0 } });
            rig.cluster.fault(&json!({ "rule": rule })).await?;
        }
    }
    Ok(())
}

async fn written(client: &Client) -> Result<Writes> {
    let faults = client.get("/informant/faults").await?;
    let rules = faults["rules"].as_array().context("the counting rules are gone")?;
    let of = |is_counted: &dyn Fn(&Value) -> bool| -> u64 {
        let counted = rules.iter().filter(|rule| is_counted(&rule["filter"]["resource"]));
        counted
            .filter_map(|rule| rule["times"].as_u64())
            .map(|left| COUNTED_MAX - left)
            .sum()
    };
    ensure!(
        rules.len() == (RESOURCES.len() + 1) * VERBS.len(),
        "a counting rule is gone"
    );
    Ok(Writes {
        objects: of(&|resource| resource != "events"),
        events: of(&|resource| resource == "events"),
    })
}

/// What was written when nothing more is.
async fn settled(client: &Client) -> Result<Writes> {
    loop {
        let before = written(client).await?;
        tokio::time::sleep(QUIET).await;
        let now = written(client).await?;
        if now == before {
            return Ok(now);
        }
    }
}

/// Waits until every Website has its status.
async fn wait_until_ready(client: &Client, count: u32) -> Result<()> {
    wait::until("the status of every Website", super::DONE_WITHIN, async || {
        // Reading all of them takes a while: they are read again when that is likely to help.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let list = client.get(WEBSITES).await.map_err(|error| format!("{error:#}"))?;
        let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
        let ready = items
            .iter()
            .filter(|item| item["status"]["conditions"].is_array())
            .count();
        match ready == count as usize {
            true => Ok(()),
            false => Err(format!("{ready} of {count}")),
        }
    })
    .await
}

/// Waits until the finalizers of the deleted Websites are removed.
async fn wait_until_gone(client: &Client) -> Result<()> {
    let path = format!("{WEBSITES}?labelSelector={DELETED_LABEL}%3Dyes");
    wait::until("the deleted Websites to be gone", super::DONE_WITHIN, async || {
        let list = client.get(&path).await.map_err(|error| format!("{error:#}"))?;
        match list["items"].as_array().map_or(0, Vec::len) {
            0 => Ok(()),
            left => Err(format!("{left} are left")),
        }
    })
    .await
}
