//! Reconcilers: what a call receives, and what leads to it. The conformance kit has what every language does alike.

use std::path::PathBuf;
use std::time::Duration;

use informant_cache::Environment;
use informant_plugin_host::Plugin;
use informant_spec::PluginSpec;
use serde_json::json;

use crate::kube::grants;
use crate::world::{Pods, Reload, World, guest, idle, script_runner};
use crate::writes::Api;

/// A plugin that reads pods and Secrets, both empty.
async fn start(world: &World, guest: PathBuf) -> (Plugin, Pods, Pods) {
    let mut spec = PluginSpec::new("reconciler", guest);
    spec.informers = vec![("pods".into(), "pods".into()), ("secrets".into(), "secrets".into())];
    let plugin = world.load(spec).await.unwrap();
    plugin.start().await;
    let mut pods = world.pods("pods");
    let mut secrets = world.objects_of("secrets", "", "Secret", "v1/secrets");
    pods.attach(&plugin.listener());
    secrets.attach(&plugin.listener());
    idle(world, &plugin).await;
    (plugin, pods, secrets)
}

/// What the plugin has logged since the last call.
fn said(world: &World, seen: &mut usize) -> Vec<String> {
    let lines = world.log.lines();
    let messages = lines
        .iter()
        .filter(|line| line.is_of_guest("reconciler"))
        .map(|line| line.message.clone());
    let all: Vec<String> = messages.collect();
    let new = all[*seen..].to_vec();
    *seen = all.len();
    new
}

const OWNER: &str =
    r#","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"a","uid":"uid-a","controller":true}]"#;

#[tokio::test(start_paused = true)]
async fn a_reconciler_is_told_that_a_source_is_not_live() {
    let world = World::for_conformance(Api::new());
    let (plugin, mut pods, secrets) = start(&world, guest("guest_reconciler")).await;
    let source = world.catalog.source(secrets.id).unwrap();
    source.set_state(informant_cache::SourceState::Stale);
    pods.apply("a");
    idle(&world, &plugin).await;
    let mut seen = 0;
    assert_eq!(said(&world, &mut seen), ["default/a watch there behind"]);
}

/// A script that reads these informers, and may patch objects of one type.
async fn load_writer(world: &World, script: &str, informers: &[&str], patched: &str) -> Plugin {
    let path = world.cache.path().join("writer.js");
    std::fs::write(&path, script).unwrap();
    let mut spec = PluginSpec::new("reconciler", path);
    spec.informers = informers.iter().map(|name| ((*name).into(), (*name).into())).collect();
    spec.allow_kube = grants(json!([{ "verbs": ["patch"], "resource": patched }]));
    let plugin = world.load(spec).await.unwrap();
    plugin.start().await;
    plugin
}

const WRITER: &str = r#"
    import { kube, log } from "informant";
    export const manifest = { reconciler: { for: { apiVersion: "v1", kind: "Pod" } } };
    export const reconcile = (pod, request) => {
      log.info(`${pod.metadata.labels.step} ${request.cacheIsBehind}`);
      if (pod.metadata.labels.step === "write") kube.defer.patch(request, { metadata: { labels: { is: "x" } } });
    };
"#;

