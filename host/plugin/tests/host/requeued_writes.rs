//! Calls that defer writes and ask for another call: the writes come first.

use std::sync::Arc;
use std::time::Duration;

use informant_plugin_host::{KubeErrorCode, Plugin};
use informant_spec::{PluginSpec, RetryPolicy};

use crate::kube::grants;
use crate::world::{Pods, World, hello_log, idle};
use crate::writes::{Api, granted, status, until_sent};

/// Writes at each call, and asks for another one unless it is the one that it asked for.
const SCRIPT: &str = r#"
    import { kube } from "informant";
    const target = { resource: "v1/pods", namespace: "web", name: "target" };
    const act = (pod, event) => {
      console.log(`${event} ${event.reason} ${event.attempt}`);
      kube.defer.patch(target, { metadata: { labels: { of: event.name } } });
      return event.reason === "requeue-after" ? undefined : { requeueAfter: 5_000 };
    };
    export const onAdd = act, onUpdate = act;
"#;

/// The script with a retry after 10 ms. None where there is no script runner.
async fn run(world: &World) -> Option<(Plugin, Pods)> {
    if std::env::var_os("INFORMANT_TESTS_WITHOUT_SCRIPTS").is_some() {
        return None;
    }
    let path = world.cache.path().join("handler.js");
    std::fs::write(&path, SCRIPT).unwrap();
    let mut spec = PluginSpec::new("hello", path);
    spec.allow_kube = grants(granted());
    spec.retry = RetryPolicy {
        initial: Duration::from_millis(10),
        ..RetryPolicy::default()
    };
    let plugin = world.load(spec).await.unwrap();
    plugin.start().await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    idle(world, &plugin).await;
    Some((plugin, pods))
}

async fn pass(world: &World, plugin: &Plugin, seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    idle(world, plugin).await;
}

#[tokio::test(start_paused = true)]
async fn a_requeue_counts_from_the_end_of_the_writes() {
    let api = Api::new();
    let world = World::with_cluster(Arc::clone(&api) as _);
    let Some((plugin, mut pods)) = run(&world).await else {
        return;
    };
    api.hold(true);
    pods.apply("a");
    until_sent(&world, &api, 1).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert_eq!(
        plugin.listener().control().stats().requeues,
        0,
        "the call has not ended"
    );
    api.hold(false);
    idle(&world, &plugin).await;
    assert_eq!(plugin.listener().control().stats().requeues, 1);
    pass(&world, &plugin, 4).await;
    assert_eq!(hello_log(&world), ["INFO default/a watch 0"]);
    pass(&world, &plugin, 2).await;
    assert_eq!(
        hello_log(&world),
        ["INFO default/a watch 0", "INFO default/a requeue-after 0"]
    );
    assert_eq!((api.sent().len(), plugin.listener().control().stats().requeues), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn after_a_failed_write_the_call_is_retried_without_requeue() {
    let api = Api::new();
    let world = World::with_cluster(Arc::clone(&api) as _);
    let Some((plugin, mut pods)) = run(&world).await else {
        return;
    };
    api.answer_next(status(409, KubeErrorCode::Conflict, None));
    pods.apply("a");
    pass(&world, &plugin, 4).await;
    assert_eq!(
        hello_log(&world),
        ["INFO default/a watch 0", "INFO default/a watch 1"],
        "the failure asked for nothing"
    );
    assert_eq!((api.sent().len(), plugin.listener().control().stats().requeues), (2, 1));
    pass(&world, &plugin, 2).await;
    assert_eq!(hello_log(&world).len(), 3, "{:?}", hello_log(&world));
    assert_eq!(api.sent().len(), 3);
}
