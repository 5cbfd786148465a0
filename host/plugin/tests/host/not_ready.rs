//! Handlers that read a source or an index before it is ready.

use informant_cache::{IndexContents, SourceInfo};
use informant_plugin_host::Plugin;

use crate::scripts::{can_run, run};
use crate::world::{World, hello_log, idle};

const READER: &str = r#"
    import { log, store } from "informant";
    export function onAdd(pod, event) {
      const nodes = store.list("nodes");
      const web = store.indexKeys("pods", "app", "web");
      log.info(pod.metadata.name, event.attempt, nodes.length, web.length);
    }
"#;

/// Waits until `calls` calls have read too early, and one waits.
async fn waits(world: &World, plugin: &Plugin, calls: usize) {
    let count = format!("result=\"not-ready\"}} {calls}");
    let has_waited = || world.metrics("informant_handler_events_total").contains(&count);
    world
        .until("the call to wait", || {
            has_waited() && plugin.listener().control().stats().waiting == 1
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn call_that_read_too_early_is_made_again_when_ready() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let plugin = run(&world, READER, |spec| {
        spec.informers.push(("nodes".into(), "nodes".into()));
    })
    .await;
    let mut pods = world.pods("pods");
    pods.writer.declare_index("app").unwrap();
    pods.apply("a");
    pods.attach(&plugin.listener());
    waits(&world, &plugin, 1).await;
    let info = SourceInfo {
        informer: "nodes".to_owned(),
        cluster: String::new(),
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        resource: "v1/nodes".to_owned(),
        namespace: None,
        namespaced: true,
        partial: false,
    };
    let nodes = world.catalog.add_source(info);
    waits(&world, &plugin, 2).await;
    world.catalog.source(nodes).unwrap().set_synced();
    waits(&world, &plugin, 3).await;
    pods.writer.attach_index("app", IndexContents::new()).unwrap();
    pods.writer.publish();
    idle(&world, &plugin).await;
    let mut lines = hello_log(&world);
    lines.retain(|line| !line.starts_with("DEBUG"));
    assert_eq!(lines, ["INFO a 0 0 0"], "it was no attempt");
    let warnings = world.log.text();
    assert!(!warnings.contains("WARN") && !warnings.contains("ERROR"), "{warnings}");
    assert_eq!(plugin.listener().control().stats().counters.retried, 0);
}
