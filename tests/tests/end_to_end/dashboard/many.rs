//! The dashboard of a daemon with 200 plugins.

use std::fmt::Write as _;
use std::time::Instant;

use anyhow::{Result, ensure};
use informant_tests::browser::{self, Browser};
use informant_tests::cluster::{Cluster, Kind};
use informant_tests::daemon::Daemon;
use informant_tests::guests;

use super::WITHIN;

const PLUGINS: usize = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn page_lists_200_plugins_and_filters_them() {
    if !browser::is_there() {
        return;
    }
    if let Some(cluster) = crate::cluster(Kind::Embedded).await {
        many(cluster).await.unwrap();
    }
}

async fn many(cluster: Cluster) -> Result<()> {
    let component = guests::component("image-mark")?;
    let mut config = "[informer.pods]\nresource = \"v1/pods\"\nlabel-selector = \"app=test\"\n".to_owned();
    for number in 0..PLUGINS {
        write!(
            config,
            "\n[plugin.mark-{number:03}]\ncomponent = {component:?}\ninformers = [\"pods\"]\n\
             allow.kube = [{{ verbs = [\"patch\"], resource = \"v1/pods\", namespaces = [\"default\"] }}]\n"
        )?;
    }
    let daemon = Daemon::start(cluster.folder(), &cluster.kubeconfig(), &config).await?;
    daemon.wait_until_ready().await?;
    let browser = Browser::start().await?;
    browser.appear(false, 1600).await?;
    let begin = Instant::now();
    browser
        .open(&format!("http://{}/dashboard/#/plugins", daemon.address()))
        .await?;
    browser.wait_for(&["mark-000", "200"]).await?;
    ensure!(begin.elapsed() < WITHIN, "{:?}", begin.elapsed());
    browser.ensure_accessible().await?;
    browser
        .open(&format!(
            "http://{}/dashboard/#/plugins?filter=mark-199",
            daemon.address()
        ))
        .await?;
    browser
        .wait_until("one plugin", |shown| {
            shown.contains("mark-199") && !shown.contains("mark-000")
        })
        .await?;
    browser.close().await
}
