//! How long `why` takes with a full record of effects.
//!
//! A component writes for each pod, to that pod and to one that all calls write to, until the record has dropped some.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::print;
use crate::bench::cores::Cores;
use crate::bench::figure::thousands;
use crate::bench::rig::Rig;
use crate::bench::{DONE_WITHIN, load, targets};
use crate::daemon::Daemon;
use crate::{guests, wait};

/// Pods that the component is called for.
const PODS: u32 = 1_000;

/// Requests of each kind.
const REQUESTS: usize = 500;

/// Runs of the command of each kind.
const COMMANDS: usize = 21;

/// Bytes of a full record.
const BYTES_MIN: f64 = 15.5 * 1_048_576.0;

/// Measures it once, and prints it. Returns whether it meets the targets.
pub(super) async fn measure(cores: &Cores) -> Result<bool> {
    let rig = Rig::filled(cores, false, PODS).await?;
    let component = guests::component("guest-kube")?;
    let kubeconfig = rig.cluster.kubeconfig();
    let daemon = Daemon::start_under(&cores.subject(), rig.cluster.folder(), &kubeconfig, &config(&component)).await?;
    wait_until_full(&daemon)
        .await
        .with_context(|| daemon.process().tail())?;
    let value = async |name: &str| Ok::<_, anyhow::Error>(daemon.metric(name, &[]).await?.unwrap_or_default());
    let (records, bytes) = (
        value("informant_effect_log_records").await?,
        value("informant_effect_log_bytes").await?,
    );
    println!(
        "\nwhy: {} effects in {:.1} MiB, {} dropped",
        thousands(records),
        bytes / 1_048_576.0,
        thousands(value("informant_effect_log_dropped_total").await?),
    );
    ensure!(bytes >= BYTES_MIN, "the record is not full");
    let (once, often) = (load::name(PODS - 1), load::name(0));
    let object = |name: &str| format!("/api/v1/why/v1/pods?namespace=default&name={name}");
    let mut is_met = true;
    for (what, path) in [
        ("an object with some", object(&once)),
        ("an object with most", object(&often)),
        ("an object without", object("absent")),
        ("a plugin", "/api/v1/plugins/writer/why".to_owned()),
    ] {
        let (items, [median, p99]) = requests(&daemon, &path).await?;
        let text = format!("{median:.1} ms, p99 {p99:.1} ms, {items} effects in the answer");
        is_met &= print(format!("request, {what}"), &text, p99, targets::WHY_MS);
    }
    for (what, args) in [
        ("an object with some", vec![format!("pods/{once}")]),
        ("an object with most", vec![format!("pods/{often}")]),
        ("a plugin", vec!["--plugin".to_owned(), "writer".to_owned()]),
    ] {
        let median = commands(&daemon, &args).await?;
        println!("`informant why`, {what}: {median:.1} ms from its start to its end");
    }
    Ok(is_met)
}

/// `on-updates` is off: the writes lead to no call. The second write is to one pod, whichever the call is for.
fn config(component: &Path) -> String {
    let often = load::name(0);
    format!(
        "[informer.pods]\nresource = \"v1/pods\"\n\n[plugin.writer]\ncomponent = {component:?}\ninformers = [\"pods\"]\n\
         allow.kube = [{{ verbs = [\"patch\"], resource = \"v1/pods\" }}]\n\
         limits = {{ writes = \"100000/s\", writes-in-flight = 100 }}\n\n\
         [[plugin.writer.config.calls]]\nverb = \"merge\"\ntimes = 20\ndocument = {{ metadata = {{ labels = {{ seen = \"yes\" }} }} }}\n\n\
         [[plugin.writer.config.calls]]\nverb = \"merge\"\nresource = \"v1/pods\"\nnamespace = \"default\"\nname = {often:?}\n\
         times = 20\ndocument = {{ metadata = {{ labels = {{ seen = \"yes\" }} }} }}\n"
    )
}

async fn wait_until_full(daemon: &Daemon) -> Result<()> {
    wait::until("a full record of effects", DONE_WITHIN, async || {
        let value = async |name: &str, labels: &[&str]| {
            let value = daemon.metric(name, labels).await;
            Ok::<_, String>(value.map_err(|error| format!("{error:#}"))?.unwrap_or_default())
        };
        let dropped = value("informant_effect_log_dropped_total", &[]).await?;
        let handled = value("informant_handler_events_total", &["event=\"add\"", "result=\"ok\""]).await?;
        match dropped > 0.0 && handled >= f64::from(PODS) {
            true => Ok(()),
            false => Err(format!("{handled} calls, {dropped} effects dropped")),
        }
    })
    .await
}

/// The number of effects in an answer; median and 99th percentile of the time until it is read, in milliseconds.
async fn requests(daemon: &Daemon, path: &str) -> Result<(usize, [f64; 2])> {
    let answer = daemon.json(path).await?;
    let items = answer["items"].as_array().map_or(0, Vec::len);
    let mut took = Vec::new();
    for _ in 0..REQUESTS {
        let begin = Instant::now();
        let (status, _) = daemon.http_get(path).await?;
        took.push(ms(begin.elapsed()));
        ensure!(status.is_success(), "GET {path}: {status}");
    }
    took.sort_by(f64::total_cmp);
    Ok((items, [50, 99].map(|percent| took[(took.len() - 1) * percent / 100])))
}

/// The median of the command's time in milliseconds.
async fn commands(daemon: &Daemon, args: &[String]) -> Result<f64> {
    let mut all = vec!["why", "--output", "json"];
    all.extend(args.iter().map(String::as_str));
    let mut took = Vec::new();
    for _ in 0..COMMANDS {
        let begin = Instant::now();
        let (code, stdout, stderr) = daemon.command(&all).await?;
        took.push(ms(begin.elapsed()));
        ensure!(code == 0, "informant {}: {stderr}", all.join(" "));
        serde_json::from_str::<Value>(&stdout).context("the command's answer")?;
    }
    took.sort_by(f64::total_cmp);
    Ok(took[took.len() / 2])
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
