//! State that survives the process: killed without warning, then started again.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use informant_tests::cluster::{Cluster, Kind};
use informant_tests::daemon::Daemon;
use informant_tests::objects::{config_map, config_maps};
use informant_tests::recording::{self, Call};
use informant_tests::{guests, wait};
use serde_json::json;

/// The deadline of every wait.
const WITHIN: Duration = Duration::from_secs(60);

/// The number of objects that are deleted while no process runs.
const DELETED: usize = 100;

/// A recorder on durable config maps that continues where it stopped; `rules` define its behavior for some of them.
fn config(rules: &str) -> Result<String> {
    Ok(format!(
        "[state]\npath = \"state.redb\"\n\n\
         [informer.maps]\nresource = \"v1/configmaps\"\nnamespaces = [\"default\"]\nlabel-selector = \"app=test\"\ndurable = \"metadata\"\n\n\
         [plugin.recorder]\ncomponent = {:?}\ninformers = [\"maps\"]\non-start = \"continue\"\n\
         limits = {{ cpu = \"60s\", call = \"60s\" }}\nconfig = {{ rules = [{rules}] }}\n",
        guests::component("guest-recorder")?
    ))
}

async fn start(cluster: &Cluster, rules: &str) -> Result<Daemon> {
    let daemon = Daemon::start(cluster.folder(), &cluster.kubeconfig(), &config(rules)?).await?;
    daemon.wait_until_ready().await?;
    calls_until_synced(&daemon).await?;
    Ok(daemon)
}

/// The calls up to the end of the initial events.
async fn calls_until_synced(daemon: &Daemon) -> Result<Vec<Call>> {
    wait::until("the end of the first list", WITHIN, async || {
        let calls = recording::calls(daemon, "recorder", 0);
        let synced = calls.iter().position(|call| call.event == "synced");
        let shown = || format!("{} calls so far", calls.len());
        synced.map(|end| calls[..end].to_vec()).ok_or_else(shown)
    })
    .await
}

/// Waits until this many keys are stored as unacknowledged.
async fn open_keys(daemon: &Daemon, keys: f64) -> Result<()> {
    wait::until("the unacknowledged keys", WITHIN, async || {
        let open = daemon
            .metric("informant_state_open_keys", &["plugin=\"recorder\""])
            .await;
        match open.map_err(|error| format!("{error:#}"))? {
            Some(open) if open == keys => Ok(()),
            open => Err(format!("{open:?} keys are unacknowledged, expected {keys}")),
        }
    })
    .await
}

async fn kill(daemon: &mut Daemon) -> Result<()> {
    daemon.process().signal("KILL").await?;
    wait::until("the daemon to end", WITHIN, async || {
        let running = daemon.process_mut().is_running();
        if running { Err("it runs".to_owned()) } else { Ok(()) }
    })
    .await
}

fn names<'c>(calls: &'c [Call], event: &str) -> Vec<&'c str> {
    let of_it = calls.iter().filter(|call| call.event == event);
    let mut names: Vec<&str> = of_it.map(|call| call.name.as_str()).collect();
    names.sort_unstable();
    names
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restart_after_kill_delivers_only_missed_deletes_and_unacknowledged_events() {
    let cluster = Cluster::start(Kind::Embedded).await.unwrap();
    killed_and_started_again(&cluster).await.unwrap();
}

