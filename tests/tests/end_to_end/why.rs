//! `informant why` follows writes through a retry, a swap, a reconcile and a takeover.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use informant_tests::client::Client;
use informant_tests::cluster::{Cluster, Kind};
use informant_tests::daemon::Daemon;
use informant_tests::objects::{config_map, config_maps, version_of};
use informant_tests::{guests, scripts, wait};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::rights::kubectl;

crate::on_both_clusters!(
    why_follows_a_write_through_a_retry_and_a_swap,
    why_names_the_related_object_behind_a_reconcile,
);

/// The deadline of every wait.
const WITHIN: Duration = Duration::from_secs(60);

/// Writes into `target` what it was called for. The first attempt for an object with the value 1 loses a race.
const WRITER: &str = r#"import { kube } from "informant";
const write = (map, event) => {
  const isStale = event.attempt === 0 && map.data.value === "1";
  const metadata = isStale ? { resourceVersion: "1" } : {};
  const patch = { metadata, data: { by: "VERSION", of: event.name, value: map.data.value } };
  kube.defer.patch({ resource: "v1/configmaps", namespace: "default", name: "target" }, patch);
};
export const onAdd = write;
export const onUpdate = write;
"#;

/// Copies the data of a Secret to the config map that has its name.
const SITE: &str = r#"import { kube, store } from "informant";
export const manifest = {
  reconciler: {
    for: { apiVersion: "v1", kind: "ConfigMap", when: ["/data/value"] },
    watches: [{ apiVersion: "v1", kind: "Secret", by: { label: "site" } }],
  },
};
export function reconcile(map, request) {
  if (map === undefined) return;
  const secret = store.get("secrets", "default", "password");
  kube.defer.patch(request, { data: { copy: secret?.data?.text ?? "none" } });
}
"#;

const MAPS: &str = "[informer.maps]\nresource = \"v1/configmaps\"\nnamespaces = [\"default\"]\n\
    label-selector = \"app=test\"\n\n";

fn writer() -> String {
    format!(
        "{MAPS}[plugin.writer]\nscript = \"writer.js\"\ninformers = [\"maps\"]\nrequired = true\n\
         allow.kube = [{{ verbs = [\"patch\"], resource = \"v1/configmaps\", namespaces = [\"default\"] }}]\n"
    )
}

/// An object that the informer does not select.
fn target() -> Value {
    let mut map = config_map("target", "0");
    map["metadata"]["labels"] = json!({});
    map
}

/// What `informant ARGS -o json` prints of effects, once it is as expected.
async fn effects(
    what: &str,
    command: impl AsyncFn() -> Result<(i32, String, String)>,
    is_expected: impl Fn(&[Value]) -> bool,
) -> Result<Vec<Value>> {
    wait::until(what, WITHIN, async || {
        let ran = command().await.map_err(|error| format!("{error:#}"))?;
        let (_, out, err) = ran;
        let listed: Value = serde_json::from_str(&out).map_err(|error| format!("{error}: {err}"))?;
        let items = listed["items"].as_array().cloned().unwrap_or_default();
        match is_expected(&items) {
            true => Ok(items),
            false => Err(format!("{listed}{err}")),
        }
    })
    .await
}

