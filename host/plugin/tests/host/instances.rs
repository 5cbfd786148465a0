//! Several instances of one plugin: who receives what, swaps, losses, and another number of them.

mod neighbor;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::Duration;

use informant_plugin_host::{Plugin, PluginState};
use informant_spec::{OnFailure, PluginSpec, ReplayPolicy};
use serde_json::{Value, json};

use crate::conformance::guests;
use crate::kube::{Cluster, grants};
use crate::scripts::can_run;
use crate::world::{Pods, Reload, World, idle};

/// Logs each event with its instance and how many the instance has counted, and hands the count over.
const COUNTER: &str = r#"
    import { context, log } from "informant";
    export const manifest = { parallel: true };
    let events = 0;
    function count(pod, event) {
      events += 1;
      const line = { event: "change", name: pod.metadata.name, version: pod.metadata.resourceVersion };
      log.info(JSON.stringify({ ...line, reason: event.reason, instance: context.instance, events }));
    }
    export const onAdd = count;
    export const onUpdate = count;
    export function onSynced() {
      log.info(JSON.stringify({ event: "synced", instance: context.instance, instances: context.instances }));
    }
    export const save = () => ({ events });
    export function restore(state) { events = state.events; }
"#;

/// `COUNTER` with this in place of its last function.
fn counter_with_restore(restore: &str) -> String {
    let (before, _) = COUNTER.split_once("export function restore").unwrap();
    format!("{before}export function restore(state) {{ {restore} }}")
}

fn spec(world: &World, text: &str, instances: u32) -> PluginSpec {
    let path = world.cache.path().join("handler.js");
    fs::write(&path, text).unwrap();
    let mut spec = PluginSpec::new("hello", path);
    spec.informers = vec![("pods".into(), "pods".into())];
    spec.limits.instances = instances;
    // Nothing is merged: each event can be counted.
    spec.limits.pending = 100_000;
    spec
}

async fn run(world: &World, text: &str, instances: u32, adjust: impl FnOnce(&mut PluginSpec)) -> (Plugin, Pods) {
    let mut spec = spec(world, text, instances);
    adjust(&mut spec);
    let plugin = world.load(spec).await.unwrap();
    plugin.start().await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    idle(world, &plugin).await;
    (plugin, pods)
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("web-{number}")).collect()
}

fn is_change(line: &Value) -> bool {
    line["event"] == "change"
}

fn changes(world: &World) -> Vec<Value> {
    world.log.json().into_iter().filter(is_change).collect()
}

/// The last count of each instance, as its lines report it.
fn last_counts(lines: &[Value]) -> BTreeMap<u64, u64> {
    let count = |line: &Value| (line["instance"].as_u64().unwrap(), line["events"].as_u64().unwrap());
    lines.iter().map(count).collect()
}

#[tokio::test(start_paused = true)]
async fn each_object_keeps_its_instance_and_all_are_synced() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let (plugin, mut pods) = run(&world, COUNTER, 4, |_| {}).await;
    assert_eq!(plugin.status().instances, 4);
    for _ in 0..3 {
        pods.apply_all(&names(100));
        idle(&world, &plugin).await;
    }
    let mut of_object: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    let mut versions: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for line in changes(&world) {
        let name = line["name"].as_str().unwrap().to_owned();
        of_object
            .entry(name.clone())
            .or_default()
            .insert(line["instance"].as_u64().unwrap());
        let version = line["version"].as_str().unwrap().parse().unwrap();
        versions.entry(name).or_default().push(version);
    }
    assert_eq!(of_object.len(), 100);
    assert!(of_object.values().all(|instances| instances.len() == 1));
    assert!(versions.values().all(|of_one| of_one.len() == 3 && of_one.is_sorted()));
    let used: BTreeSet<u64> = of_object.into_values().flatten().collect();
    assert_eq!(used, BTreeSet::from([0, 1, 2, 3]));
    let synced: Vec<Value> = world
        .log
        .json()
        .into_iter()
        .filter(|line| line["event"] == "synced")
        .collect();
    let instances: BTreeSet<u64> = synced.iter().map(|line| line["instance"].as_u64().unwrap()).collect();
    assert_eq!(
        (synced.len(), instances.len(), &synced[0]["instances"]),
        (4, 4, &json!(4))
    );
}

