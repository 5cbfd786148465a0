//! A start in a cluster with many namespaces, with plugins that read each other's indexes: nothing is called too early.

use std::fmt::Write as _;
use std::time::Duration;

use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use informant_tests::cluster::{Cluster, Kind};
use informant_tests::daemon::Daemon;
use informant_tests::{scripts, wait};
use serde_json::{Value, json};
use tokio::time::Instant;

const NAMESPACES: usize = 507;
const PODS: usize = 2_000;
const PLUGINS: usize = 9;

/// A debug build on a busy machine; a release build takes less than 3 s.
const DONE_WITHIN: Duration = Duration::from_secs(120);

/// Reads the namespace of each pod, and an index that the first plugin computes.
const READER: &str = r#"
    import { store } from "informant";
    export function onAdd(object, event) {
      if (event.kind !== "Pod") return;
      const { namespace, name, labels } = object.metadata;
      if (store.get("namespaces", "", namespace) === null) throw new Error(`${namespace} is missing`);
      const found = store.indexKeys("pods", "app", labels.app);
      if (!found.some((key) => key.name === name)) throw new Error(`${name} is not in the index`);
    }
"#;

const INDEX: &str = "export function index(object) { return { app: object.metadata.labels?.app ?? [] }; }\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn start_with_many_namespaces_logs_no_warning() {
    if scripts::can_run().await.unwrap() {
        many_namespaces().await.unwrap();
    }
}

async fn many_namespaces() -> Result<()> {
    let cluster = Cluster::start(Kind::Embedded).await?;
    fill(&cluster).await?;
    let folder = cluster.folder().join("many");
    std::fs::create_dir(&folder)?;
    let mut config = "[informer.pods]\nresource = \"v1/pods\"\n[informer.namespaces]\nresource = \"v1/namespaces\"\n\
        [informer.maps]\nresource = \"v1/configmaps\"\n"
        .to_owned();
    for number in 0..PLUGINS {
        let index = if number == 0 { INDEX } else { "" };
        std::fs::write(folder.join(format!("p{number}.js")), format!("{index}{READER}"))?;
        writeln!(
            config,
            "[plugin.p{number}]\nscript = \"p{number}.js\"\ninformers = [\"pods\", \"namespaces\", \"maps\"]\n\
             required = true"
        )?;
    }
    let daemon = Daemon::start(&folder, &cluster.kubeconfig(), &config).await?;
    daemon.wait_until_ready().await?;
    let ready = Instant::now();
    let calls = (PLUGINS * PODS) as f64;
    wait::until("all calls", DONE_WITHIN, async || {
        let labels = ["informer=\"pods\"", "event=\"add\"", "result=\"ok\""];
        let done = daemon.metric("informant_handler_events_total", &labels).await;
        let done = done.map_err(|error| format!("{error:#}"))?.unwrap_or_default();
        if done >= calls {
            Ok(())
        } else {
            Err(format!("{done} of {calls}"))
        }
    })
    .await?;
    #[expect(clippy::print_stdout, reason = "the figure is a result")]
    {
        println!("all calls were done {:?} after the daemon was ready", ready.elapsed());
    }
    let early = daemon
        .metric("informant_handler_events_total", &["result=\"not-ready\""])
        .await?;
    ensure!(early == Some(0.0), "{early:?} calls read something too early");
    let warnings = daemon.process().lines(0, |line| {
        let parsed: Value = serde_json::from_str(line).ok()?;
        ["WARN", "ERROR"]
            .contains(&parsed["level"].as_str()?)
            .then(|| line.to_owned())
    });
    ensure!(warnings.is_empty(), "{}", warnings.join("\n"));
    Ok(())
}

/// Creates the namespaces and the pods.
async fn fill(cluster: &Cluster) -> Result<()> {
    let client = cluster.client().await?;
    let client = &client;
    let namespaces = stream::iter(0..NAMESPACES).map(async |number| {
        let namespace =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": format!("ns-{number}") } });
        client.post("/api/v1/namespaces", &namespace).await
    });
    namespaces.buffer_unordered(16).try_collect::<Vec<_>>().await?;
    let pods = stream::iter(0..PODS).map(async |number| {
        let namespace = format!("ns-{}", number % NAMESPACES);
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": format!("pod-{number}"), "namespace": namespace,
                "labels": { "app": format!("app-{}", number % 100) },
            },
            "spec": { "containers": [{ "name": "app", "image": "nginx" }] },
        });
        client.post(&format!("/api/v1/namespaces/{namespace}/pods"), &pod).await
    });
    pods.buffer_unordered(16).try_collect::<Vec<_>>().await?;
    Ok(())
}
