//! Who may list but not watch, and the other way round. The embedded API server asks nobody who he is.

use anyhow::{Result, ensure};
use informant_cache::SourceState;
use informant_tests::cluster::{Cluster, Login};
use informant_tests::conformance::{Ground, Setting};
use serde_json::json;

use crate::label;

pub(crate) async fn who_may_list_but_not_watch_is_served_by_lists_and_says_so(
    cluster: &Cluster,
    name: &str,
) -> Result<()> {
    let ground = Ground::prepare(cluster, &label(name), 1).await?;
    ground.fill("kept", 3, 10).await?;
    allow(&ground, &["list"]).await?;
    let observed = ground.observe(as_reader(&ground)).await?;
    let status = observed
        .until("the state by LIST, and no watch", |status| {
            status.synced && status.state == SourceState::Forbidden
        })
        .await?;
    ensure!(observed.last_error().contains("cannot watch"), "{status:?}");

    // What changes is seen by the next list, at the pace at which what is forbidden is tried.
    ground.create("new", "1").await?;
    ground.delete("kept-0").await?;
    observed
        .until("both to be seen", |_| {
            let view = observed.witness.view();
            let names: Vec<_> = view.keys().map(|key| key.as_ref().name).collect();
            names == ["kept-1", "kept-2", "new"]
        })
        .await?;
    ensure!(observed.status().state == SourceState::Forbidden && observed.relists("forbidden") >= 1.0);

    allow(&ground, &["list", "watch"]).await?;
    observed.settle(&ground.direct).await
}

pub(crate) async fn who_may_watch_but_not_list_is_served_by_watch_list_alone(
    cluster: &Cluster,
    name: &str,
) -> Result<()> {
    let ground = Ground::prepare(cluster, &label(name), 1).await?;
    ground.fill("kept", 3, 10).await?;
    allow(&ground, &["watch"]).await?;
    let streamed = ground.observe(as_reader(&ground)).await?;
    let listed = Setting {
        watch_list: false,
        ..as_reader(&ground)
    };
    let listed = ground.observe(listed).await?;

    streamed.settle(&ground.direct).await?;
    ground.change("kept-0", "2").await?;
    streamed.settle(&ground.direct).await?;

    let status = listed.until_state(SourceState::Forbidden).await?;
    ensure!(!status.synced && listed.witness.calls().is_empty(), "{status:?}");
    ensure!(listed.last_error().contains("cannot list"), "{status:?}");

    allow(&ground, &["list", "watch"]).await?;
    listed.settle(&ground.direct).await
}

fn as_reader(ground: &Ground) -> Setting {
    Setting {
        login: Login::reader(),
        ..Setting::config_maps(&ground.namespace)
    }
}

/// `reader` may do this with the config maps of the namespace, and nothing else.
pub(crate) async fn allow(ground: &Ground, verbs: &[&str]) -> Result<()> {
    let rbac = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{}", ground.namespace);
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]);
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "reader"}, "rules": rules,
    });
    if ground
        .direct
        .merge(&format!("{rbac}/roles/reader"), &role)
        .await
        .is_ok()
    {
        return Ok(());
    }
    ground.direct.post(&format!("{rbac}/roles"), &role).await?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "reader"}],
    });
    ground.direct.post(&format!("{rbac}/rolebindings"), &binding).await?;
    Ok(())
}
