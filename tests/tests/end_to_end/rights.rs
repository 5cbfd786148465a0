//! `informant rbac`: its output can be applied, suffices to run, and grants no more than that.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use informant_tests::cluster::{Cluster, Kind, tools_folder};
use informant_tests::daemon::Daemon;
use informant_tests::objects::{pod, pods};
use informant_tests::{guests, wait};
use serde_json::{Value, json};
use tokio::process::Command;

crate::on_both_clusters!(rbac_output_is_accepted_by_kubectl);

pub(crate) const ARRIVES_WITHIN: Duration = Duration::from_secs(60);

/// Reads nodes everywhere and pods in one namespace; labels pods there.
fn config() -> Result<String> {
    let component = guests::component("image-mark")?;
    Ok(format!(
        "[informer.nodes]\nresource = \"v1/nodes\"\n\n\
         [informer.pods]\nresource = \"v1/pods\"\nnamespaces = [\"default\"]\nlabel-selector = \"app=test\"\n\n\
         [plugin.image-mark]\ncomponent = {component:?}\ninformers = [\"pods\"]\n\
         allow.kube = [{{ verbs = [\"patch\"], resource = \"v1/pods\", namespaces = [\"default\"] }}]\n"
    ))
}

/// Runs a program; returns its exit code and output.
pub(crate) async fn run(program: &Path, args: &[&str]) -> Result<(i32, String)> {
    let output = Command::new(program).args(args).output().await?;
    let text = [output.stdout, output.stderr].concat();
    Ok((
        output.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&text).into_owned(),
    ))
}

pub(crate) async fn kubectl(cluster: &Cluster, args: &[&str]) -> Result<String> {
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let cache = cluster.folder().join("cache").display().to_string();
    let args = [&["--kubeconfig", &kubeconfig, "--cache-dir", &cache], args].concat();
    let (code, output) = run(&tools_folder().join("kubectl"), &args).await?;
    ensure!(code == 0, "kubectl {}: {output}", args.join(" "));
    Ok(output)
}

/// The output of `informant rbac` for [`config`], in a file.
async fn printed(cluster: &Cluster) -> Result<PathBuf> {
    let (config_file, rights) = (
        cluster.folder().join("rights.toml"),
        cluster.folder().join("rights.yaml"),
    );
    std::fs::write(&config_file, config()?)?;
    let config_file = config_file.display().to_string();
    let (code, output) = run(&guests::informant()?, &["rbac", "-c", &config_file, "-n", "default"]).await?;
    ensure!(code == 0, "{output}");
    std::fs::write(&rights, output)?;
    Ok(rights)
}

async fn rbac_output_is_accepted_by_kubectl(cluster: Cluster) -> Result<()> {
    let rights = printed(&cluster).await?.display().to_string();
    kubectl(&cluster, &["apply", "-f", &rights]).await?;
    let client = cluster.client().await?;
    let role = client
        .get("/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles/informant")
        .await?;
    let wanted = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch", "patch"]}]);
    ensure!(role["rules"] == wanted, "{role}");
    let again = kubectl(&cluster, &["apply", "-f", &rights]).await?;
    ensure!(again.lines().all(|line| line.ends_with(" unchanged")), "{again}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn printed_rights_suffice_and_check_reports_missing_ones() {
    if let Some(cluster) = crate::cluster(Kind::Real).await {
        least_rights(cluster).await.unwrap();
    }
}

async fn least_rights(cluster: Cluster) -> Result<()> {
    let rights = printed(&cluster).await?.display().to_string();
    kubectl(&cluster, &["create", "serviceaccount", "informant", "-n", "default"]).await?;
    let token = kubectl(&cluster, &["create", "token", "informant", "-n", "default"]).await?;
    let kubeconfig = as_service_account(&cluster, token.trim())?;
    let config_file = cluster.folder().join("rights.toml").display().to_string();
    let kubeconfig_text = kubeconfig.display().to_string();
    let check = [
        "check",
        "--cluster",
        "-c",
        &config_file,
        "--kubeconfig",
        &kubeconfig_text,
    ];

    let (code, output) = run(&guests::informant()?, &check).await?;
    ensure!(code == 3, "{code}: {output}");
    let granted = "[plugin.image-mark] has grants that Informant itself has no permission for: patch v1/pods in namespace default";
    ensure!(
        output.contains(granted) && output.contains("rights.toml:12:"),
        "{output}"
    );

    kubectl(&cluster, &["apply", "-f", &rights]).await?;
    // The authorizer has its own watch of roles.
    let program = guests::informant()?;
    wait::until("the check to pass", ARRIVES_WITHIN, async || {
        let (code, output) = run(&program, &check).await.map_err(|error| format!("{error:#}"))?;
        let permitted = "plugin image-mark: all grants are permitted on the cluster";
        match code == 0 && output.contains(permitted) {
            true => Ok(()),
            false => Err(format!("{code}: {output}")),
        }
    })
    .await?;

    let client = cluster.client().await?;
    client.post(&pods(""), &pod("floats", "nginx")).await?;
    let daemon = Daemon::start(cluster.folder(), &kubeconfig, &config()?).await?;
    daemon.wait_until_ready().await?;
    wait::until("the pod to be marked", ARRIVES_WITHIN, async || {
        let pod = client
            .get(&pods("floats"))
            .await
            .map_err(|error| format!("{error:#}"))?;
        match pod["metadata"]["labels"]["informant/images"].as_str() {
            Some("floating") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await?;
    ensure!(
        daemon
            .process()
            .lines(0, |line| line.contains(token.trim()).then_some(()))
            .is_empty(),
        "the token is in the log"
    );
    Ok(())
}

/// The cluster's kubeconfig with another token.
pub(crate) fn as_service_account(cluster: &Cluster, token: &str) -> Result<PathBuf> {
    let mut kubeconfig: Value = serde_json::from_slice(&std::fs::read(cluster.kubeconfig())?)?;
    *kubeconfig.pointer_mut("/users/0/user").context("a user")? = json!({ "token": token });
    let path = cluster.folder().join("informant.kubeconfig");
    std::fs::write(&path, kubeconfig.to_string())?;
    Ok(path)
}
