//! `plugins/owner-labels`.

use anyhow::{Result, ensure};
use informant_tests::cluster::{Cluster, Kind};
use informant_tests::scripts;
use serde_json::{Value, json};

use super::{changed, start, workload, workloads, writes};

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
    let written = writes(&daemon, 13.0).await? - first;
    ensure!(written == 6.0, "{written} writes for six changes");

    // A restart writes nothing, and a label that the namespace loses stays.
    drop(daemon);
    let daemon = start(&cluster, "owner-labels").await?;
    writes(&daemon, 8.0).await?;
    label(namespace, json!({ "team": null })).await?;
    ensure!(writes(&daemon, 9.0).await? == 0.0, "nothing has changed");
    let kept = client.get(&workloads("Deployment", "web")).await?;
    ensure!(kept.pointer(team) == Some(&json!("checkout")), "{kept}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owner_labels_continue_after_the_writes_of_one_call() {
    if scripts::can_run().await.unwrap() {
        label_many().await.unwrap();
    }
}

async fn label_many() -> Result<()> {
    // A call may defer 100 writes.
    const WORKLOADS: usize = 150;
    let cluster = Cluster::start(Kind::Embedded).await?;
    let client = cluster.client().await?;
    let name = |number: usize| format!("web-{number}");
    for number in 0..WORKLOADS {
        let object = workload("Deployment", &name(number), &json!({}), &json!({}));
        client.post(&workloads("Deployment", ""), &object).await?;
    }
    let daemon = start(&cluster, "owner-labels").await?;
    writes(&daemon, WORKLOADS as f64).await?;
    let labels = json!({ "metadata": { "labels": { "team": "payments" } } });
    client.merge("/api/v1/namespaces/default", &labels).await?;
    for number in 0..WORKLOADS {
        changed(
            &client,
            &workloads("Deployment", &name(number)),
            "/metadata/labels/team",
            None,
        )
        .await?;
    }
    Ok(())
}
