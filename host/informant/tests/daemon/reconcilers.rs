//! Reconcilers: what leads to an object, and what a call sees.

use serde_json::{Value, json};

use super::world::{Running, World, pod, until};

const GUIDE: &str = include_str!("../../../../docs/guides/reconcilers.md");

/// The first block of the guide in this language.
fn of_guide(language: &str) -> &'static str {
    blocks_of_guide(language).next().unwrap()
}

fn blocks_of_guide(language: &str) -> impl Iterator<Item = &'static str> {
    let blocks = GUIDE.split(&format!("```{language}\n")).skip(1).collect::<Vec<_>>();
    blocks.into_iter().map(|rest| rest.split_once("```").unwrap().0)
}

/// The guide's script, to which the objects of another kind lead as `by` says.
fn watching(by: &str) -> String {
    let owns = "    owns: [";
    let watches = format!("    watches: [{{ apiVersion: \"v1\", kind: \"LimitRange\", by: {by} }}],\n{owns}");
    let script = of_guide("js").replace(owns, &watches);
    assert!(script.contains("LimitRange"));
    script
}

fn map(name: &str, text: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "namespace": "default", "labels": { "site": "" } },
        "data": { "text": text },
    })
}

async fn wait_for_secret(world: &World, name: &str, text: &str) {
    until(&format!("the secret {name} with {text}"), async || {
        let secret = world.server.get("v1/secrets", "default", name).unwrap();
        match secret.as_ref().and_then(|secret| secret["data"]["text"].as_str()) {
            Some(found) if found == text => Ok(()),
            _ => Err(format!("{secret:?}")),
        }
    })
    .await;
}

/// Waits until the plugin has been called so often.
async fn wait_for_calls(daemon: &Running, calls: f64) {
    let labels = ["plugin=\"site\"", "result=\"ok\""];
    daemon
        .wait_for_metric("informant_handler_events_total", &labels, calls)
        .await;
}

