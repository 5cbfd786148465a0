//! Plugins that write: their writes arrive, they ignore their own writes, and they can write only what config.toml
//! grants.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use informant_tests::client::Client;
use informant_tests::cluster::Cluster;
use informant_tests::daemon::Daemon;
use informant_tests::objects::{config_map, config_maps, pod, pods};
use informant_tests::{guests, scripts, wait};
use serde_json::{Value, json};

crate::on_both_clusters!(
    plugin_writes_once_per_pod_and_ignores_its_own_writes,
    plugin_without_grant_is_refused_with_the_missing_line,
    every_verb_reaches_the_cluster_and_returns_its_errors,
    calls_that_fail_have_written_nothing,
);

const ARRIVES_WITHIN: Duration = Duration::from_secs(60);

/// The pods of the test, and the plugin that labels them, with `allow`.
fn marker(allow: &str) -> Result<String> {
    let component = guests::component("image-mark")?;
    Ok(format!(
        "[informer.pods]\nresource = \"v1/pods\"\nnamespaces = [\"default\"]\nlabel-selector = \"app=test\"\n\n\
         [plugin.image-mark]\ncomponent = {component:?}\ninformers = [\"pods\"]\n{allow}\n"
    ))
}

const GRANT: &str = r#"allow.kube = [{ verbs = ["patch"], resource = "v1/pods", namespaces = ["default"] }]"#;

pub(super) async fn wait_for_label(client: &Client, name: &str, wanted: &str) -> Result<()> {
    wait::until(&format!("{name} to be marked {wanted}"), ARRIVES_WITHIN, async || {
        let pod = client.get(&pods(name)).await.map_err(|error| format!("{error:#}"))?;
        let label = pod["metadata"]["labels"]["informant/images"]
            .as_str()
            .unwrap_or_default();
        if label == wanted {
            Ok(())
        } else {
            Err(format!("its label is {label:?}"))
        }
    })
    .await
}

async fn calls(daemon: &Daemon, labels: &[&str]) -> Result<f64> {
    Ok(daemon
        .metric("informant_plugin_kube_calls_total", labels)
        .await?
        .unwrap_or_default())
}

/// Waits until the plugin handled at least this many events and none are pending.
async fn wait_for_handled(daemon: &Daemon, at_least: f64) -> Result<()> {
    wait::until(
        &format!("{at_least} events to be handled"),
        ARRIVES_WITHIN,
        async || {
            let of = async |name: &str, labels: &[&str]| {
                let value = daemon
                    .metric(name, labels)
                    .await
                    .map_err(|error| format!("{error:#}"))?;
                Ok::<f64, String>(value.unwrap_or_default())
            };
            let handled = of("informant_handler_events_total", &["result=\"ok\""]).await?;
            let pending = of("informant_listener_pending", &[]).await?;
            if handled >= at_least && pending == 0.0 {
                Ok(())
            } else {
                Err(format!("{handled} handled, {pending} pending"))
            }
        },
    )
    .await
}

