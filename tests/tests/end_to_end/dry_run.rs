//! Dry run: what a plugin would change is withheld and listed, until dry run is turned off.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use informant_tests::client::Client;
use informant_tests::cluster::Cluster;
use informant_tests::daemon::Daemon;
use informant_tests::objects::{config_map, config_maps};
use informant_tests::service::{Answer, Service};
use informant_tests::{scripts, wait};
use serde_json::{Value, json};

crate::on_both_clusters!(dry_run_withholds_and_lists_effects_until_it_is_turned_off,);

const SEEN_WITHIN: Duration = Duration::from_secs(60);

const ACCEPTS: Answer = Answer {
    status: 200,
    retry_after: None,
    body: "",
};

/// Changes each config map and deletes it, tries to create it again, asks a service and posts to it, and remembers the
/// last one.
const SCRIPT: &str = r#"
    import { config, fetch, kube, kv, log } from "informant";
    const created = (map, event) => {
      try {
        return kube.create({ resource: "v1/configmaps", namespace: "default" }, { apiVersion: "v1", kind: "ConfigMap", metadata: { name: map.metadata.name } });
      } catch ({ code }) {
        return code;
      }
    };
    export async function onAdd(map, event) {
      const { data } = kube.patch(event, { data: { value: "changed" } });
      kube.defer.delete(event, { preconditions: { uid: event.uid } });
      const { status: get } = await fetch(config.url);
      const { status: post } = await fetch(config.url, { method: "POST", body: event.name });
      log.info(JSON.stringify({ name: event.name, last: kv.get("last") ?? null, data, get, post, created: created(map, event) }));
      kv.set("last", event.name);
    }
"#;

fn config(origin: &str, is_dry_run: bool) -> String {
    format!(
        "[state]\npath = \"state.redb\"\n\n\
         [informer.maps]\nresource = \"v1/configmaps\"\nnamespaces = [\"default\"]\nlabel-selector = \"app=test\"\n\n\
         [plugin.cleaner]\nscript = \"cleaner.js\"\ninformers = [\"maps\"]\nrequired = true\ndry-run = {is_dry_run}\n\
         config = {{ url = \"{origin}/hook\" }}\nallow.http = [\"{origin}\"]\n\
         allow.kube = [{{ verbs = [\"create\", \"patch\", \"delete\"], resource = \"v1/configmaps\" }}]\n"
    )
}

/// Creates a config map. Returns what the plugin says of it.
async fn create(client: &Client, daemon: &Daemon, name: &str) -> Result<Value> {
    client.post(&config_maps(""), &config_map(name, "1")).await?;
    let said = |line: &str| {
        let said: Value = serde_json::from_str(&scripts::said(line, "cleaner")?).ok()?;
        (said["name"] == name).then_some(said)
    };
    let process = daemon.process();
    let said = process.wait_for_line_after(0, "the plugin's line", SEEN_WITHIN, said);
    said.await.with_context(|| process.tail())
}

/// The effects, as `KIND ACTION TARGET: ERROR`, once there are `count`.
async fn effects(daemon: &Daemon, count: usize) -> Result<Vec<String>> {
    let effects = wait::until("the effects", SEEN_WITHIN, async || {
        let listed = daemon.command(&["plugin", "effects", "cleaner", "-o", "json"]).await;
        let (_, out, err) = listed.map_err(|error| format!("{error:#}"))?;
        let listed: Value = serde_json::from_str(&out).map_err(|error| format!("{error}: {err}"))?;
        let items = listed["items"].as_array().cloned().unwrap_or_default();
        match items.len() >= count {
            true => Ok(items),
            false => Err(listed.to_string()),
        }
    });
    let shown = |effect: &Value| {
        let text = |member: &str| effect[member].as_str().unwrap_or_default().to_owned();
        let error = match effect["error"].is_null() {
            true => "",
            false => ": fails",
        };
        format!("{} {} {}{error}", text("kind"), text("action"), text("target"))
    };
    Ok(effects.await?.iter().map(shown).collect())
}