/// Each counts its calls from 1, hands the count over, and begins its lines with it.
#[tokio::test(start_paused = true)]
async fn every_language_shares_objects_and_hands_over_each_state() {
    for (_, guest) in guests().await {
        let world = World::for_conformance(Cluster::answering(Some(0)));
        let mut spec = PluginSpec::new("conformance", &guest);
        spec.informers = vec![("pods".into(), "pods".into())];
        spec.limits.instances = 4;
        let plugin = world.load(spec).await.unwrap();
        plugin.start().await;
        let mut pods = world.pods("pods");
        pods.attach(&plugin.listener());
        pods.apply_all(&names(40));
        idle(&world, &plugin).await;
        plugin.swap(&guest).await.unwrap();
        pods.apply_all(&names(40));
        idle(&world, &plugin).await;
        let lines = world.log.lines().into_iter();
        let ours = lines.filter(|line| line.is_of_guest("conformance"));
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        for line in ours.filter(|line| !line.message.starts_with("synced")) {
            let (count, _) = line.message.split_once(' ').unwrap();
            *counts.entry(count.parse().unwrap()).or_default() += 1;
        }
        let what = format!("{}: {counts:?}", guest.display());
        assert_eq!((counts.values().sum::<usize>(), counts[&1]), (80, 4), "{what}");
        assert!(counts.values().rev().is_sorted(), "{what}");
    }
}

