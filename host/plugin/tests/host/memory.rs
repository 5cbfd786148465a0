//! A script that has used up its memory starts from scratch, and the plugin continues. A component that survives it is
//! reported.

use informant_plugin_host::PluginState;
use informant_spec::PluginSpec;

use crate::indexes::Loop;
use crate::scripts::{attached, can_run, run};
use crate::world::{World, idle};

/// Keeps what fills the memory in a variable: without a new instance, every later call would fail.
const FILLS: &str = r#"
    import { log } from "informant";
    const kept = [];
    export function onAdd(pod, event) {
      if (event.name === "thrown") for (;;) kept.push(new Array(10_000).fill(0));
      if (event.name === "chained") {
        const grow = () => { kept.push(new Array(10_000).fill(0)); return Promise.resolve().then(grow); };
        grow();
      }
      log.info(`called for ${event}, kept ${kept.length}`);
    }
"#;

#[tokio::test(start_paused = true)]
async fn a_script_out_of_memory_starts_from_scratch() {
    if !can_run() {
        return;
    }
    for how in ["thrown", "chained"] {
        let world = World::for_scripts();
        let plugin = run(&world, FILLS, |spec| spec.limits.memory_bytes = 8 << 20).await;
        let mut pods = attached(&world, &plugin).await;
        pods.apply(how);
        pods.apply_in("other", "after", "");
        world
            .until("a call of a new instance", || {
                world.log.text().contains("called for other/after, kept 0")
            })
            .await;
        idle(&world, &plugin).await;
        world
            .until("it to run", || plugin.status().state == PluginState::Running)
            .await;
        assert_eq!(plugin.status().restarts, 5, "{how}");
        let letters = plugin.listener().ledger().dead_letters();
        assert_eq!((letters.len(), letters[0].result, letters[0].attempts), (1, "trap", 5));
        let named = "ran out of memory: it requested";
        let limit = r#"limits.memory = "8MiB" of [plugin.hello]"#;
        let error = &letters[0].error;
        assert!(error.contains(named) && error.contains(limit), "{error}");
        insta::allow_duplicates! {
            insta::assert_snapshot!(world.metrics("informant_plugin_restarts"), @r#"informant_plugin_restarts_total{plugin="hello",reason="memory"} 5"#);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_index_script_out_of_memory_starts_from_scratch() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let fills = r#"
        const kept = [];
        export function index(pod) {
          if (pod.metadata.name === "fills") for (;;) kept.push(new Array(10_000).fill(0));
          return { kept: `${kept.length}` };
        }
    "#;
    let plugin = run(&world, fills, |spec| spec.limits.memory_bytes = 8 << 20).await;
    let mut informer = Loop::new(&world, &plugin);
    for name in ["before", "fills", "later"] {
        informer.apply(name, "");
    }
    informer.attach().await;
    assert_eq!(informer.under("kept", "0"), ["before", "later"]);
    let failures = informer.feed.failures();
    assert_eq!(failures.len(), 1, "{failures:?}");
    let (named, limit) = (
        "ran out of memory: it requested",
        r#"limits.memory = "8MiB" of [plugin.hello]"#,
    );
    let error = &failures[0].error;
    assert!(error.contains(named) && error.contains(limit), "{error}");
}

#[tokio::test(start_paused = true)]
async fn denied_memory_that_a_call_survives_is_reported() {
    let world = World::new();
    let path = world.cache.path().join("grows.wasm");
    std::fs::write(&path, wat::parse_str(include_str!("grows.wat")).unwrap()).unwrap();
    let plugin = world.load(PluginSpec::new("grows", path)).await.unwrap();
    plugin.start().await;
    let _first = attached(&world, &plugin).await;
    let mut others = world.pods("others");
    others.attach(&plugin.listener());
    idle(&world, &plugin).await;
    assert_eq!(
        (plugin.status().state, plugin.status().restarts),
        (PluginState::Running, 0)
    );
    insta::assert_snapshot!(world.metrics("informant_plugin_memory_denied"), @r#"informant_plugin_memory_denied_total{plugin="grows"} 2"#);
    let log = world.log.text();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("denied memory")).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"WARN plugin denied memory; its calls returned plugin="grows" role="events" calls=1 cause="it requested 640.0 MiB of memory, but limits.memory = \"64MiB\" of [plugin.grows]""#);
}
