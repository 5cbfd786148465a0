//! `plugins/reloader`.

use anyhow::{Context, Result, ensure};
use informant_tests::client::Client;
use informant_tests::cluster::Cluster;
use informant_tests::daemon::Daemon;
use informant_tests::objects::{config_map, config_maps};
use informant_tests::scripts;
use serde_json::{Value, json};

use super::{changed, start, workload, workloads, writes};

crate::on_both_clusters!(reloader_restarts_workloads_whose_configuration_changed,);

/// The annotations of reloader: on a workload, and on its pod template.
const SEEN: &str = "/metadata/annotations/informant~1reload-seen";
const RESTARTED: &str = "/spec/template/metadata/annotations/informant~1restarted-for";

/// Kind and name of the workloads that ask for restarts.
const MANAGED: [(&str, &str); 3] = [("Deployment", "web"), ("StatefulSet", "db"), ("DaemonSet", "agent")];

/// The path of the secrets in `default`.
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

async fn reloader_restarts_workloads_whose_configuration_changed(cluster: Cluster) -> Result<()> {
    if !scripts::can_run().await? {
        return Ok(());
    }
    let client = cluster.client().await?;
    create(&client).await?;
    let paths = MANAGED.map(|(kind, name)| workloads(kind, name));
    let mut daemon = start(&cluster, "reloader").await?;
    first_look_restarts_nothing(&client, &daemon, &paths).await?;
    // Several events may concern one workload before the cache shows the first write.
    let first = writes(&daemon, 7.0).await?;

    let restarted = change(&client, &paths).await?;
    let written = writes(&daemon, 10.0).await? - first;
    ensure!(written == 4.0, "{written} writes for four restarts");
    for (path, value) in paths.iter().zip(&restarted) {
        let now = client.get(path).await?;
        ensure!(now.pointer(RESTARTED) == Some(&json!(value)), "{path} was restarted");
    }
    let untouched = client.get(&workloads("Deployment", "unmanaged")).await?;
    let marks = [SEEN, RESTARTED].map(|pointer| untouched.pointer(pointer));
    ensure!(marks == [None, None], "{untouched}");

    // A change while Informant was stopped, and no change.
    set(&client, "settings", "3").await?;
    drop(daemon);
    daemon = start(&cluster, "reloader").await?;
    for (path, value) in paths.iter().zip(&restarted) {
        changed(&client, path, RESTARTED, Some(value)).await?;
    }
    drop(daemon);
    daemon = start(&cluster, "reloader").await?;
    ensure!(writes(&daemon, 7.0).await? == 0.0, "nothing has changed");
    Ok(())
}

/// Creates two config maps, a secret, the managed workloads, one that asks for a restart in error, and one that does
/// not ask.
async fn create(client: &Client) -> Result<()> {
    for name in ["settings", "other"] {
        client.post(&config_maps(""), &config_map(name, "1")).await?;
    }
    let secret =
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "tls" }, "stringData": { "key": "1" } });
    client.post(SECRETS, &secret).await?;
    let used = json!({ "envFrom": [{ "configMapRef": { "name": "settings" } }, { "secretRef": { "name": "tls" } }] });
    let sources = json!([{ "configMap": { "name": "settings" } }]);
    let projected = json!({ "volumes": [{ "name": "all", "projected": { "sources": sources } }] });
    let watched = [
        (json!({ "informant/reload": "true" }), used.clone()),
        (json!({ "informant/reload": "configmap/settings" }), json!({})),
        (json!({ "informant/reload": "true" }), projected),
    ];
    for ((kind, name), (annotations, pod)) in MANAGED.into_iter().zip(watched) {
        let object = workload(kind, name, &annotations, &pod);
        client.post(&workloads(kind, ""), &object).await?;
    }
    // Of one whose annotation cannot be read, the others do not notice.
    let uses = json!({ "informant/reload": "configmap/settings, secrets/tls" });
    let misspelled = workload("Deployment", "a-misspelled", &uses, &json!({}));
    client.post(&workloads("Deployment", ""), &misspelled).await?;
    let unmanaged = workload("Deployment", "unmanaged", &json!({}), &used);
    client.post(&workloads("Deployment", ""), &unmanaged).await?;
    Ok(())
}

async fn first_look_restarts_nothing(client: &Client, daemon: &Daemon, paths: &[String]) -> Result<()> {
    for path in paths {
        let seen = changed(client, path, SEEN, None).await;
        seen.with_context(|| daemon.process().tail())?;
        let now = client.get(path).await?;
        ensure!(now.pointer(RESTARTED).is_none(), "{path} was restarted");
    }
    Ok(())
}

/// Changes the config map `settings`, then what restarts nothing, then the secret, which only the first workload uses.
/// Returns what each workload was last restarted for.
async fn change(client: &Client, paths: &[String]) -> Result<Vec<String>> {
    set(client, "settings", "2").await?;
    let mut restarted = Vec::new();
    for path in paths {
        restarted.push(changed(client, path, RESTARTED, None).await?);
    }
    let label = json!({ "metadata": { "labels": { "team": "a" } } });
    client.merge(&config_maps("settings"), &label).await?;
    set(client, "other", "2").await?;
    let key = json!({ "stringData": { "key": "2" } });
    client.merge(&format!("{SECRETS}/tls"), &key).await?;
    restarted[0] = changed(client, &paths[0], RESTARTED, Some(&restarted[0])).await?;
    Ok(restarted)
}

async fn set(client: &Client, name: &str, value: &str) -> Result<Value> {
    let data = json!({ "data": { "value": value } });
    client.merge(&config_maps(name), &data).await
}
