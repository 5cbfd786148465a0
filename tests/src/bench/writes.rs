//! How fast deferred writes are made, and that a handler that is called again writes nothing again.
//!
//! A script asks for one label on each pod, with a deferred merge patch. The API server takes 10 ms for each request.
//! The patches are counted at the server: as the used `times` of a rule.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::cores::Cores;
use super::figure::thousands;
use super::rig::Rig;
use super::targets;
use crate::client::Client;
use crate::daemon::Daemon;
use crate::wait;

/// How long the API server takes for a request, in milliseconds.
const ANSWER_MS: u64 = 10;

/// Patches that the counting rule can count.
const COUNTED_MAX: u64 = 1_000_000;

/// Sets one label, also in the call for the event of its own write.
const SCRIPT: &str = "import { kube } from \"informant\";\n\
    const label = (pod, event) => kube.defer.patch(event, { metadata: { labels: { bench: \"done\" } } });\n\
    export const onAdd = (pod, event) => label(pod, event);\n\
    export const onUpdate = (pod, event) => label(pod, event);\n";

/// What one round has shown.
struct Round {
    per_second: f64,
    /// Patches that the API server received: while the pods were labeled, after a trigger of all, after a restart.
    patches: [u64; 3],
}

/// Measures `rounds` rounds with `objects` pods each, and prints them. Returns whether all meet the target.
pub(super) async fn measure(cores: &Cores, objects: u32, rounds: u32) -> Result<bool> {
    println!(
        "\ndeferred writes: {} pods that each need one label, one instance, an API server that takes {ANSWER_MS} ms",
        thousands(f64::from(objects))
    );
    let mut met = true;
    for number in 1..=rounds {
        let round = measure_round(cores, objects).await?;
        let [labeled, triggered, restarted] = round.patches;
        let is_met = round.per_second >= targets::WRITES_PER_SECOND
            && labeled == u64::from(objects)
            && triggered + restarted == 0;
        println!(
            "run {number}: {:.0} writes/s, {labeled} patches; called again for all pods: {triggered}; after a restart: \
             {restarted}: {}",
            round.per_second,
            if is_met { "ok" } else { "missed" }
        );
        met &= is_met;
    }
    println!(
        "{}: at least {:.0} writes/s, one patch for each pod, none when called again",
        if met { "ok" } else { "missed" },
        targets::WRITES_PER_SECOND
    );
    Ok(met)
}

async fn measure_round(cores: &Cores, objects: u32) -> Result<Round> {
    let rig = Rig::filled(cores, false, objects).await?;
    rig.cluster
        .fault(&json!({"rule": {"action": {"delay-ms": ANSWER_MS}}}))
        .await?;
    let counting = json!({"filter": {"verb": "patch"}, "times": COUNTED_MAX, "action": {"delay-ms": 0}});
    rig.cluster.fault(&json!({ "rule": counting })).await?;
    let client = rig.cluster.client().await?;
    let script = rig.cluster.folder().join("label.js");
    std::fs::write(&script, SCRIPT)?;
    let (config, kubeconfig) = (config(&script), rig.cluster.kubeconfig());
    let under = cores.subject();
    let start = || Daemon::start_under(&under, rig.cluster.folder(), &kubeconfig, &config);

    let daemon = start().await?;
    let mut idle_at = Instant::now();
    wait::until("the first write", super::DONE_WITHIN, async || {
        let at = Instant::now();
        match patches(&client).await.map_err(|error| format!("{error:#}"))? {
            0 => {
                idle_at = at;
                Err("no patch".to_owned())
            }
            _ => Ok(()),
        }
    })
    .await
    .with_context(|| daemon.process().tail())?;
    wait_until_handled(&daemon, "add", objects).await?;
    let per_second = f64::from(objects) / idle_at.elapsed().as_secs_f64();
    wait_until_handled(&daemon, "update", objects).await?;
    let labeled = patches(&client).await?;

    let (code, _, stderr) = daemon.command(&["plugin", "trigger", "label", "--all"]).await?;
    ensure!(code == 0, "informant plugin trigger: {stderr}");
    wait_until_handled(&daemon, "update", 2 * objects).await?;
    let triggered = patches(&client).await? - labeled;

    drop(daemon);
    let daemon = start().await?;
    wait_until_handled(&daemon, "add", objects).await?;
    let restarted = patches(&client).await? - labeled - triggered;
    Ok(Round {
        per_second,
        patches: [labeled, triggered, restarted],
    })
}

fn config(script: &Path) -> String {
    format!(
        "[informer.pods]\nresource = \"v1/pods\"\n\n[plugin.label]\nscript = {script:?}\ninformers = [\"pods\"]\n\
         allow.kube = [{{ verbs = [\"patch\"], resource = \"v1/pods\" }}]\n\
         limits = {{ writes = \"100000/s\", writes-in-flight = 100 }}\n"
    )
}

/// The patches that the API server has received.
async fn patches(client: &Client) -> Result<u64> {
    let faults = client.get("/informant/faults").await?;
    let left = |rule: &Value| rule["times"].as_u64();
    let rules = faults["rules"].as_array();
    let left = rules.and_then(|rules| rules.iter().find_map(left));
    Ok(COUNTED_MAX - left.context("the counting rule is gone")?)
}

/// Waits until `count` events have been handled and their writes made.
async fn wait_until_handled(daemon: &Daemon, event: &str, count: u32) -> Result<()> {
    let event = format!("event=\"{event}\"");
    let labels = [event.as_str(), "result=\"ok\""];
    wait::until("the handled events", super::DONE_WITHIN, async || {
        let handled = daemon.metric("informant_handler_events_total", &labels).await;
        match handled.map_err(|error| format!("{error:#}"))?.unwrap_or_default() {
            handled if handled >= f64::from(count) => Ok(()),
            handled => Err(format!("{handled} of {count}")),
        }
    })
    .await
    .with_context(|| daemon.process().tail())
}
