//! Outages of the API server: all informers are back soon after it is, however long it was away, and the log has two
//! lines for each.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use informant_tests::cluster::{Cluster, Kind};
use informant_tests::daemon::Daemon;
use informant_tests::wait;
use serde_json::{Value, json};

const INFORMERS: usize = 50;

/// The promise, from the API server's first 200 on.
const BACK_WITHIN: Duration = Duration::from_secs(3);

/// The deadline of every other wait, besides the outage.
const WITHIN: Duration = Duration::from_secs(30);

/// How long the API server is away, each time right after all informers are back.
fn outages() -> Vec<Duration> {
    let seconds: &[u64] = match std::env::var_os("INFORMANT_TESTS_FULL") {
        Some(_) => &[5, 75, 75, 150],
        None => &[5],
    };
    seconds.iter().copied().map(Duration::from_secs).collect()
}

fn config() -> String {
    let informer = |number: usize| {
        format!("[informer.maps-{number:02}]\nresource = \"v1/configmaps\"\nlabel-selector = \"group=g{number}\"\n\n")
    };
    (0..INFORMERS).map(informer).collect()
}

/// Waits until so many sources are live.
async fn until_live(daemon: &Daemon, sources: usize, within: Duration) -> Result<()> {
    wait::until(&format!("{sources} live sources"), within, async || {
        let live = daemon.metric("informant_source_state", &["state=\"Live\""]).await;
        match live.map_err(|error| format!("{error:#}"))? {
            Some(live) if live == sources as f64 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
}

/// The log lines of level info and above since line `from` that are about requests to the API server.
fn lines_about_requests(daemon: &Daemon, from: usize) -> Vec<String> {
    daemon.process().lines(from, |line| {
        let line: Value = serde_json::from_str(line).ok()?;
        let message = line["message"]
            .as_str()
            .or_else(|| line["fields"]["message"].as_str())?;
        let is_about = ["API server", "watch", "list", "WatchList"]
            .iter()
            .any(|word| message.contains(word));
        is_about.then(|| line.to_string())
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_informers_are_back_in_three_seconds() {
    outages_end_soon().await.unwrap();
}

async fn outages_end_soon() -> Result<()> {
    let cluster = Cluster::start(Kind::Embedded).await?;
    let daemon = Daemon::start(cluster.folder(), &cluster.kubeconfig(), &config()).await?;
    daemon.wait_until_ready().await?;
    until_live(&daemon, INFORMERS, WITHIN).await?;
    let client = cluster.client().await?;
    for away in outages() {
        let from = daemon.process().line_count();
        // Each watch gets 410 afterwards.
        let fault = json!({"restart": {"down_ms": away.as_millis() as u64, "empty_history": true}});
        cluster.fault(&fault).await?;
        until_live(&daemon, 0, WITHIN).await?;
        wait::until("the API server", away + WITHIN, async || {
            client.text("/readyz").await.map_err(|error| format!("{error:#}"))
        })
        .await?;
        let back = Instant::now();
        until_live(&daemon, INFORMERS, WITHIN).await?;
        let took = back.elapsed();
        let lines = lines_about_requests(&daemon, from);
        ensure!(
            took <= BACK_WITHIN,
            "back after {took:?}, from an outage of {away:?}: {lines:#?}"
        );
        let messages = ["API server unavailable", "API server available again"];
        let expected = lines.iter().zip(messages).all(|(line, message)| line.contains(message));
        ensure!(lines.len() == messages.len() && expected, "{lines:#?}");
        ensure!(lines[1].contains(&format!("\"sources\":{INFORMERS}")), "{}", lines[1]);
    }
    Ok(())
}
