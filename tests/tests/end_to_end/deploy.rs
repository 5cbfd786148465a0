//! `deploy/`: a cluster accepts the manifests, their configuration is valid, and they grant what it needs.

use anyhow::{Context, Result, ensure};
use informant_tests::cluster::{Cluster, tools_folder};
use informant_tests::{guests, scripts};
use serde_json::Value;
use tokio::process::Command;

crate::on_both_clusters!(manifests_apply_and_grant_what_their_configuration_needs);

const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/informant";

/// Runs a program to its end; returns its stdout.
async fn run(command: &mut Command) -> Result<String> {
    let output = command.output().await?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    ensure!(
        output.status.success(),
        "{command:?}: {}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    Ok(text(&output.stdout))
}

async fn apply(cluster: &Cluster, file: &std::path::Path) -> Result<String> {
    let mut kubectl = Command::new(tools_folder().join("kubectl"));
    kubectl.arg("--kubeconfig").arg(cluster.kubeconfig());
    kubectl.arg("--cache-dir").arg(cluster.folder().join("cache"));
    run(kubectl.args(["apply", "-f"]).arg(file)).await
}

async fn manifests_apply_and_grant_what_their_configuration_needs(cluster: Cluster) -> Result<()> {
    let manifests = guests::workspace_folder().join("deploy").join("informant.yaml");
    let said = apply(&cluster, &manifests).await?;
    ensure!(said.lines().all(|line| line.ends_with(" created")), "{said}");

    let client = cluster.client().await?;
    let config_map = client.get("/api/v1/namespaces/informant/configmaps/informant").await?;
    let files = config_map["data"].as_object().context("the ConfigMap has data")?;
    let folder = cluster.folder().join("mounted");
    std::fs::create_dir_all(&folder)?;
    for (name, text) in files {
        std::fs::write(folder.join(name), text.as_str().context("text")?)?;
    }
    let config = folder.join("config.toml");
    if scripts::can_run().await? {
        let mut check = Command::new(guests::informant()?);
        run(check.args(["check", "--offline", "-c"]).arg(&config)).await?;
    }

    let granted = rules(&client.get(ROLE).await?);
    let mut rbac = Command::new(guests::informant()?);
    let printed = run(rbac.args(["rbac", "-n", "informant", "-c"]).arg(&config)).await?;
    let rights = cluster.folder().join("rights.yaml");
    std::fs::write(&rights, printed)?;
    apply(&cluster, &rights).await?;
    let needed = rules(&client.get(ROLE).await?);
    ensure!(granted == needed, "granted {granted}, needed {needed}");
    Ok(())
}

fn rules(role: &Value) -> Value {
    role["rules"].clone()
}
