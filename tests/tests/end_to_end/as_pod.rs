//! The manifests in `deploy/`, as a pod: the real kube-apiserver admits it, a kubelet's part runs it, and its service
//! account has exactly the rights that it needs.

mod commands;
pub(crate) mod rights;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use informant_tests::chaos::Mode;
use informant_tests::client::Client;
use informant_tests::cluster::{AuditLog, Cluster, Login};
use informant_tests::kubelet::{Image, Kubelet, Pod, RunningPod};
use informant_tests::objects::{pod, pods};
use informant_tests::{guests, kubelet, scripts, wait};
use serde_json::{Value, json};

use rights::Account;

/// Where `deploy/` puts Informant, and the name of all its objects.
pub(crate) const NAMESPACE: &str = "informant";
pub(crate) const NAME: &str = "informant";

/// The image in `deploy/informant.yaml`.
const IMAGE: &str = "informant:0.1.0";

/// The first start compiles the script runner.
pub(crate) const READY_WITHIN: Duration = Duration::from_secs(120);

/// From a change of an object to the line of the handler, also across a lost connection.
const REPORTED_WITHIN: Duration = Duration::from_secs(60);

/// By which Informant notices a second process.
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/informant/leases/informant";

/// Where Informant serves the admin API in its pod.
const ADMIN_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8089);

/// Without a right, the pod shows it long before.
const NOTICED_WITHIN: Duration = Duration::from_secs(180);

/// A cluster for pods; none where it cannot be built, or no container can run (never in CI).
pub(crate) async fn cluster_for_pods() -> Result<Option<Cluster>> {
    let has_cluster = std::env::var_os("INFORMANT_TESTS_WITHOUT_CLUSTER").is_none();
    let can_run = has_cluster && scripts::can_run().await? && kubelet::can_run().await?;
    Ok(if can_run {
        Some(Cluster::start_with_audit_log().await?)
    } else {
        None
    })
}

/// Applies `deploy/informant.yaml`, whose namespace admits only pods that meet the restricted Pod Security Standard.
/// Returns what runs its pods.
pub(crate) async fn deploy(cluster: &Cluster) -> Result<Kubelet> {
    let manifests = guests::workspace_folder().join("deploy").join("informant.yaml");
    crate::rights::kubectl(cluster, &["apply", "-f", &manifests.display().to_string()]).await?;
    let client = cluster.client().await?;
    let restricted = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}});
    client
        .merge(&format!("/api/v1/namespaces/{NAMESPACE}"), &restricted)
        .await?;
    let mut kubelet = Kubelet::new(cluster).await?;
    kubelet.prepare_namespace(NAMESPACE).await?;
    // For the pods that the handler watches.
    kubelet.prepare_namespace("default").await?;
    kubelet.add_image(IMAGE, Image::informant()?);
    Ok(kubelet)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn manifests_bring_up_a_pod_with_exactly_the_needed_rights() {
    if let Some(cluster) = cluster_for_pods().await.unwrap() {
        exactly_the_needed_rights(&cluster).await.unwrap();
    }
}

async fn exactly_the_needed_rights(cluster: &Cluster) -> Result<()> {
    let kubelet = deploy(cluster).await?;
    let node = Node {
        pod: kubelet.create_pod(NAMESPACE, NAME).await?,
        client: cluster.client().await?,
        cluster,
        kubelet,
    };
    let account = node.pod.object()["spec"]["serviceAccountName"].as_str();
    let account = Account::new(NAMESPACE, account.context("a service account")?);
    let mut audit = cluster.audit_log();
    node.run_once("with-all").await?;
    let denied = forbidden(&mut audit, &account)?;
    ensure!(denied.is_none(), "forbidden, with all rights: {denied:?}");

    let rights = account.rights(&node.client).await?;
    ensure!(rights.len() >= 4, "{account:?} has only {rights:#?}");
    let mut unneeded = Vec::new();
    for (number, right) in rights.iter().enumerate() {
        account.lose(&node.client, right).await?;
        audit.read_new()?;
        if !node.notices(&mut audit, &account, &format!("without-{number}")).await? {
            unneeded.push(right);
        }
        account.regain(&node.client, right).await?;
    }
    ensure!(unneeded.is_empty(), "rights that the pod does not need: {unneeded:#?}");
    // Nothing but the rights made the difference.
    node.run_once("with-all-again").await?;
    node.lease_is_held_while_it_runs().await?;
    privileged_pod_is_not_admitted(&node.kubelet, &node.client).await
}

/// So the other pods met the restricted Pod Security Standard.
async fn privileged_pod_is_not_admitted(kubelet: &Kubelet, client: &Client) -> Result<()> {
    let set = format!("/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/{NAME}");
    let root = json!({"spec": {"template": {"spec": {"securityContext": {"runAsNonRoot": false}}}}});
    client.merge(&set, &root).await?;
    let admitted = kubelet.admit_pod(NAMESPACE, NAME).await;
    let refused = format!(
        "{:#}",
        admitted.err().context("a pod that may run as root was admitted")?
    );
    ensure!(
        refused.contains("violates PodSecurity \"restricted:latest\""),
        "{refused}"
    );
    Ok(())
}

