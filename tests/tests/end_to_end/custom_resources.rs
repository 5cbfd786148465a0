//! Custom resources, from their definition to a handler.

use std::time::Duration;

use anyhow::{Result, ensure};
use informant_tests::cluster::Cluster;
use informant_tests::daemon::Daemon;
use informant_tests::{guests, recording, wait};
use serde_json::{Value, json};

const ARRIVES_WITHIN: Duration = Duration::from_secs(60);

pub(super) fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
            }}}],
        },
    })
}

pub(super) fn widget(name: &str, size: u32) -> Value {
    json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": name, "namespace": "default"}, "spec": {"size": size},
    })
}

const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

crate::on_both_clusters!(custom_resources_are_watched_and_indexed_like_any_other);

async fn custom_resources_are_watched_and_indexed_like_any_other(cluster: Cluster) -> Result<()> {
    let client = cluster.client().await?;
    client
        .post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition())
        .await?;
    wait::until("the custom resource to be served", ARRIVES_WITHIN, async || {
        client
            .post(WIDGETS, &widget("first", 1))
            .await
            .map_err(|error| format!("{error:#}"))
    })
    .await?;
    let config = format!(
        "[informer.widgets]\nresource = \"example.com/v1/widgets\"\n\n[informer.widgets.index]\nsize = \"/spec/size\"\n\n\
         [plugin.recorder]\ncomponent = {:?}\ninformers = [\"widgets\"]\n",
        guests::component("guest-recorder")?
    );
    let daemon = Daemon::start(cluster.folder(), &cluster.kubeconfig(), &config).await?;
    daemon.wait_until_ready().await?;
    // A late handler receives the current objects, and no earlier ones.
    wait::until("the first list to be handled", ARRIVES_WITHIN, async || {
        let calls = recording::calls(&daemon, "recorder", 0);
        let synced = calls.iter().any(|call| call.event == "synced");
        synced
            .then_some(())
            .ok_or_else(|| format!("{} calls so far", calls.len()))
    })
    .await?;
    client.post(WIDGETS, &widget("second", 2)).await?;
    client
        .merge(&format!("{WIDGETS}/first"), &json!({"spec": {"size": 2}}))
        .await?;
    client.delete(&format!("{WIDGETS}/second")).await?;
    wait::until("all four events", ARRIVES_WITHIN, async || {
        let calls = recording::calls(&daemon, "recorder", 0);
        let events: Vec<_> = calls
            .iter()
            .filter(|call| !call.name.is_empty())
            .map(|call| (call.event.as_str(), call.name.as_str()))
            .collect();
        let expected = [
            ("add", "first"),
            ("add", "second"),
            ("update", "first"),
            ("delete", "second"),
        ];
        if expected.iter().all(|event| events.contains(event)) {
            Ok(())
        } else {
            Err(format!("{events:?}"))
        }
    })
    .await?;
    let (code, out, err) = daemon
        .command(&["get", "widgets", "--index", "size=2", "-o", "name"])
        .await?;
    ensure!(
        code == 0 && out.trim() == "widget.example.com/first",
        "exit {code}: {out}{err}"
    );
    Ok(())
}
