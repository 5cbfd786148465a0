//! Bad external input is reported clearly, shows in the metrics and leaves everything else running.

use std::time::Duration;

use anyhow::{Result, ensure};
use informant_tests::cluster::{Cluster, Kind};
use informant_tests::daemon::Daemon;
use informant_tests::objects::{config_map, config_maps};
use informant_tests::process::Process;
use informant_tests::{guests, recording, wait};
use serde_json::json;

const ARRIVES_WITHIN: Duration = Duration::from_secs(60);

const MAPS: &str = "[informer.maps]\nresource = \"v1/configmaps\"\nlabel-selector = \"app=test\"\n\n";

/// A plugin section for the recorder.
fn recorder(name: &str, extra: &str) -> Result<String> {
    let component = guests::component("guest-recorder")?;
    Ok(format!(
        "[plugin.{name}]\ncomponent = {component:?}\ninformers = [\"maps\"]\n{extra}\n\n"
    ))
}

async fn wait_for_metric(daemon: &Daemon, name: &str, labels: &[&str], at_least: f64) -> Result<()> {
    wait::until(
        &format!("{name}{labels:?} to reach {at_least}"),
        ARRIVES_WITHIN,
        async || {
            let value = daemon
                .metric(name, labels)
                .await
                .map_err(|error| format!("{error:#}"))?;
            if value.is_some_and(|value| value >= at_least) {
                Ok(())
            } else {
                Err(format!("it is {value:?}"))
            }
        },
    )
    .await
}

/// Waits until `plugin` has handled this many adds successfully.
async fn wait_for_adds(daemon: &Daemon, plugin: &str, count: usize) -> Result<()> {
    wait::until(
        &format!("{plugin} to handle {count} adds"),
        ARRIVES_WITHIN,
        async || {
            let calls = recording::calls(daemon, plugin, 0);
            let adds = calls
                .iter()
                .filter(|call| call.event == "add" && call.outcome == "ok")
                .count();
            if adds == count {
                Ok(())
            } else {
                Err(format!("{adds} so far"))
            }
        },
    )
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn misbehaving_plugins_do_not_affect_others() {
    misbehave().await.unwrap();
}

async fn misbehave() -> Result<()> {
    let cluster = Cluster::start(Kind::Embedded).await?;
    let client = cluster.client().await?;
    for number in 0..20 {
        client
            .post(&config_maps(""), &config_map(&format!("map-{number}"), "1"))
            .await?;
    }
    let on_each =
        |action: &str| format!("limits = {{ cpu = \"100ms\" }}\nconfig = {{ rules = [{{ do = {action} }}] }}");
    let config = [
        MAPS.to_owned(),
        recorder("good", "required = true")?,
        recorder("traps", &on_each("\"trap\""))?,
        recorder("loops", &on_each("\"loop\""))?,
        recorder("grows", &on_each("\"grow\""))?,
        recorder(
            "refuses",
            "config = { rules = [{ name = \"map-7\", do = \"permanent\" }] }",
        )?,
    ];
    let daemon = Daemon::start(cluster.folder(), &cluster.kubeconfig(), &config.concat()).await?;
    daemon.wait_until_ready().await?;
    wait_for_adds(&daemon, "good", 20).await?;
    for number in 20..40 {
        client
            .post(&config_maps(""), &config_map(&format!("map-{number}"), "1"))
            .await?;
    }
    wait_for_adds(&daemon, "good", 40).await?;
    wait_for_adds(&daemon, "refuses", 39).await?;
    wait_for_metric(&daemon, "informant_dead_letters", &["plugin=\"refuses\""], 1.0).await?;
    wait_for_metric(
        &daemon,
        "informant_handler_events_total",
        &["plugin=\"traps\"", "result=\"trap\""],
        1.0,
    )
    .await?;
    wait_for_metric(
        &daemon,
        "informant_handler_events_total",
        &["plugin=\"loops\"", "result=\"timeout\""],
        1.0,
    )
    .await?;
    wait_for_metric(&daemon, "informant_plugin_restarts_total", &["plugin=\"grows\""], 1.0).await?;
    let letters = daemon.json("/api/v1/dead-letters").await?.to_string();
    ensure!(
        letters.contains("map-7") && letters.contains("asked to fail for good"),
        "{letters}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_component_and_unknown_resource_leave_the_rest_running() {
    partly_broken().await.unwrap();
}

async fn partly_broken() -> Result<()> {
    let cluster = Cluster::start(Kind::Embedded).await?;
    let client = cluster.client().await?;
    client.post(&config_maps(""), &config_map("one", "1")).await?;
    let broken = cluster.folder().join("broken.wasm");
    std::fs::write(&broken, "this is not a component")?;
    let config = [
        MAPS.to_owned(),
        recorder("good", "")?,
        format!("[plugin.broken]\ncomponent = {broken:?}\ninformers = [\"maps\"]\n\n"),
        "[informer.ghosts]\nresource = \"example.com/v1/ghosts\"\nrequired = false\n".to_owned(),
    ];
    let daemon = Daemon::start(cluster.folder(), &cluster.kubeconfig(), &config.concat()).await?;
    daemon.wait_until_ready().await?;
    wait_for_adds(&daemon, "good", 1).await?;
    wait_for_metric(&daemon, "informant_informer_discovering", &["informer=\"ghosts\""], 1.0).await?;
    let said = daemon
        .process()
        .lines(0, |line| line.contains("broken.wasm").then(|| line.to_owned()));
    ensure!(!said.is_empty(), "the broken component was not reported");
    ensure!(
        daemon.json("/api/v1/plugins").await?.to_string().contains("broken"),
        "it is not listed"
    );

    // Once fixed, it is loaded without a restart.
    std::fs::copy(guests::component("guest-recorder")?, &broken)?;
    wait_for_adds(&daemon, "broken", 1).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn source_is_forbidden_until_list_is_granted() {
    if let Some(cluster) = crate::cluster(Kind::Real).await {
        forbidden(cluster).await.unwrap();
    }
}

async fn forbidden(cluster: Cluster) -> Result<()> {
    let client = cluster.client().await?;
    client.post(&config_maps(""), &config_map("one", "1")).await?;
    let config = [MAPS.to_owned(), recorder("good", "")?].concat();
    let kubeconfig = cluster.folder().join("reader.kubeconfig");
    let daemon = Daemon::start(cluster.folder(), &kubeconfig, &config).await?;
    wait_for_metric(
        &daemon,
        "informant_source_state",
        &["informer=\"maps\"", "state=\"Forbidden\""],
        1.0,
    )
    .await?;
    let (status, text) = daemon.http_get("/readyz?verbose").await?;
    ensure!(!status.is_success() && text.contains("maps"), "{status}: {text}");

    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "reads"}, "rules": rules});
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "reads"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reads"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "readers"}],
    });
    client
        .post("/apis/rbac.authorization.k8s.io/v1/clusterroles", &role)
        .await?;
    client
        .post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding)
        .await?;
    wait_for_adds(&daemon, "good", 1).await?;
    daemon.wait_until_ready().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreachable_cluster_is_reported_and_retried() {
    unreachable().await.unwrap();
}

