//! The dashboard with the rights of its reader, on the real kube-apiserver.

use anyhow::{Result, ensure};
use informant_tests::browser::{self, Browser};
use informant_tests::cluster::{Cluster, Kind, Login};

use super::dashboard;
use crate::secured::{informant, prepare, token};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn page_shows_what_the_rights_of_its_reader_allow() {
    if !browser::is_there() {
        return;
    }
    if let Some(cluster) = crate::cluster(Kind::Real).await {
        access(cluster).await.unwrap();
    }
}

async fn access(cluster: Cluster) -> Result<()> {
    prepare(&cluster).await?;
    let (_process, _, admin) = informant(&cluster).await?;
    let admin = format!("https://{admin}");
    let browser = Browser::start().await?;
    browser.appear(false, 1200).await?;
    for (user, texts) in [
        // No right at all: the page says which one is missing.
        ("mallory", ["mallory", "Not available"]),
        // Sees Informant, and pods of another namespace.
        ("bob", ["pods", "Live"]),
    ] {
        let login = Login::token(&token(&cluster, user, &[]).await?);
        let kubeconfig = cluster.kubeconfigs().write(user, cluster.address(), &login).await?;
        let kubeconfig = kubeconfig.display().to_string();
        let (_proxy, url) = dashboard(&[
            "--admin",
            &admin,
            "--insecure-skip-tls-verify",
            "--kubeconfig",
            &kubeconfig,
        ])
        .await?;
        browser.open(&format!("{url}#/sources")).await?;
        browser.wait_for(&texts).await?;
        browser.ensure_accessible().await?;
        browser.open(&format!("{url}#/object/v1%2Fpods/team-a/web")).await?;
        browser.wait_for(&["cannot get", "team-a"]).await?;
        let shown = browser.text().await?;
        ensure!(!shown.contains("nginx"), "{user} may not read this pod: {shown}");
    }
    // Without a token, the page asks for one, and data is not there.
    browser.close().await
}