async fn start(script: &str) -> (World, Running) {
    let world = World::start().await;
    world.write("site.js", script.as_bytes());
    world
        .server
        .create("v1/configmaps", "default", map("a", "b25l"))
        .unwrap();
    let limits = "[informer.limits]\nresource = \"v1/limitranges\"\n";
    let informers = "[\"configmaps\", \"secrets\", \"limits\"]\nrequired = true\nretry = { initial = \"10ms\" }";
    let config = of_guide("toml").replace("[\"configmaps\", \"secrets\"]", informers);
    let daemon = world.daemon(&format!("{limits}{config}")).await;
    daemon.wait_until_ready().await;
    (world, daemon)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_reconciler_owns_is_made_and_repaired() {
    let (world, daemon) = start(of_guide("js")).await;
    wait_for_secret(&world, "a", "b25l").await;
    world.server.delete("v1/secrets", "default", "a").unwrap();
    wait_for_secret(&world, "a", "b25l").await;
    let foreign = json!({ "data": { "text": "dHdv" } });
    world.server.patch("v1/secrets", "default", "a", foreign).unwrap();
    wait_for_secret(&world, "a", "b25l").await;
    world
        .server
        .patch("v1/configmaps", "default", "a", json!({ "data": { "text": "dHdv" } }))
        .unwrap();
    wait_for_secret(&world, "a", "dHdv").await;
    world
        .server
        .create("v1/configmaps", "default", map("b", "b25l"))
        .unwrap();
    wait_for_secret(&world, "b", "b25l").await;
    daemon.stop().await;
}

const CHILDREN: &str = r#"
import { kube, log } from "informant";
export const manifest = {
  reconciler: {
    for: { apiVersion: "v1", kind: "ConfigMap", labelSelector: "site", when: ["/data"] },
    owns: [{ apiVersion: "v1", kind: "Secret" }],
  },
};
export function reconcile(map, request) {
  if (map === undefined) return;
  const secret = (name) => ({ apiVersion: "v1", kind: "Secret", metadata: { name }, stringData: { text: "x" } });
  const names = map.data.text.split(",").filter((name) => name !== "");
  const done = kube.children(request, { whole: names.map(secret) });
  log.info(`${map.data.text}: ${done.written} ${done.pruned} ${done.refused}`);
}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn children_that_are_no_longer_wanted_are_deleted() {
    let (world, daemon) = start(CHILDREN).await;
    let set = |names: &str| {
        let data = json!({ "data": { "text": names } });
        world.server.patch("v1/configmaps", "default", "a", data).unwrap();
    };
    let secret = |name: &str| world.server.get("v1/secrets", "default", name).unwrap();
    set("x,y");
    wait_for_secret(&world, "x", "eA==").await;
    wait_for_secret(&world, "y", "eA==").await;
    let made = secret("x").unwrap();
    let owner = world.server.get("v1/configmaps", "default", "a").unwrap().unwrap();
    assert_eq!(made["metadata"]["ownerReferences"][0]["uid"], owner["metadata"]["uid"]);
    assert_eq!(made["metadata"]["labels"]["informant.dev/plugin"], "site");
    // What others have added goes, and what is gone returns.
    let foreign = json!({ "data": { "more": "eA==" } });
    world.server.patch("v1/secrets", "default", "x", foreign).unwrap();
    until("what was added to go", async || {
        match secret("x").unwrap()["data"].get("more") {
            None => Ok(()),
            Some(more) => Err(more.to_string()),
        }
    })
    .await;
    let stranger = json!({ "apiVersion": "v1", "kind": "Secret", "data": { "text": "eQ==" },
        "metadata": { "name": "z", "namespace": "default" } });
    world.server.create("v1/secrets", "default", stranger.clone()).unwrap();
    set("x,z");
    until("y to be deleted", async || match secret("y") {
        None => Ok(()),
        Some(left) => Err(left.to_string()),
    })
    .await;
    assert_eq!(secret("z").unwrap()["data"], stranger["data"]);
    set("");
    until("x to be deleted", async || match secret("x") {
        None => Ok(()),
        Some(left) => Err(left.to_string()),
    })
    .await;
    assert!(secret("z").is_some());
    daemon.stop().await;
}

/// Its children are of another kind than those in its manifest, or of another namespace than their owner.
const CANNOT_OWN: &str = r#"
import { kube } from "informant";
export const manifest = {
  reconciler: { for: { apiVersion: "v1", kind: "ConfigMap", labelSelector: "site" }, owns: [{ apiVersion: "v1", kind: "Secret" }] },
};
const wanted = {
  a: { apiVersion: "v1", kind: "Pod", metadata: { name: "p" } },
  b: { apiVersion: "v1", kind: "Secret", metadata: { name: "s", namespace: "kube-system" } },
};
export const reconcile = (map, request) => kube.children(request, { whole: [wanted[request.name]] });
"#;

#[tokio::test(flavor = "multi_thread")]
async fn children_that_cannot_be_owned_are_refused() {
    let (world, daemon) = start(CANNOT_OWN).await;
    let other = map("b", "b25l");
    world.server.create("v1/configmaps", "default", other).unwrap();
    let reasons = until("two dead letters", async || {
        let letters = daemon.json("/api/v1/dead-letters").await;
        let items = letters["items"].as_array().cloned().unwrap_or_default();
        let errors = items
            .iter()
            .filter_map(|item| item["error"].as_str().map(str::to_owned));
        let mut errors: Vec<String> = errors.collect();
        errors.sort();
        match errors.len() {
            2 => Ok(errors.join("\n")),
            _ => Err(letters.to_string()),
        }
    })
    .await;
    for reason in [
        "Pod p: v1 Pod is not in `reconciler.owns` of the manifest: name it there",
        "Secret s: an owner in the namespace default can only own objects there; the API server would delete others",
    ] {
        assert!(reasons.contains(reason), "{reasons}");
    }
    daemon.stop().await;
}

/// Each call gives its child another value, and so leads to the next one.
const CHASES_ITSELF: &str = r#"
import { kube } from "informant";
export const manifest = {
  reconciler: { for: { apiVersion: "v1", kind: "ConfigMap", labelSelector: "site" }, owns: [{ apiVersion: "v1", kind: "Secret" }] },
};
let calls = 0;
export function reconcile(map, request) {
  calls += 1;
  const secret = { apiVersion: "v1", kind: "Secret", metadata: { name: "x" }, stringData: { calls: `${calls}` } };
  kube.children(request, { whole: [secret] });
}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn reconciler_that_leads_to_itself_is_spaced_and_named() {
    let (_world, daemon) = start(CHASES_ITSELF).await;
    until("the calls to be spaced", async || {
        let plugins = daemon.json("/api/v1/plugins").await;
        match &plugins["items"][0]["writesSpacedKeys"][0] {
            key if key["object"] == "default/a" && key["target"] == "v1/secrets default/x" => Ok(()),
            _ => Err(plugins.to_string()),
        }
    })
    .await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_the_manifest_names_leads_to_a_call() {
    let (world, daemon) = start(&watching("\"namespace\"")).await;
    wait_for_secret(&world, "a", "b25l").await;
    // The start, and the Secret that it made.
    wait_for_calls(&daemon, 2.0).await;
    let annotated = json!({ "metadata": { "annotations": { "no": "part" } } });
    for resource in ["v1/configmaps", "v1/secrets"] {
        world.server.patch(resource, "default", "a", annotated.clone()).unwrap();
    }
    let stranger =
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "other", "namespace": "default" } });
    world.server.create("v1/secrets", "default", stranger).unwrap();
    // Its namespace leads to all in it.
    let limits =
        json!({ "apiVersion": "v1", "kind": "LimitRange", "metadata": { "name": "limits", "namespace": "default" } });
    world.server.create("v1/limitranges", "default", limits).unwrap();
    wait_for_calls(&daemon, 3.0).await;
    let unrelated = daemon
        .metric("informant_listener_unrelated_total", &["plugin=\"site\""])
        .await;
    assert!(unrelated >= 2.0, "{unrelated}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_swap_other_objects_lead_to_calls() {
    let (world, daemon) = start(&watching("\"namespace\"")).await;
    wait_for_secret(&world, "a", "b25l").await;
    wait_for_calls(&daemon, 2.0).await;
    world.write("site.js", watching("{ label: \"map\" }").as_bytes());
    daemon
        .wait_for_metric("informant_plugin_reloads_total", &["result=\"ok\""], 1.0)
        .await;
    // Each object is reconciled once again.
    wait_for_calls(&daemon, 3.0).await;
    let limits = json!({
        "apiVersion": "v1", "kind": "LimitRange",
        "metadata": { "name": "limits", "namespace": "default", "labels": { "map": "a" } },
    });
    world.server.create("v1/limitranges", "default", limits).unwrap();
    wait_for_calls(&daemon, 4.0).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_leads_to_those_that_use_an_object() {
    let world = World::start().await;
    world.write("site.js", blocks_of_guide("js").nth(1).unwrap().as_bytes());
    let mut user = pod("web-0", "nginx");
    user["spec"]["volumes"] = json!([{ "name": "map", "configMap": { "name": "a" } }]);
    world.server.create("v1/pods", "default", user).unwrap();
    world.create_pod("web-1", "nginx");
    let config = "[informer.pods]\nresource = \"v1/pods\"\n[informer.maps]\nresource = \"v1/configmaps\"\n\
        [plugin.site]\nscript = \"site.js\"\ninformers = [\"pods\", \"maps\"]\nrequired = true\n";
    let daemon = world.daemon(config).await;
    wait_for_calls(&daemon, 2.0).await;
    for name in ["other", "a"] {
        world
            .server
            .create("v1/configmaps", "default", map(name, "b25l"))
            .unwrap();
    }
    wait_for_calls(&daemon, 3.0).await;
    world
        .server
        .patch("v1/configmaps", "default", "a", json!({ "data": { "text": "dHdv" } }))
        .unwrap();
    let related = ["plugin=\"site\""];
    daemon
        .wait_for_metric("informant_listener_related_total", &related, 2.0)
        .await;
    wait_for_calls(&daemon, 4.0).await;
    daemon
        .wait_for_metric("informant_listener_unrelated_total", &related, 1.0)
        .await;
    daemon.stop().await;
}
