//! One plugin in several languages: the same events lead to the same log.

use informant_plugin_host::PluginState;
use informant_spec::PluginSpec;
use serde_json::{Value, json};
use wasmparser::{Encoding, Parser, Payload, TypeRef};

use crate::world::{World, guest, is_built};

/// The crash-loop plugin in Rust, the reference for the others.
const FIRST: &str = "crash_loop";

/// The same plugin in other languages. Not built where their compilers are missing, but always in CI.
const OTHERS: [&str; 2] = ["crash_loop_c", "crash_loop_js"];

fn running(restarts: u32) -> Value {
    json!({ "restartCount": restarts, "state": { "running": { "startedAt": "2026-11-21T00:00:00Z" } } })
}

fn restarted(restarts: u32, reason: &str, code: i32) -> Value {
    let mut container = running(restarts);
    container["lastState"] = json!({ "terminated": { "reason": reason, "exitCode": code } });
    container
}

fn crashed(restarts: u32, reason: &str, code: i32) -> Value {
    json!({ "restartCount": restarts, "state": { "terminated": { "reason": reason, "exitCode": code } } })
}

fn backing_off(restarts: u32, reason: &str, code: i32) -> Value {
    json!({
        "restartCount": restarts,
        "state": { "waiting": { "reason": "CrashLoopBackOff", "message": "back-off 10s \"restarting\" {[" } },
        "lastState": { "terminated": { "reason": reason, "exitCode": code } },
    })
}

/// The life of a pod with two containers: crash loops, kills seen early and late, a kubelet whose count restarts.
fn life() -> Vec<Value> {
    let mut life = vec![
        running(0),
        crashed(0, "OOMKilled", 137),
        backing_off(1, "OOMKilled", 137),
    ];
    for restarts in 1..20 {
        life.push(backing_off(restarts, "Error", 1));
        life.push(running(restarts + 1));
        life.push(crashed(
            restarts + 1,
            if restarts % 3 == 0 {
                "OOMKilled"
            } else {
                "Fehler äöü"
            },
            -2,
        ));
    }
    life.push(restarted(40, "OOMKilled", 137));
    life.push(backing_off(0, "Error", 3));
    life.push(json!({ "restartCount": 7, "state": { "waiting": { "reason": "CrashLoopBackOff" } } }));
    life.push(json!({}));
    life
}

