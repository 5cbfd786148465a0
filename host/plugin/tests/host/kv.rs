//! What plugins remember: changes take effect with a call's success, and never otherwise.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use informant_plugin_host::{KeyValue, KvChange, KvHandled, KvOpening, KvSpace, KvUsage, Plugin};
use informant_spec::{PluginSpec, RetryPolicy};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::world::{Pods, Reload, World, guest, idle};

/// The keys of all plugins, in memory. It may hold the ends of events, as a slow disk does.
#[derive(Clone, Default)]
pub(crate) struct Keys(Arc<Mutex<Content>>);

#[derive(Default)]
struct Content {
    rows: BTreeMap<String, Arc<[u8]>>,
    holds: bool,
    /// The disk does not answer.
    is_stuck: watch::Sender<bool>,
    held: Vec<KvHandled>,
}

impl Keys {
    fn hold(&self) {
        self.0.lock().unwrap().holds = true;
    }

    pub(crate) fn set_stuck(&self, is_stuck: bool) {
        self.0.lock().unwrap().is_stuck.send_replace(is_stuck);
    }

    fn release(&self) {
        let held = {
            let mut content = self.0.lock().unwrap();
            content.holds = false;
            std::mem::take(&mut content.held)
        };
        held.into_iter().for_each(|handled| (handled.report)());
    }

    fn held(&self) -> usize {
        self.0.lock().unwrap().held.len()
    }

    /// Changes the value under `key`, as another replica does. Returns whether that is a change.
    pub(crate) fn replace(&self, key: &str, change: impl FnOnce(&str) -> String) -> bool {
        let mut content = self.0.lock().unwrap();
        let Some(value) = content.rows.get_mut(key) else {
            return false;
        };
        let new: Arc<[u8]> = change(&String::from_utf8_lossy(value)).into_bytes().into();
        std::mem::replace(value, Arc::clone(&new)) != new
    }

    /// All keys with their values.
    pub(crate) fn text(&self) -> String {
        let content = self.0.lock().unwrap();
        let rows = content.rows.iter();
        let rows = rows.map(|(key, value)| format!("{key}={}", String::from_utf8_lossy(value)));
        rows.collect::<Vec<_>>().join(" ")
    }
}

impl KeyValue for Keys {
    fn open(&self, _plugin: &str) -> KvOpening {
        let keys = self.clone();
        Box::pin(async move {
            let mut is_stuck = keys.0.lock().unwrap().is_stuck.subscribe();
            let _ = is_stuck.wait_for(|is_stuck| !is_stuck).await;
            Ok(Arc::new(keys) as Arc<dyn KvSpace>)
        })
    }
}

impl KvSpace for Keys {
    fn get(&self, key: &str) -> Option<Arc<[u8]>> {
        self.0.lock().unwrap().rows.get(key).cloned()
    }

    fn keys(&self, prefix: &str, cursor: &str, max: usize) -> Vec<String> {
        let content = self.0.lock().unwrap();
        let found = content.rows.keys();
        let found = found.filter(|key| key.starts_with(prefix) && key.as_str() > cursor);
        found.take(max).cloned().collect()
    }

    fn usage(&self) -> KvUsage {
        let content = self.0.lock().unwrap();
        KvUsage {
            keys: content.rows.len(),
            bytes: content.rows.iter().map(|(key, value)| key.len() + value.len()).sum(),
        }
    }

    fn failure(&self) -> Option<String> {
        None
    }

    fn commit(&self, changes: Vec<KvChange>, handled: Option<KvHandled>) {
        let mut content = self.0.lock().unwrap();
        for (key, value) in changes {
            match value {
                Some(value) => drop(content.rows.insert(key, value)),
                None => drop(content.rows.remove(&key)),
            }
        }
        if content.holds {
            content.held.extend(handled);
            return;
        }
        drop(content);
        if let Some(handled) = handled {
            (handled.report)();
        }
    }
}

pub(crate) async fn run(world: &World) -> (Plugin, Pods) {
    let adjust = |spec: &mut PluginSpec| {
        spec.retry = RetryPolicy {
            initial: Duration::from_millis(10),
            ..RetryPolicy::default()
        };
    };
    let plugin = world.run("guest_kv", json!({}), adjust).await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    (plugin, pods)
}