/// A cluster with one pod.
struct Node<'c> {
    cluster: &'c Cluster,
    client: Client,
    kubelet: Kubelet,
    pod: Arc<Pod>,
}

impl Node<'_> {
    /// Runs the pod: it starts, its handler reports what happens to the pods called `name`, also after its connections
    /// were lost, it answers a user, and it stops within its grace period.
    async fn run_once(&self, name: &str) -> Result<()> {
        // There may be none. Without it, the right to create one is needed, too.
        let _ = self.client.delete(LEASE).await;
        let mut running = self.kubelet.start(&self.pod).await?;
        running.wait_until_ready(READY_WITHIN).await?;
        is_reported(&self.client, &running, &format!("{name}-first")).await?;
        let warnings = running.process().lines(0, warning);
        ensure!(warnings.is_empty(), "it starts with warnings: {warnings:#?}");
        self.answers_a_user().await?;
        // Informant asks the API server how new it is before it watches again.
        self.kubelet.proxy().set_open(Mode::Reset);
        is_reported(&self.client, &running, &format!("{name}-second")).await?;
        let (code, took) = running.stop().await?;
        ensure!(code == Some(0), "it ended with {code:?}, {took:?} after SIGTERM");
        Ok(())
    }

    /// The Lease names the pod while it runs, and is empty afterwards.
    async fn lease_is_held_while_it_runs(&self) -> Result<()> {
        let holder = async || {
            let lease = self.client.get(LEASE).await.map_err(|error| format!("{error:#}"))?;
            Ok::<_, String>(lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned())
        };
        let mut running = self.kubelet.start(&self.pod).await?;
        running.wait_until_ready(READY_WITHIN).await?;
        wait::until("the Lease to name the pod", REPORTED_WITHIN, async || {
            let holder = holder().await?;
            if holder.starts_with("informant-0_") {
                Ok(())
            } else {
                Err(holder)
            }
        })
        .await?;
        running.stop().await?;
        let holder = holder().await.map_err(anyhow::Error::msg)?;
        ensure!(holder.is_empty(), "still held by {holder}");
        Ok(())
    }

    /// The admin port asks the API server who sent the request, and whether that user may.
    async fn answers_a_user(&self) -> Result<()> {
        let kubeconfigs = self.cluster.kubeconfigs();
        let user = kubeconfigs.write("admin-port", ADMIN_PORT, &Login::admin()).await?;
        Client::new(&user).await?.get("/api/v1/plugins").await.map(drop)
    }

    /// Whether the pod shows that it lacks a right: by a forbidden request, or because it does not work.
    async fn notices(&self, audit: &mut AuditLog, account: &Account, name: &str) -> Result<bool> {
        let denied = wait::until("a forbidden request", NOTICED_WITHIN, async || {
            let denied = forbidden(audit, account).map_err(|error| format!("{error:#}"))?;
            denied.ok_or_else(|| "none yet".to_owned())
        });
        tokio::select! {
            denied = denied => return denied.map(|_| true),
            worked = self.run_once(name) => if worked.is_err() { return Ok(true) },
        }
        // The last request, which takes its name out of the Lease, is sent just before it ends.
        Ok(forbidden(audit, account)?.is_some())
    }
}

/// A line that is a warning or an error, but not the handler's, and not about the kernel of this machine.
fn warning(line: &str) -> Option<String> {
    let record: Value = serde_json::from_str(line).unwrap_or_default();
    let is_of_machine = record["fields"]["message"] == "compiler not fully confined";
    let is_expected = record["level"] == "INFO" || record["fields"]["stream"] == "log" || is_of_machine;
    (!is_expected).then(|| line.to_owned())
}

/// The handler in the manifests reports a pod that is killed.
async fn is_reported(client: &Client, running: &RunningPod, name: &str) -> Result<()> {
    kill(client, name).await?;
    let warning = format!("default/{name}: container app ran out of memory");
    let line = |line: &str| line.contains(&warning).then_some(());
    let process = running.process();
    process
        .wait_for_line_after(0, "the handler's report", REPORTED_WITHIN, line)
        .await
}

/// Creates a pod in `default` whose container was killed because it ran out of memory.
pub(crate) async fn kill(client: &Client, name: &str) -> Result<()> {
    client.post(&pods(""), &pod(name, "x")).await?;
    let killed = json!({"status": {"phase": "Running", "containerStatuses": [{
        "name": "app", "image": "x", "imageID": "x", "ready": false, "restartCount": 1, "state": {"running": {}},
        "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137, "containerID": "containerd://1"}},
    }]}});
    client.merge(&format!("{}/status", pods(name)), &killed).await.map(drop)
}

/// The first request of the account that was forbidden since the last call.
pub(crate) fn forbidden(audit: &mut AuditLog, account: &Account) -> Result<Option<String>> {
    let requests = audit.read_new()?;
    let mut own = requests.iter().filter(|request| request.user == account.user());
    Ok(own
        .find(|request| request.is_forbidden())
        .map(|request| request.request.clone()))
}
