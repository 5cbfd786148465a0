//! Handlers that write what they watch: they lose no change of others, and cannot loop at full speed.

use std::time::Instant;

use serde_json::Value;

use super::program::transcript;
use super::world::{Running, until};
use super::writes::{FAST, WAITING, config, patches, trigger, wait_until_marked, want, world};

/// Effective writes to one object after which its key is spaced.
const SPACED_AFTER: f64 = 10.0;

/// The spaced keys of a plugin: object, target, and the wait between calls in milliseconds.
async fn spaced(daemon: &Running, plugin: &str) -> Vec<(String, String, u64)> {
    let plugins = daemon.json("/api/v1/plugins").await;
    let items = plugins["items"].as_array().unwrap();
    let view = items.iter().find(|item| item["name"] == plugin).unwrap();
    let keys = view["writesSpacedKeys"].as_array().into_iter().flatten();
    let text = |key: &Value, member: &str| key[member].as_str().unwrap().to_owned();
    keys.map(|key| {
        (
            text(key, "object"),
            text(key, "target"),
            key["waitMs"].as_u64().unwrap(),
        )
    })
    .collect()
}

/// Waits until `plugin` waits at least so long between its calls for `default/web-0`, which writes to that object.
async fn wait_until_spaced(daemon: &Running, plugin: &str, wait_ms: u64) {
    until(&format!("{plugin} to be spaced by {wait_ms} ms"), async || {
        let keys = spaced(daemon, plugin).await;
        match keys.as_slice() {
            [(object, target, wait)]
                if object == "default/web-0" && target == "v1/pods default/web-0" && *wait >= wait_ms =>
            {
                Ok(())
            }
            keys => Err(format!("{keys:?}")),
        }
    })
    .await;
}

async fn written(daemon: &Running, plugin: &str) -> f64 {
    let labels = [&*format!("plugin=\"{plugin}\""), "result=\"ok\""];
    daemon.metric("informant_plugin_writes_total", &labels).await
}

#[tokio::test(flavor = "multi_thread")]
async fn external_change_during_an_own_write_is_delivered() {
    let world = world(1).await;
    // Not left out, although the first and the second change nothing: the response has the version of another change.
    let config = config(FAST).replace("\"merge\"", "\"strategic\"");
    let daemon = world.daemon(&config).await;
    wait_until_marked(&world, 1).await;
    for label in ["b", "a", "b"] {
        daemon.wait_for_metric(WAITING, &[], 0.0).await;
        world.server.faults().hold(patches(), 1);
        trigger(&daemon).await;
        daemon.wait_for_metric(WAITING, &[], 1.0).await;
        want(&world, "web-0", label);
        world.server.faults().release();
        wait_until_marked(&world, 1).await;
    }
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn handler_reacting_to_its_own_writes_is_spaced_and_named() {
    let world = world(1).await;
    let script = "import { kube } from \"informant\";\n\
        const act = (pod, event) => {\n\
          const seen = event.name === \"web-0\" ? event.resourceVersion : \"once\";\n\
          kube.defer.patch(event, { metadata: { labels: { seen } } });\n\
        };\n\
        export const onAdd = act, onUpdate = act;\n";
    world.write("mark.js", script.as_bytes());
    let config = config(FAST).replace("component = \"kube.wasm\"", "script = \"mark.js\"");
    let (config, _) = config.split_once("[plugin.mark.config]").unwrap();
    let daemon = world.daemon(config).await;
    wait_until_spaced(&daemon, "mark", 1_000).await;
    let began = Instant::now();
    let address = daemon.address().to_string();
    let list = transcript(&world, &["plugin", "list", "--admin", &address]).await;
    assert!(
        list.contains("mark writes again and again when called for 1 object; calls are spaced: let it compare before it writes\n  v1/pods default/web-0: "),
        "{list}"
    );
    // The other pod is handled at once; its own write is no change the second time.
    world.create_pod("web-1", "nginx");
    until("the other pod to be written", async || {
        let pod = world.server.get("v1/pods", "default", "web-1").unwrap().unwrap();
        match pod["metadata"]["labels"]["seen"].as_str() {
            Some("once") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    // After waits of 1 s and 2 s the next one is 4 s. There was one write for each, and one for the other pod.
    wait_until_spaced(&daemon, "mark", 4_000).await;
    let (written, elapsed) = (written(&daemon, "mark").await, began.elapsed());
    assert!(written <= SPACED_AFTER + 5.0, "{written} writes after {elapsed:?}");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_that_undo_each_other_are_spaced_and_named() {
    let world = world(1).await;
    // Each writes its own name, as soon as it sees another one.
    let section = |name: &str| {
        let section = config(FAST).replace("plugin.mark", &format!("plugin.{name}"));
        section
            .replace("$want", name)
            .split_once("[plugin")
            .unwrap()
            .1
            .to_owned()
    };
    let informer = config(FAST).split_once("[plugin").unwrap().0.to_owned();
    let daemon = world
        .daemon(&format!(
            "{informer}[plugin{}[plugin{}",
            section("north"),
            section("south")
        ))
        .await;
    for plugin in ["north", "south"] {
        wait_until_spaced(&daemon, plugin, 1_000).await;
    }
    let before = written(&daemon, "north").await + written(&daemon, "south").await;
    for plugin in ["north", "south"] {
        wait_until_spaced(&daemon, plugin, 2_000).await;
    }
    let after = written(&daemon, "north").await + written(&daemon, "south").await;
    assert!(
        before <= 2.0 * SPACED_AFTER + 10.0,
        "{before} writes before both were named"
    );
    assert!(after <= before + 10.0, "{after} writes, {before} before");
    daemon.stop().await;
}