async fn why_follows_a_write_through_a_retry_and_a_swap(cluster: Cluster) -> Result<()> {
    if !scripts::can_run().await? {
        return Ok(());
    }
    let client = cluster.client().await?;
    client.post(&config_maps(""), &target()).await?;
    let script = cluster.folder().join("writer.js");
    std::fs::write(&script, WRITER.replace("VERSION", "one"))?;
    let daemon = Daemon::start(cluster.folder(), &cluster.kubeconfig(), &writer()).await?;
    daemon.wait_until_ready().await?;
    let why = async || {
        daemon
            .command(&["why", "configmap/target", "-n", "default", "-o", "json"])
            .await
    };

    let map = client.post(&config_maps(""), &config_map("a", "1")).await?;
    let items = effects("the retry", why, |items| items.len() == 2).await?;
    for (item, (result, attempt)) in items.iter().zip([("conflict", 0), ("ok", 1)]) {
        let cause = &item["cause"];
        ensure!(item["result"] == result && cause["attempt"] == attempt, "{item}");
        ensure!(item["plugin"] == "writer" && item["verb"] == "patch", "{item}");
        ensure!(item["object"]["resource"] == "v1/configmaps", "{item}");
        ensure!(cause["event"] == "add", "{item}");
        // The handler may have been attached to the source after the object was there.
        ensure!(cause["reason"] == "watch" || cause["reason"] == "initial", "{item}");
        let (object, metadata) = (&cause["object"], &map["metadata"]);
        ensure!(object["name"] == "a" && object["uid"] == metadata["uid"], "{item}");
        ensure!(object["resourceVersion"] == *version_of(&map), "{item}");
        ensure!(
            item["grant"].as_str().is_some_and(|grant| grant.contains("patch")),
            "{item}"
        );
    }
    let written = client.get(&config_maps("target")).await?;
    ensure!(
        items[1]["object"]["resourceVersion"] == *version_of(&written),
        "{written}"
    );

    std::fs::write(&script, WRITER.replace("VERSION", "two"))?;
    reloaded(&daemon).await?;
    client.put(&config_maps("a"), &config_map("a", "2")).await?;
    let items = effects("the write of the next version", why, |items| items.len() == 3).await?;
    let digest = |item: &Value| item["cause"]["sha256"].as_str().unwrap_or_default().to_owned();
    ensure!(
        digest(&items[0]) == digest(&items[1]) && digest(&items[1]) != digest(&items[2]),
        "{items:?}"
    );
    ensure!(items[2]["cause"]["event"] == "update", "{items:?}");

    let (code, table, _) = daemon.command(&["why", "configmap/target", "-n", "default"]).await?;
    let expected = [
        "conflict",
        "add of v1/configmaps default/a at ",
        ", retry 1)",
        "update of v1/configmaps",
    ];
    ensure!(
        code == 0 && expected.iter().all(|text| table.contains(text)),
        "{code}: {table}"
    );
    let of_plugin = async || daemon.command(&["why", "--plugin", "writer", "-o", "json"]).await;
    effects("the effects of the plugin", of_plugin, |items| items.len() == 3).await?;
    let (code, out, err) = daemon.command(&["why", "configmap/other", "-n", "default"]).await?;
    ensure!(
        code == 0 && out.is_empty() && err.contains("no plugin has changed"),
        "{code}: {out}{err}"
    );
    Ok(())
}

/// Waits until another version runs.
async fn reloaded(daemon: &Daemon) -> Result<()> {
    let reloaded = wait::until("the swap", WITHIN, async || {
        let plugins = daemon.json("/api/v1/plugins").await;
        let plugins = plugins.map_err(|error| format!("{error:#}"))?;
        match plugins["items"][0]["reloads"].as_u64() {
            Some(1..) => Ok(()),
            _ => Err(plugins.to_string()),
        }
    });
    reloaded.await.with_context(|| daemon.process().tail())
}

async fn why_names_the_related_object_behind_a_reconcile(cluster: Cluster) -> Result<()> {
    if !scripts::can_run().await? {
        return Ok(());
    }
    let client = cluster.client().await?;
    std::fs::write(cluster.folder().join("site.js"), SITE)?;
    let config = format!(
        "{MAPS}[informer.secrets]\nresource = \"v1/secrets\"\nnamespaces = [\"default\"]\n\n\
         [plugin.site]\nscript = \"site.js\"\ninformers = [\"maps\", \"secrets\"]\n\
         allow.kube = [{{ verbs = [\"patch\"], resource = \"v1/configmaps\" }}]\n"
    );
    client.post(&config_maps(""), &config_map("shop", "1")).await?;
    let daemon = Daemon::start(cluster.folder(), &cluster.kubeconfig(), &config).await?;
    daemon.wait_until_ready().await?;
    let why = async || {
        daemon
            .command(&["why", "configmaps", "shop", "-n", "default", "-o", "json"])
            .await
    };
    let first = effects("the first reconcile", why, |items| items.len() == 1).await;
    first.with_context(|| daemon.process().tail())?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "password", "labels": { "site": "shop" } },
        "data": { "text": "aHVudGVyMg==" },
    });
    let secret = client.post("/api/v1/namespaces/default/secrets", &secret).await?;
    let items = effects("the reconcile after the Secret", why, |items| items.len() == 2).await?;
    let cause = &items[1]["cause"];
    // The change of the object by the first reconcile may be part of the same call.
    ensure!(cause["object"]["name"] == "shop", "{cause}");
    let related = &cause["related"];
    ensure!(
        cause["relatedEvent"] == "add" && related["name"] == "password",
        "{cause}"
    );
    ensure!(related["resourceVersion"] == *version_of(&secret), "{cause}");
    ensure!(
        !format!("{items:?}").contains("aHVudGVyMg"),
        "data of the Secret: {items:?}"
    );
    Ok(())
}

const TLS: &str = "[admin]\nlisten = \"0.0.0.0:0\"\ntls = \"self-signed\"\n\n\
    [ha]\ngroup = \"informant\"\nspeed = \"fast\"\nnamespace = \"default\"\n\n";

/// A replica whose admin server the others reach.
struct Replica {
    name: String,
    daemon: Daemon,
    token: PathBuf,
}

