//! `deploy/`: a cluster accepts the manifests, their configuration is valid, they grant what it needs and expose probes
//! and metrics only, and the example handler reports what it should.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use informant_tests::cluster::{Cluster, tools_folder};
use informant_tests::daemon::Daemon;
use informant_tests::objects::{pod, pods};
use informant_tests::{guests, scripts};
use serde_json::{Value, json};
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
    only_probes_and_metrics_are_exposed(&cluster).await?;
    let config = folder.join("config.toml");
    if scripts::can_run().await? {
        let mut check = Command::new(guests::informant()?);
        run(check.args(["check", "--offline", "-c"]).arg(&config)).await?;
        example_handler_reports_each_kill_once(&cluster, &folder).await?;
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

async fn only_probes_and_metrics_are_exposed(cluster: &Cluster) -> Result<()> {
    let client = cluster.client().await?;
    let set = client
        .get("/apis/apps/v1/namespaces/informant/statefulsets/informant")
        .await?;
    let container = &set["spec"]["template"]["spec"]["containers"][0];
    let ports = container["ports"].as_array().context("ports")?;
    ensure!(
        ports.len() == 1 && ports[0]["name"] == "health" && ports[0]["containerPort"] == 8090,
        "{ports:?}"
    );
    for probe in ["livenessProbe", "readinessProbe"] {
        ensure!(container[probe]["httpGet"]["port"] == "health", "{container}");
    }
    let policy = "/apis/networking.k8s.io/v1/namespaces/informant/networkpolicies/informant";
    let policy = client.get(policy).await?;
    let ingress = policy["spec"]["ingress"].as_array().context("rules")?;
    ensure!(
        ingress.len() == 1 && ingress[0]["ports"][0]["port"] == "health",
        "{policy}"
    );
    ensure!(
        policy["spec"]["podSelector"] == set["spec"]["selector"],
        "the policy selects other pods: {policy}"
    );
    Ok(())
}

/// The status of a pod whose container was killed as this run.
fn killed(run: &str, restarts: u32) -> Value {
    json!({"status": {"phase": "Running", "containerStatuses": [{
        "name": "app", "image": "x", "imageID": "x", "ready": false, "restartCount": restarts,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137, "containerID": run}},
    }]}})
}

async fn example_handler_reports_each_kill_once(cluster: &Cluster, folder: &std::path::Path) -> Result<()> {
    let client = cluster.client().await?;
    let status = |name: &str| format!("{}/status", pods(name));
    client.post(&pods(""), &pod("before", "x")).await?;
    client.merge(&status("before"), &killed("containerd://1", 1)).await?;
    let config = std::fs::read_to_string(folder.join("config.toml"))?;
    let mut daemon = Daemon::start(folder, &cluster.kubeconfig(), &config).await?;
    let warning = |line: &str| {
        let line: Value = serde_json::from_str(line).ok()?;
        let text = line["fields"]["message"].as_str()?;
        text.contains("ran out of memory").then(|| text.to_owned())
    };
    let within = Duration::from_secs(120);
    // Killed before Informant started.
    daemon
        .process_mut()
        .wait_for_line("the first kill", within, warning)
        .await?;
    // The kill stays in the status after the restart of the container, and while other fields change.
    client.merge(&status("before"), &killed("containerd://1", 2)).await?;
    client
        .merge(&pods("before"), &json!({"metadata": {"labels": {"changed": "yes"}}}))
        .await?;
    client.merge(&status("before"), &killed("containerd://2", 3)).await?;
    client.post(&pods(""), &pod("last", "x")).await?;
    client.merge(&status("last"), &killed("containerd://3", 1)).await?;
    let is_last = |line: &str| warning(line).filter(|text| text.contains("default/last"));
    daemon
        .process_mut()
        .wait_for_line("the last kill", within, is_last)
        .await?;
    let warnings = daemon.process().lines(0, warning);
    let of_before = warnings.iter().filter(|text| text.contains("default/before")).count();
    ensure!(of_before == 2, "{warnings:?}");
    Ok(())
}