fn is_guest(line: &Value) -> bool {
    line["guest"] == "kv"
}

#[tokio::test]
async fn a_call_that_fails_or_traps_changes_no_keys() {
    let world = World::new();
    let (plugin, mut pods) = run(&world).await;
    for name in ["fails-a", "traps-a", "b", "b"] {
        pods.apply(name);
        idle(&world, &plugin).await;
    }
    // The trap cost an instance, and the next one remembers.
    assert_eq!(world.keys.text(), "count/b=2 count/fails-a=1 count/traps-a=1 starts=2");
    let metrics = world.metrics("informant_plugin_kv_");
    assert!(metrics.contains(r#"kv_bytes{plugin="guest_kv"} "#), "{metrics}");
    assert!(metrics.contains(r#"kv_keys{plugin="guest_kv"} 4"#), "{metrics}");
    assert!(metrics.contains(r#"function="set",result="ok"} 8"#), "{metrics}");
    plugin.stop(Duration::from_secs(10)).await;
    drop(plugin);
    assert_eq!(world.metrics("informant_plugin_kv_"), "", "its series go with it");
}

#[tokio::test]
async fn an_event_ends_when_its_keys_can_be_persisted() {
    let world = World::new();
    let (plugin, mut pods) = run(&world).await;
    idle(&world, &plugin).await;
    world.keys.hold();
    pods.apply("a");
    world.until("the call", || world.keys.held() == 1).await;
    pods.apply("a");
    pods.apply("b");
    world
        .until("the call of the other key", || world.keys.held() == 2)
        .await;
    assert_eq!(plugin.listener().control().stats().in_flight, 2);
    assert_eq!(
        world.keys.text(),
        "count/a=1 count/b=1 starts=1",
        "later calls see them"
    );
    world.keys.release();
    idle(&world, &plugin).await;
    assert_eq!(world.keys.text(), "count/a=2 count/b=1 starts=1");
}

#[tokio::test]
async fn keys_stay_over_a_swap_and_init_changes_them() {
    let world = World::new();
    let (plugin, mut pods) = run(&world).await;
    pods.apply("a");
    idle(&world, &plugin).await;
    plugin.swap(&guest("guest_kv")).await.unwrap();
    pods.apply("a");
    let lines = world.recorded(2, is_guest).await;
    assert_eq!(
        lines[1],
        json!({ "guest": "kv", "name": "a", "round": null, "count": 2, "starts": 2 })
    );
}

#[tokio::test]
async fn keys_and_values_outside_the_bounds_are_errors() {
    let world = World::new();
    let (plugin, mut pods) = run(&world).await;
    pods.apply("bounds");
    let lines = world.recorded(5, is_guest).await;
    let codes: Vec<&str> = lines
        .iter()
        .map(|line| line["error"]["code"].as_str().unwrap())
        .collect();
    assert_eq!(
        codes,
        [
            "ErrorCode::Invalid",
            "ErrorCode::Invalid",
            "ErrorCode::Invalid",
            "ErrorCode::TooLarge",
            "ErrorCode::Exhausted"
        ]
    );
    insta::assert_snapshot!(lines[4]["error"]["message"].as_str().unwrap(), @"the plugin's keys would take 1049882 bytes, and may take 1048576: delete keys, or raise `kv` in [plugin.guest_kv.limits]");
    idle(&world, &plugin).await;
    assert_eq!(world.keys.text(), "starts=1", "the call failed");
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_never_answers_fails_the_call_in_time() {
    let world = World::new();
    world.keys.set_stuck(true);
    let (plugin, mut pods) = run(&world).await;
    let failed = || plugin.status().last_error.map(|(_, error)| error).unwrap_or_default();
    world.until("init to fail", || !failed().is_empty()).await;
    assert!(failed().contains("keys were not read in time"), "{}", failed());
    world.keys.set_stuck(false);
    pods.apply("a");
    idle(&world, &plugin).await;
    assert_eq!(world.keys.text(), "count/a=1 starts=1");
}

#[tokio::test]
async fn keys_without_a_state_database_name_the_line_to_add() {
    let world = World::without_state();
    let spec = PluginSpec::new("guest_kv", guest("guest_kv"));
    let refused = world.load(spec).await.err().unwrap().to_string();
    assert!(refused.contains("add this line to config.toml: [state]"), "{refused}");
}