async fn unreachable() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    // Port 9 is `discard`: no process listens there.
    let content = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": "http://127.0.0.1:9"}}],
        "users": [{"name": "x", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    });
    std::fs::write(&kubeconfig, content.to_string())?;
    let config = [MAPS.to_owned(), recorder("good", "")?].concat();
    let mut daemon = Daemon::start(folder.path(), &kubeconfig, &config).await?;
    let said = |line: &str| line.contains("127.0.0.1:9").then_some(());
    daemon
        .process_mut()
        .wait_for_line("a log line about the cluster", ARRIVES_WITHIN, said)
        .await?;
    let (alive, _) = daemon.http_get("/livez").await?;
    let (ready, text) = daemon.http_get("/readyz?verbose").await?;
    ensure!(alive.is_success() && !ready.is_success(), "{alive}, {ready}: {text}");
    daemon.process().signal("TERM").await?;
    let code = daemon.process_mut().wait_for_end(Duration::from_secs(15)).await?;
    ensure!(code == Some(0), "an orderly stop ended with {code:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_configuration_is_refused_with_its_line() {
    wrong_configuration().await.unwrap();
}

async fn wrong_configuration() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("config.toml");
    std::fs::write(&path, "[informer.pods]\nresource = \"v1/pods\"\nresnyc = \"5s\"\n")?;
    let mut process = Process::start(
        &guests::informant()?,
        ["run".to_owned(), format!("--config={}", path.display())],
    )?;
    let code = process.wait_for_end(Duration::from_secs(20)).await?;
    let said = process.tail();
    ensure!(code.is_some_and(|code| code != 0), "{code:?}");
    ensure!(
        said.contains("config.toml:3:1") && said.contains("did you mean `resync`?"),
        "{said}"
    );
    Ok(())
}
