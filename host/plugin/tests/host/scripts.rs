//! Scripts: their events, their exceptions, invalid scripts, and reloads.
//!
//! The runner is built by `cargo xtask guests` where there is a C compiler for WebAssembly, which xtask brings in CI.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use informant_plugin_host::{Plugin, PluginState};
use informant_spec::{PluginSpec, ReplayPolicy};
use serde_json::json;

use crate::world::{Pods, Reload, World, hello_log, idle, script_runner};

/// Whether the runner was built; reports it if not.
pub(crate) fn can_run() -> bool {
    let is_built = script_runner().is_some();
    let may_lack = std::env::var_os("INFORMANT_TESTS_WITHOUT_SCRIPTS").is_some();
    assert!(
        is_built || may_lack,
        "the script runner is missing: run `cargo xtask guests`"
    );
    is_built
}

fn write(world: &World, text: impl AsRef<[u8]>) -> PathBuf {
    let path = world.cache.path().join("handler.js");
    fs::write(&path, text).unwrap();
    path
}

pub(crate) async fn run(world: &World, text: &str, adjust: impl FnOnce(&mut PluginSpec)) -> Plugin {
    let mut spec = PluginSpec::new("hello", write(world, text));
    spec.informers = vec![("pods".into(), "pods".into())];
    spec.config = json!({ "greeting": "hello" });
    adjust(&mut spec);
    let plugin = world.load(spec).await.unwrap();
    plugin.start().await;
    plugin
}

/// An informer with `plugin` attached and its initial list delivered.
pub(crate) async fn attached(world: &World, plugin: &Plugin) -> Pods {
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    idle(world, plugin).await;
    pods
}

#[tokio::test(start_paused = true)]
async fn a_script_receives_objects_and_their_event_metadata() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let text = r#"
        import { config, log, store } from "informant";
        export function onAdd(pod, event) {
          log.info(config.greeting, pod.metadata.name, event);
          console.info(`${event}: ${event.informer} ${event.apiVersion} ${event.kind}`);
        }
        export const onUpdate = async (pod, { old, reason, attempt }) =>
          console.debug(old.metadata.resourceVersion, pod.metadata.resourceVersion, reason, attempt);
        export function onDelete(last, event) {
          console.warn("gone:", last.metadata.name, event.finalStateUnknown);
        }
        export function onSynced(source) {
          console.error("synced", source.informer, store.list(source).length);
        }
    "#;
    let plugin = run(&world, text, |_| {}).await;
    assert_eq!(plugin.roles().to_string(), "event-handler, sync-handler");
    assert_eq!(plugin.manifest().name, "handler");
    let mut pods = world.pods("pods");
    pods.apply("a");
    pods.attach(&plugin.listener());
    idle(&world, &plugin).await;
    pods.apply("a");
    idle(&world, &plugin).await;
    pods.delete("a");
    idle(&world, &plugin).await;
    insta::assert_snapshot!(hello_log(&world).join("\n"), @r#"
    INFO hello a {"source":1,"namespace":"default","name":"a","uid":"uid-a","resourceVersion":"2","reason":"initial","attempt":0}
    INFO default/a: pods v1 Pod
    ERROR synced pods 1
    DEBUG 2 3 watch 0
    WARN gone: a false
    "#);
}

#[tokio::test(start_paused = true)]
async fn roles_that_a_script_does_not_export_are_not_called() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let plugin = run(
        &world,
        "export function index(pod) { return { name: pod.metadata.name } }",
        |_| {},
    )
    .await;
    assert_eq!(plugin.roles().to_string(), "index-funcs");
    assert_eq!(plugin.manifest().index_names(), ["name"]);
    let plugin = run(&world, "export function onDelete() {}", |_| {}).await;
    assert_eq!(plugin.roles().to_string(), "event-handler");
    assert!(plugin.index_feed().is_none());
    let rule = plugin.manifest().event_rule("v1", "Pod").cloned().unwrap();
    assert!(!rule.old, "old states are passed only to handlers that read them");
}

