//! The examples in `plugins/`, each with the configuration in its README.

mod image_updates;
mod killed;
mod namespace_provisioner;
mod oom_to_slack;
mod owner_labels;
mod reloader;
mod secret_replicator;
mod ttl_janitor;
mod website;

use std::time::Duration;

use anyhow::Result;
use informant_tests::client::Client;
use informant_tests::cluster::Cluster;
use informant_tests::daemon::Daemon;
use informant_tests::{guests, readme, scripts, wait};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::deploy::run;

const SEEN_WITHIN: Duration = Duration::from_secs(60);

/// Informant with the example `name`, as its README configures it.
async fn start(cluster: &Cluster, name: &str) -> Result<Daemon> {
    start_with(cluster, name, |config| config).await
}

/// As [`start`], with another configuration than that of the README.
async fn start_with(cluster: &Cluster, name: &str, adjust: impl Fn(String) -> String) -> Result<Daemon> {
    let config = adjust(readme::install_example(name, cluster.folder())?);
    let daemon = Daemon::start(cluster.folder(), &cluster.kubeconfig(), &config).await?;
    daemon.wait_until_ready().await?;
    Ok(daemon)
}

/// Runs the scenarios of the example script `name`.
async fn scenarios_pass(name: &str) -> Result<()> {
    if !scripts::can_run().await? {
        return Ok(());
    }
    let cache = tempfile::tempdir()?;
    let mut command = Command::new(guests::informant()?);
    command.args(["plugin", "test"]);
    command.arg(guests::workspace_folder().join("plugins").join(name));
    run(command.env("XDG_CACHE_HOME", cache.path())).await?;
    Ok(())
}

/// A workload in `default` whose pods have this specification besides their container.
fn workload(kind: &str, name: &str, annotations: &Value, pod: &Value) -> Value {
    let mut pod = pod.clone();
    pod["containers"] = json!([{ "name": "app", "image": "nginx:1.29", "envFrom": pod["envFrom"].take() }]);
    let mut spec = json!({
        "selector": { "matchLabels": { "app": name } },
        "template": { "metadata": { "labels": { "app": name } }, "spec": pod },
    });
    if kind == "StatefulSet" {
        spec["serviceName"] = name.into();
    }
    let metadata = json!({ "name": name, "namespace": "default", "annotations": annotations });
    json!({ "apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec })
}

/// The path of the workloads of a kind in `default`, or of one.
fn workloads(kind: &str, name: &str) -> String {
    let separator = if name.is_empty() { "" } else { "/" };
    let plural = format!("{}s", kind.to_lowercase());
    format!("/apis/apps/v1/namespaces/default/{plural}{separator}{name}")
}

/// The text at a pointer of an object, once it is another than `before`.
async fn changed(client: &Client, path: &str, pointer: &str, before: Option<&str>) -> Result<String> {
    wait::until(&format!("{pointer} of {path} to change"), SEEN_WITHIN, async || {
        let object = client.get(path).await.map_err(|error| format!("{error:#}"))?;
        match object.pointer(pointer).and_then(Value::as_str) {
            Some(text) if Some(text) != before => Ok(text.to_owned()),
            _ => Err(object["metadata"].to_string()),
        }
    })
    .await
}

/// The plugin's successful writes, once it has handled at least `handled` events and none waits.
async fn writes(daemon: &Daemon, handled: f64) -> Result<f64> {
    let metric = async |name: &str, labels: &[&str]| {
        let value = daemon.metric(name, labels).await;
        Ok::<f64, String>(value.map_err(|error| format!("{error:#}"))?.unwrap_or_default())
    };
    wait::until("the plugin to handle all events", SEEN_WITHIN, async || {
        let seen = metric("informant_handler_events_total", &["result=\"ok\""]).await?;
        let status = daemon.json("/api/v1/plugins").await;
        let status = status.map_err(|error| format!("{error:#}"))?;
        let open = ["/items/0/pending", "/items/0/inFlight", "/items/0/writesWaiting"];
        match seen >= handled && open.iter().all(|left| status.pointer(left) == Some(&json!(0))) {
            true => metric("informant_plugin_kube_calls_total", &["result=\"ok\""]).await,
            false => Err(format!("{seen} handled: {status}")),
        }
    })
    .await
}