#[tokio::test(start_paused = true)]
async fn the_next_call_waits_for_own_writes_or_knows() {
    if script_runner().is_none() {
        return;
    }
    let api = Api::new();
    let world = World::for_conformance(api.clone());
    let plugin = load_writer(&world, WRITER, &["pods"], "v1/pods").await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    let step = |pods: &mut Pods, name: &str| pods.apply_with("a", &format!(r#","labels":{{"step":"{name}"}}"#));
    let mut seen = 0;
    // The cache does not reach the version of the write.
    api.number_from(100);
    step(&mut pods, "write");
    world.until("the write", || api.patches().len() == 1).await;
    step(&mut pods, "next");
    let began = world.env.now();
    idle(&world, &plugin).await;
    assert!(
        world.env.now() - began >= Duration::from_secs(9),
        "{:?}",
        world.env.now() - began
    );
    step(&mut pods, "still");
    idle(&world, &plugin).await;
    pods.version = 150;
    step(&mut pods, "last");
    idle(&world, &plugin).await;
    assert_eq!(
        said(&world, &mut seen),
        ["write false", "next true", "still true", "last false"]
    );
    api.number_from(200);
    // It reaches the next one: nothing is waited for.
    step(&mut pods, "write");
    world.until("the write", || api.patches().len() == 2).await;
    pods.version = 300;
    step(&mut pods, "next");
    idle(&world, &plugin).await;
    assert_eq!(said(&world, &mut seen), ["write false", "next false"]);
}

const CHILD_WRITER: &str = r#"
    import { kube, log } from "informant";
    export const manifest = { reconciler: { for: { apiVersion: "v1", kind: "Pod" } } };
    export const reconcile = (pod, request) => {
      log.info(`${request.reason} ${request.cacheIsBehind}`);
      const child = { resource: "v1/secrets", namespace: "default", name: "child" };
      kube.defer.patch(child, { data: { a: "eA==" } });
    };
"#;

#[tokio::test(start_paused = true)]
async fn written_object_that_vanishes_unseen_is_reconciled_again() {
    if script_runner().is_none() {
        return;
    }
    let api = Api::new();
    let world = World::for_conformance(api.clone());
    let plugin = load_writer(&world, CHILD_WRITER, &["pods", "secrets"], "v1/secrets").await;
    let mut pods = world.pods("pods");
    let mut secrets = world.objects_of("secrets", "", "Secret", "v1/secrets");
    pods.attach(&plugin.listener());
    secrets.attach(&plugin.listener());
    idle(&world, &plugin).await;
    let wait_for_writes = async |count| world.until("the write", || api.patches().len() == count).await;
    api.number_from(100);
    pods.apply("a");
    wait_for_writes(1).await;
    // The cache passes the version of the write, and has never had the object.
    secrets.version = 150;
    secrets.apply("other");
    wait_for_writes(2).await;
    // It does not reach that of the third in time: the call is repeated.
    api.number_from(300);
    wait_for_writes(4).await;
    let mut seen = 0;
    assert_eq!(
        said(&world, &mut seen),
        [
            "watch false",
            "requeue-after false",
            "requeue-after false",
            "requeue-after true"
        ]
    );
    // It has the object.
    secrets.version = 1_000;
    secrets.apply("child");
    idle(&world, &plugin).await;
    assert_eq!(
        plugin.listener().control().stats().requeues,
        1,
        "once more, as it was behind"
    );
}

/// How long the next call for the pod takes to begin and end.
async fn wait_of_a_call(world: &World, plugin: &Plugin, pods: &mut Pods) -> u64 {
    let began = world.env.now();
    pods.apply("a");
    idle(world, plugin).await;
    // The clock of the test ticks in steps of milliseconds.
    (world.env.now() - began + Duration::from_millis(100)).as_secs()
}

#[tokio::test(start_paused = true)]
async fn calls_are_spaced_by_the_manifest_unless_the_section_does() {
    if script_runner().is_none() {
        return;
    }
    let world = World::for_conformance(Api::new());
    let write = |name: &str, interval: &str| {
        let path = world.cache.path().join(name);
        let rules = format!("{{ for: {{ apiVersion: 'v1', kind: 'Pod' }}, {interval} }}");
        let script =
            format!("export const manifest = {{ reconciler: {rules} }};\nexport const reconcile = () => {{}};\n");
        std::fs::write(&path, script).unwrap();
        path
    };
    let spaced = write("spaced.js", "minInterval: '60s'");
    let spec = PluginSpec {
        informers: vec![("pods".into(), "pods".into())],
        ..PluginSpec::new("reconciler", spaced)
    };
    let plugin = world.load(spec.clone()).await.unwrap();
    plugin.start().await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    let mut waits = Vec::new();
    for min_interval in [None, None, Some(Duration::from_secs(7)), None] {
        let spec = PluginSpec {
            min_interval,
            ..plugin.spec()
        };
        plugin.reconfigure(spec).await.unwrap();
        waits.push(wait_of_a_call(&world, &plugin, &mut pods).await);
    }
    assert_eq!(waits, [0, 60, 7, 60]);
    plugin.swap(&write("unspaced.js", "")).await.unwrap();
    wait_of_a_call(&world, &plugin, &mut pods).await;
    assert_eq!(wait_of_a_call(&world, &plugin, &mut pods).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_plugin_acts_as_the_account_of_its_section() {
    if script_runner().is_none() {
        return;
    }
    let api = Api::new();
    let world = World::for_conformance(api.clone());
    let path = world.cache.path().join("writer.js");
    std::fs::write(&path, WRITER).unwrap();
    let account = "system:serviceaccount:web:writer";
    let mut spec = PluginSpec::new("reconciler", path);
    spec.informers = vec![("pods".into(), "pods".into())];
    spec.allow_kube = grants(json!([{ "verbs": ["patch"], "resource": "v1/pods" }]));
    spec.identity = Some(account.parse().unwrap());
    let plugin = world.load(spec.clone()).await.unwrap();
    plugin.start().await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    pods.apply_with("a", r#","labels":{"step":"write"}"#);
    world.until("the write", || api.identities().len() == 1).await;
    spec.identity = None;
    assert!(
        plugin.reconfigure(spec).await.unwrap().is_none(),
        "it keeps its instance"
    );
    pods.apply_with("b", r#","labels":{"step":"write"}"#);
    world.until("the next write", || api.identities().len() == 2).await;
    assert_eq!(api.identities(), [Some(account.to_owned()), None]);
}

const SELECTS: &str = r#"
    import { log } from "informant";
    export const manifest = {
      reconciler: {
        for: { apiVersion: "v1", kind: "Pod", labelSelector: "app", when: ["/spec"] },
        owns: [{ apiVersion: "v1", kind: "Secret" }],
      },
    };
    export const reconcile = (pod, request) => log.info(`${request} ${request.reason} ${pod ? "there" : "gone"}`);
"#;

#[tokio::test(start_paused = true)]
async fn what_enters_or_leaves_the_selection_is_reconciled() {
    if script_runner().is_none() {
        return;
    }
    let world = World::for_conformance(Api::new());
    let path = world.cache.path().join("selects.js");
    std::fs::write(&path, SELECTS).unwrap();
    let (plugin, mut pods, mut secrets) = start(&world, path).await;
    let mut seen = 0;
    let app = r#","labels":{"app":"x"}"#;
    let mut steps = async |pods: &mut Pods, rest: &str, expected: &[&str]| {
        pods.apply_with("a", rest);
        idle(&world, &plugin).await;
        assert_eq!(said(&world, &mut seen), expected, "{rest}");
    };
    steps(&mut pods, "", &[]).await;
    // Only the label has changed, which `when` does not name.
    steps(&mut pods, app, &["default/a watch there"]).await;
    steps(&mut pods, app, &[]).await;
    steps(&mut pods, "", &["default/a watch gone"]).await;
    secrets.apply_with("of-a", OWNER);
    steps(&mut pods, "", &[]).await;
    steps(&mut pods, app, &["default/a watch there"]).await;
    // An object of the name was created again, and what the earlier one owned is deleted.
    secrets.apply_with("of-a", &OWNER.replace("uid-a", "earlier"));
    idle(&world, &plugin).await;
    secrets.delete("of-a");
    idle(&world, &plugin).await;
    let related = said(&world, &mut seen);
    assert_eq!(related, ["default/a related there"; 2]);
    // It leaves while a call is due for another cause.
    secrets.apply_with("of-a", &OWNER.replace("uid-a", "earlier"));
    pods.apply_with("a", "");
    idle(&world, &plugin).await;
    assert_eq!(said(&world, &mut seen), ["default/a related gone"]);
}
