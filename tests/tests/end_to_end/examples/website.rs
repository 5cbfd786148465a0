//! `plugins/website`: its scenarios, and the Website in its README on both API servers.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use informant_tests::client::Client;
use informant_tests::cluster::Cluster;
use informant_tests::daemon::Daemon;
use informant_tests::{guests, readme, wait};
use serde_json::{Value, json};
use tokio::process::Command;

use super::{SEEN_WITHIN, changed, workloads};
use crate::deploy::{kubectl, run};
use crate::quick_start::can_run_commands;

crate::on_both_clusters!(website_gets_its_objects_and_is_cleaned_up);

const WEBSITE: &str = "/apis/example.com/v1/namespaces/default/websites/shop";
const SERVICE: &str = "/api/v1/namespaces/default/services/shop";
const INGRESS: &str = "/apis/networking.k8s.io/v1/namespaces/default/ingresses/shop";
const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

/// The reason of the condition `Ready`, the last one.
const READY: &str = "/status/conditions/2/reason";

pub(super) fn folder() -> PathBuf {
    guests::workspace_folder().join("plugins").join("website")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scenarios_of_website_pass() {
    let Some(component) = guests::in_go("website").unwrap() else {
        return;
    };
    let cache = tempfile::tempdir().unwrap();
    let mut command = Command::new(guests::informant().unwrap());
    command.args(["plugin", "test"]).arg(component);
    command.env("XDG_CACHE_HOME", cache.path());
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().ends_with(".scenario.yaml") {
            command.arg("--scenario").arg(path);
        }
    }
    let report = run(&mut command).await.unwrap();
    assert!(report.ends_with("6 passed, 0 failed\n"), "{report}");
}

async fn website_gets_its_objects_and_is_cleaned_up(cluster: Cluster) -> Result<()> {
    let Some(component) = guests::in_go("website")? else {
        return Ok(());
    };
    if !can_run_commands().await? {
        return Ok(());
    }
    let page = readme::of("plugins/website")?;
    apply(&cluster, &folder().join("crd.yaml")).await?;
    let config = readme::first_block(&page, "toml")?.replace("\"website.wasm\"", &format!("{component:?}"));
    let daemon = Daemon::start(cluster.folder(), &cluster.kubeconfig(), &config).await?;
    daemon.wait_until_ready().await?;

    let manifest = cluster.folder().join("shop.yaml");
    std::fs::write(&manifest, readme::first_block(&page, "yaml")?)?;
    apply(&cluster, &manifest).await?;
    let client = cluster.client().await?;
    changed(&client, WEBSITE, READY, None).await?;
    let uid = client.get(WEBSITE).await?["metadata"]["uid"].clone();
    let deployment = workloads("Deployment", "shop");
    for path in [&deployment, SERVICE, INGRESS] {
        let child = client.get(path).await?;
        ensure!(child["metadata"]["ownerReferences"][0]["uid"] == uid, "{child}");
    }

    // As the Deployment's controller does.
    let replicas = json!({ "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "observedGeneration": 1 });
    client
        .merge(&format!("{deployment}/status"), &json!({ "status": replicas }))
        .await?;
    let ready = changed(&client, WEBSITE, READY, Some("Deploying")).await?;
    let status = client.get(WEBSITE).await?["status"].clone();
    ensure!(ready == "Available" && status["readyReplicas"] == 2, "{status}");

    client.delete(WEBSITE).await?;
    recorded(&client, &["Available", "Created", "Deleted"]).await?;
    wait::until("the Website to be gone", SEEN_WITHIN, async || {
        let found = client.get(WEBSITE).await;
        found.map_or(Ok(()), |website| Err(website.to_string()))
    })
    .await?;
    let letters = daemon.metric("informant_dead_letters", &["plugin=\"website\""]).await?;
    ensure!(letters.unwrap_or_default() == 0.0, "{letters:?} dead letters");
    Ok(())
}

/// Applies a file as soon as its kind is served.
pub(super) async fn apply(cluster: &Cluster, file: &Path) -> Result<String> {
    wait::until(&format!("{} to be applied", file.display()), SEEN_WITHIN, async || {
        let applied = run(kubectl(cluster).args(["apply", "-f"]).arg(file)).await;
        applied.map_err(|error| format!("{error:#}"))
    })
    .await
}

/// Waits until these are the reasons of all Events of the Website, sorted.
async fn recorded(client: &Client, expected: &[&str]) -> Result<()> {
    wait::until("the Events", SEEN_WITHIN, async || {
        let events = client.get(EVENTS).await.map_err(|error| format!("{error:#}"))?;
        let items = events["items"].as_array().cloned().unwrap_or_default();
        let ours = items.iter().filter(|event| event["regarding"]["kind"] == "Website");
        let mut reasons: Vec<&str> = ours.filter_map(|event| event["reason"].as_str()).collect();
        reasons.sort_unstable();
        match reasons == expected {
            true => Ok(()),
            false => Err(Value::from(items.clone()).to_string()),
        }
    })
    .await
}
