//! Two clusters in one process: one cache over both, each with its own failures, on the embedded and on the real API
//! server.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use informant_tests::client::Client;
use informant_tests::cluster::{Cluster, Kind};
use informant_tests::daemon::Daemon;
use informant_tests::guests;
use informant_tests::objects::{pod, pods};
use serde_json::Value;

use super::acting::wait_for_label;
use super::queries::names;

const ANSWERS_WITHIN: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_two_embedded_api_servers() {
    let (east, west) = (
        crate::cluster(Kind::Embedded).await,
        crate::cluster(Kind::Embedded).await,
    );
    if let (Some(east), Some(west)) = (east, west) {
        queries_are_answered_over_both(east, west).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_an_embedded_api_server_and_kube_apiserver() {
    let (east, west) = (crate::cluster(Kind::Real).await, crate::cluster(Kind::Embedded).await);
    if let (Some(east), Some(west)) = (east, west) {
        queries_are_answered_over_both(east, west).await.unwrap();
    }
}

struct Clusters {
    east: Cluster,
    west: Cluster,
    daemon: Daemon,
}

impl Clusters {
    async fn start(east: Cluster, west: Cluster) -> Result<Self> {
        // `west` is a context of a file with two contexts, which is common.
        let (file, context) = with_another_context(&west)?;
        let config = format!(
            "[cluster.east]\nkubeconfig = {:?}\n[cluster.west]\nkubeconfig = {file:?}\ncontext = {context:?}\n\n\
             [informer.pods]\nresource = \"pods\"\nlabel-selector = \"app=test\"\n\n\
             [plugin.images]\ncomponent = {:?}\ninformers = [\"pods\"]\n\n\
             [plugin.marks]\ncomponent = {:?}\ninformers = [\"pods\"]\n\
             allow.kube = [{{ verbs = [\"patch\"], resource = \"v1/pods\" }}]\n",
            east.kubeconfig(),
            guests::component("who-runs")?,
            guests::component("image-mark")?
        );
        let daemon = Daemon::start(east.folder(), &east.kubeconfig(), &config).await?;
        daemon.wait_until_ready().await?;
        Ok(Self { east, west, daemon })
    }

    /// `informant get pods … -o name`, sorted, once it answers `expected`.
    async fn names(&self, args: &[&str], expected: &[&str]) -> Result<()> {
        names(&self.daemon, &[&["pods"], args].concat(), expected, ANSWERS_WITHIN).await
    }
}

/// A kubeconfig of `cluster` with an unreachable current context, and the name of the reachable context.
fn with_another_context(cluster: &Cluster) -> Result<(PathBuf, String)> {
    let text = std::fs::read_to_string(cluster.kubeconfig())?;
    let current = text
        .lines()
        .find(|line| line.trim_start().starts_with("current-context:"));
    let current = current.context("the kubeconfig has a current context")?;
    let (_, name) = current.split_once(':').context("it has a value")?;
    let context = name.trim().trim_matches('"').to_owned();
    let file = cluster.folder().join("two-contexts");
    std::fs::write(&file, text.replace(current, "current-context: nowhere"))?;
    Ok((file, context))
}

async fn queries_are_answered_over_both(east: Cluster, west: Cluster) -> Result<()> {
    let (in_east, in_west): (Client, Client) = (east.client().await?, west.client().await?);
    in_east.post(&pods(""), &pod("web-0", "nginx:1.25")).await?;
    in_east.post(&pods(""), &pod("db-0", "postgres:17")).await?;
    in_west.post(&pods(""), &pod("web-0", "nginx:1.25")).await?;
    let mut clusters = Clusters::start(east, west).await?;

    // A plugin that writes does so in the cluster of the object.
    for client in [&in_east, &in_west] {
        wait_for_label(client, "web-0", "tagged").await?;
    }

    // One name in two clusters is two objects, in lists and in a plugin's index.
    let both = ["east/pod/web-0", "west/pod/web-0"];
    clusters
        .names(&["--all-clusters", "--index", "image=nginx:1.25"], &both)
        .await?;
    clusters.names(&["web-0", "-n", "default"], &both).await?;
    clusters
        .names(
            &["--cluster", "east", "-l", "app in (test)"],
            &["pod/db-0", "pod/web-0"],
        )
        .await?;
    clusters
        .names(&["--cluster", "west", "--index", "image=nginx:1.25"], &["pod/web-0"])
        .await?;
    let (code, _, err) = clusters
        .daemon
        .command(&["get", "pods", "db-0", "--cluster", "west"])
        .await?;
    ensure!(
        code == 1 && err.contains("has no object \"db-0\" in cluster west"),
        "exit {code}: {err}"
    );
    for format in ["wide", "json", "yaml"] {
        let (code, out, err) = clusters.daemon.command(&["get", "pods", "-o", format]).await?;
        ensure!(
            code == 0 && out.contains("east") && out.contains("west"),
            "{format}: {out}{err}"
        );
    }
    let (code, out, _) = clusters.daemon.command(&["get", "sources", "-o", "json"]).await?;
    let sources: Value = serde_json::from_str(&out)?;
    ensure!(
        code == 0 && sources["items"].as_array().is_some_and(|items| items.len() == 2),
        "{out}"
    );
    let (code, out, err) = clusters.daemon.command(&["get", "pods"]).await?;
    ensure!(
        code == 0 && out.starts_with("CLUSTER ") && err.contains("fresh as of east "),
        "{out}{err}"
    );

    // `west` stops and returns; meanwhile the cache keeps answering and the changes of `east` arrive.
    in_west.delete(&pods("web-0")).await?;
    clusters.names(&["web-0", "--cluster", "east"], &["pod/web-0"]).await?;
    clusters.west.restart_apiserver().await?;
    in_east.post(&pods(""), &pod("web-1", "nginx:1.25")).await?;
    clusters
        .names(
            &["--index", "image=nginx:1.25", "--cluster", "east"],
            &["pod/web-0", "pod/web-1"],
        )
        .await?;
    in_west.post(&pods(""), &pod("web-2", "nginx:1.25")).await?;
    let all = ["east/pod/web-0", "east/pod/web-1", "west/pod/web-2"];
    clusters.names(&["--index", "image=nginx:1.25"], &all).await?;
    ensure!(clusters.east.folder().is_dir());
    Ok(())
}
