//! The memory that the metrics count is the memory that the process grows by.

use std::time::Duration;

use anyhow::{Context, Result};
use informant_apiserver::ApiServer;
use informant_tests::daemon::Daemon;
use informant_tests::wait;
use serde_json::json;

use super::stop_and_clear::{LISTED_WITHIN, resident_bytes, serve};

/// How far the counted bytes may be from the growth of the process.
const DIFFERENCE_MAX: f64 = 0.1;

/// The allocator returns memory some seconds after it was freed.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);

const NAMESPACES: usize = 100;

/// Everything that a first list needs once is in memory already: code, connections, buffers.
const BEFORE: &str = "[informer.pods]\nresource = \"v1/pods\"\n\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counted_bytes_of_large_objects_are_the_memorys_growth() {
    grows_as_counted(60, 900_000, "").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counted_bytes_of_small_indexed_objects_are_the_memorys_growth() {
    let index = "\n[informer.maps.index]\nteam = \"/data/team\"\n";
    grows_as_counted(40_000, 700, index).await.unwrap();
}

async fn grows_as_counted(objects: usize, bytes: usize, index: &str) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (server, kubeconfig) = serve(folder.path()).await?;
    for number in 0..2_000 {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": "default", "name": format!("pod-{number}")},
        });
        server.put("v1/pods", "default", pod).context("the pod is written")?;
    }
    for number in 0..NAMESPACES {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("team-{number}")}});
        server
            .put("v1/namespaces", "", namespace)
            .context("the namespace is written")?;
    }
    (0..objects).try_for_each(|number| put(&server, number, bytes))?;
    let daemon = Daemon::start(folder.path(), &kubeconfig, BEFORE).await?;
    daemon.wait_until_ready().await?;
    let before = (counted_bytes(&daemon).await?, resident_bytes(&daemon)?);
    let with = format!("{BEFORE}[informer.maps]\nresource = \"v1/configmaps\"\n{index}");
    daemon.write_config(&with).await?;
    wait::until("all objects to be there", LISTED_WITHIN, async || {
        let stored = daemon.metric("informant_store_objects", &["informer=\"maps\""]).await;
        match stored.map_err(|error| error.to_string())? {
            Some(stored) if stored as usize == objects => Ok(()),
            stored => Err(format!("{stored:?} objects")),
        }
    })
    .await?;
    wait::until("the counted bytes to be the growth", SETTLED_WITHIN, async || {
        let counted = counted_bytes(&daemon).await.map_err(|error| error.to_string())? - before.0;
        let grown = resident_bytes(&daemon).map_err(|error| error.to_string())? - before.1;
        match (counted - grown).abs() <= DIFFERENCE_MAX * grown {
            true => Ok(()),
            false => Err(format!("counted {counted}, grown by {grown} bytes")),
        }
    })
    .await
}

/// All that the process counts as memory of its caches.
async fn counted_bytes(daemon: &Daemon) -> Result<f64> {
    let counted = daemon.metric("informant_cache_bytes", &[]).await?;
    counted.context("the metric is there")
}

fn put(server: &ApiServer, number: usize, bytes: usize) -> Result<()> {
    let namespace = format!("team-{}", number % NAMESPACES);
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": namespace, "name": format!("map-{number}")},
        "data": {"team": format!("team-{}", number % 50), "text": "x".repeat(bytes)},
    });
    server
        .put("v1/configmaps", &namespace, map)
        .context("the object is written")?;
    Ok(())
}
