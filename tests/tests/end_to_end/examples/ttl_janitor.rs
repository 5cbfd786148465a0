//! `plugins/ttl-janitor`: its scenarios, and a dry run followed by a real one on both API servers.

use anyhow::{Result, ensure};
use informant_tests::client::Client;
use informant_tests::cluster::Cluster;
use informant_tests::daemon::Daemon;
use informant_tests::{readme, scripts, wait};
use serde_json::{Value, json};

use super::{SEEN_WITHIN, scenarios_pass, start_with, workload, workloads};

crate::on_both_clusters!(what_has_expired_is_listed_and_then_deleted);

const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scenarios_of_ttl_janitor_pass() {
    scenarios_pass("ttl-janitor").await.unwrap();
}

async fn what_has_expired_is_listed_and_then_deleted(cluster: Cluster) -> Result<()> {
    if !scripts::can_run().await? {
        return Ok(());
    }
    let client = cluster.client().await?;
    for (name, annotations) in [
        ("old", json!({ "janitor/expires": "2026-01-01T00:00:00Z" })),
        ("new", json!({ "janitor/ttl": "7d" })),
        ("wrong", json!({ "janitor/ttl": "soon" })),
    ] {
        let object = workload("Deployment", name, &annotations, &json!({}));
        client.post(&workloads("Deployment", ""), &object).await?;
    }
    let state = format!("[state]\npath = {:?}", cluster.folder().join("state.redb"));
    let with_state = |config: String| config.replace("[state]", &state);
    let daemon = start_with(&cluster, "ttl-janitor", with_state).await?;
    run_timer(&daemon).await?;
    wait::until("the effect", SEEN_WITHIN, async || {
        let listed = daemon.command(&["plugin", "effects", "ttl-janitor"]).await;
        let (_, out, err) = listed.map_err(|error| format!("{error:#}"))?;
        match out.contains("apps/v1/deployments default/old") {
            true => Ok(()),
            false => Err(format!("{out}{err}")),
        }
    })
    .await?;
    client.get(&workloads("Deployment", "old")).await?;

    // Without that line of the README, it is deleted.
    let page = readme::of("plugins/ttl-janitor")?;
    let config = with_state(readme::first_block(&page, "toml")?);
    let config: Vec<&str> = config.lines().filter(|line| !line.starts_with("dry-run")).collect();
    daemon.write_config(&config.join("\n")).await?;
    wait::until("the dry run to end", SEEN_WITHIN, async || {
        let plugins = daemon.json("/api/v1/plugins").await;
        let plugins = plugins.map_err(|error| format!("{error:#}"))?;
        match plugins["items"][0]["dryRun"] == false {
            true => Ok(()),
            false => Err(plugins.to_string()),
        }
    })
    .await?;
    run_timer(&daemon).await?;
    recorded(&client, &["old Expired", "wrong WrongValue"]).await?;
    let gone = client.get(&workloads("Deployment", "old")).await;
    ensure!(gone.is_err(), "{gone:?}");
    for name in ["new", "wrong"] {
        client.get(&workloads("Deployment", name)).await?;
    }
    Ok(())
}

/// Asks for a run as soon as the plugin is loaded.
async fn run_timer(daemon: &Daemon) -> Result<()> {
    wait::until("the timer to be triggered", SEEN_WITHIN, async || {
        let trigger = ["plugin", "trigger", "ttl-janitor", "--timer", "clean"];
        let triggered = daemon.command(&trigger).await;
        match triggered.map_err(|error| format!("{error:#}"))? {
            (0, ..) => Ok(()),
            (code, out, err) => Err(format!("{code}: {out}{err}")),
        }
    })
    .await
}

/// Waits until these are the objects and reasons of all Events of the plugin, sorted.
async fn recorded(client: &Client, expected: &[&str]) -> Result<()> {
    wait::until("the Events", SEEN_WITHIN, async || {
        let events = client.get(EVENTS).await.map_err(|error| format!("{error:#}"))?;
        let items = events["items"].as_array().cloned().unwrap_or_default();
        let ours = items
            .iter()
            .filter(|event| event["reportingController"] == "informant.dev/ttl-janitor");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let of = |event: &Value| format!("{} {}", text(&event["regarding"]["name"]), text(&event["reason"]));
        let mut found: Vec<String> = ours.map(of).collect();
        found.sort_unstable();
        match found == expected {
            true => Ok(()),
            false => Err(Value::from(items).to_string()),
        }
    })
    .await
}
