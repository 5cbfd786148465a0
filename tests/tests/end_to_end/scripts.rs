//! A new user's first steps: the README's handler, saved into a folder, reacts to the next kubectl command, without a
//! build.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use informant_tests::cluster::{Cluster, Kind, tools_folder};
use informant_tests::daemon::Daemon;
use informant_tests::objects::{pod, pods};
use informant_tests::{guests, readme, scripts, wait};
use serde_json::json;
use tokio::time::Instant;

const SEEN_WITHIN: Duration = Duration::from_secs(30);

/// From a save to the first call of the saved script. The promise is 100 ms; a machine that builds at the same time
/// gets more.
const LIVE_WITHIN: Duration = Duration::from_secs(10);

const CONFIG: &str = r#"
[informer.pods]
resource = "v1/pods"

[plugin.handler]
script = "handler.js"
informers = ["pods"]
on-reload = "replay"
required = true
allow.kube = [{ verbs = ["patch"], resource = "v1/pods" }]
"#;

/// Saves as editors do: to a temporary file, then renamed.
fn save(folder: &Path, text: &str) -> Result<Instant> {
    std::fs::write(folder.join("handler.js~"), text)?;
    let saved = Instant::now();
    std::fs::rename(folder.join("handler.js~"), folder.join("handler.js"))?;
    Ok(saved)
}

