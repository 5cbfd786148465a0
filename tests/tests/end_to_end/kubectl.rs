//! Ordinary kubectl against the embedded API server, and against the real one with the same expectations.

mod changes;
mod columns;
mod definitions;
mod options;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use informant_tests::cluster::{Cluster, tools_folder};
use informant_tests::process::Process;
use serde_json::Value;
use tokio::process::Command;

crate::on_both_clusters!(kubectl_applies_creates_gets_watches_and_deletes);

const ANSWERS_WITHIN: Duration = Duration::from_secs(30);

const MANIFEST: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default, labels: {app: test}}
spec:
  replicas: 2
  selector: {matchLabels: {app: test}}
  template:
    metadata: {labels: {app: test}}
    spec: {containers: [{name: app, image: "nginx:1.25"}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default, labels: {app: test}}
spec: {selector: {app: test}, ports: [{port: 80}]}
"#;

/// kubectl with a kubeconfig, and a folder for its input files and cache.
struct Kubectl {
    kubeconfig: PathBuf,
    folder: PathBuf,
}

impl Kubectl {
    fn of(cluster: &Cluster) -> Self {
        Self {
            kubeconfig: cluster.kubeconfig(),
            folder: cluster.folder().to_path_buf(),
        }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(tools_folder().join("kubectl"));
        command
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .arg("--cache-dir")
            .arg(self.folder.join("cache"));
        command.args(args);
        command
    }

    /// Runs and returns stdout; a failure is an error with kubectl's message.
    async fn run(&self, args: &[&str]) -> Result<String> {
        self.output_of(self.command(args), args).await
    }

    async fn output_of(&self, mut command: Command, args: &[&str]) -> Result<String> {
        let output = command.output().await?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        ensure!(
            output.status.success(),
            "kubectl {}: {}{}",
            args.join(" "),
            text(&output.stdout),
            text(&output.stderr)
        );
        Ok(text(&output.stdout))
    }

    /// Runs and expects a failure with the message `expected`.
    async fn expect_failure(&self, args: &[&str], expected: &str) -> Result<()> {
        let output = self.run(args).await.err().map(|error| error.to_string());
        let output = output.unwrap_or_else(|| "nothing, and succeeded".to_owned());
        ensure!(
            output.contains(expected),
            "kubectl {} printed {output:?}, not {expected:?}",
            args.join(" ")
        );
        Ok(())
    }

    async fn expect(&self, args: &[&str], expected: &str) -> Result<()> {
        let out = self.run(args).await?;
        ensure!(
            out.trim() == expected,
            "kubectl {} printed {out:?}, not {expected:?}",
            args.join(" ")
        );
        Ok(())
    }
}

fn write(path: &Path, text: &str) -> Result<String> {
    std::fs::write(path, text)?;
    Ok(path.display().to_string())
}

async fn kubectl_applies_creates_gets_watches_and_deletes(cluster: Cluster) -> Result<()> {
    let kubectl = Kubectl::of(&cluster);
    let manifest = write(&cluster.folder().join("web.yaml"), MANIFEST)?;
    kubectl.apply_twice(&manifest).await?;
    kubectl.create_under_watch().await?;
    kubectl.get_in_every_form().await?;
    kubectl.delete(&manifest).await
}

impl Kubectl {
    async fn apply_twice(&self, manifest: &str) -> Result<()> {
        self.expect(
            &["apply", "-f", manifest],
            "deployment.apps/web created\nservice/web created",
        )
        .await?;
        self.expect(
            &["apply", "-f", manifest],
            "deployment.apps/web unchanged\nservice/web unchanged",
        )
        .await?;
        let changed = MANIFEST.replace("replicas: 2", "replicas: 3");
        let changed = write(&self.folder.join("changed.yaml"), &changed)?;
        self.expect(
            &["apply", "-f", &changed],
            "deployment.apps/web configured\nservice/web unchanged",
        )
        .await
    }

    async fn create_under_watch(&self) -> Result<()> {
        self.expect(
            &["create", "configmap", "settings", "--from-literal=a=1"],
            "configmap/settings created",
        )
        .await?;
        let watch = self.command(&["get", "configmaps", "-w", "--no-headers", "-o", "name"]);
        let mut watch = Process::start_command(watch)?;
        let is = |name: &'static str| move |line: &str| (line == name).then_some(());
        watch
            .wait_for_line("the existing object", ANSWERS_WITHIN, is("configmap/settings"))
            .await?;
        self.expect(
            &["create", "configmap", "more", "--from-literal=b=2"],
            "configmap/more created",
        )
        .await?;
        watch
            .wait_for_line("the new object", ANSWERS_WITHIN, is("configmap/more"))
            .await
    }

    async fn get_in_every_form(&self) -> Result<()> {
        self.expect(&["get", "deployment", "web", "-o", "jsonpath={.spec.replicas}"], "3")
            .await?;
        let yaml = self.run(&["get", "configmap", "settings", "-o", "yaml"]).await?;
        ensure!(
            yaml.starts_with("apiVersion: v1\ndata:\n  a: \"1\"\nkind: ConfigMap\n"),
            "{yaml}"
        );
        let json: Value = serde_json::from_str(&self.run(&["get", "svc", "-l", "app=test", "-o", "json"]).await?)?;
        ensure!(
            json["kind"] == "List" && json["items"].as_array().is_some_and(|items| items.len() == 1),
            "{json}"
        );
        self.expect(
            &["get", "deploy,svc", "-l", "app=test", "-o", "name"],
            "deployment.apps/web\nservice/web",
        )
        .await?;
        self.expect(&["get", "deploy", "-l", "app!=test", "-o", "name"], "")
            .await?;
        let table = self.run(&["get", "configmap", "settings"]).await?;
        let header: Vec<&str> = table.lines().next().unwrap_or_default().split_whitespace().collect();
        ensure!(
            header.first() == Some(&"NAME") && header.last() == Some(&"AGE"),
            "{table}"
        );
        Ok(())
    }

    async fn delete(&self, manifest: &str) -> Result<()> {
        let deleted =
            "configmap \"settings\" deleted from default namespace\nconfigmap \"more\" deleted from default namespace";
        self.expect(&["delete", "configmap", "settings", "more"], deleted)
            .await?;
        self.run(&["delete", "-f", manifest]).await?;
        self.expect_failure(&["get", "deployment", "web"], "deployments.apps \"web\" not found")
            .await
    }
}
