//! The examples in `plugins/`, each with the configuration in its README.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use informant_tests::client::Client;
use informant_tests::cluster::{Cluster, Kind};
use informant_tests::daemon::Daemon;
use informant_tests::objects::{config_map, config_maps};
use informant_tests::{readme, scripts, wait};
use serde_json::{Value, json};

crate::on_both_clusters!(reloader_restarts_workloads_whose_configuration_changed,);

const SEEN_WITHIN: Duration = Duration::from_secs(60);

/// The annotations of reloader: on a workload, and on its pod template.
const SEEN: &str = "/metadata/annotations/informant~1reload-seen";
const RESTARTED: &str = "/spec/template/metadata/annotations/informant~1restarted-for";

/// Informant with the example `name`, as its README configures it.
async fn start(cluster: &Cluster, name: &str) -> Result<Daemon> {
    let config = readme::install_example(name, cluster.folder())?;
    let daemon = Daemon::start(cluster.folder(), &cluster.kubeconfig(), &config).await?;
    daemon.wait_until_ready().await?;
    Ok(daemon)
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
        let oldest = metric("informant_listener_oldest_pending_seconds", &[]).await?;
        match seen >= handled && oldest == 0.0 {
            true => metric("informant_plugin_kube_calls_total", &["result=\"ok\""]).await,
            false => Err(format!("{seen} handled, the oldest that waits is {oldest} s old")),
        }
    })
    .await
}

async fn reloader_restarts_workloads_whose_configuration_changed(cluster: Cluster) -> Result<()> {
    if !scripts::can_run().await? {
        return Ok(());
    }
    let client = cluster.client().await?;
    for name in ["settings", "other"] {
        client.post(&config_maps(""), &config_map(name, "1")).await?;
    }
    let secrets = "/api/v1/namespaces/default/secrets";
    let secret =
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "tls" }, "stringData": { "key": "1" } });
    client.post(secrets, &secret).await?;
    let from_settings =
        json!({ "envFrom": [{ "configMapRef": { "name": "settings" } }, { "secretRef": { "name": "tls" } }] });
    let projected = json!({ "volumes": [{ "name": "all", "projected": { "sources": [{ "configMap": { "name": "settings" } }] } }] });
    let watched = [
        (
            "Deployment",
            "web",
            json!({ "informant/reload": "true" }),
            from_settings.clone(),
        ),
        (
            "StatefulSet",
            "db",
            json!({ "informant/reload": "configmap/settings" }),
            json!({}),
        ),
        ("DaemonSet", "agent", json!({ "informant/reload": "true" }), projected),
    ];
    for (kind, name, annotations, pod) in &watched {
        client
            .post(&workloads(kind, ""), &workload(kind, name, annotations, pod))
            .await?;
    }
    let unmanaged = workload("Deployment", "unmanaged", &json!({}), &from_settings);
    client.post(&workloads("Deployment", ""), &unmanaged).await?;
    let paths = watched.each_ref().map(|(kind, name, ..)| workloads(kind, name));

    // The first look restarts nothing.
    let mut daemon = start(&cluster, "reloader").await?;
    for path in &paths {
        changed(&client, path, SEEN, None)
            .await
            .with_context(|| daemon.process().tail())?;
        ensure!(
            client.get(path).await?.pointer(RESTARTED).is_none(),
            "{path} was restarted"
        );
    }
    // Several events may concern one workload before the cache shows the first write.
    let first = writes(&daemon, 10.0).await?;

    let set = async |value: &str| {
        client
            .merge(&config_maps("settings"), &json!({ "data": { "value": value } }))
            .await
    };
    set("2").await?;
    let mut restarted = Vec::new();
    for path in &paths {
        restarted.push(changed(&client, path, RESTARTED, None).await?);
    }
    // Neither a label nor an unused config map restarts anything. The secret restarts the one that uses it.
    client
        .merge(
            &config_maps("settings"),
            &json!({ "metadata": { "labels": { "team": "a" } } }),
        )
        .await?;
    client
        .merge(&config_maps("other"), &json!({ "data": { "value": "2" } }))
        .await?;
    client
        .merge(&format!("{secrets}/tls"), &json!({ "stringData": { "key": "2" } }))
        .await?;
    restarted[0] = changed(&client, &paths[0], RESTARTED, Some(&restarted[0])).await?;
    let written = writes(&daemon, 17.0).await? - first;
    ensure!(written == 4.0, "{written} writes for four restarts");
    for (path, value) in paths.iter().zip(&restarted) {
        ensure!(
            client.get(path).await?.pointer(RESTARTED) == Some(&json!(value)),
            "{path} was restarted"
        );
    }
    let untouched = client.get(&workloads("Deployment", "unmanaged")).await?;
    ensure!(
        untouched.pointer(SEEN).is_none() && untouched.pointer(RESTARTED).is_none(),
        "{untouched}"
    );

    // A change while Informant was stopped, and no change.
    set("3").await?;
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owner_labels_follow_the_labels_of_the_namespace() {
    if scripts::can_run().await.unwrap() {
        label_owners().await.unwrap();
    }
}

async fn label_owners() -> Result<()> {
    let cluster = Cluster::start(Kind::Embedded).await?;
    let client = cluster.client().await?;
    let post = async |kind: &str, name: &str| {
        let object = workload(kind, name, &json!({}), &json!({}));
        client.post(&workloads(kind, ""), &object).await
    };
    let label =
        async |path: &str, labels: Value| client.merge(path, &json!({ "metadata": { "labels": labels } })).await;
    let namespace = "/api/v1/namespaces/default";
    label(namespace, json!({ "team": "payments", "stage": "production" })).await?;
    for (kind, name) in [("Deployment", "web"), ("StatefulSet", "db"), ("DaemonSet", "agent")] {
        post(kind, name).await?;
    }
    let daemon = start(&cluster, "owner-labels").await?;
    let team = "/metadata/labels/team";
    for (kind, name) in [("Deployment", "web"), ("StatefulSet", "db"), ("DaemonSet", "agent")] {
        ensure!(changed(&client, &workloads(kind, name), team, None).await? == "payments");
    }
    let first = writes(&daemon, 7.0).await?;
    let web = client.get(&workloads("Deployment", "web")).await?;
    ensure!(web["metadata"]["labels"] == json!({ "team": "payments" }), "{web}");
    ensure!(
        web["spec"]["template"]["metadata"]["labels"] == json!({ "app": "web" }),
        "{web}"
    );

    // A new workload, a workload that somebody changed, and a namespace with another owner.
    post("Deployment", "shop").await?;
    changed(&client, &workloads("Deployment", "shop"), team, None).await?;
    label(&workloads("Deployment", "web"), json!({ "team": "others" })).await?;
    changed(&client, &workloads("Deployment", "web"), team, Some("others")).await?;
    label(namespace, json!({ "team": "checkout" })).await?;
    for name in ["web", "shop"] {
        ensure!(changed(&client, &workloads("Deployment", name), team, Some("payments")).await? == "checkout");
    }
    // A label that the namespace loses stays.
    label(namespace, json!({ "team": null })).await?;
    let written = writes(&daemon, 14.0).await? - first;
    ensure!(written == 6.0, "{written} writes for six changes");
    let kept = client.get(&workloads("Deployment", "web")).await?;
    ensure!(kept.pointer(team) == Some(&json!("checkout")), "{kept}");
    Ok(())
}
