//! The commands that the documentation runs with `kubectl exec`, in the pod of the manifests: a read-only root, another
//! user, the service account, and no token for the admin port, which has TLS.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use informant_tests::cluster::Cluster;
use informant_tests::console::pages;
use informant_tests::kubelet;
use informant_tests::objects::{pod, pods};
use serde_json::json;

use super::{NAME, NAMESPACE, READY_WITHIN, REPORTED_WITHIN, cluster_for_pods, deploy};
use crate::console_blocks::{OF_INSTALLATION, SHOWN_EXEC};

/// The plugin of the documentation. It has a dead letter.
const GREETER: &str = r#"
import { Permanent } from "informant";

export function onAdd(pod, event) {
  if (event.name === "web-0") throw new Permanent("web-0 is not greeted");
}
"#;

const SECTION: &str = r#"
[plugin.greeter]
script = "handler.js"
informers = ["pods"]
required = true
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn documented_commands_succeed_in_the_pod() {
    if !kubelet::can_exec() {
        return;
    }
    if let Some(cluster) = cluster_for_pods().await.unwrap() {
        run_commands(&cluster).await.unwrap();
    }
}

async fn run_commands(cluster: &Cluster) -> Result<()> {
    let kubelet = deploy(cluster).await?;
    let client = cluster.client().await?;
    client.post(&pods(""), &pod("web-0", "x")).await?;
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}");
    let stored = client.get(&path).await?;
    let config = stored["data"]["config.toml"].as_str().context("a configuration")?;
    let config = json!({"data": {"config.toml": format!("{config}{SECTION}"), "handler.js": GREETER}});
    client.merge(&path, &config).await?;
    let pod = kubelet.create_pod(NAMESPACE, NAME).await?;
    let mut running = kubelet.start(&pod).await?;
    running.wait_until_ready(READY_WITHIN).await?;
    let letter = |line: &str| line.contains("event dead-lettered").then_some(());
    let process = running.process();
    process
        .wait_for_line_after(0, "the dead letter of web-0", REPORTED_WITHIN, letter)
        .await?;
    let mut failures = Vec::new();
    for command in commands()? {
        let words: Vec<&str> = command.split_whitespace().collect();
        let output = running.exec(&kubelet, &words).await?;
        if !output.status.success() {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let (out, error) = (text(&output.stdout), text(&output.stderr));
            failures.push(format!("{command}: {}\n{out}{error}", output.status));
        }
    }
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    running.stop().await.map(drop)
}

/// Each command once, without its comment.
fn commands() -> Result<BTreeSet<String>> {
    let mut commands = BTreeSet::new();
    for page in pages()? {
        if !OF_INSTALLATION.iter().any(|path| page.path.starts_with(path)) {
            continue;
        }
        let run = page
            .commands()
            .filter_map(|(_, command)| command.strip_prefix(SHOWN_EXEC));
        for command in run {
            // What follows is for the reader, or for the shell of the reader.
            let command = command.split(" #").next().unwrap_or_default();
            let command = command.split(" > ").next().unwrap_or_default().trim();
            ensure!(!command.contains(['|', '\'', '"']), "more than words: {command}");
            commands.insert(command.to_owned());
        }
    }
    ensure!(commands.len() > 5, "only {commands:?}");
    Ok(commands)
}