/// Removes a pod's label: with kubectl, or without it where there was no Go to build it (never in CI).
async fn unlabel(cluster: &Cluster, name: &str, key: &str) -> Result<()> {
    let kubectl = tools_folder().join("kubectl");
    if !kubectl.is_file() && std::env::var_os("INFORMANT_TESTS_WITHOUT_CLUSTER").is_some() {
        let labels = json!({ "metadata": { "labels": { key: null } } });
        return cluster.client().await?.merge(&pods(name), &labels).await.map(drop);
    }
    let mut command = tokio::process::Command::new(kubectl);
    command.arg("--kubeconfig").arg(cluster.kubeconfig());
    command.arg("--cache-dir").arg(cluster.folder().join("cache"));
    let output = command
        .args(["label", "pod", name, &format!("{key}-")])
        .output()
        .await?;
    ensure!(
        output.status.success(),
        "kubectl label: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// Waits until the handler has given the pod `web` its team.
async fn wait_for_team(cluster: &Cluster) -> Result<()> {
    let client = cluster.client().await?;
    wait::until("the pod to have a team", SEEN_WITHIN, async || {
        let pod = client.get(&pods("web")).await.map_err(|error| format!("{error:#}"))?;
        let labels = &pod["metadata"]["labels"];
        if *labels == json!({ "app": "test", "team": "unassigned" }) {
            Ok(())
        } else {
            Err(format!("its labels are {labels}"))
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readme_handler_runs_when_saved() {
    if scripts::can_run().await.unwrap() {
        newcomer().await.unwrap();
    }
}

async fn newcomer() -> Result<()> {
    let cluster = Cluster::start(Kind::Embedded).await?;
    let client = cluster.client().await?;
    client.post(&pods(""), &pod("web", "nginx:1.25")).await?;
    let folder = cluster.folder().join("newcomer");
    std::fs::create_dir(&folder)?;
    save(&folder, "export function onAdd() {}")?;
    let daemon = Daemon::start(&folder, &cluster.kubeconfig(), CONFIG).await?;
    daemon.wait_until_ready().await?;
    let said = |line: &str| scripts::said(line, "handler");
    let process = daemon.process();
    let mut from = process.line_count();

    let saved = save(&folder, &readme::first_block(&readme::of("")?, "js")?)?;
    process
        .wait_for_line_after(from, "a line of the new script", SEEN_WITHIN, said)
        .await?;
    let took = saved.elapsed();
    ensure!(took < LIVE_WITHIN, "a saved script was live after {took:?}");

    wait_for_team(&cluster).await?;
    unlabel(&cluster, "web", "team").await?;
    wait_for_team(&cluster).await.context("after the label was removed")?;

    // A syntax error leaves the old script running, and its position is reported.
    from = process.line_count();
    save(
        &folder,
        "export function onUpdate(pod, event) {\n  console.log(pod.metadata.name;\n}\n",
    )?;
    let refused = |line: &str| line.contains("handler.js:2:32: SyntaxError").then_some(());
    process
        .wait_for_line_after(from, "the syntax error", SEEN_WITHIN, refused)
        .await?;
    unlabel(&cluster, "web", "team").await?;
    wait_for_team(&cluster).await.context("after a script with an error")?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_refuses_one_metric_with_two_types() {
    if scripts::can_run().await.unwrap() {
        check_metrics().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_warns_of_imports_that_a_script_may_not_use() {
    if scripts::can_run().await.unwrap() {
        check_imports().await.unwrap();
    }
}

async fn check_imports() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let script = "import { fetch, kube, kv, log } from \"informant\";\nexport function onAdd() {}\n";
    std::fs::write(folder.path().join("handler.js"), script)?;
    let plugin =
        "[informer.pods]\nresource = \"v1/pods\"\n[plugin.p]\nscript = \"handler.js\"\ninformers = [\"pods\"]\n";
    let check = async |config: &str| -> Result<String> {
        std::fs::write(folder.path().join("config.toml"), config)?;
        let mut command = tokio::process::Command::new(guests::informant()?);
        let output = command.args(["check", "--offline"]).current_dir(folder.path()).output();
        Ok(String::from_utf8(output.await?.stderr)?)
    };
    let said = check(plugin).await?;
    for warning in [
        "warning: config.toml:4:10: [plugin.p] uses kv, which is denied without a state database",
        "warning: config.toml:4:10: [plugin.p] imports fetch, but may send no HTTP request",
        "warning: config.toml:4:10: [plugin.p] imports kube, but may make no Kubernetes call",
    ] {
        ensure!(said.contains(warning), "{said}");
    }
    let grants =
        "allow.http = [\"https://example.com\"]\nallow.kube = [{ verbs = [\"patch\"], resource = \"v1/pods\" }]\n";
    let said = check(&format!("{plugin}{grants}[state]\n")).await?;
    ensure!(!said.contains("warning:"), "{said}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inspect_shows_a_script_that_may_have_several_instances() {
    if scripts::can_run().await.unwrap() {
        inspect_parallel().await.unwrap();
    }
}

async fn inspect_parallel() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let script = "export const manifest = { parallel: true };\nexport function onAdd() {}\n";
    std::fs::write(folder.path().join("handler.js"), script)?;
    let mut command = tokio::process::Command::new(guests::informant()?);
    let output = command
        .args(["plugin", "inspect", "handler.js"])
        .current_dir(folder.path());
    let shown = String::from_utf8(output.output().await?.stdout)?;
    ensure!(shown.contains("\nscript    handler.js\n"), "{shown}");
    ensure!(shown.contains("\nparallel  yes"), "{shown}");
    Ok(())
}

/// Scripts with the metrics `seen`, of the first type or the second one, and `same`.
async fn check_metrics() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let script = |kind: &str| {
        format!(
            "export const manifest = {{ metrics: [\n\
             {{ name: \"seen\", type: \"{kind}\", help: \"Pods\" }}, {{ name: \"same\", type: \"counter\", help: \"Pods\" }},\n\
             ] }};\nexport function onAdd() {{}}\n"
        )
    };
    let check = async |kind: &str| -> Result<(bool, String)> {
        std::fs::write(folder.path().join("first.js"), script("counter"))?;
        std::fs::write(folder.path().join("second.js"), script(kind))?;
        let section = |name: &str| format!("[plugin.{name}]\nscript = \"{name}.js\"\ninformers = [\"pods\"]\n");
        let informer = "[informer.pods]\nresource = \"v1/pods\"\n";
        let config = [informer, &section("first"), &section("second")].concat();
        std::fs::write(folder.path().join("config.toml"), config)?;
        let mut command = tokio::process::Command::new(guests::informant()?);
        let output = command.args(["check", "--offline"]).current_dir(folder.path()).output();
        let output = output.await?;
        Ok((output.status.success(), String::from_utf8(output.stderr)?))
    };
    let (is_valid, said) = check("gauge").await?;
    let conflict = "[plugin.second] declares the metric \"seen\" as gauge, which [plugin.first] has as counter";
    ensure!(!is_valid && said.contains(conflict), "{said}");
    ensure!(!said.contains("\"same\""), "{said}");
    let (is_valid, said) = check("counter").await?;
    ensure!(is_valid, "{said}");
    Ok(())
}
