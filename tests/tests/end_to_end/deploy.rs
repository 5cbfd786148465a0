//! `deploy/`: a cluster accepts the manifests, their configuration is valid, they grant what it needs and expose probes
//! and metrics only, and the example handler reports what it should.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use informant_tests::cluster::{Cluster, Kind, tools_folder};
use informant_tests::daemon::Daemon;
use informant_tests::objects::{pod, pods};
use informant_tests::{guests, scripts};
use serde_json::{Value, json};
use tokio::process::Command;

crate::on_both_clusters!(manifests_apply_and_grant_what_their_configuration_needs);

const ROLE: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles/informant";

fn deploy() -> PathBuf {
    guests::workspace_folder().join("deploy")
}

/// Runs a program to its end; returns its stdout.
pub(crate) async fn run(command: &mut Command) -> Result<String> {
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

pub(crate) fn kubectl(cluster: &Cluster) -> Command {
    let mut kubectl = Command::new(tools_folder().join("kubectl"));
    kubectl.arg("--kubeconfig").arg(cluster.kubeconfig());
    kubectl.arg("--cache-dir").arg(cluster.folder().join("cache"));
    kubectl
}

async fn apply(cluster: &Cluster, file: &Path) -> Result<String> {
    run(kubectl(cluster).args(["apply", "-f"]).arg(file)).await
}

async fn manifests_apply_and_grant_what_their_configuration_needs(cluster: Cluster) -> Result<()> {
    let said = apply(&cluster, &deploy().join("informant.yaml")).await?;
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
    }

    let granted = rules(&client.get(ROLE).await?);
    let mut rbac = Command::new(guests::informant()?);
    let printed = run(rbac.args(["rbac", "-n", "informant", "-c"]).arg(&config)).await?;
    let rights = cluster.folder().join("rights.yaml");
    std::fs::write(&rights, printed)?;
    apply(&cluster, &rights).await?;
    let needed = rules(&client.get(ROLE).await?);
    ensure!(granted == needed, "granted {granted}, needed {needed}");
    if scripts::can_run().await? {
        // Changes config.toml.
        example_handler_reports_each_kill_once(&cluster, &folder).await?;
    }
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
    // The admin port is listed for port-forward only: it is on loopback.
    let expected = json!([{"health": 8090}, {"admin": 8089}]);
    let found = ports
        .iter()
        .map(|port| json!({port["name"].as_str().unwrap_or_default(): port["containerPort"]}));
    ensure!(found.collect::<Value>() == expected, "{ports:?}");
    let service = client.get("/api/v1/namespaces/informant/services/informant").await?;
    let ports = service["spec"]["ports"].as_array().context("ports")?;
    ensure!(ports.len() == 1 && ports[0]["targetPort"] == "health", "{ports:?}");
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
    let config = config.replace("[admin]\ntls = \"self-signed\"\n", "");
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
    // Other keys do not wait for this one.
    let mut of_before = 0;
    let is_second = |line: &str| {
        let text = warning(line).filter(|text| text.contains("default/before"))?;
        of_before += 1;
        (of_before == 2).then_some(text)
    };
    daemon
        .process_mut()
        .wait_for_line("the second kill", within, is_second)
        .await?;
    let warnings = daemon.process().lines(0, warning);
    let of_before = warnings.iter().filter(|text| text.contains("default/before")).count();
    ensure!(of_before == 2, "{warnings:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kustomize_makes_the_objects_of_the_plain_manifests() -> Result<()> {
    let Some(cluster) = crate::cluster(Kind::Real).await else {
        return Ok(());
    };
    let objects = |names: String| names.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let plain = deploy().join("informant.yaml");
    let mut plain_names = kubectl(&cluster);
    let plain_names = run(plain_names.args(["apply", "-o", "name", "-f"]).arg(plain)).await?;
    // All objects exist, so this also validates changes from one to the other.
    let mut names = kubectl(&cluster);
    let arguments = ["apply", "--dry-run=server", "--validate=strict", "-o", "name", "-k"];
    let names = run(names.args(arguments).arg(deploy().join("example"))).await?;
    ensure!(
        objects(names.clone()) == objects(plain_names.clone()),
        "{names}{plain_names}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pod_complies_with_the_restricted_pod_security_standard() -> Result<()> {
    let Some(cluster) = crate::cluster(Kind::Real).await else {
        return Ok(());
    };
    apply(&cluster, &deploy().join("informant.yaml")).await?;
    let client = cluster.client().await?;
    let namespace = client.get("/api/v1/namespaces/informant").await?;
    let policy = &namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"];
    ensure!(policy == "restricted", "{namespace}");
    let set = client
        .get("/apis/apps/v1/namespaces/informant/statefulsets/informant")
        .await?;
    let mut pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": set["spec"]["template"]["spec"]});
    let pods = "/api/v1/namespaces/informant/pods?dryRun=All";
    client.post(pods, &pod).await?;
    pod["spec"]["containers"][0]["securityContext"]["allowPrivilegeEscalation"] = json!(true);
    let refused = client.post(pods, &pod).await;
    let refused = format!("{:#}", refused.err().context("a privileged pod is accepted")?);
    ensure!(refused.contains("violates PodSecurity \"restricted"), "{refused}");
    Ok(())
}
