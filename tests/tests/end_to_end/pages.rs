//! Pages that show a whole plugin: its configuration and its code, as a reader saves them.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use informant_tests::client::Client;
use informant_tests::cluster::{Cluster, Kind};
use informant_tests::daemon::Daemon;
use informant_tests::{guests, objects, readme, scripts, wait};
use serde_json::{Value, json};

use crate::deploy::run;
use crate::quick_start::{can_run_commands, reader_path};

crate::on_both_clusters!(claim_of_kopfs_example_follows_size_and_labels);

/// Until a plugin has handled an event, compiling the runner of Python included.
const SEEN_WITHIN: Duration = Duration::from_secs(180);

const EPHEMERAL: &str = "/apis/kopf.dev/v1/namespaces/default/ephemeralvolumeclaims/my-claim";
const CLAIM: &str = "/api/v1/namespaces/default/persistentvolumeclaims/my-claim";
const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn page(name: &str) -> Result<String> {
    let path = guests::workspace_folder().join("docs").join(name);
    std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
}

/// `config` with the runner of Python scripts.
fn with_runner(config: &str, runner: &Path) -> String {
    format!("[script-runners]\npy = {runner:?}\n\n{config}")
}

/// The object at `path`, once it is as expected.
async fn until(client: &Client, path: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Result<Value> {
    wait::until(&format!("{path}: {what}"), SEEN_WITHIN, async || {
        let object = client.get(path).await.map_err(|error| format!("{error:#}"))?;
        match is_so(&object) {
            true => Ok(object),
            false => Err(object.to_string()),
        }
    })
    .await
}

async fn claim_of_kopfs_example_follows_size_and_labels(cluster: Cluster) -> Result<()> {
    let Some(runner) = guests::python_runner()? else {
        return Ok(());
    };
    if !can_run_commands().await? {
        return Ok(());
    }
    let (page, client, folder) = (page("coming-from-kopf.md")?, cluster.client().await?, cluster.folder());
    std::fs::write(folder.join("ephemeral.py"), readme::first_block(&page, "python")?)?;
    for (name, manifest) in ["crd.yaml", "evc.yaml"].into_iter().zip(readme::blocks(&page, "yaml")) {
        std::fs::write(folder.join(name), manifest)?;
    }
    // A cluster of the reader has it.
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "standard" },
        "provisioner": "example.com/none", "allowVolumeExpansion": true,
    });
    client.post("/apis/storage.k8s.io/v1/storageclasses", &class).await?;
    let config = with_runner(&readme::first_block(&page, "toml")?, &runner);
    let daemon = Daemon::start(folder, &cluster.kubeconfig(), &config).await?;

    let commands = documented(&page, "kubectl");
    let [define, create, show, grow, label, show_labels, unlabel] = commands.as_slice() else {
        bail!("the page has other commands: {commands:?}");
    };
    for command in [define, create, show] {
        succeeds(&cluster, command).await?;
    }
    let has = |size: &'static str, labels: Value| {
        move |claim: &Value| {
            let requested = claim.pointer("/spec/resources/requests/storage");
            requested == Some(&json!(size)) && claim["metadata"].get("labels").unwrap_or(&json!({})) == &labels
        }
    };
    let created = until(&client, CLAIM, "created", has("1G", json!({}))).await?;
    let uid = client.get(EPHEMERAL).await?["metadata"]["uid"].clone();
    ensure!(created["metadata"]["ownerReferences"][0]["uid"] == uid, "{created}");

    // Only the size of a bound claim may change.
    let bound = json!({ "status": { "phase": "Bound" } });
    client.merge(&format!("{CLAIM}/status"), &bound).await?;
    let others = json!({ "metadata": { "labels": { "other": "x" } } });
    client.merge(CLAIM, &others).await?;
    for command in [grow, label, show_labels] {
        succeeds(&cluster, command).await?;
    }
    let labels = json!({ "application": "some-app", "other": "x", "owner": "me" });
    until(&client, CLAIM, "changed", has("2G", labels)).await?;
    succeeds(&cluster, unlabel).await?;
    // Only a server that tracks managers can remove what is no longer applied.
    if cluster.kind() == Kind::Real {
        let labels = json!({ "application": "some-app", "other": "x" });
        until(&client, CLAIM, "without a label", has("2G", labels)).await?;
    }

    client.merge(EPHEMERAL, &json!({ "spec": { "size": null } })).await?;
    wait::until("a dead letter", SEEN_WITHIN, async || {
        let letters = daemon.metric("informant_dead_letters", &["plugin=\"ephemeral\""]).await;
        match letters.map_err(|error| format!("{error:#}"))? {
            Some(1.0) => Ok(()),
            letters => Err(format!("{letters:?}")),
        }
    })
    .await
}