/// How long 200 calls take that each wait 10 ms, on the tests' clock.
async fn time_with(instances: u32) -> Duration {
    let text = r#"
        import { kube } from "informant";
        export const manifest = { parallel: true };
        export function onAdd(pod) { kube.get({ resource: "v1/pods", namespace: "web", name: pod.metadata.name }); }
    "#;
    let world = World::with_cluster(Cluster::answering(Some(10)));
    let (plugin, mut pods) = run(&world, text, instances, |spec| {
        spec.allow_kube = grants(json!([{ "verbs": ["get"], "resource": "v1/pods" }]));
        spec.limits.kube_calls = 64;
    })
    .await;
    let began = tokio::time::Instant::now();
    pods.apply_all(&names(200));
    idle(&world, &plugin).await;
    let counters = plugin.listener().control().stats().counters;
    assert_eq!((counters.dead_lettered, counters.retried), (0, 0), "{counters:?}");
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_are_made_at_the_same_time() {
    if !can_run() {
        return;
    }
    let (one, four) = (time_with(1).await, time_with(4).await);
    // The busiest of four instances has a few more objects than a quarter.
    assert!(four * 3 < one, "{four:?} instead of {one:?}");
}

#[tokio::test(start_paused = true)]
async fn the_interval_of_slow_calls_counts_from_their_start() {
    if !can_run() {
        return;
    }
    let text = r#"
        import { kube, log } from "informant";
        function handle(pod) {
          log.info(JSON.stringify({ event: "change", name: pod.metadata.name }));
          kube.get({ resource: "v1/pods", namespace: "web", name: pod.metadata.name });
        }
        export const onAdd = handle;
        export const onUpdate = handle;
    "#;
    let world = World::with_cluster(Cluster::answering(Some(1_000)));
    let interval = Duration::from_secs(60);
    let (_plugin, mut pods) = run(&world, text, 1, |spec| {
        spec.allow_kube = grants(json!([{ "verbs": ["get"], "resource": "v1/pods" }]));
        spec.min_interval = Some(interval);
    })
    .await;
    pods.apply_all(&names(64));
    let lines = world.recorded(64, is_change).await;
    let (began, last) = (tokio::time::Instant::now(), lines[63]["name"].clone());
    pods.apply(last.as_str().unwrap());
    world.recorded(2, |line| is_change(line) && line["name"] == last).await;
    // The clock of the test ticks in steps of milliseconds.
    assert!(
        began.elapsed() > interval - Duration::from_millis(100),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn swaps_under_load_count_each_update_once_over_all_instances() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let (plugin, mut pods) = run(&world, COUNTER, 4, |_| {}).await;
    let other = world.cache.path().join("other.js");
    fs::write(&other, format!("{COUNTER}\n// another version\n")).unwrap();
    let first = world.cache.path().join("handler.js");
    let swapping = {
        let plugin = plugin.clone();
        tokio::spawn(async move {
            for round in 0..8 {
                let next = if round % 2 == 0 { &other } else { &first };
                let swapped = plugin.swap(next).await.unwrap();
                assert!(swapped.state_bytes.is_some());
            }
        })
    };
    let mut written = 0;
    while !swapping.is_finished() || written < 2_000 {
        pods.apply_all(&names(20));
        written += 20;
        tokio::task::yield_now().await;
    }
    swapping.await.unwrap();
    idle(&world, &plugin).await;
    let lines = changes(&world);
    assert_eq!(lines.len(), written, "each event once");
    assert_eq!(last_counts(&lines).values().sum::<u64>(), written as u64);
    assert_eq!((plugin.status().reloads, plugin.status().restarts), (8, 0));
}

#[tokio::test(start_paused = true)]
async fn one_restore_that_fails_leaves_all_old_instances_running() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let (plugin, mut pods) = run(&world, COUNTER, 4, |_| {}).await;
    pods.apply_all(&names(40));
    idle(&world, &plugin).await;
    let counted = last_counts(&changes(&world));
    let next = world.cache.path().join("next.js");
    let restore = r#"if (context.instance === 2) throw new Error("not mine"); events = 1000;"#;
    fs::write(&next, counter_with_restore(restore)).unwrap();
    let refused = plugin.swap(&next).await.unwrap_err().to_string();
    assert!(
        refused.contains("restore failed") && refused.contains("not mine"),
        "{refused}"
    );
    pods.apply_all(&names(40));
    idle(&world, &plugin).await;
    let continued = last_counts(&changes(&world));
    let doubled = counted
        .into_iter()
        .map(|(instance, events)| (instance, events * 2))
        .collect();
    assert_eq!(continued, doubled, "each continues with what it had counted");
    assert_eq!(plugin.status().instances, 4);
}

#[tokio::test(start_paused = true)]
async fn states_of_all_instances_are_bounded_together() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let large = COUNTER.replace("({ events })", r#"({ events, padding: "x".repeat(15 << 20) })"#);
    let (plugin, _pods) = run(&world, &large, 5, |spec| spec.limits.memory_bytes = 256 << 20).await;
    let next = world.cache.path().join("next.js");
    fs::write(&next, &large).unwrap();
    let refused = plugin.swap(&next).await.unwrap_err();
    insta::assert_snapshot!(refused.problem(), @"cannot transfer the old version's state: the first 5 instances saved 75.0 MiB; all states together may have at most 64 MiB");
    assert_eq!((plugin.status().instances, plugin.status().reloads), (5, 0));
}

#[tokio::test(start_paused = true)]
async fn another_number_of_instances_replays_without_state() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let (plugin, mut pods) = run(&world, COUNTER, 2, |_| {}).await;
    pods.apply_all(&names(50));
    let changing = {
        let plugin = plugin.clone();
        tokio::spawn(async move {
            for instances in [5, 1, 3] {
                let mut spec = plugin.spec();
                spec.limits.instances = instances;
                let swapped = plugin.reconfigure(spec).await.unwrap().expect("new instances");
                assert_eq!(swapped.state_bytes, None);
            }
        })
    };
    // Under load.
    while !changing.is_finished() {
        pods.apply_all(&names(50));
        tokio::task::yield_now().await;
    }
    changing.await.unwrap();
    idle(&world, &plugin).await;
    assert_eq!((plugin.status().instances, plugin.status().restarts), (3, 0));
    // The last replay shows each object, in its last state, to the instance that has it from now on.
    pods.apply_all(&names(50));
    idle(&world, &plugin).await;
    let lines = changes(&world);
    let last: BTreeMap<&str, &Value> = lines
        .iter()
        .map(|line| (line["name"].as_str().unwrap(), line))
        .collect();
    let versions = last
        .values()
        .map(|line| line["version"].as_str().unwrap().parse::<u64>().unwrap());
    let expected = pods
        .snapshot()
        .iter()
        .map(|pod| pod.version().number().unwrap())
        .collect::<BTreeSet<_>>();
    assert_eq!(versions.collect::<BTreeSet<_>>(), expected);
    let instances: BTreeSet<u64> = last.values().map(|line| line["instance"].as_u64().unwrap()).collect();
    assert_eq!(instances, BTreeSet::from([0, 1, 2]));
    let mut order: BTreeMap<&str, u64> = BTreeMap::new();
    for line in &lines {
        let version: u64 = line["version"].as_str().unwrap().parse().unwrap();
        let before = order.insert(line["name"].as_str().unwrap(), version).unwrap_or(0);
        assert!(version > before || line["reason"] == "replay", "{line} after {before}");
    }
}