#[tokio::test(start_paused = true)]
async fn a_script_exception_is_a_failure_with_its_position() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let text = r#"
        import { Permanent, RetryAfter, store } from "informant"; const check = (pod) => pod.spec.nodeName;
        export function onAdd(pod, event) {
          switch (event.name) {
            case "type": return check(pod);
            case "error": throw new RangeError("too far");
            case "text": throw "boom";
            case "nothing": throw undefined;
            case "object": throw { code: 7 };
            case "circle": { const circle = {}; circle.self = circle; throw circle; }
            case "rejected": return Promise.reject(new Error("later"));
            case "never": return new Promise(() => {});
            case "refused": throw new Permanent("never again");
            case "unknown": return store.list("services");
            case "later": if (event.attempt < 2) throw new RetryAfter(50);
          }
        }
    "#;
    let plugin = run(&world, text, |spec| spec.retry.attempts = 10).await;
    let mut pods = attached(&world, &plugin).await;
    let names = [
        "type", "error", "text", "nothing", "object", "circle", "rejected", "never", "refused", "unknown", "later",
    ];
    for name in names {
        pods.apply(name);
        world
            .until("the first try", || {
                hello_log(&world).iter().any(|line| line.contains(name))
            })
            .await;
    }
    let mut first = Vec::new();
    for line in hello_log(&world) {
        if !first.contains(&line) {
            first.push(line);
        }
    }
    insta::assert_snapshot!(first.join("\n"), @r#"
    DEBUG default/type: handler.js:2:90: TypeError: cannot read property 'nodeName' of undefined (in check < onAdd)
    DEBUG default/error: handler.js:6:37: RangeError: too far
    DEBUG default/text: handler.js:3:16: onAdd threw "boom", which is not an Error and has no location; write throw new Error(…)
    DEBUG default/nothing: handler.js:3:16: onAdd threw undefined, which is not an Error and has no location; write throw new Error(…)
    DEBUG default/object: handler.js:3:16: onAdd threw {"code":7}, which is not an Error and has no location; write throw new Error(…)
    DEBUG default/circle: handler.js:3:16: onAdd threw a value of type object, which is not an Error and has no location; write throw new Error(…)
    DEBUG default/rejected: handler.js:11:56: Error: later
    DEBUG default/never: handler.js: onAdd waits for a promise that never settles: a script cannot wait by itself; use `timers` of the manifest, or return { requeueAfter }
    DEBUG default/refused: handler.js:13:39: Permanent: never again
    DEBUG default/unknown: handler.js:14:42: HostError: unknown informer "services"; [plugin.hello] in config.toml lists: pods
    "#);
    let letters = || plugin.listener().ledger().dead_letters();
    world
        .until("all others to be dead-lettered", || letters().len() == names.len() - 1)
        .await;
    // A Permanent exception is not retried; all others were retried up to the limit.
    let tries = |name: &str| hello_log(&world).iter().filter(|line| line.contains(name)).count();
    assert_eq!(
        (
            tries("default/refused:"),
            tries("default/later:"),
            tries("default/error:")
        ),
        (1, 2, 10)
    );
    assert_eq!(plugin.status().restarts, 0, "an exception does not cost the instance");
}

/// One tenant may write such objects in as many namespaces as it has: a trap for each would lead to quarantine.
#[tokio::test(start_paused = true)]
async fn objects_nested_too_deeply_for_a_script_are_dead_letters() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let text = "export function onAdd(pod, event) {}\nexport function onUpdate(pod, event) { return event.old && 0; }";
    let plugin = run(&world, text, |_| {}).await;
    let mut pods = attached(&world, &plugin).await;
    let nested = |levels| format!(r#","deep":{}1{}"#, r#"{"a":"#.repeat(levels), "}".repeat(levels));
    pods.apply_in("shop", "fits", &nested(900));
    for (namespace, levels) in [("one", 1_000), ("two", 3_000), ("three", 100_000), ("four", 3_000)] {
        pods.apply_in(namespace, "deep", &nested(levels));
    }
    let letters = || plugin.listener().ledger().dead_letters();
    world
        .until("all others to be dead-lettered", || letters().len() == 4)
        .await;
    let why = "Error: the document has more than 1000 levels; name the fields that you need in manifest.events";
    let mut lines = hello_log(&world);
    lines.sort();
    let wanted = ["four", "one", "three", "two"].map(|namespace| format!("DEBUG {namespace}/deep: handler.js: {why}"));
    assert_eq!(lines, wanted);
    assert_eq!(plugin.status().restarts, 0, "it costs no instance");
}