/// The commands of `program` in the page's console blocks, without comments.
fn documented(page: &str, program: &str) -> Vec<String> {
    let blocks = readme::blocks(page, "console");
    let commands = blocks.iter().flat_map(|block| block.lines());
    let commands = commands.filter_map(|line| line.strip_prefix("$ ")?.split(" #").next());
    let ours = commands.filter(|command| command.starts_with(program));
    ours.map(|command| command.trim_end().to_owned()).collect()
}

/// Repeats a command of a page, as a reader would, until it succeeds.
async fn succeeds(cluster: &Cluster, command: &str) -> Result<String> {
    wait::until(command, SEEN_WITHIN, async || {
        let mut shell = tokio::process::Command::new("bash");
        let shell = shell.args(["-c", command]).current_dir(cluster.folder());
        let path = reader_path().map_err(|error| format!("{error:#}"))?;
        let shell = shell.env("PATH", path).env("KUBECONFIG", cluster.kubeconfig());
        run(shell.env("HOME", cluster.folder()))
            .await
            .map_err(|error| format!("{error:#}"))
    })
    .await
}

/// An object in `default` that `owner` controls.
fn owned(kind: &str, name: &str, owner: &Value) -> Value {
    let mut object = match kind {
        "Pod" => objects::pod(name, "nginx:1.29"),
        _ => json!({ "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": name, "namespace": "default" } }),
    };
    if !owner.is_null() {
        object["metadata"]["ownerReferences"] = json!([{
            "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"], "controller": true,
        }]);
    }
    object
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica_sets_are_labeled_with_their_pods() {
    count_pods().await.unwrap();
}

