//! `plugins/namespace-provisioner`: its scenarios, and a namespace that gets and loses its team on both API servers.

use anyhow::{Result, ensure};
use informant_tests::client::Client;
use informant_tests::cluster::Cluster;
use informant_tests::{scripts, wait};
use serde_json::{Value, json};

use super::{SEEN_WITHIN, changed, scenarios_pass, start};

crate::on_both_clusters!(namespace_gets_keeps_and_loses_what_its_team_needs);

const NAMESPACES: &str = "/api/v1/namespaces";
const SHOP: &str = "/api/v1/namespaces/shop";
const QUOTA: &str = "/api/v1/namespaces/shop/resourcequotas/team";
const POLICY: &str = "/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies/team";
const BINDING: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings/team-edit";

const PODS: &str = "/spec/hard/pods";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scenarios_of_namespace_provisioner_pass() {
    scenarios_pass("namespace-provisioner").await.unwrap();
}

async fn namespace_gets_keeps_and_loses_what_its_team_needs(cluster: Cluster) -> Result<()> {
    if !scripts::can_run().await? {
        return Ok(());
    }
    let client = cluster.client().await?;
    let metadata = json!({ "name": "shop", "labels": { "team": "checkout" } });
    let shop = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": metadata });
    client.post(NAMESPACES, &shop).await?;
    let daemon = start(&cluster, "namespace-provisioner").await?;
    for path in [QUOTA, POLICY, BINDING] {
        changed(&client, path, "/metadata/uid", None).await?;
    }
    let quota = client.get(QUOTA).await?;
    let hard = json!({ "pods": "100", "requests.cpu": "20", "requests.memory": "64Gi" });
    ensure!(quota["spec"]["hard"] == hard, "{quota}");
    let binding = client.get(BINDING).await?;
    ensure!(binding["subjects"][0]["name"] == "oidc:checkout", "{binding}");

    // What others change is repaired, and what they delete is made again.
    client
        .merge(QUOTA, &json!({ "spec": { "hard": { "pods": "500" } } }))
        .await?;
    ensure!(changed(&client, QUOTA, PODS, Some("500")).await? == "100");
    let deleted = client.delete(POLICY).await?;
    let uid = deleted.pointer("/details/uid").or(deleted.pointer("/metadata/uid"));
    changed(&client, POLICY, "/metadata/uid", uid.and_then(Value::as_str)).await?;
    label(&client, &json!("payments")).await?;
    ensure!(changed(&client, QUOTA, PODS, Some("100")).await? == "50");
    let letters = ["plugin=\"namespace-provisioner\""];
    let letters = daemon.metric("informant_dead_letters", &letters).await?;
    ensure!(letters.unwrap_or_default() == 0.0, "{letters:?} dead letters");

    // The label is removed while Informant is stopped.
    drop(daemon);
    label(&client, &Value::Null).await?;
    let _daemon = start(&cluster, "namespace-provisioner").await?;
    for path in [QUOTA, POLICY, BINDING] {
        wait::until(&format!("{path} to be deleted"), SEEN_WITHIN, async || {
            let found = client.get(path).await;
            found.map_or(Ok(()), |found| Err(found.to_string()))
        })
        .await?;
    }
    Ok(())
}

async fn label(client: &Client, team: &Value) -> Result<()> {
    let labels = json!({ "metadata": { "labels": { "team": team } } });
    client.merge(SHOP, &labels).await.map(drop)
}
