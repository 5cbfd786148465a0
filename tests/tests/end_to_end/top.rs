//! `informant top`: its tables in a pipe, and its screen in a real terminal, which it leaves as it was.

use std::time::Duration;

use anyhow::{Result, ensure};
use informant_tests::cluster::{Cluster, Kind};
use informant_tests::daemon::Daemon;
use informant_tests::objects::{config_map, config_maps};
use informant_tests::terminal::Terminal;
use informant_tests::{guests, scripts, wait};
use rustix::process::Signal;
use serde_json::Value;

/// The deadline of every wait.
const WITHIN: Duration = Duration::from_secs(60);

/// Between two objects that are created.
const PACE: Duration = Duration::from_millis(20);

const CONFIG: &str = "[informer.maps]\nresource = \"v1/configmaps\"\nnamespaces = [\"default\"]\n\n\
    [plugin.greeter]\nscript = \"greeter.js\"\ninformers = [\"maps\"]\nrequired = true\n";

/// Draws the screen again.
const CONTROL_L: &str = "\x0c";

async fn daemon(cluster: &Cluster) -> Result<Daemon> {
    std::fs::write(cluster.folder().join("greeter.js"), "export function onAdd() {}")?;
    let daemon = Daemon::start(cluster.folder(), &cluster.kubeconfig(), CONFIG).await?;
    daemon.wait_until_ready().await?;
    Ok(daemon)
}

/// A cluster for a test with scripts, if they can be run.
async fn embedded() -> Result<Option<Cluster>> {
    if !scripts::can_run().await? {
        return Ok(None);
    }
    Ok(crate::cluster(Kind::Embedded).await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn top_prints_tables_with_rates_into_a_pipe() {
    if let Some(cluster) = embedded().await.unwrap() {
        tables(cluster).await.unwrap();
    }
}

async fn tables(cluster: Cluster) -> Result<()> {
    let daemon = daemon(&cluster).await?;
    let (code, out, err) = daemon.command(&["top"]).await?;
    ensure!(code == 0 && err.is_empty(), "{code}: {err}");
    let has_line = |words: &[&str]| {
        out.lines()
            .any(|line| line.split_whitespace().take(words.len()).eq(words.iter().copied()))
    };
    ensure!(has_line(&["informant:", "ready,"]), "{out}");
    ensure!(
        has_line(&["PLUGIN", "STATE", "CALLS/S"]) && has_line(&["greeter", "running"]),
        "{out}"
    );
    ensure!(has_line(&["maps", "v1/configmaps", "in", "default", "Live"]), "{out}");
    ensure!(!out.contains('\x1b'), "{out:?}");
    let (code, out, err) = daemon.command(&["top", "--iterations=2", "--interval=1"]).await?;
    ensure!(code == 0 && out.matches("PLUGIN").count() == 2, "{code}: {out}{err}");

    let client = cluster.client().await?;
    wait::until("rates", WITHIN, async || {
        let objects = async {
            for number in 0.. {
                let map = config_map(&format!("map-{number}"), "1");
                // Those of the attempt before are there already.
                let _ = client.post(&config_maps(""), &map).await;
                tokio::time::sleep(PACE).await;
            }
        };
        let ran = tokio::select! {
            ran = daemon.command(&["top", "-o", "json", "--sort", "name"]) => ran,
            () = objects => return Err("objects ended".to_owned()),
        };
        let (_, out, err) = ran.map_err(|error| error.to_string())?;
        let found: Value = serde_json::from_str(&out).map_err(|error| format!("{error}: {err}"))?;
        let is_positive = |path: &str| {
            found
                .pointer(path)
                .and_then(Value::as_f64)
                .is_some_and(|rate| rate > 0.0)
        };
        match is_positive("/plugins/0/perSecond") && is_positive("/sources/0/perSecond") {
            true => Ok(()),
            false => Err(out),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn top_leaves_the_terminal_as_it_was() {
    if let Some(cluster) = embedded().await.unwrap() {
        screen(cluster).await.unwrap();
    }
}

async fn screen(cluster: Cluster) -> Result<()> {
    let daemon = daemon(&cluster).await?;
    let address = daemon.address().to_owned();
    let top = async || {
        let mut terminal = Terminal::start(&guests::informant()?, &["top", "--admin", &address])?;
        let before = terminal.settings()?;
        terminal.wait_for("greeter", "").await?;
        ensure!(
            terminal.settings()? != before,
            "it reads keys at once, and without an echo"
        );
        Ok((terminal, before))
    };
    for keys in ["q", "\x1b", "\x03", "?jq"] {
        let (mut terminal, before) = top().await?;
        terminal.press(keys)?;
        ensure!(terminal.wait_for_end().await?.success(), "{keys:?}");
        terminal.ensure_left_as_it_was(&before).await?;
    }
    for signal in [Signal::TERM, Signal::HUP] {
        let (mut terminal, before) = top().await?;
        terminal.signal(signal)?;
        ensure!(terminal.wait_for_end().await?.success(), "{signal:?}");
        terminal.ensure_left_as_it_was(&before).await?;
    }
    let (mut terminal, before) = top().await?;
    drop(daemon);
    terminal.wait_for("Connection lost", CONTROL_L).await?;
    terminal.press("q")?;
    ensure!(terminal.wait_for_end().await?.success());
    terminal.ensure_left_as_it_was(&before).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_shows_its_progress_to_a_person_only() {
    if let Some(cluster) = embedded().await.unwrap() {
        progress(cluster).await.unwrap();
    }
}

async fn progress(cluster: Cluster) -> Result<()> {
    let daemon = daemon(&cluster).await?;
    let (config, kubeconfig) = (
        daemon.config().display().to_string(),
        cluster.kubeconfig().display().to_string(),
    );
    let args = ["check", "-c", &config, "--kubeconfig", &kubeconfig];
    let mut terminal = Terminal::start(&guests::informant()?, &args)?;
    ensure!(terminal.wait_for_end().await?.success(), "{}", terminal.written());
    terminal.wait_for("is valid", "").await?;
    let written = terminal.written();
    for text in ["checking plugin greeter (1 of 1)", "checking informer maps (1 of 1)"] {
        ensure!(written.contains(text), "{written:?}");
    }
    // The line is removed before the result.
    let last = written.rsplit("\x1b[K").next().unwrap_or_default();
    ensure!(!last.contains("checking") && last.contains("is valid"), "{written:?}");
    let output = tokio::process::Command::new(guests::informant()?)
        .args(args)
        .output()
        .await?;
    let err = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && !err.contains("checking"), "{err}");
    Ok(())
}
