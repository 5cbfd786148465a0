//! A removed informer returns its memory without a restart, and can be added again.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use informant_apiserver::{ApiServer, Options};
use informant_tests::daemon::Daemon;
use informant_tests::wait;
use serde_json::json;
use tokio::net::TcpListener;

const OBJECTS: usize = 50_000;

/// The minimum share of the growth in resident memory that must be returned.
const RETURNED_MIN: f64 = 0.95;

/// The allocator returns a region ten seconds after its last object was freed.
const RETURNED_WITHIN: Duration = Duration::from_secs(60);

/// The deadline for the daemon to list everything on a busy machine.
pub(super) const LISTED_WITHIN: Duration = Duration::from_secs(120);

/// Another informer, so that something still runs.
const WITHOUT: &str = "[informer.maps]\nresource = \"v1/configmaps\"\n\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removed_informer_returns_its_memory_and_can_be_readded() {
    let folder = tempfile::tempdir().expect("a folder");
    let (server, kubeconfig) = serve(folder.path()).await.unwrap();
    (0..OBJECTS).for_each(|number| put(&server, number));
    let with = format!(
        "{WITHOUT}[informer.pods]\nresource = \"v1/pods\"\n\n[informer.pods.index]\nnode = \"/spec/nodeName\"\n"
    );
    let daemon = Daemon::start(folder.path(), &kubeconfig, WITHOUT).await.unwrap();
    daemon.wait_until_ready().await.unwrap();
    for round in ["the first time", "the second time"] {
        comes_and_goes(&daemon, &with).await.context(round).unwrap();
    }
}

async fn comes_and_goes(daemon: &Daemon, with: &str) -> Result<()> {
    let before = resident_bytes(daemon)?;
    daemon.write_config(with).await?;
    wait::until("all objects to be there", LISTED_WITHIN, async || {
        match objects(daemon).await {
            Ok(Some(OBJECTS)) => Ok(()),
            other => Err(format!("{other:?} objects")),
        }
    })
    .await?;
    let grown = resident_bytes(daemon)?;
    ensure!(
        grown > before + 50_000_000.0,
        "from {before} to {grown} bytes for {OBJECTS} objects"
    );
    daemon.write_config(WITHOUT).await?;
    wait::until("the memory to be returned", RETURNED_WITHIN, async || {
        let now = resident_bytes(daemon).map_err(|error| error.to_string())?;
        let returned = (grown - now) / (grown - before);
        if returned >= RETURNED_MIN {
            return Ok(());
        }
        Err(format!(
            "{:.1} % of the growth from {before} to {grown} bytes was returned; the store has {:?} objects",
            returned * 100.0,
            objects(daemon).await
        ))
    })
    .await?;
    ensure!(objects(daemon).await?.is_none(), "its metrics are removed too");
    Ok(())
}

/// The number of objects in the informer's store; none while there is no such informer.
async fn objects(daemon: &Daemon) -> Result<Option<usize>> {
    let objects = daemon.metric("informant_store_objects", &["informer=\"pods\""]).await?;
    Ok(objects.map(|objects| objects as usize))
}

/// The resident memory of the process.
pub(super) fn resident_bytes(daemon: &Daemon) -> Result<f64> {
    memory_bytes(daemon, "VmRSS:")
}

/// This line of the process's memory.
pub(super) fn memory_bytes(daemon: &Daemon, line_start: &str) -> Result<f64> {
    let id = daemon.process().id().context("the daemon runs")?;
    let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
    let kilobytes = status
        .lines()
        .find_map(|line| line.strip_prefix(line_start)?.trim().strip_suffix(" kB"));
    Ok(kilobytes
        .with_context(|| format!("no {line_start} in /proc"))?
        .trim()
        .parse::<f64>()?
        * 1_024.0)
}

/// An API server in this process, because only the daemon's memory is measured and nothing has to be posted.
pub(super) async fn serve(folder: &Path) -> Result<(ApiServer, std::path::PathBuf)> {
    let server = ApiServer::new(Options::default());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let serving = server.clone();
    tokio::spawn(async move { serving.serve(listener, std::future::pending()).await });
    let path = folder.join("kubeconfig");
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "test", "user": {}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    });
    tokio::fs::write(&path, kubeconfig.to_string()).await?;
    Ok((server, path))
}

/// A pod of about three kilobytes.
fn put(server: &ApiServer, number: usize) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": format!("pod-{number}"), "annotations": {"padding": "x".repeat(2_800)}},
        "spec": {"nodeName": format!("node-{}", number % 100), "containers": [{"name": "app", "image": "nginx"}]},
    });
    server.put("v1/pods", "default", pod).expect("the pod is written");
}