async fn plugin_writes_once_per_pod_and_ignores_its_own_writes(cluster: Cluster) -> Result<()> {
    let client = cluster.client().await?;
    let images = [("floats", "nginx", "floating"), ("tagged", "nginx:1.29", "tagged")];
    for (name, image, _) in images {
        client.post(&pods(""), &pod(name, image)).await?;
    }
    let daemon = Daemon::start(cluster.folder(), &cluster.kubeconfig(), &marker(GRANT)?).await?;
    daemon.wait_until_ready().await?;
    let digest = format!("nginx@sha256:{}", "0".repeat(64));
    client.post(&pods(""), &pod("pinned", &digest)).await?;
    for (name, _, wanted) in images {
        wait_for_label(&client, name, wanted).await?;
    }
    wait_for_label(&client, "pinned", "pinned").await?;
    // Each pod was delivered twice: when it was created, and after the plugin's own write.
    wait_for_handled(&daemon, 6.0).await?;
    ensure!(
        calls(&daemon, &["verb=\"patch\"", "result=\"ok\""]).await? == 3.0,
        "one write for each pod"
    );
    ensure!(calls(&daemon, &[]).await? == 3.0, "and nothing else");

    // Another client removes the label: one more write restores it.
    let without = json!({"metadata": {"labels": {"informant/images": null}}});
    client.merge(&pods("tagged"), &without).await?;
    wait_for_handled(&daemon, 8.0).await?;
    wait_for_label(&client, "tagged", "tagged").await?;
    ensure!(calls(&daemon, &[]).await? == 4.0, "one write for one change");

    let marked = client.get(&pods("pinned")).await?;
    let managers = marked["metadata"]["managedFields"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let by_plugin = managers
        .iter()
        .any(|manager| manager["manager"] == "informant-image-mark");
    // The embedded API server does not record managers.
    ensure!(by_plugin || managers.is_empty(), "{managers:?}");
    Ok(())
}

async fn plugin_without_grant_is_refused_with_the_missing_line(cluster: Cluster) -> Result<()> {
    let client = cluster.client().await?;
    client.post(&pods(""), &pod("floats", "nginx")).await?;
    let daemon = Daemon::start(cluster.folder(), &cluster.kubeconfig(), &marker("")?).await?;
    daemon.wait_until_ready().await?;
    let refused = wait::until("the plugin to be refused", ARRIVES_WITHIN, async || {
        let plugins = daemon
            .json("/api/v1/plugins")
            .await
            .map_err(|error| format!("{error:#}"))?
            .to_string();
        if plugins.contains("requires access that is not granted") {
            Ok(plugins)
        } else {
            Err(plugins)
        }
    })
    .await?;
    let line = r#"allow.kube = [{ verbs = ["patch"], resource = "v1/pods" }]"#;
    ensure!(refused.contains(&line.replace('"', "\\\"")), "{refused}");
    let untouched = client.get(&pods("floats")).await?;
    ensure!(
        untouched["metadata"]["labels"]["informant/images"].is_null(),
        "{untouched}"
    );

    // The line is appended while Informant runs, at the end of the file, which is the plugin's section.
    let config = std::fs::read_to_string(daemon.config())?;
    std::fs::write(daemon.config(), format!("{config}{line}\n"))?;
    wait_for_label(&client, "floats", "floating").await
}

/// A guest that makes `calls` for each config map that is added; its answers in order.
async fn answers(cluster: &Cluster, client: &Client, calls: &str, count: usize) -> Result<(Daemon, Vec<Value>)> {
    let component = guests::component("guest-kube")?;
    let config = format!(
        "[informer.maps]\nresource = \"v1/configmaps\"\nlabel-selector = \"app=test\"\n\n\
         [plugin.caller]\ncomponent = {component:?}\ninformers = [\"maps\"]\n\
         allow.kube = [{{ verbs = [\"get\", \"list\", \"create\", \"update\", \"patch\", \"delete\"], resource = \"v1/configmaps\", namespaces = [\"default\"] }}]\n\
         config = {{ calls = [{calls}] }}\n"
    );
    let daemon = Daemon::start(cluster.folder(), &cluster.kubeconfig(), &config).await?;
    daemon.wait_until_ready().await?;
    client.post(&config_maps(""), &config_map("trigger", "1")).await?;
    let found = wait::until("the calls to be made", ARRIVES_WITHIN, async || {
        let answers: Vec<Value> = daemon.process().lines(0, answer);
        if answers.len() >= count {
            Ok(answers)
        } else {
            Err(format!("{answers:?}"))
        }
    })
    .await?;
    Ok((daemon, found))
}

/// The answer that the guest wrote into the log line.
fn answer(line: &str) -> Option<Value> {
    let line: Value = serde_json::from_str(line).ok()?;
    let answer: Value = serde_json::from_str(line.pointer("/fields/message")?.as_str()?).ok()?;
    (answer["event"] == "add" && answer["object"] == "trigger").then_some(answer)
}

async fn every_verb_reaches_the_cluster_and_returns_its_errors(cluster: Cluster) -> Result<()> {
    let client = cluster.client().await?;
    let map = "resource = \"v1/configmaps\", namespace = \"default\"";
    let made = "document = { apiVersion = \"v1\", kind = \"ConfigMap\", metadata = { name = \"made\" }, data = { a = \"1\" } }";
    let data = |key: &str| format!("document = {{ data = {{ {key} = \"1\" }} }}");
    let apply = "document = { apiVersion = \"v1\", kind = \"ConfigMap\", metadata = { name = \"made\" }, data = { e = \"1\" } }";
    let steps = [
        (format!("verb = \"create\", {map}, {made}"), "ok"),
        (format!("verb = \"create\", {map}, {made}"), "already-exists"),
        (format!("verb = \"merge\", {map}, name = \"made\", {}", data("b")), "ok"),
        (
            format!("verb = \"strategic\", {map}, name = \"made\", {}", data("c")),
            "ok",
        ),
        (
            format!(
                "verb = \"json\", {map}, name = \"made\", document = [{{ op = \"add\", path = \"/data/d\", value = \"1\" }}]"
            ),
            "ok",
        ),
        (
            format!("verb = \"apply\", {map}, name = \"made\", force = true, {apply}"),
            "ok",
        ),
        (format!("verb = \"get\", {map}, name = \"made\""), "ok"),
        (
            format!(
                "verb = \"merge\", {map}, name = \"made\", document = {{ metadata = {{ resourceVersion = \"1\" }}, data = {{ x = \"1\" }} }}"
            ),
            "conflict",
        ),
        (format!("verb = \"update\", {map}, name = \"made\", {made}"), "ok"),
        (format!("verb = \"list\", {map}, page-size = 1"), "ok"),
        (
            format!("verb = \"delete\", {map}, name = \"made\", uid = \"another\""),
            "conflict",
        ),
        (format!("verb = \"delete\", {map}, name = \"made\""), "ok"),
        (
            format!("verb = \"merge\", {map}, name = \"made\", {}", data("y")),
            "not-found",
        ),
        (
            "verb = \"get\", resource = \"v1/secrets\", namespace = \"default\", name = \"a\"".to_owned(),
            "denied",
        ),
        (
            "verb = \"list\", resource = \"v1/configmaps\", namespace = \"kube-system\"".to_owned(),
            "denied",
        ),
    ];
    let calls: Vec<String> = steps.iter().map(|(call, _)| format!("{{ {call} }}")).collect();
    let (_daemon, answers) = answers(&cluster, &client, &calls.join(", "), steps.len()).await?;
    for ((call, wanted), answer) in steps.iter().zip(&answers) {
        ensure!(answer["code"] == *wanted, "{call}: {answer}");
    }
    let patched = &answers[6]["answer"]["data"];
    ensure!(
        *patched == json!({"a": "1", "b": "1", "c": "1", "d": "1", "e": "1"}),
        "{patched}"
    );
    let listed = answers[9]["answer"].as_array().map_or(0, Vec::len);
    ensure!(listed >= 2, "pages of one object each: {}", answers[9]);
    ensure!(answers[9]["answer"][0]["kind"] == "ConfigMap", "{}", answers[9]);
    Ok(())
}

/// Defers writes to the object, to a new one and to another one, then ends as the object's name says.
const FAILS: &str = r#"
    import { kube, Permanent, RetryAfter } from "informant";
    export function onAdd(map, event) {
      const at = { resource: "v1/configmaps", namespace: event.namespace };
      const document = { metadata: { name: `by-${event.name}` }, data: { by: event.name } };
      kube.defer.patch(event, { data: { written: "1" } });
      kube.defer.create(at, { apiVersion: "v1", kind: "ConfigMap", ...document });
      kube.defer.patch({ ...at, name: "other" }, { data: { [event.name]: "1" } });
      switch (event.name) {
        case "throws": throw new Error("asked to fail");
        case "is-permanent": throw new Permanent("asked to fail");
        case "asks-for-time": throw new RetryAfter(50);
        case "never-ends": for (;;);
        case "is-refused": kube.defer.patch({ ...at, resource: "v1/secrets", name: "a" }, { data: {} });
        case "succeeds-later": if (event.attempt < 3) throw new Error("asked to fail");
      }
    }
    export function onUpdate() {}
"#;

/// The config maps of the plugins by name: their versions, who wrote them, and their data.
async fn contents(client: &Client) -> Result<BTreeMap<String, Value>> {
    let list = client.get(&config_maps("")).await?;
    let items = list["items"].as_array().cloned().unwrap_or_default();
    let content = |map: Value| {
        let managers = map["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let managers: Vec<&Value> = managers.iter().map(|manager| &manager["manager"]).collect();
        let shown = json!([map["metadata"]["resourceVersion"], managers, map["data"]]);
        (map["metadata"]["name"].as_str().unwrap_or_default().to_owned(), shown)
    };
    let mut all: BTreeMap<String, Value> = items.into_iter().map(content).collect();
    // The real one puts it into each namespace.
    all.remove("kube-root-ca.crt");
    Ok(all)
}

async fn calls_that_fail_have_written_nothing(cluster: Cluster) -> Result<()> {
    let client = cluster.client().await?;
    let scripted = ["throws", "is-permanent", "asks-for-time", "never-ends", "is-refused"];
    let names = scripted.iter().copied().chain(["traps", "other", "succeeds-later"]);
    let with_label = |name: &str, label: &str| {
        let mut map = config_map(name, "1");
        map["metadata"]["labels"]["app"] = label.into();
        map
    };
    let has_runner = scripts::can_run().await?;
    for name in names.filter(|name| has_runner || *name == "traps" || *name == "other") {
        let label = match name {
            "traps" => "traps",
            "other" => "other",
            _ => "test",
        };
        client.post(&config_maps(""), &with_label(name, label)).await?;
    }
    let before = contents(&client).await?;

    let grant = "allow.kube = [{ verbs = [\"create\", \"patch\"], resource = \"v1/configmaps\" }]\n\
        retry = { initial = \"50ms\", max = \"100ms\" }\n";
    let map = "resource = \"v1/configmaps\", namespace = \"default\", defers = true";
    let mut config = format!(
        "[informer.traps]\nresource = \"v1/configmaps\"\nlabel-selector = \"app=traps\"\n\n\
         [plugin.traps]\ncomponent = {:?}\ninformers = [\"traps\"]\n{grant}config = {{ traps = 1000, calls = [\
         {{ verb = \"merge\", {map}, name = \"$name\", document = {{ data = {{ written = \"1\" }} }} }}, \
         {{ verb = \"merge\", {map}, name = \"other\", document = {{ data = {{ traps = \"1\" }} }} }}] }}\n\n",
        guests::component("guest-kube")?
    );
    if has_runner {
        std::fs::write(cluster.folder().join("fails.js"), FAILS)?;
        config += "[informer.maps]\nresource = \"v1/configmaps\"\nlabel-selector = \"app=test\"\n\n\
            [plugin.fails]\nscript = \"fails.js\"\ninformers = [\"maps\"]\nlimits = { cpu = \"500ms\" }\n";
        config += grant;
    }
    let daemon = Daemon::start(cluster.folder(), &cluster.kubeconfig(), &config).await?;
    let mut wanted = vec![("traps", "trap", 3.0)];
    if has_runner {
        let ends = [("permanent", 2.0), ("timeout", 2.0), ("retryable", 6.0)];
        wanted.extend(ends.map(|(result, count)| ("fails", result, count)));
    }
    for (plugin, result, count) in wanted {
        wait_for_results(&daemon, plugin, result, count).await?;
    }
    let mut after = contents(&client).await?;
    if has_runner {
        // The last write of the call that succeeds.
        after = wait::until("the successful call's writes", ARRIVES_WITHIN, async || {
            let after = contents(&client).await.map_err(|error| format!("{error:#}"))?;
            match after["other"][2]["succeeds-later"].is_string() {
                true => Ok(after),
                false => Err(format!("{after:?}")),
            }
        })
        .await?;
        // What the successful call wrote; and nothing else has changed.
        let written = [
            after.remove("succeeds-later"),
            after.remove("by-succeeds-later"),
            after.remove("other"),
        ];
        let [own, new, other] = written.map(|map| map.unwrap_or_default()[2].take());
        ensure!(own == json!({ "value": "1", "written": "1" }), "{own}");
        ensure!(new == json!({ "by": "succeeds-later" }), "{new}");
        ensure!(other == json!({ "value": "1", "succeeds-later": "1" }), "{other}");
    }
    let untouched = before
        .iter()
        .filter(|(name, _)| !has_runner || !["succeeds-later", "other"].contains(&name.as_str()));
    let untouched: BTreeMap<_, _> = untouched.map(|(name, map)| (name.clone(), map.clone())).collect();
    ensure!(after == untouched, "before: {untouched:?}\nafter: {after:?}");
    Ok(())
}

/// Waits until at least this many calls of a plugin ended so.
async fn wait_for_results(daemon: &Daemon, plugin: &str, result: &str, count: f64) -> Result<()> {
    let labels = [format!("plugin=\"{plugin}\""), format!("result=\"{result}\"")];
    let labels = labels.each_ref().map(String::as_str);
    let what = format!("{count} calls of {plugin} to end as {result}");
    let reached = wait::until(&what, ARRIVES_WITHIN, async || {
        let found = daemon.metric("informant_handler_events_total", &labels).await;
        match found.map_err(|error| format!("{error:#}"))?.unwrap_or_default() {
            found if found >= count => Ok(()),
            found => Err(found.to_string()),
        }
    });
    reached.await.with_context(|| daemon.process().tail())
}