/// On the real clock, which moves between two looks at it.
#[tokio::test]
async fn a_resumed_plugin_gets_all_instances_back() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let text = COUNTER.replace("import {", "import { Permanent,").replace(
        "events += 1;",
        r#"if (pod.metadata.name === "poison") throw new Permanent("no"); events += 1;"#,
    );
    let (plugin, mut pods) = run(&world, &text, 4, |spec| spec.on_failure = OnFailure::Quarantine).await;
    pods.apply("poison");
    let is_quarantined = || plugin.status().state == PluginState::Quarantined;
    world.until("the quarantine", is_quarantined).await;
    assert!(plugin.resume().await);
    world.until("all instances", || plugin.status().instances == 4).await;
    pods.apply_all(&names(20));
    idle(&world, &plugin).await;
    assert_eq!(changes(&world).len(), 20);
}

#[tokio::test(start_paused = true)]
async fn a_pause_applies_together_with_new_instances() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let (plugin, mut pods) = run(&world, COUNTER, 2, |_| {}).await;
    for (instances, paused, called) in [(3, true, 0), (2, false, 20)] {
        let mut spec = plugin.spec();
        spec.limits.instances = instances;
        spec.paused = paused;
        plugin.reconfigure(spec).await.unwrap().expect("new instances");
        // Resumed, it is called at once for what waits.
        if paused {
            pods.apply_all(&names(20));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(plugin.status().paused, paused);
        assert_eq!(changes(&world).len(), called, "{instances} instances");
    }
}

