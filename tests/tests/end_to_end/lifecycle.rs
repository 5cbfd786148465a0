//! The life cycle of an object: first list, add, update, delete, and a restart of the API server in between.

use std::time::Duration;

use anyhow::{Result, ensure};
use informant_tests::client::Client;
use informant_tests::cluster::Cluster;
use informant_tests::daemon::Daemon;
use informant_tests::objects::{config_map, config_maps, version_of};
use informant_tests::recording::{self, Call};
use informant_tests::{guests, wait};
use serde_json::json;

crate::on_both_clusters!(
    a_handler_sees_the_first_list_then_each_change_once,
    a_restart_of_the_api_server_loses_and_repeats_nothing,
    delete_during_restart_is_delivered_with_the_last_state,
);

/// The deadline for a change to arrive.
const ARRIVES_WITHIN: Duration = Duration::from_secs(60);

/// A daemon with a recorder on config maps that carry the tests' label.
async fn recorder(cluster: &Cluster) -> Result<Daemon> {
    let config = format!(
        "[informer.maps]\nresource = \"v1/configmaps\"\nnamespaces = [\"default\"]\nlabel-selector = \"app=test\"\n\n\
         [plugin.recorder]\ncomponent = {:?}\ninformers = [\"maps\"]\nconfig = {{ read-back = true }}\n",
        guests::component("guest-recorder")?
    );
    let daemon = Daemon::start(cluster.folder(), &cluster.kubeconfig(), &config).await?;
    daemon.wait_until_ready().await?;
    Ok(daemon)
}

/// Waits for a matching call.
async fn call(daemon: &Daemon, what: &str, fits: impl Fn(&Call) -> bool) -> Result<Call> {
    wait::until(what, ARRIVES_WITHIN, async || {
        let calls = recording::calls(daemon, "recorder", 0);
        let shown = || {
            calls
                .iter()
                .map(|call| format!("{} {} {}", call.event, call.name, call.version))
                .collect::<Vec<_>>()
        };
        calls
            .iter()
            .find(|call| fits(call))
            .cloned()
            .ok_or_else(|| format!("the calls so far: {:?}", shown()))
    })
    .await
}

async fn a_handler_sees_the_first_list_then_each_change_once(cluster: Cluster) -> Result<()> {
    let client = cluster.client().await?;
    for name in ["a", "b", "c"] {
        client.post(&config_maps(""), &config_map(name, "1")).await?;
    }
    let daemon = recorder(&cluster).await?;
    let synced = call(&daemon, "the end of the first list", |call| call.event == "synced").await?;
    ensure!(synced.keys == Some(3), "{synced:?}");

    let created = client.post(&config_maps(""), &config_map("d", "1")).await?;
    let add = call(&daemon, "the add", |call| call.name == "d" && call.event == "add").await?;
    ensure!(
        (add.reason.as_str(), &add.version) == ("watch", &version_of(&created)),
        "{add:?}"
    );

    let updated = client
        .merge(&config_maps("d"), &json!({"data": {"value": "2"}}))
        .await?;
    let update = call(&daemon, "the update", |call| call.name == "d" && call.event == "update").await?;
    ensure!(update.version == version_of(&updated) && update.old, "{update:?}");

    client.delete(&config_maps("d")).await?;
    let delete = call(&daemon, "the delete", |call| call.name == "d" && call.event == "delete").await?;
    ensure!(delete.old && !delete.unknown && delete.uid == add.uid, "{delete:?}");

    let calls = recording::calls(&daemon, "recorder", 0);
    let of = |event: &str, reason: &str| {
        calls
            .iter()
            .filter(|call| call.event == event && call.reason == reason)
            .count()
    };
    ensure!(of("add", "initial") == 3 && of("add", "watch") == 1, "{calls:?}");
    ensure!(of("update", "watch") == 1 && of("delete", "watch") == 1, "{calls:?}");
    for call in calls
        .iter()
        .filter(|call| call.event == "add" || call.event == "update")
    {
        let seen = call.seen.as_deref().unwrap_or_default();
        ensure!(
            seen.is_empty() || seen.parse::<u64>()? >= call.version_number(),
            "the store lagged behind {call:?}"
        );
    }
    Ok(())
}

async fn a_restart_of_the_api_server_loses_and_repeats_nothing(mut cluster: Cluster) -> Result<()> {
    let client = cluster.client().await?;
    client.post(&config_maps(""), &config_map("kept", "1")).await?;
    client.post(&config_maps(""), &config_map("changed", "1")).await?;
    let daemon = recorder(&cluster).await?;
    call(&daemon, "the end of the first list", |call| call.event == "synced").await?;

    cluster.restart_apiserver().await?;
    let changed = put_when_possible(&client, "changed", "2").await?;
    call(&daemon, "the change after the restart", |call| {
        call.name == "changed" && call.version == changed
    })
    .await?;
    let created = client.post(&config_maps(""), &config_map("new", "1")).await?;
    call(&daemon, "the object after the restart", |call| call.name == "new").await?;

    let calls = recording::calls(&daemon, "recorder", 0);
    let versions = |name: &str| {
        calls
            .iter()
            .filter(|call| call.name == name)
            .map(|call| call.version.clone())
            .collect::<Vec<_>>()
    };
    ensure!(
        versions("kept").len() == 1,
        "an unchanged object was redelivered: {calls:?}"
    );
    ensure!(versions("changed").len() == 2, "{calls:?}");
    ensure!(versions("new") == [version_of(&created)], "{calls:?}");
    let synced = daemon
        .metric("informant_informer_synced", &["informer=\"maps\""])
        .await?;
    ensure!(synced == Some(1.0), "informant_informer_synced is {synced:?}");
    Ok(())
}

async fn delete_during_restart_is_delivered_with_the_last_state(mut cluster: Cluster) -> Result<()> {
    let client = cluster.client().await?;
    client.post(&config_maps(""), &config_map("gone", "1")).await?;
    let daemon = recorder(&cluster).await?;
    let add = call(&daemon, "the first list", |call| call.name == "gone").await?;

    // While stopped, it misses the delete whatever the watch does; the restart ends the watch that would have delivered
    // it.
    daemon.process().signal("STOP").await?;
    client.delete(&config_maps("gone")).await?;
    cluster.restart_apiserver().await?;
    daemon.process().signal("CONT").await?;

    let delete = call(&daemon, "the delete", |call| {
        call.name == "gone" && call.event == "delete"
    })
    .await?;
    ensure!(delete.uid == add.uid && delete.old, "{delete:?}");
    let calls = recording::calls(&daemon, "recorder", 0);
    ensure!(
        calls.iter().filter(|call| call.event == "delete").count() == 1,
        "{calls:?}"
    );
    Ok(())
}

/// Just after a restart, authorization may not be ready yet.
async fn put_when_possible(client: &Client, name: &str, value: &str) -> Result<String> {
    let written = wait::until("the API server to accept a write", ARRIVES_WITHIN, async || {
        let patch = json!({"data": {"value": value}});
        client
            .merge(&config_maps(name), &patch)
            .await
            .map_err(|error| format!("{error:#}"))
    });
    Ok(version_of(&written.await?))
}