impl Replica {
    async fn start(cluster: &Cluster, name: &str, token: &Path) -> Result<Replica> {
        let folder = cluster.folder().join(name);
        std::fs::create_dir(&folder)?;
        std::fs::write(folder.join("writer.js"), WRITER.replace("VERSION", "one"))?;
        let config = folder.join("config.toml");
        std::fs::write(&config, format!("{TLS}{}", writer()))?;
        let mut command = Command::new(guests::informant()?);
        command
            .args(["run", "--log-format=json", "--health-listen=127.0.0.1:0"])
            .arg(format!("--config={}", config.display()))
            .arg(format!("--kubeconfig={}", cluster.kubeconfig().display()))
            .envs([("HOSTNAME", name), ("POD_IP", "127.0.0.1")]);
        let daemon = Daemon::start_command(command, config).await?;
        daemon.wait_until_ready().await?;
        let (name, token) = (name.to_owned(), token.to_owned());
        Ok(Replica { name, daemon, token })
    }

    async fn command(&self, args: &[&str]) -> Result<(i32, String, String)> {
        let port = self.daemon.address().rsplit(':').next().unwrap_or_default();
        let mut command = Command::new(guests::informant()?);
        command
            .args(args)
            .arg(format!("--admin=https://127.0.0.1:{port}"))
            .arg("--insecure-skip-tls-verify")
            .arg(format!("--token-file={}", self.token.display()));
        let output = command.output().await?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let code = output.status.code().unwrap_or(-1);
        Ok((code, text(&output.stdout), text(&output.stderr)))
    }

    async fn is(&self, standing: &str) -> Result<()> {
        wait::until(&format!("{} to be {standing}", self.name), WITHIN, async || {
            let ran = self.command(&["replicas", "-o", "json"]).await;
            let (_, out, err) = ran.map_err(|error| format!("{error:#}"))?;
            let replicas: Value = serde_json::from_str(&out).map_err(|error| format!("{error}: {err}"))?;
            match replicas["standing"] == standing {
                true => Ok(()),
                false => Err(out),
            }
        })
        .await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn why_asks_each_live_replica_after_a_takeover() {
    if let Some(cluster) = crate::cluster(Kind::Real).await {
        after_a_takeover(&cluster).await.unwrap();
    }
}

/// The replica that acts stands still for longer than its Lease lasts.
async fn after_a_takeover(cluster: &Cluster) -> Result<()> {
    if !scripts::can_run().await? {
        return Ok(());
    }
    let client = cluster.client().await?;
    client.post(&config_maps(""), &target()).await?;
    let token = token_of_a_reader(cluster).await?;
    let first = Replica::start(cluster, "informant-0", &token).await?;
    first.is("acting").await?;
    let second = Replica::start(cluster, "informant-1", &token).await?;
    write_by(&client, "2").await?;
    first.daemon.process().signal("STOP").await?;
    second.is("acting").await?;
    write_by(&client, "3").await?;
    first.daemon.process().signal("CONT").await?;
    first.is("standby").await?;

    for asked in [&second, &first] {
        let why = async || {
            asked
                .command(&["why", "configmap/target", "-n", "default", "-o", "json"])
                .await
        };
        let of = |items: &[Value], replica: &str| {
            let mut of = items.iter().filter(|item| item["replica"] == replica);
            of.any(|item| item["result"] == "ok" && item["cause"]["object"]["name"] == "a")
        };
        let is_expected = |items: &[Value]| of(items, &first.name) && of(items, &second.name);
        effects("the writes of both replicas", why, is_expected).await?;
    }
    let (code, table, err) = second.command(&["why", "configmap/target", "-n", "default"]).await?;
    ensure!(
        code == 0 && table.contains("REPLICA") && table.contains("takeover"),
        "{code}: {table}{err}"
    );
    Ok(())
}

/// A user who may read everything.
async fn token_of_a_reader(cluster: &Cluster) -> Result<PathBuf> {
    kubectl(cluster, &["create", "serviceaccount", "reader", "-n", "default"]).await?;
    let bind = ["create", "clusterrolebinding", "reader", "--clusterrole=cluster-admin"];
    kubectl(cluster, &[&bind[..], &["--serviceaccount=default:reader"]].concat()).await?;
    let token = kubectl(cluster, &["create", "token", "reader", "-n", "default"]).await?;
    let file = cluster.folder().join("token");
    std::fs::write(&file, token.trim())?;
    Ok(file)
}

/// Changes the object that the handler is called for, and waits for its write.
async fn write_by(client: &Client, value: &str) -> Result<()> {
    let map = config_map("a", value);
    match value {
        "2" => client.post(&config_maps(""), &map).await?,
        _ => client.put(&config_maps("a"), &map).await?,
    };
    wait::until("the write", WITHIN, async || {
        let target = client.get(&config_maps("target")).await;
        let target = target.map_err(|error| format!("{error:#}"))?;
        match target["data"]["value"] == value {
            true => Ok(()),
            false => Err(target.to_string()),
        }
    })
    .await
}
