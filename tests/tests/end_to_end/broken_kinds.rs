//! One kind that may not be read, or that comes and goes, affects only itself.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use informant_tests::cluster::{Cluster, Kind, Login};
use informant_tests::daemon::Daemon;
use informant_tests::objects::{pod, pods};
use informant_tests::wait;
use serde_json::json;

crate::on_both_clusters!(broken_kinds_leave_the_others_alone);

const ARRIVES_WITHIN: Duration = Duration::from_secs(60);

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// A kubeconfig with which Secrets may not be read. On the real API server only pods and widgets may.
async fn limited(cluster: &Cluster) -> Result<PathBuf> {
    if cluster.kind() == Kind::Embedded {
        let forbid = json!({"rule": {"filter": {"resource": "secrets"}, "action": "forbid"}});
        cluster.fault(&forbid).await?;
        return Ok(cluster.kubeconfig());
    }
    let client = cluster.client().await?;
    let verbs = ["get", "list", "watch"];
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "limited"},
        "rules": [
            {"apiGroups": [""], "resources": ["pods"], "verbs": verbs},
            {"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": verbs},
        ],
    });
    client.post(&format!("{RBAC}/clusterroles"), &role).await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "limited"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "limited"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "reader"}],
    });
    client.post(&format!("{RBAC}/clusterrolebindings"), &binding).await?;
    let kubeconfigs = cluster.kubeconfigs();
    kubeconfigs.write("limited", cluster.address(), &Login::reader()).await
}

/// Waits until the readiness of the informer contains `with`. `/readyz` is green all the time.
async fn wait_while_ready(daemon: &Daemon, what: &str, holds: impl AsyncFn(&str) -> Result<bool>) -> Result<()> {
    wait::until(what, ARRIVES_WITHIN, async || {
        let checked = async {
            let (status, text) = daemon.http_get("/readyz?verbose").await?;
            ensure!(status == 200, "/readyz turned red: {text}");
            Ok((holds(&text).await?, text))
        };
        match checked.await {
            Ok((true, _)) => Ok(Ok(())),
            Ok((false, text)) => Err(text),
            Err(error) => Ok(Err(error)),
        }
    })
    .await?
}

async fn broken_kinds_leave_the_others_alone(cluster: Cluster) -> Result<()> {
    let client = cluster.client().await?;
    client.post(&pods(""), &pod("web", "nginx")).await?;
    let kubeconfig = limited(&cluster).await?;
    let daemon = Daemon::start(cluster.folder(), &kubeconfig, "[informer.all]\nresource = \"*\"\n").await?;
    daemon.wait_until_ready().await?;
    let names = async |resource: &str| -> Result<String> {
        let (_, out, _) = daemon.command(&["get", resource, "-o", "name"]).await?;
        Ok(out.trim().to_owned())
    };
    let degraded = async |text: &str| {
        let line = text.lines().find(|line| line.starts_with("[ ]informer/all degraded: "));
        let labels = ["resource=\"v1/secrets\"", "state=\"Forbidden\""];
        let metric = daemon.metric("informant_source_degraded", &labels).await?;
        Ok(line.is_some_and(|line| line.contains("v1/secrets: Forbidden")) && metric == Some(1.0))
    };
    wait_while_ready(&daemon, "the forbidden kind to show as degraded", degraded).await?;
    ensure!(names("pods").await? == "pod/web");
    let (code, out, err) = daemon.command(&["get", "all", "-o", "name"]).await?;
    ensure!(
        code == 0 && out.contains("pod/web") && err.contains(" (Forbidden: "),
        "{code}: {out}{err}"
    );
    let (code, _, err) = daemon.command(&["get", "all", "--require-all"]).await?;
    ensure!(code == 5 && err.contains("partly not synced"), "{code}: {err}");
    let (code, _, err) = daemon.command(&["get", "secrets"]).await?;
    ensure!(code == 5, "{code}: {err}");
    let (_, status, _) = daemon.command(&["status"]).await?;
    // On the real API server there are more forbidden kinds than lines for them.
    ensure!(status.contains(" is degraded (Forbidden)"), "{status}");

    client.post(DEFINITIONS, &super::custom_resources::definition()).await?;
    wait::until("the custom resource to be served", ARRIVES_WITHIN, async || {
        let widget = super::custom_resources::widget("first", 1);
        client
            .post(WIDGETS, &widget)
            .await
            .map_err(|error| format!("{error:#}"))
    })
    .await?;
    let found = async |_: &str| Ok(names("widgets").await? == "widget.example.com/first");
    wait_while_ready(&daemon, "the new kind to be watched", found).await?;
    client.delete(&format!("{DEFINITIONS}/widgets.example.com")).await?;
    let gone = async |_: &str| Ok(daemon.http_get("/api/v1/get/widgets").await?.0 == 404);
    wait_while_ready(&daemon, "the removed kind to end", gone).await?;
    ensure!(names("pods").await? == "pod/web");
    wait_while_ready(&daemon, "only the forbidden kind to be degraded", degraded).await
}