async fn count_pods() -> Result<()> {
    let Some(component) = guests::in_go("pod-count")? else {
        return Ok(());
    };
    let cluster = Cluster::start(Kind::Embedded).await?;
    let client = cluster.client().await?;
    let set = client
        .post(REPLICA_SETS, &owned("ReplicaSet", "web", &Value::Null))
        .await?;
    client.post(&objects::pods(""), &owned("Pod", "web-a", &set)).await?;
    client
        .post(&objects::pods(""), &owned("Pod", "alone", &Value::Null))
        .await?;
    let config = readme::first_block(&page("coming-from-controller-runtime.md")?, "toml")?;
    let config = config.replace("\"pod-count.wasm\"", &format!("{component:?}"));
    let daemon = Daemon::start(cluster.folder(), &cluster.kubeconfig(), &config).await?;
    let counts = async |count: &str| {
        let path = format!("{REPLICA_SETS}/web");
        until(&client, &path, &format!("{count} pods"), |set| {
            set["metadata"]["labels"]["pod-count"] == count
        })
        .await
    };
    counts("1").await?;
    for name in ["web-b", "web-c"] {
        client.post(&objects::pods(""), &owned("Pod", name, &set)).await?;
    }
    counts("3").await?;
    client.delete(&objects::pods("web-a")).await?;
    counts("2").await?;
    // Somebody else changes the label.
    client
        .merge(
            &format!("{REPLICA_SETS}/web"),
            &json!({ "metadata": { "labels": { "pod-count": "9" } } }),
        )
        .await?;
    counts("2").await?;
    let letters = daemon
        .metric("informant_dead_letters", &["plugin=\"pod-count\""])
        .await?;
    ensure!(letters.unwrap_or_default() == 0.0, "{letters:?} dead letters");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deployments_are_labeled_while_a_pod_crashes_in_python() {
    if let Some(runner) = guests::python_runner().unwrap() {
        label_deployments("script = \"crash_label.py\"", Some(&runner))
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deployments_are_labeled_while_a_pod_crashes_in_go() {
    if let Some(component) = guests::in_go("crash-label").unwrap() {
        label_deployments(&format!("component = {component:?}"), None)
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deployments_are_labeled_while_a_pod_crashes_in_typescript() {
    if scripts::can_run().await.unwrap() {
        label_deployments("script = \"crash_label.ts\"", None).await.unwrap();
    }
}

/// The plugin with `line` in its section, first in dry run.
async fn label_deployments(line: &str, runner: Option<&Path>) -> Result<()> {
    let (page, cluster) = (page("guides/owners.md")?, Cluster::start(Kind::Embedded).await?);
    let (client, folder) = (cluster.client().await?, cluster.folder());
    for (language, file) in [("python", "crash_label.py"), ("ts", "crash_label.ts")] {
        std::fs::write(folder.join(file), readme::first_block(&page, language)?)?;
    }
    let config = readme::first_block(&page, "toml")?.replace("script = \"crash_label.py\"", line);
    let config = runner.map_or(config.clone(), |runner| with_runner(&config, runner));
    let deployment = client
        .post(DEPLOYMENTS, &owned("Deployment", "web", &Value::Null))
        .await?;
    let set = client
        .post(REPLICA_SETS, &owned("ReplicaSet", "web-1", &deployment))
        .await?;
    for (name, owner) in [("web-1-a", &set), ("web-1-b", &set), ("alone", &Value::Null)] {
        client.post(&objects::pods(""), &owned("Pod", name, owner)).await?;
    }
    let crash = async |name: &str| {
        client
            .merge(&format!("{}/status", objects::pods(name)), &objects::out_of_memory(3))
            .await
    };
    let is_labeled = async |expected: bool| {
        until(
            &client,
            &format!("{DEPLOYMENTS}/web"),
            &format!("labeled: {expected}"),
            |deployment| (deployment["metadata"]["labels"]["crashing"] == "true") == expected,
        )
        .await
    };

    let daemon = Daemon::start(folder, &cluster.kubeconfig(), &config).await?;
    crash("web-1-a").await?;
    crash("alone").await?;
    let shown = withheld(&daemon).await?;
    ensure!(
        shown.contains("apps/v1/deployments") && shown.contains("crashing"),
        "{shown}"
    );
    is_labeled(false).await?;

    let config = config.replace("dry-run = true\n", "");
    daemon.write_config(&config).await?;
    wait::until("the dry run to end", SEEN_WITHIN, async || {
        let plugins = daemon
            .json("/api/v1/plugins")
            .await
            .map_err(|error| format!("{error:#}"))?;
        match plugins["items"][0]["dryRun"] == false {
            true => Ok(()),
            false => Err(plugins.to_string()),
        }
    })
    .await?;
    let trigger = ["plugin", "trigger", "crash-label", "--all"];
    let (code, out, err) = daemon.command(&trigger).await?;
    ensure!(code == 0, "{out}{err}");
    let effects = ["plugin", "effects", "crash-label"];
    let expected = [&effects[..], &trigger[..]].map(|words| format!("informant {}", words.join(" ")));
    ensure!(
        documented(&page, "informant") == expected,
        "the page shows other commands"
    );
    is_labeled(true).await?;

    // Both crash; the label goes with the last one.
    crash("web-1-b").await?;
    let running = json!({ "status": { "containerStatuses": [{ "name": "app", "state": { "running": {} } }] } });
    client
        .merge(&format!("{}/status", objects::pods("web-1-a")), &running)
        .await?;
    is_labeled(true).await?;
    client.delete(&objects::pods("web-1-b")).await?;
    is_labeled(false).await?;
    crash("web-1-a").await?;
    is_labeled(true).await?;
    let letters = daemon
        .metric("informant_dead_letters", &["plugin=\"crash-label\""])
        .await?;
    ensure!(letters.unwrap_or_default() == 0.0, "{letters:?} dead letters");
    Ok(())
}

/// What the plugin would have written, once there is something.
async fn withheld(daemon: &Daemon) -> Result<String> {
    wait::until("an effect", SEEN_WITHIN, async || {
        let listed = daemon
            .command(&["plugin", "effects", "crash-label", "-o", "json"])
            .await;
        let (_, out, err) = listed.map_err(|error| format!("{error:#}"))?;
        let listed: Value = serde_json::from_str(&out).map_err(|error| format!("{error}: {err}"))?;
        match listed["items"].as_array().is_some_and(|items| !items.is_empty()) {
            true => Ok(out),
            false => Err(out),
        }
    })
    .await
}
