//! `plugins/secret-replicator`: its scenarios, and its replicas over kills on both API servers.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use informant_tests::client::Client;
use informant_tests::cluster::Cluster;
use informant_tests::daemon::Daemon;
use informant_tests::{guests, readme, wait};
use serde_json::{Value, json};
use tokio::process::Command;

use super::SEEN_WITHIN;
use crate::deploy::run;

crate::on_both_clusters!(replicas_follow_their_source_over_kills);

const NAMESPACES: &str = "/api/v1/namespaces";
const SOURCE: &str = "/api/v1/namespaces/shop/secrets/tls";

pub(super) fn folder() -> PathBuf {
    guests::workspace_folder().join("plugins").join("secret-replicator")
}

/// Copies a file into `folder`. `adjust` may change its text.
pub(super) fn copy(file: &Path, folder: &Path, adjust: impl Fn(String) -> String) -> Result<()> {
    let name = file.file_name().context("a file has a name")?;
    std::fs::write(folder.join(name), adjust(std::fs::read_to_string(file)?))?;
    Ok(())
}

/// `config` with the runner of Python scripts.
pub(super) fn with_runner(config: &str, runner: &Path) -> String {
    format!("[script-runners]\npy = {runner:?}\n\n{config}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scenarios_of_secret_replicator_pass() {
    if let Some(runner) = guests::python_runner().unwrap() {
        pass(&runner).await.unwrap();
    }
}

async fn pass(runner: &Path) -> Result<()> {
    let (copies, cache) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let mut scenarios = 0;
    for entry in std::fs::read_dir(folder())? {
        let path = entry?.path();
        let is_scenario = path.to_string_lossy().ends_with(".scenario.yaml");
        scenarios += usize::from(is_scenario);
        copy(&path, copies.path(), |text| match is_scenario {
            // One has its configuration in the file.
            true => text.replace(
                "\nconfig:\n",
                &format!("\nconfig:\n  script-runners: {{ py: {runner:?} }}\n"),
            ),
            false if path.ends_with("config.toml") => with_runner(&text, runner),
            false => text,
        })?;
    }
    let mut command = Command::new(guests::informant()?);
    command.args(["plugin", "test"]).arg(copies.path());
    command.env("XDG_CACHE_HOME", cache.path());
    let report = run(&mut command).await?;
    ensure!(report.ends_with(&format!("{scenarios} passed, 0 failed\n")), "{report}");
    Ok(())
}

async fn replicas_follow_their_source_over_kills(cluster: Cluster) -> Result<()> {
    let Some(runner) = guests::python_runner()? else {
        return Ok(());
    };
    copy(&folder().join("secret_replicator.py"), cluster.folder(), |text| text)?;
    let page = readme::of("plugins/secret-replicator")?;
    let config = with_runner(&readme::first_block(&page, "toml")?, &runner);
    let start = async || Daemon::start(cluster.folder(), &cluster.kubeconfig(), &config).await;
    let client = cluster.client().await?;
    for name in ["shop", "team-a", "team-b", "other"] {
        client.post(NAMESPACES, &namespace(name)).await?;
    }
    let foreign = secret(&json!({ "name": "tls", "namespace": "team-b" }), "bWluZQ==");
    client.post(&format!("{NAMESPACES}/team-b/secrets"), &foreign).await?;
    let annotations = json!({ "informant.dev/replicate-to": "team-*" });
    let metadata = json!({ "name": "tls", "namespace": "shop", "annotations": annotations });
    let source = secret(&metadata, "b25l");
    client.post(&format!("{NAMESPACES}/shop/secrets"), &source).await?;

    let daemon = start().await?;
    replica_is(&client, "team-a", Some("b25l")).await?;
    client.post(NAMESPACES, &namespace("team-c")).await?;
    replica_is(&client, "team-c", Some("b25l")).await?;
    refused(&client).await?;

    // While it is killed, the source changes and a replica is deleted. Then the source is deleted.
    drop(daemon);
    client.merge(SOURCE, &json!({ "data": { "key": "dHdv" } })).await?;
    client.delete(&format!("{NAMESPACES}/team-c/secrets/tls")).await?;
    let daemon = start().await?;
    for namespace in ["team-a", "team-c"] {
        replica_is(&client, namespace, Some("dHdv")).await?;
    }
    drop(daemon);
    client.delete(SOURCE).await?;
    let daemon = start().await?;
    for namespace in ["team-a", "team-c", "other"] {
        replica_is(&client, namespace, None).await?;
    }
    replica_is(&client, "team-b", Some("bWluZQ==")).await?;
    let letters = daemon
        .metric("informant_dead_letters", &["plugin=\"secret-replicator\""])
        .await?;
    ensure!(letters.unwrap_or_default() == 0.0, "{letters:?} dead letters");
    Ok(())
}

pub(super) fn namespace(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}

pub(super) fn secret(metadata: &Value, value: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": { "key": value } })
}

/// Waits until the Secret in `namespace` has this value, or is gone.
async fn replica_is(client: &Client, namespace: &str, value: Option<&str>) -> Result<()> {
    let path = format!("{NAMESPACES}/{namespace}/secrets/tls");
    wait::until(&format!("{path} to be {value:?}"), SEEN_WITHIN, async || {
        let found = client.get(&path).await.ok();
        let has = found.as_ref().and_then(|found| found["data"]["key"].as_str());
        match has == value {
            true => Ok(()),
            false => Err(format!("{has:?}")),
        }
    })
    .await
}

/// Waits for the Event about the Secret in `team-b` that is not a replica.
async fn refused(client: &Client) -> Result<()> {
    let events = "/apis/events.k8s.io/v1/namespaces/shop/events";
    wait::until("the Event", SEEN_WITHIN, async || {
        let found = client.get(events).await.map_err(|error| format!("{error:#}"))?;
        let event = &found["items"][0];
        match event["reason"] == "ReplicaRefused" && event["regarding"]["name"] == "tls" {
            true => Ok(()),
            false => Err(found.to_string()),
        }
    })
    .await
}