async fn killed_and_started_again(cluster: &Cluster) -> Result<()> {
    let client = cluster.client().await?;
    let gone: Vec<String> = (0..DELETED).map(|number| format!("gone-{number:03}")).collect();
    for name in gone
        .iter()
        .map(String::as_str)
        .chain(["kept", "changed", "stuck", "waits"])
    {
        client.post(&config_maps(""), &config_map(name, "1")).await?;
    }
    // The handler takes half a minute for the update of `stuck`, and later events wait.
    let rules = r#"{ name = "stuck", event = "update", do = { spin = 30000000000 } }"#;
    let mut daemon = start(cluster, rules).await?;
    open_keys(&daemon, 0.0).await?;
    for name in ["stuck", "waits"] {
        client
            .merge(&config_maps(name), &json!({"data": {"value": "2"}}))
            .await?;
    }
    open_keys(&daemon, 2.0).await?;
    kill(&mut daemon).await?;
    drop(daemon);

    for name in &gone {
        client.delete(&config_maps(name)).await?;
    }
    client
        .merge(&config_maps("changed"), &json!({"data": {"value": "3"}}))
        .await?;
    client.post(&config_maps(""), &config_map("new", "1")).await?;

    let mut daemon = start(cluster, "").await?;
    let calls = calls_until_synced(&daemon).await?;
    let deletes: Vec<&Call> = calls.iter().filter(|call| call.event == "delete").collect();
    ensure!(names(&calls, "delete") == gone, "{:?}", names(&calls, "delete"));
    ensure!(
        deletes
            .iter()
            .all(|call| call.unknown && call.old && !call.uid.is_empty()),
        "{deletes:?}"
    );
    ensure!(
        names(&calls, "add") == ["changed", "new", "stuck", "waits"],
        "{:?}",
        names(&calls, "add")
    );
    ensure!(calls.iter().all(|call| call.event != "update"), "{calls:?}");

    // Once more, with everything acknowledged: there is nothing to deliver.
    open_keys(&daemon, 0.0).await?;
    kill(&mut daemon).await?;
    drop(daemon);
    let daemon = start(cluster, "").await?;
    let delivered: BTreeSet<String> = calls_until_synced(&daemon)
        .await?
        .into_iter()
        .filter(|call| call.event != "init")
        .map(|call| format!("{} {}", call.event, call.name))
        .collect();
    ensure!(delivered.is_empty(), "{delivered:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn foreign_state_file_is_moved_aside_and_locked_one_refused() {
    let cluster = Cluster::start(Kind::Embedded).await.unwrap();
    files(&cluster).await.unwrap();
}

async fn files(cluster: &Cluster) -> Result<()> {
    let file = cluster.folder().join("state.redb");
    std::fs::write(&file, "this is not a database")?;
    let first = start(cluster, "").await?;
    let aside = cluster.folder().join("state.redb.broken-1");
    ensure!(std::fs::read(&aside)? == b"this is not a database");
    ensure!(first.metric("informant_state_set_aside_total", &[]).await? == Some(1.0));

    let other = cluster.folder().join("other");
    std::fs::create_dir(&other)?;
    let config = config("")?.replace("state.redb", path_text(&file)?);
    let second = Daemon::start(&other, &cluster.kubeconfig(), &config).await;
    let error = format!("{:#}", second.err().context("a second process took the file")?);
    ensure!(error.contains("is in use by another process"), "{error}");
    // Also if only plugins would use it.
    let without = config
        .replace("durable = ", "# durable = ")
        .replace("on-start = \"continue\"\n", "");
    ensure!(without != config, "{config}");
    let second = Daemon::start(&other, &cluster.kubeconfig(), &without).await;
    let error = format!("{:#}", second.err().context("a second process ran without its file")?);
    ensure!(error.contains("is in use by another process"), "{error}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_letters_survive_a_restart_and_are_requeued_by_command() {
    let cluster = Cluster::start(Kind::Embedded).await.unwrap();
    dead_letters(&cluster).await.unwrap();
}

/// Waits until the dead letters are those of these objects.
async fn dead_letters_of(daemon: &Daemon, names: &[&str]) -> Result<()> {
    wait::until("the dead letters", WITHIN, async || {
        let letters = daemon.json("/api/v1/dead-letters?plugin=recorder").await;
        let letters = letters.map_err(|error| format!("{error:#}"))?;
        let shown = letters.to_string();
        let items = letters["items"]
            .as_array()
            .or(letters.as_array())
            .ok_or(shown.clone())?;
        let found: BTreeSet<&str> = items.iter().filter_map(|item| item["name"].as_str()).collect();
        if found.into_iter().eq(names.iter().copied()) {
            Ok(())
        } else {
            Err(shown)
        }
    })
    .await
}

async fn dead_letters(cluster: &Cluster) -> Result<()> {
    let client = cluster.client().await?;
    for name in ["broken", "good"] {
        client.post(&config_maps(""), &config_map(name, "1")).await?;
    }
    let mut daemon = start(cluster, r#"{ name = "broken", do = "permanent" }"#).await?;
    dead_letters_of(&daemon, &["broken"]).await?;
    daemon.process().signal("TERM").await?;
    daemon.process_mut().wait_for_end(WITHIN).await?;
    drop(daemon);

    let daemon = start(cluster, "").await?;
    let calls = calls_until_synced(&daemon).await?;
    ensure!(names(&calls, "add").is_empty(), "unchanged: {calls:?}");
    dead_letters_of(&daemon, &["broken"]).await?;
    let config = daemon.config().display().to_string();
    let requeue = [
        "plugin",
        "requeue",
        "recorder",
        "--key",
        "default/broken",
        "-c",
        &config,
    ];
    let (code, output, error) = daemon.command(&requeue).await?;
    ensure!(code == 0, "{output}{error}");
    dead_letters_of(&daemon, &[]).await?;
    wait::until("the call for the requeued event", WITHIN, async || {
        let calls = recording::calls(&daemon, "recorder", 0);
        match names(&calls, "add") == ["broken"] {
            true => Ok(()),
            false => Err(format!("{calls:?}")),
        }
    })
    .await
}

fn path_text(path: &Path) -> Result<&str> {
    path.to_str().context("the folder has a name in UTF-8")
}
