//! How the program reports failures: metrics, readiness, the JSON API.

use anyhow::{Result, ensure};
use informant_tests::chaos::Mode;
use informant_tests::cluster::{Cluster, Login};
use informant_tests::conformance::{ARRIVES_WITHIN, Testbed};
use informant_tests::daemon::Daemon;
use informant_tests::wait;
use serde_json::Value;

use crate::label;

pub(crate) async fn lost_api_server_shows_in_metrics_readiness_and_api(cluster: &Cluster, name: &str) -> Result<()> {
    let testbed = Testbed::prepare(cluster, &label(name), 1).await?;
    testbed.fill("kept", 3, 10).await?;
    let kubeconfig = testbed.kubeconfig(&Login::admin()).await?;
    let config = format!(
        "[informer.maps]\nresource = \"v1/configmaps\"\nnamespaces = [\"{}\"]\n",
        testbed.namespace
    );
    let folder = tempfile::tempdir()?;
    let daemon = Daemon::start(folder.path(), &kubeconfig, &config).await?;
    daemon.wait_until_ready().await?;
    until_shown(&daemon, "Live").await?;

    testbed.proxy.set(Mode::Reset);
    testbed.create("new", "1").await?;
    let source = until_shown(&daemon, "Stale").await?;
    let error = source["lastError"]["message"].as_str();
    ensure!(error.is_some_and(|text| text.contains("watch: ")), "{source}");
    let stale = daemon.metric("informant_source_state", &["state=\"Stale\""]).await?;
    ensure!(stale == Some(1.0), "{stale:?}");
    let (_, ready) = daemon.http_get("/readyz?verbose").await?;
    ensure!(ready.contains("Stale"), "{ready}");

    testbed.proxy.set(Mode::Pass);
    let source = until_shown(&daemon, "Live").await?;
    ensure!(source["watches"].as_u64() > Some(1), "{source}");
    Ok(())
}

/// The only source, once the JSON API shows it in `state`.
async fn until_shown(daemon: &Daemon, state: &str) -> Result<Value> {
    wait::until(state, ARRIVES_WITHIN, async || {
        let answer = daemon
            .json("/api/v1/sources")
            .await
            .map_err(|error| format!("{error:#}"))?;
        let source = answer
            .pointer("/sources/0")
            .or(answer.pointer("/items/0"))
            .or(answer.get(0));
        match source {
            Some(source) if source["state"] == state => Ok(source.clone()),
            _ => Err(answer.to_string()),
        }
    })
    .await
}
