//! One tenant fills its namespace with large objects: the memory stays in the budget, and nothing is lost.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use informant_apiserver::ApiServer;
use informant_tests::daemon::Daemon;
use informant_tests::{scripts, wait};
use serde_json::json;

use super::stop_and_clear::{memory_bytes, serve};

/// Of 900 KB each: 630 MB.
const LARGE: usize = 700;

const SMALL: usize = 200;

const SMALL_NAMESPACES: usize = 10;

/// 60 % of 256 MiB, as a pod with that limit has by default.
const CONFIG: &str = r#"
[cache]
max-bytes = "153MiB"

[informer.maps]
resource = "v1/configmaps"

[plugin.reader]
script = "reader.js"
informers = ["maps"]
"#;

/// Fails for an object that is not whole.
const SCRIPT: &str = r#"
function check(map) {
  const length = map.metadata.namespace === "attack" ? 900000 : 9;
  if (map.data.text.length !== length) throw new Error(`${map.metadata.name} has ${map.data.text.length} characters`);
}
export function onAdd(map) { check(map); }
export function onUpdate(map) { check(map); }
export function onDelete() {}
"#;

const MEMORY_BYTES_MAX: f64 = 256.0 * 1_024.0 * 1_024.0;

/// How long the long form of the attack continues.
const CHANGES_FOR: Duration = Duration::from_secs(600);

/// 60 s on a machine that does nothing else.
const HANDLED_WITHIN: Duration = Duration::from_secs(240);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_objects_that_come_are_delivered_within_the_budget() {
    if scripts::can_run().await.unwrap() {
        survives(Attack::WhileItRuns).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_objects_that_are_listed_are_delivered_within_the_budget() {
    if scripts::can_run().await.unwrap() {
        survives(Attack::BeforeItStarts).await.unwrap();
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Attack {
    BeforeItStarts,
    WhileItRuns,
}

async fn survives(attack: Attack) -> Result<()> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("reader.js"), SCRIPT)?;
    let (server, kubeconfig) = serve(folder.path()).await?;
    put_namespace(&server, "attack")?;
    for number in 0..SMALL_NAMESPACES {
        put_namespace(&server, &format!("team-{number}"))?;
    }
    for number in 0..SMALL {
        put(&server, &format!("team-{}", number % SMALL_NAMESPACES), number, 9)?;
    }
    if attack == Attack::BeforeItStarts {
        (0..LARGE).try_for_each(|number| put(&server, "attack", number, 900_000))?;
    }
    let daemon = start(folder.path(), &kubeconfig).await?;
    if attack == Attack::WhileItRuns {
        wait_for(&daemon, "add", SMALL).await?;
        for number in 0..LARGE {
            put(&server, "attack", number, 900_000)?;
            // Others have their turn, too.
            put(
                &server,
                &format!("team-{}", number % SMALL_NAMESPACES),
                number % SMALL,
                9,
            )?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    wait_for(&daemon, "add", SMALL + LARGE).await?;
    if attack == Attack::WhileItRuns && std::env::var_os("INFORMANT_TESTS_FULL").is_some() {
        keeps_changing(&server).await?;
    }
    let shed = daemon
        .metric("informant_shed_namespaces", &["informer=\"maps\""])
        .await?;
    ensure!(shed == Some(1.0), "{shed:?} namespaces are shed");
    for number in 0..LARGE {
        server.delete("v1/configmaps", "attack", &format!("map-{number}"))?;
    }
    wait_for(&daemon, "delete", LARGE).await?;
    wait::until("all namespaces to be whole", HANDLED_WITHIN, async || {
        let shed = daemon.metric("informant_shed_namespaces", &["informer=\"maps\""]).await;
        match shed.map_err(|error| error.to_string())? {
            Some(0.0) => Ok(()),
            shed => Err(format!("{shed:?} namespaces are shed")),
        }
    })
    .await?;
    let peak = memory_bytes(&daemon, "VmHWM:")?;
    ensure!(peak < MEMORY_BYTES_MAX, "the process had {peak} bytes of memory");
    Ok(())
}

/// Changes the large objects again and again.
async fn keeps_changing(server: &ApiServer) -> Result<()> {
    let begin = Instant::now();
    for number in (0..).take_while(|_| begin.elapsed() < CHANGES_FOR) {
        let letter = if (number / LARGE).is_multiple_of(2) { "y" } else { "x" };
        put_text(server, "attack", number % LARGE, &letter.repeat(900_000))?;
        let team = format!("team-{}", number % SMALL_NAMESPACES);
        put_text(server, &team, number % SMALL, &letter.repeat(9))?;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

async fn start(folder: &Path, kubeconfig: &Path) -> Result<Daemon> {
    let daemon = Daemon::start(folder, kubeconfig, CONFIG).await?;
    daemon.wait_until_ready().await?;
    Ok(daemon)
}

/// Waits until the handler has processed so many events of this kind. None of them fails.
async fn wait_for(daemon: &Daemon, event: &str, count: usize) -> Result<()> {
    let of = |result: &str| [format!("event=\"{event}\""), format!("result=\"{result}\"")];
    let handled = async |result: &str| {
        let labels = of(result);
        let labels = labels.each_ref().map(String::as_str);
        let value = daemon.metric("informant_handler_events_total", &labels).await;
        value.map_or_else(|error| Err(error.to_string()), |value| Ok(value.unwrap_or_default()))
    };
    wait::until(&format!("all calls of {event}"), HANDLED_WITHIN, async || {
        let (ok, late) = (handled("ok").await?, handled("not-ready").await?);
        match ok as usize == count {
            true => Ok(()),
            false => Err(format!("{ok} of {count}, {late} waited for a body")),
        }
    })
    .await?;
    for result in ["retryable", "permanent", "trap", "timeout"] {
        let failed = handled(result).await.map_err(anyhow::Error::msg)?;
        ensure!(failed == 0.0, "{failed} calls of {event} ended with {result}");
    }
    Ok(())
}

fn put_namespace(server: &ApiServer, name: &str) -> Result<()> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let put = server.put("v1/namespaces", "", namespace);
    put.map(drop).context("the namespace is written")
}

fn put(server: &ApiServer, namespace: &str, number: usize, bytes: usize) -> Result<()> {
    put_text(server, namespace, number, &"x".repeat(bytes))
}

fn put_text(server: &ApiServer, namespace: &str, number: usize, text: &str) -> Result<()> {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": namespace, "name": format!("map-{number}")},
        "data": {"text": text},
    });
    let put = server.put("v1/configmaps", namespace, map);
    put.map(drop).context("the object is written")
}
