//! Users who may list but not watch, and vice versa. The embedded API server has no authentication.

use anyhow::{Result, ensure};
use informant_cache::SourceState;
use informant_tests::cluster::{Cluster, Login};
use informant_tests::conformance::{Setting, Testbed};
use serde_json::json;

use crate::label;

pub(crate) async fn list_without_watch_permission_polls_and_reports_it(cluster: &Cluster, name: &str) -> Result<()> {
    let testbed = Testbed::prepare(cluster, &label(name), 1).await?;
    testbed.fill("kept", 3, 10).await?;
    allow(&testbed, &["list"]).await?;
    let observed = testbed.observe(as_reader(&testbed)).await?;
    let status = observed.until_forbidden("cannot watch").await?;
    ensure!(status.synced, "{status:?}");

    // Changes are seen by the next list, at the interval at which a forbidden watch is retried.
    testbed.create("new", "1").await?;
    testbed.delete("kept-0").await?;
    observed
        .until("both to be seen", |_| {
            let view = observed.handler.view();
            let names: Vec<_> = view.keys().map(|key| key.as_ref().name).collect();
            names == ["kept-1", "kept-2", "new"]
        })
        .await?;
    ensure!(observed.status().state == SourceState::Forbidden && observed.relists("forbidden") >= 1.0);

    allow(&testbed, &["list", "watch"]).await?;
    observed.settle(&testbed.direct).await
}

pub(crate) async fn watch_without_list_permission_uses_watch_list(cluster: &Cluster, name: &str) -> Result<()> {
    let testbed = Testbed::prepare(cluster, &label(name), 1).await?;
    testbed.fill("kept", 3, 10).await?;
    allow(&testbed, &["watch"]).await?;
    let streamed = testbed.observe(as_reader(&testbed)).await?;
    let listed = Setting {
        watch_list: false,
        ..as_reader(&testbed)
    };
    let listed = testbed.observe(listed).await?;

    streamed.settle(&testbed.direct).await?;
    testbed.change("kept-0", "2").await?;
    streamed.settle(&testbed.direct).await?;

    let status = listed.until_forbidden("cannot list").await?;
    ensure!(!status.synced && listed.handler.calls().is_empty(), "{status:?}");

    allow(&testbed, &["list", "watch"]).await?;
    listed.settle(&testbed.direct).await
}

fn as_reader(testbed: &Testbed) -> Setting {
    Setting {
        login: Login::reader(),
        ..Setting::config_maps(&testbed.namespace)
    }
}

/// `reader` may do this with the config maps of the namespace, and nothing else.
pub(crate) async fn allow(testbed: &Testbed, verbs: &[&str]) -> Result<()> {
    let rbac = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{}", testbed.namespace);
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]);
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "reader"}, "rules": rules,
    });
    if testbed
        .direct
        .merge(&format!("{rbac}/roles/reader"), &role)
        .await
        .is_ok()
    {
        return Ok(());
    }
    testbed.direct.post(&format!("{rbac}/roles"), &role).await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "reader"}],
    });
    testbed.direct.post(&format!("{rbac}/rolebindings"), &binding).await?;
    Ok(())
}