#[tokio::test(start_paused = true)]
async fn texts_nested_too_deeply_for_a_script_cost_no_instance() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let text = r#"
        import { log } from "informant";
        const nested = (levels) => "[".repeat(levels) + "]".repeat(levels);
        export function onAdd() {
          for (const levels of [900, 1000, 1001, 3000, 1000000]) {
            for (const reviver of [undefined, (name, value) => value]) {
              try {
                log.info(`${levels}: ${Array.isArray(JSON.parse(nested(levels), reviver))}`);
              } catch (error) {
                log.info(`${levels}: ${error}`);
              }
            }
          }
        }"#;
    let plugin = run(&world, text, |_| {}).await;
    let mut pods = attached(&world, &plugin).await;
    pods.apply_with("a", "");
    world.until("its lines", || hello_log(&world).len() == 10).await;
    let refused = |levels| format!("INFO {levels}: Error: the document has more than 1000 levels");
    let one = ["INFO 900: true".to_owned(), "INFO 1000: true".to_owned()].into_iter();
    let lines = one.chain([1_001, 3_000, 1_000_000].map(refused));
    let lines: Vec<String> = lines.flat_map(|line| [line.clone(), line]).collect();
    assert_eq!(hello_log(&world), lines);
    assert_eq!(plugin.status().restarts, 0);
}