/// The guest's log of these events.
async fn said(name: &str, config: Value) -> Vec<String> {
    let world = World::new();
    let mut spec = PluginSpec::new("observed", guest(name));
    spec.config = config;
    spec.limits.pending = 100_000;
    let plugin = world.load(spec).await.unwrap();
    plugin.start().await;
    let mut pods = world.pods("pods");
    let tell = |pods: &mut crate::world::Pods, pod: &str, list: &str, container: &Value| {
        let mut container = container.clone();
        container["name"] = json!("app");
        let others = json!([{ "name": "proxy", "restartCount": 0 }, container]);
        pods.apply_with(pod, &format!(r#"}},"status":{{"phase":"Running","{list}":{others}"#));
    };
    tell(&mut pods, "first", "containerStatuses", &backing_off(3, "Error", 1));
    pods.attach(&plugin.listener());
    let idle = async || {
        let is_idle = || {
            let stats = plugin.listener().control().stats();
            stats.pending + stats.in_flight + stats.syncing == 0
        };
        world.until("it to handle all events", is_idle).await;
    };
    idle().await;
    for container in life() {
        for (pod, list) in [("web", "containerStatuses"), ("db", "initContainerStatuses")] {
            tell(&mut pods, pod, list, &container);
        }
        // Each is delivered by itself: nothing is compressed.
        idle().await;
    }
    pods.delete("web");
    idle().await;
    tell(&mut pods, "web", "containerStatuses", &backing_off(4, "OOMKilled", 137));
    idle().await;
    plugin
        .listener()
        .control()
        .replay(informant_cache::Environment::now(&*world.env));
    idle().await;
    let status = plugin.status();
    assert_eq!(
        (status.state, status.restarts, status.dead_letters),
        (PluginState::Running, 0, 0),
        "{name}"
    );
    let lines = world
        .log
        .lines()
        .into_iter()
        .filter(|line| line.is_of_guest("observed"));
    lines.map(|line| format!("{} {}", line.level, line.message)).collect()
}

#[tokio::test(start_paused = true)]
async fn the_crash_loop_plugin_behaves_the_same_in_every_language() {
    for config in [json!({}), json!({ "min-restarts": 5 })] {
        let expected = said(FIRST, config.clone()).await;
        assert!(expected.len() > 20, "{expected:#?}");
        for other in OTHERS.into_iter().filter(|other| is_built(other)) {
            let found = said(other, config.clone()).await;
            for (number, line) in expected.iter().enumerate() {
                assert_eq!(found.get(number), Some(line), "{other} with {config}, line {number}");
            }
            assert_eq!(found.len(), expected.len(), "{other} with {config}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_config_key_is_rejected_in_every_language() {
    for other in OTHERS.into_iter().filter(|other| is_built(other)) {
        let world = World::new();
        let mut spec = PluginSpec::new("observed", guest(other));
        spec.config = json!({ "min_restarts": 5 });
        let error = world.load(spec).await.err().expect("it was loaded").to_string();
        assert!(error.contains("min_restarts"), "{other}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn thousands_of_large_objects_do_not_leak_memory() {
    for other in OTHERS.into_iter().filter(|other| is_built(other)) {
        let world = World::new();
        let mut spec = PluginSpec::new("observed", guest(other));
        spec.limits.memory_bytes = 4 << 20;
        let plugin = world.load(spec).await.unwrap();
        plugin.start().await;
        let mut pods = world.pods("pods");
        pods.attach(&plugin.listener());
        let reason = "x".repeat(100_000);
        for round in 0..3_000 {
            let container = json!([{ "name": "app", "restartCount": 0, "state": { "waiting": { "reason": reason, "round": round } } }]);
            pods.apply_with(
                &format!("pod-{}", round % 7),
                &format!(r#"}},"status":{{"containerStatuses":{container}"#),
            );
            if round % 50 == 0 {
                let is_idle = || plugin.listener().ledger().pending() + plugin.listener().consumer().in_flight() == 0;
                world.until("it to be called", is_idle).await;
            }
        }
        let status = plugin.status();
        assert_eq!(
            (status.restarts, status.dead_letters),
            (0, 0),
            "{other}: {:?}",
            status.last_error
        );
    }
}

/// The number of parameters of each handler in a guest's core module. Instead of more than 16 there would be one: a
/// pointer to a copy in memory.
fn flat_parameters(component: &[u8]) -> Vec<(String, usize)> {
    let (mut types, mut functions, mut found) = (Vec::new(), Vec::new(), Vec::new());
    for payload in Parser::new(0).parse_all(component) {
        match payload.unwrap() {
            Payload::Version {
                encoding: Encoding::Module,
                ..
            } => (types, functions) = (Vec::new(), Vec::new()),
            Payload::TypeSection(section) => {
                let all = section.into_iter_err_on_gc_types();
                types = all.map(|ty| ty.unwrap().params().len()).collect();
            }
            Payload::ImportSection(section) => {
                for import in section.into_imports() {
                    if let TypeRef::Func(ty) = import.unwrap().ty {
                        functions.push(ty);
                    }
                }
            }
            Payload::FunctionSection(section) => functions.extend(section.into_iter().map(Result::unwrap)),
            Payload::ExportSection(section) => {
                for export in section.into_iter().map(Result::unwrap) {
                    if let Some(name) = export.name.strip_prefix("informant:plugin/event-handler@0.3.0#") {
                        let ty = functions[export.index as usize];
                        found.push((name.to_owned(), types[ty as usize]));
                    }
                }
            }
            _ => {}
        }
    }
    found.sort();
    found
}

#[test]
fn the_parameters_of_handlers_are_passed_without_a_copy() {
    let component = std::fs::read(guest("guest_recorder")).unwrap();
    let counts = flat_parameters(&component);
    let counts: Vec<(&str, usize)> = counts.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    assert_eq!(counts, [("on-add", 13), ("on-delete", 15), ("on-update", 16)]);
}