/// The methods of the requests that the service has received.
fn methods(service: &Service) -> Vec<String> {
    let method = |head: &str| head.split(' ').next().unwrap_or_default().to_owned();
    let received = service.received();
    received.iter().map(|received| method(&received.head)).collect()
}

async fn dry_run_withholds_and_lists_effects_until_it_is_turned_off(cluster: Cluster) -> Result<()> {
    if !scripts::can_run().await? {
        return Ok(());
    }
    let client = cluster.client().await?;
    let service = Service::start(ACCEPTS, &[]).await?;
    let origin = service.origin();
    std::fs::write(cluster.folder().join("cleaner.js"), SCRIPT)?;
    let daemon = Daemon::start(cluster.folder(), &cluster.kubeconfig(), &config(&origin, true)).await?;
    daemon.wait_until_ready().await?;

    // The plugin sees what would be, and the keys of earlier calls.
    let mut expected = Vec::new();
    for (name, last) in [("a", json!(null)), ("b", json!("a"))] {
        let said = create(&client, &daemon, name).await?;
        let seen = json!({
            "name": name, "last": last, "data": { "value": "changed" }, "get": 200, "post": 202,
            "created": "already-exists",
        });
        ensure!(said == seen, "{said}");
        expected.extend([
            format!("kube patch v1/configmaps default/{name}"),
            format!("http POST {origin}/hook"),
            format!("kube create v1/configmaps default/{name}: fails"),
            "kv set last".to_owned(),
            format!("kube delete v1/configmaps default/{name}"),
        ]);
        let listed = effects(&daemon, expected.len()).await?;
        ensure!(listed == expected, "{listed:?}");
    }
    let (code, table, _) = daemon.command(&["plugin", "effects", "cleaner"]).await?;
    ensure!(code == 0 && table.lines().count() == 11, "{code}: {table}");
    ensure!(table.contains(r#"{"data":{"value":"changed"}}"#), "{table}");
    for name in ["a", "b"] {
        let map = client.get(&config_maps(name)).await?;
        let is_same = map["data"] == json!({ "value": "1" }) && map["metadata"]["deletionTimestamp"].is_null();
        ensure!(is_same, "{map}");
    }
    ensure!(methods(&service) == ["GET", "GET"], "{:?}", service.received());

    daemon.write_config(&config(&origin, false)).await?;
    effects_are_real(&client, &daemon, &service).await
}

/// With dry run turned off, everything takes effect, and the keys of the dry run are gone.
async fn effects_are_real(client: &Client, daemon: &Daemon, service: &Service) -> Result<()> {
    wait::until("the dry run to end", SEEN_WITHIN, async || {
        let plugins = daemon.json("/api/v1/plugins").await;
        let plugins = plugins.map_err(|error| format!("{error:#}"))?;
        match plugins["items"][0]["dryRun"] == false {
            true => Ok(()),
            false => Err(plugins.to_string()),
        }
    })
    .await?;
    let said = create(client, daemon, "c").await?;
    ensure!(said["post"] == 200 && said["last"].is_null(), "{said}");
    wait::until("the config map to be deleted", SEEN_WITHIN, async || {
        let maps = client.get(&config_maps("")).await;
        let maps = maps.map_err(|error| format!("{error:#}"))?.to_string();
        match maps.contains(r#""name":"c""#) {
            true => Err(maps),
            false => Ok(()),
        }
    })
    .await?;
    ensure!(methods(service)[2..] == ["GET", "POST"], "{:?}", service.received());
    ensure!(create(client, daemon, "d").await?["last"] == "c", "keys are stored");
    let kept = client.get(&config_maps("a")).await?;
    ensure!(kept["data"]["value"] == "1", "{kept}");
    Ok(())
}