#[tokio::test(start_paused = true)]
async fn a_script_that_returns_no_valid_delay_fails() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let text = r#"
        const returned = { number: 60_000, text: { requeueAfter: "5" }, typo: { requeueafter: 5 }, boolean: false };
        export const onAdd = async (pod, event) => returned[event.name] ?? null;
    "#;
    let plugin = run(&world, text, |spec| spec.retry.attempts = 1).await;
    let mut pods = attached(&world, &plugin).await;
    for name in ["number", "text", "typo", "boolean", "nothing"] {
        pods.apply(name);
        idle(&world, &plugin).await;
    }
    insta::assert_snapshot!(hello_log(&world).join("\n"), @r#"
    DEBUG default/number: handler.js: TypeError: onAdd returned 60000; return nothing or, to be called again for the object in a minute, return { requeueAfter: 60_000 }
    DEBUG default/text: handler.js: TypeError: onAdd returned { requeueAfter: "5" }, which is not a number of milliseconds; for a minute, return { requeueAfter: 60_000 }
    DEBUG default/typo: handler.js: TypeError: onAdd returned {"requeueafter":5}; return nothing or, to be called again for the object in a minute, return { requeueAfter: 60_000 }
    DEBUG default/boolean: handler.js: TypeError: onAdd returned false; return nothing or, to be called again for the object in a minute, return { requeueAfter: 60_000 }
    "#);
    assert_eq!(plugin.listener().ledger().dead_letters().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_delay_of_a_script_is_clamped_and_rounded() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let text = r#"
        import { RetryAfter, log } from "informant";
        const delays = { over: -5_000, part: 0.4, late: 1e300 };
        log.info(new RetryAfter(-1).milliseconds, new RetryAfter(1.5).milliseconds, new RetryAfter(Infinity).milliseconds);
        export const onAdd = (pod, event) => ({ requeueAfter: delays[event.name] });
        export const onUpdate = (pod, event) => log.info(event.name, event.reason);
    "#;
    let plugin = run(&world, text, |_| {}).await;
    let mut pods = attached(&world, &plugin).await;
    for name in ["over", "part", "late"] {
        pods.apply(name);
        idle(&world, &plugin).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    idle(&world, &plugin).await;
    let mut lines = hello_log(&world);
    lines.dedup();
    insta::assert_snapshot!(lines.join("\n"), @"
    INFO 0 2 4294967295
    INFO over requeue-after
    INFO part requeue-after
    ");
}

#[tokio::test(start_paused = true)]
async fn time_zones_in_scripts_are_utc_or_an_error() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let text = r#"
        import { log } from "informant";
        const noon = new Date("2026-07-01T12:00:00Z");
        log.info(noon.toLocaleTimeString("de-DE", { timeZone: "UTC" }) === noon.toLocaleTimeString());
        for (const show of ["toLocaleString", "toLocaleDateString", "toLocaleTimeString"]) {
          for (const timeZone of ["Europe/Berlin", "Mars/Base"]) {
            try {
              log.error(noon[show]("de-DE", { timeZone }));
            } catch (error) {
              log.info(error);
            }
          }
        }
        export function onAdd() {}
    "#;
    run(&world, text, |_| {}).await;
    let mut lines = hello_log(&world);
    lines.dedup();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    INFO true
    INFO RangeError: toLocaleString: UTC is the only time zone of scripts, not "Europe/Berlin"; add its offset to the time yourself
    INFO RangeError: toLocaleString: UTC is the only time zone of scripts, not "Mars/Base"; add its offset to the time yourself
    INFO RangeError: toLocaleDateString: UTC is the only time zone of scripts, not "Europe/Berlin"; add its offset to the time yourself
    INFO RangeError: toLocaleDateString: UTC is the only time zone of scripts, not "Mars/Base"; add its offset to the time yourself
    INFO RangeError: toLocaleTimeString: UTC is the only time zone of scripts, not "Europe/Berlin"; add its offset to the time yourself
    INFO RangeError: toLocaleTimeString: UTC is the only time zone of scripts, not "Mars/Base"; add its offset to the time yourself
    INFO true
    INFO RangeError: toLocaleString: UTC is the only time zone of scripts, not "Europe/Berlin"; add its offset to the time yourself
    INFO RangeError: toLocaleString: UTC is the only time zone of scripts, not "Mars/Base"; add its offset to the time yourself
    INFO RangeError: toLocaleDateString: UTC is the only time zone of scripts, not "Europe/Berlin"; add its offset to the time yourself
    INFO RangeError: toLocaleDateString: UTC is the only time zone of scripts, not "Mars/Base"; add its offset to the time yourself
    INFO RangeError: toLocaleTimeString: UTC is the only time zone of scripts, not "Europe/Berlin"; add its offset to the time yourself
    INFO RangeError: toLocaleTimeString: UTC is the only time zone of scripts, not "Mars/Base"; add its offset to the time yourself
    "#);
}

#[tokio::test(start_paused = true)]
async fn a_script_imports_no_module_of_the_runner() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let text = r#"
        import { log } from "informant";
        for (const name of ["errors", "http", "store", "dates"]) {
          try {
            await import(`informant:${name}`);
            log.error(name);
          } catch (error) {
            log.info(error.message);
          }
        }
        export function onAdd() {}
    "#;
    run(&world, text, |_| {}).await;
    let mut lines = hello_log(&world);
    lines.dedup();
    insta::assert_snapshot!(lines.join("\n"), @"
    INFO Error resolving module 'informant:errors' from 'handler.js'
    INFO Error resolving module 'informant:http' from 'handler.js'
    INFO Error resolving module 'informant:store' from 'handler.js'
    INFO Error resolving module 'informant:dates' from 'handler.js'
    INFO Error resolving module 'informant:errors' from 'handler.js'
    INFO Error resolving module 'informant:http' from 'handler.js'
    INFO Error resolving module 'informant:store' from 'handler.js'
    INFO Error resolving module 'informant:dates' from 'handler.js'
    ");
}

#[tokio::test(start_paused = true)]
async fn the_manifest_of_a_script_depends_on_its_configuration() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let text = r#"
        import { config } from "informant";
        export const manifest = { name: config.greeting, indexes: [config.greeting] };
        export function index(pod) { return { [config.greeting]: pod.metadata.name } }
    "#;
    let plugin = run(&world, text, |_| {}).await;
    assert_eq!(
        (plugin.manifest().name.as_str(), plugin.manifest().index_names()),
        ("hello", &["hello".to_owned()][..])
    );
}

/// The error of loading an invalid script.
async fn refusal(world: &World, text: impl AsRef<[u8]>) -> String {
    let path = write(world, text);
    let folder = world.cache.path().display().to_string();
    let error = world
        .load(PluginSpec::new("hello", path))
        .await
        .err()
        .expect("it was loaded");
    error.to_string().replace(&folder, "FOLDER")
}

#[tokio::test(start_paused = true)]
async fn an_invalid_script_is_rejected_with_file_line_and_column() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let mut text = String::new();
    for script in [
        "export function onAdd(pod) {\n  console.log(pod.metadata.name;\n}",
        "export function onAdd(pod) {",
        "const a = 1;\nconst b = a.b.c;\nexport function onAdd() {}",
        "throw 'no';",
        "import { x } from './other.js';\nexport function onAdd() {}",
        "import { kube } from 'informant:errors';\nexport function onAdd() {}",
        "// Merges.\nimport { log } from 'informant';\nimport merge from 'lodash/merge';\nexport function onAdd() {}",
        "import { log, stor } from 'informant';\nexport function onAdd() {}",
        "import { WebSocket } from 'informant';\nexport function onAdd() {}",
        "module.exports = { onAdd() {} };",
        "",
        "function onAdd(pod) {}",
        "export default { onAdd() {} };",
        "export function onadd() {}\nexport function handle() {}",
        "export const onAdd = 5;",
        "export function handle() {}",
        "export function onAdd() {}\nexport function onChange() {}",
        "export function onAdd() {}\nexport function init() {}",
        "export function onAdd() {}\nexport function save() {}",
        "export function save() {}\nexport function restore() {}",
        "import { store } from 'informant';\nstore.list('pods');\nexport function onAdd() {}",
        "export const manifest = 'all';\nexport function onAdd() {}",
        "export const manifest = { events: [{ apiVersion: 'v1', kind: 'Pod', payload: 'half' }] };\nexport function onAdd() {}",
        "export const manifest = { indexes: ['node'] };\nexport function onAdd() {}",
        "export function index(pod) { return pod.labels.length > 3 ? { x: 1 } : {} }",
        "await new Promise(() => {});\nexport function onAdd() {}",
        "export function onAdd() { \u{0} }",
    ] {
        writeln!(text, "{}", refusal(&world, script).await).unwrap();
    }
    writeln!(text, "{}", refusal(&world, b"export const a = '\xff';").await).unwrap();
    writeln!(text, "{}", refusal(&world, vec![b' '; 5 << 20]).await).unwrap();
    insta::assert_snapshot!(text, @r#"
    plugin "hello": FOLDER/handler.js:2:32: SyntaxError: Unexpected token ';'
    plugin "hello": FOLDER/handler.js:1:29: SyntaxError: unexpected token in expression: ''
    plugin "hello": FOLDER/handler.js:2:11: TypeError: cannot read property 'c' of undefined
    plugin "hello": FOLDER/handler.js: the script threw "no", which is not an Error and has no location; write throw new Error(…)
    plugin "hello": FOLDER/handler.js:1 imports "./other.js", but a script is one file: bundle it with what it imports (informant plugin build handler.js --output handler-bundle.js), or import only "informant"
    plugin "hello": FOLDER/handler.js:1 imports "informant:errors", but a script is one file: bundle it with what it imports (informant plugin build handler.js --output handler-bundle.js), or import only "informant"
    plugin "hello": FOLDER/handler.js:3 imports "lodash/merge", but a script is one file: bundle it with what it imports (informant plugin build handler.js --output handler-bundle.js), or import only "informant"
    plugin "hello": FOLDER/handler.js:1 imports stor from "informant", which does not export it; did you mean store?
    plugin "hello": FOLDER/handler.js:1 imports WebSocket from "informant", which does not export it; it exports HostError, HttpError, KubeError, Permanent, RetryAfter, config, context, ensureOk, fetch, kube, kv, log, metrics, recorder, store
    plugin "hello": FOLDER/handler.js:1:1: ReferenceError: module is not defined
    plugin "hello": FOLDER/handler.js exports nothing: write `export function onAdd(object) { … }`; Informant calls onAdd, onUpdate, onDelete, reconcile, onTimer, onSynced, index, save, restore
    plugin "hello": FOLDER/handler.js exports nothing: write `export function onAdd(object) { … }`; Informant calls onAdd, onUpdate, onDelete, reconcile, onTimer, onSynced, index, save, restore
    plugin "hello": FOLDER/handler.js exports no function to handle, only default; Informant calls onAdd, onUpdate, onDelete, reconcile, onTimer, onSynced, index, save, restore; export functions by name, not as default
    plugin "hello": FOLDER/handler.js exports onadd, which Informant does not call; did you mean onAdd?
    plugin "hello": FOLDER/handler.js exports onAdd, which is not a function: 5
    plugin "hello": FOLDER/handler.js exports no function to handle, only handle; Informant calls onAdd, onUpdate, onDelete, reconcile, onTimer, onSynced, index, save, restore
    plugin "hello": FOLDER/handler.js exports onChange, which this Informant does not call; Informant calls onAdd, onUpdate, onDelete, reconcile, onTimer, onSynced, index, save, restore
    plugin "hello": FOLDER/handler.js exports init, which Informant does not call: the top level of the script runs in each instance
    plugin "hello": FOLDER/handler.js exports save alone: export both save and restore, or neither
    plugin "hello": FOLDER/handler.js exports no function to handle, only restore, save; Informant calls onAdd, onUpdate, onDelete, reconcile, onTimer, onSynced, index, save, restore
    plugin "hello": FOLDER/handler.js:2:7: HostError: describe must depend on the plugin and its `config` alone: in describe, only log can be called
    plugin "hello": FOLDER/handler.js exports a `manifest` that is not an object
    plugin "hello": FOLDER/handler.js: its manifest (returned by describe) is not valid: events[0].payload: unknown variant `half`, expected one of `none`, `whole`, `metadata`, `fields`
    plugin "hello": FOLDER/handler.js exports a manifest with `indexes`, but no function `index`
    plugin "hello": FOLDER/handler.js exports index, but the names of its indexes cannot be determined: declare them with `export const manifest = { indexes: ["NAME"] }`
    plugin "hello": FOLDER/handler.js: the script waits for a promise that never settles: a script cannot wait by itself; use `timers` of the manifest, or return { requeueAfter }
    plugin "hello": FOLDER/handler.js:1: SyntaxError: NUL character in the script
    plugin "hello": FOLDER/handler.js: not UTF-8: byte 0xff at line 1, column 19; save it as UTF-8
    plugin "hello": FOLDER/handler.js: too large: 5242880 bytes; a script may have at most 1048576 (1 MiB); make a component of a larger one: informant plugin build FILE --component
    "#);
}

#[tokio::test(start_paused = true)]
async fn an_object_is_parsed_only_for_a_handler_with_parameters() {
    if !can_run() {
        return;
    }
    // A number takes 2 bytes of the document, but more than 8 of the engine's memory.
    let numbers = vec!["1"; 800_000].join(",");
    for (handler, expected) in [
        ("function onAdd() { log.info(`called`) }", "INFO called"),
        ("const onAdd = async () => log.info(`called`)", "INFO called"),
        ("function onAdd(pod) { log.info(`called`) }", "out of memory"),
        ("const onAdd = (...all) => log.info(`called`)", "out of memory"),
        ("const onAdd = (pod = {}) => log.info(`called`)", "out of memory"),
        (
            "function onAdd() { log.info(`called`, arguments.length) }",
            "out of memory",
        ),
    ] {
        let world = World::for_scripts();
        let text = format!("import {{ log }} from 'informant';\nexport {handler}");
        let plugin = run(&world, &text, |spec| {
            spec.limits.memory_bytes = 9 << 20;
            spec.retry.attempts = 1;
        })
        .await;
        let mut pods = attached(&world, &plugin).await;
        pods.apply_with("large", &format!(r#"}},"spec":{{"numbers":[{numbers}]"#));
        idle(&world, &plugin).await;
        let lines = hello_log(&world);
        assert!(lines.iter().any(|line| line.contains(expected)), "{handler}: {lines:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn reading_an_old_state_that_was_not_requested_warns() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let text = r#"
        export const manifest = { events: [{ apiVersion: "v1", kind: "Pod", payload: "metadata" }] };
        export const onUpdate = (pod, event) => console.log(event.old);
    "#;
    let plugin = run(&world, text, |_| {}).await;
    let mut pods = attached(&world, &plugin).await;
    for _ in 0..3 {
        pods.apply("a");
        idle(&world, &plugin).await;
    }
    insta::assert_snapshot!(hello_log(&world).join("\n"), @r#"
    WARN event.old is undefined: to receive it, write `old: true` into the rules of manifest.events
    INFO undefined
    INFO undefined
    "#);
}

#[tokio::test]
async fn an_endless_loop_in_a_script_is_interrupted() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let path = write(&world, "for (;;) {}\nexport function onAdd() {}");
    let mut spec = PluginSpec::new("hello", path);
    spec.limits.cpu = Duration::from_millis(200);
    let error = world.load(spec).await.err().expect("it was loaded").to_string();
    assert!(
        error.contains("describe did not return: it ran for more than 200ms"),
        "{error}"
    );
    let text = "let calls = 0;\nexport async function onAdd(pod) { calls++; while (pod.metadata.name === 'loop') await null; console.log(pod.metadata.name, calls) }";
    let plugin = run(&world, text, |spec| {
        spec.limits.cpu = Duration::from_millis(200);
        spec.on_restart = ReplayPolicy::Continue;
    })
    .await;
    let mut pods = attached(&world, &plugin).await;
    pods.apply("before");
    pods.apply("loop");
    pods.apply("after");
    let said_after = || hello_log(&world).iter().any(|line| line.contains("INFO after 1"));
    world.until("the next object in a new instance", said_after).await;
    assert!(plugin.status().restarts >= 1);
}

#[tokio::test(start_paused = true)]
async fn a_broken_script_version_keeps_the_old_one_running() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let greeting = |words: &str| format!("export function onAdd(pod) {{ console.log({words:?}, pod.metadata.name) }}");
    let plugin = run(&world, &greeting("one"), |spec| spec.on_reload = ReplayPolicy::Continue).await;
    let mut pods = attached(&world, &plugin).await;
    pods.apply("a");
    idle(&world, &plugin).await;
    let before = plugin.digest();
    let path = write(&world, "export function onAdd(pod) { oh no }");
    let error = plugin.swap(&path).await.unwrap_err().to_string();
    assert!(error.contains("handler.js:1:33: SyntaxError"), "{error}");
    pods.apply("b");
    idle(&world, &plugin).await;
    assert_eq!((plugin.digest(), plugin.status().state), (before, PluginState::Running));
    let path = write(&world, greeting("two"));
    let swapped = plugin.swap(&path).await.unwrap();
    assert_eq!((swapped.previous, swapped.digest), (before, plugin.digest()));
    pods.apply("c");
    idle(&world, &plugin).await;
    assert_eq!(hello_log(&world), ["INFO one a", "INFO one b", "INFO two c"]);
}

#[tokio::test]
async fn a_script_is_rejected_without_a_script_runner() {
    let world = World::without_runner();
    insta::assert_snapshot!(refusal(&world, "export function onAdd() {}").await, @r#"plugin "hello": FOLDER/handler.js: this Informant was built without its script runner; build it with `cargo xtask`, which includes it, or set INFORMANT_SCRIPT_RUNNER to the runner's file"#);
}

#[tokio::test(start_paused = true)]
async fn without_on_update_asked_for_calls_go_to_on_add() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let text = r#"
        import { log } from "informant";
        export function onAdd(pod, event) {
          log.info(event.name, event.reason);
          return event.reason === "watch" ? { requeueAfter: 60_000 } : undefined;
        }
    "#;
    let plugin = run(&world, text, |_| {}).await;
    let mut pods = attached(&world, &plugin).await;
    pods.apply("a");
    idle(&world, &plugin).await;
    tokio::time::sleep(Duration::from_secs(61)).await;
    idle(&world, &plugin).await;
    let keys = [informant_object::Key::new("default", "a")];
    plugin.listener().control().trigger(pods.id, &keys, plugin.now());
    // A call that is asked for is no pending event.
    tokio::time::sleep(Duration::from_secs(1)).await;
    idle(&world, &plugin).await;
    // A change is an update, which the script does not handle.
    pods.apply("a");
    idle(&world, &plugin).await;
    assert_eq!(
        hello_log(&world),
        ["INFO a watch", "INFO a requeue-after", "INFO a trigger"]
    );
}
