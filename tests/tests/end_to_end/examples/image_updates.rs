//! `plugins/image-updates`: its scenarios, and the configuration in its README with a local registry on both API
//! servers.

use anyhow::{Result, ensure};
use informant_tests::cluster::Cluster;
use informant_tests::daemon::Daemon;
use informant_tests::service::{Answer, Service};
use informant_tests::{guests, readme};
use serde_json::{Value, json};
use tokio::process::Command;

use super::{SEEN_WITHIN, changed, workload, workloads};
use crate::deploy::run;

crate::on_both_clusters!(workloads_with_newer_images_are_annotated);

/// `informant/image-updates` as a part of a JSON pointer.
const ANNOTATION: &str = "/metadata/annotations/informant~1image-updates";

const TAGS: Answer = Answer {
    status: 200,
    retry_after: None,
    body: r#"{"name":"library/nginx","tags":["1.28","1.29","1.30"]}"#,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scenarios_of_image_updates_pass() {
    let folder = guests::workspace_folder().join("plugins").join("image-updates");
    let cache = tempfile::tempdir().unwrap();
    let mut command = Command::new(guests::informant().unwrap());
    command
        .args(["plugin", "test"])
        .arg(guests::component("image-updates").unwrap());
    for name in ["updates", "failing"] {
        command
            .arg("--scenario")
            .arg(folder.join(format!("{name}.scenario.yaml")));
    }
    let report = run(command.env("XDG_CACHE_HOME", cache.path())).await.unwrap();
    assert!(report.ends_with("2 passed, 0 failed\n"), "{report}");
}

async fn workloads_with_newer_images_are_annotated(cluster: Cluster) -> Result<()> {
    let registry = Service::start(TAGS, &[]).await?;
    let client = cluster.client().await?;
    let web = workload("Deployment", "web", &json!({}), &json!({}));
    client.post(&workloads("Deployment", ""), &web).await?;

    let page = readme::of("plugins/image-updates")?;
    let component = guests::component("image-updates")?;
    let registries = format!(", registries = {{ \"docker.io\" = \"{}\" }} }}", registry.origin());
    let config = readme::first_block(&page, "toml")?
        .replace("\"image-updates.wasm\"", &format!("{component:?}"))
        .replace("\"https://ghcr.io\"", &format!("\"{}\"", registry.origin()))
        .replace("\"daemonsets\"] }", &format!("\"daemonsets\"]{registries}"))
        + "timers.check = { every = \"1s\" }\n";
    let daemon = Daemon::start(cluster.folder(), &cluster.kubeconfig(), &config).await?;
    daemon.wait_until_ready().await?;
    let path = workloads("Deployment", "web");
    let updates = changed(&client, &path, ANNOTATION, None).await?;
    ensure!(updates == "docker.io/library/nginx:1.30", "{updates}");
    let head = registry.wait_for(1, SEEN_WITHIN).await?[0].head.clone();
    ensure!(head.starts_with("GET /v2/library/nginx/tags/list?n=1000 "), "{head}");

    // It runs the newest one now.
    let newest =
        json!({ "spec": { "template": { "spec": { "containers": [{ "name": "app", "image": "nginx:1.30" }] } } } });
    client.merge(&path, &newest).await?;
    informant_tests::wait::until("the annotation to go", SEEN_WITHIN, async || {
        let object = client.get(&path).await.map_err(|error| format!("{error:#}"))?;
        match object.pointer(ANNOTATION).and_then(Value::as_str) {
            None => Ok(()),
            Some(text) => Err(text.to_owned()),
        }
    })
    .await
}