/// Pods are in namespaces `a` and `b`; then the section selects `a` only, and one more instance.
#[tokio::test(start_paused = true)]
async fn fewer_objects_over_more_instances_deletes_the_rest() {
    if !can_run() {
        return;
    }
    let text = format!(
        "{COUNTER}\nexport function onDelete(pod) {{ log.info(JSON.stringify({{ event: \"gone\", name: pod.metadata.name }})); }}"
    );
    let world = World::for_scripts();
    let (plugin, mut pods) = run(&world, &text, 2, |_| {}).await;
    for number in 0..40 {
        let namespace = if number % 2 == 0 { "a" } else { "b" };
        pods.apply_in(namespace, &format!("web-{number}"), "");
    }
    idle(&world, &plugin).await;
    let before = changes(&world).len();
    assert_eq!(before, 40);
    let mut spec = plugin.spec();
    spec.limits.instances = 3;
    spec.selection.namespaces = vec!["a".to_owned()];
    plugin.reconfigure(spec).await.unwrap().expect("new instances");
    idle(&world, &plugin).await;
    let name_of = |line: Value| line["name"].as_str().unwrap().to_owned();
    let names_of = |lines: Vec<Value>| lines.into_iter().map(name_of).collect::<Vec<_>>();
    let (mut shown, gone) = (changes(&world), world.log.json().into_iter());
    let mut shown = names_of(shown.split_off(before));
    let mut gone = names_of(gone.filter(|line| line["event"] == "gone").collect());
    shown.sort();
    gone.sort();
    let of = |remainder: usize| {
        let mut names: Vec<String> = (0..40)
            .filter(|n| n % 2 == remainder)
            .map(|n| format!("web-{n}"))
            .collect();
        names.sort();
        names
    };
    assert_eq!((shown, gone), (of(0), of(1)));
    assert_eq!(plugin.status().instances, 3);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_that_is_not_parallel_has_one_instance() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let refused = world
        .load(spec(&world, "export function onAdd() {}", 8))
        .await
        .err()
        .unwrap();
    let folder = world.cache.path().display().to_string();
    insta::assert_snapshot!(refused.to_string().replace(&folder, "FOLDER"), @r#"plugin "hello": FOLDER/handler.js: is not parallel, but limits.instances is 8; in [plugin.hello] of config.toml, set limits.instances to 1; or set `parallel` in its manifest, if its instances need not know of each other's objects"#);
    let (plugin, _pods) = run(&world, "export function onAdd() {}", 1, |_| {}).await;
    let mut more = plugin.spec();
    more.limits.instances = 8;
    plugin.reconfigure(more).await.unwrap_err();
    assert_eq!(
        (plugin.status().instances, plugin.status().state),
        (1, PluginState::Running)
    );
}

/// A handler that loops on the object `poison`.
fn looping() -> String {
    COUNTER.replace(
        "events += 1;",
        r#"while (pod.metadata.name === "poison"); events += 1;"#,
    )
}

#[tokio::test(start_paused = true)]
async fn a_lost_instance_alone_receives_its_objects_again() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let (plugin, mut pods) = run(&world, &looping(), 4, |spec| {
        spec.on_restart = ReplayPolicy::Replay;
        spec.limits.cpu = Duration::from_millis(50);
        spec.retry.attempts = 1;
    })
    .await;
    pods.apply_all(&names(60));
    idle(&world, &plugin).await;
    let before = changes(&world);
    pods.apply("poison");
    world.until("the loss", || plugin.status().restarts == 1).await;
    idle(&world, &plugin).await;
    let again = &changes(&world)[before.len()..];
    let instances: BTreeSet<u64> = again.iter().map(|line| line["instance"].as_u64().unwrap()).collect();
    assert_eq!(instances.len(), 1, "{again:?}");
    let of_lost = before
        .iter()
        .filter(|line| line["instance"] == again[0]["instance"])
        .count();
    assert_eq!(again.len(), of_lost);
    assert!(again.iter().all(|line| line["reason"] == "replay"));
}

#[tokio::test(start_paused = true)]
async fn a_quarantine_ends_the_calls_of_all_instances() {
    if !can_run() {
        return;
    }
    let world = World::for_scripts();
    let text = COUNTER.replace("import {", "import { Permanent,").replace(
        "events += 1;",
        r#"if (pod.metadata.name === "poison") throw new Permanent("no"); events += 1;"#,
    );
    let (plugin, mut pods) = run(&world, &text, 4, |spec| spec.on_failure = OnFailure::Quarantine).await;
    pods.apply("poison");
    world
        .until("the quarantine", || plugin.status().state == PluginState::Quarantined)
        .await;
    world.until("no instance", || plugin.status().instances == 0).await;
    pods.apply_all(&names(20));
    assert!(plugin.resume().await);
    idle(&world, &plugin).await;
    assert_eq!(
        (plugin.status().state, plugin.status().instances),
        (PluginState::Running, 4)
    );
    assert_eq!(changes(&world).len(), 20);
}
