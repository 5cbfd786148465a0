//! Queries of the cache: `informant get` by name, namespace and index, native and from a plugin.

use std::time::Duration;

use anyhow::{Result, ensure};
use informant_tests::cluster::Cluster;
use informant_tests::daemon::Daemon;
use informant_tests::objects::{pod, pods};
use informant_tests::{guests, wait};

crate::on_both_clusters!(
    an_index_plugin_answers_who_runs_an_image,
    missing_resources_have_distinct_messages
);

const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

async fn daemon(cluster: &Cluster) -> Result<Daemon> {
    let config = format!(
        "[informer.pods]\nresource = \"v1/pods\"\nlabel-selector = \"app=test\"\n\n\
         [informer.pods.index]\nimage-of-spec = \"/spec/containers/*/image\"\n\n\
         [plugin.images]\ncomponent = {:?}\ninformers = [\"pods\"]\n",
        guests::component("who-runs")?
    );
    let daemon = Daemon::start(cluster.folder(), &cluster.kubeconfig(), &config).await?;
    daemon.wait_until_ready().await?;
    Ok(daemon)
}

/// `informant get … -o name` as a sorted list, once it answers `expected`.
pub(crate) async fn names(daemon: &Daemon, args: &[&str], expected: &[&str], within: Duration) -> Result<()> {
    let what = format!("`informant get {}` to answer {expected:?}", args.join(" "));
    wait::until(&what, within, async || {
        let all = [&["get"], args, &["-o", "name"]].concat();
        let (code, out, err) = daemon.command(&all).await.map_err(|error| format!("{error:#}"))?;
        let mut lines: Vec<&str> = out.lines().collect();
        lines.sort_unstable();
        if code == 0 && lines == expected {
            Ok(())
        } else {
            Err(format!("exit {code}, {lines:?}, {err}"))
        }
    })
    .await
}

async fn an_index_plugin_answers_who_runs_an_image(cluster: Cluster) -> Result<()> {
    let client = cluster.client().await?;
    client.post(&pods(""), &pod("web-0", "nginx:1.25")).await?;
    client.post(&pods(""), &pod("web-1", "nginx:1.25")).await?;
    client.post(&pods(""), &pod("db-0", "postgres:17")).await?;
    let daemon = daemon(&cluster).await?;

    let answers = async |args: &[&str], expected: &[&str]| names(&daemon, args, expected, ANSWERS_WITHIN).await;
    answers(&["pods", "--index", "image=nginx:1.25"], &["pod/web-0", "pod/web-1"]).await?;
    answers(&["pods", "--index", "image-of-spec=postgres:17"], &["pod/db-0"]).await?;
    answers(&["pods", "-n", "default"], &["pod/db-0", "pod/web-0", "pod/web-1"]).await?;

    client.delete(&pods("web-0")).await?;
    client.post(&pods(""), &pod("web-2", "nginx:1.25")).await?;
    answers(&["pods", "--index", "image=nginx:1.25"], &["pod/web-1", "pod/web-2"]).await?;

    let (code, out, _) = daemon
        .command(&["get", "pods", "web-1", "-n", "default", "-o", "json"])
        .await?;
    ensure!(code == 0, "{out}");
    let object: serde_json::Value = serde_json::from_str(&out)?;
    ensure!(object["kind"] == "Pod" && object["apiVersion"] == "v1", "{object}");
    ensure!(object["metadata"]["managedFields"].is_null(), "{object}");
    Ok(())
}

async fn missing_resources_have_distinct_messages(cluster: Cluster) -> Result<()> {
    let daemon = daemon(&cluster).await?;
    let (code, _, err) = daemon.command(&["get", "pods", "missing", "-n", "default"]).await?;
    ensure!(
        code != 0 && err.contains("has no object \"missing\" in namespace default"),
        "{err}"
    );
    let (code, _, err) = daemon.command(&["get", "pods", "--index", "color=red"]).await?;
    ensure!(code != 0 && err.contains("color"), "{err}");
    let (code, _, err) = daemon.command(&["get", "secrets"]).await?;
    ensure!(code != 0 && err.contains("secrets"), "{err}");
    Ok(())
}
