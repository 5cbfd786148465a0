//! Rules of a manifest's `events` that select by namespace and labels, or pass no payload; and what the plugin's
//! section selects of that.

use std::time::Duration;

use informant_object::{Key, LabelSelector};
use informant_plugin_host::Plugin;
use informant_spec::{EventSelection, PluginSpec};

use crate::world::{Pods, Reload, World, hello_log, idle};

/// A script whose rule for pods has these members; it logs each event. None where there is no script runner.
async fn run(world: &World, members: &str) -> Option<(Plugin, Pods)> {
    let may_lack = std::env::var_os("INFORMANT_TESTS_WITHOUT_SCRIPTS").is_some();
    if may_lack {
        return None;
    }
    let text = format!(
        r#"
        import {{ Permanent }} from "informant";
        export const manifest = {{ events: [{{ apiVersion: "v1", kind: "Pod", {members} }}] }};
        const shown = (object) => object?.metadata ? `${{object.metadata.labels?.app}}@${{object.metadata.resourceVersion}}` : object;
        export const onAdd = (pod, event) => {{
          console.log(`add ${{event}} ${{shown(pod)}} ${{event.reason}}`);
          if (event.name === "late") throw new Error("asked to fail");
        }};
        export const onUpdate = (pod, event) => console.log(`update ${{event}} ${{shown(pod)}}`);
        export function onDelete(last, event) {{
          console.log(`delete ${{event}} ${{shown(last)}} at ${{event.resourceVersion}} ${{event.reason}}`);
          if (event.name === "stuck" && event.reason !== "requeue") throw new Permanent("asked to fail");
        }}
    "#
    );
    let path = world.cache.path().join("handler.js");
    std::fs::write(&path, text).unwrap();
    let plugin = world.load(PluginSpec::new("hello", path)).await.unwrap();
    plugin.start().await;
    let mut pods = world.pods("pods");
    pods.attach(&plugin.listener());
    idle(world, &plugin).await;
    Some((plugin, pods))
}

/// Writes a pod in `default` with this label, and waits until it is handled.
async fn label(world: &World, plugin: &Plugin, pods: &mut Pods, name: &str, app: &str) {
    pods.apply_with(name, &format!(r#","labels":{{"app":"{app}"}}"#));
    idle(world, plugin).await;
}

#[tokio::test(start_paused = true)]
async fn objects_that_start_or_stop_matching_are_adds_and_deletes() {
    let world = World::for_scripts();
    let Some((plugin, mut pods)) = run(&world, r#"labelSelector: "app in (web, api)""#).await else {
        return;
    };
    for app in ["db", "web", "api", "db", "db", "web"] {
        label(&world, &plugin, &mut pods, "a", app).await;
    }
    pods.delete("a");
    idle(&world, &plugin).await;
    for app in ["db", "cache"] {
        label(&world, &plugin, &mut pods, "never", app).await;
    }
    pods.delete("never");
    idle(&world, &plugin).await;
    insta::assert_snapshot!(hello_log(&world).join("\n"), @"
    INFO add default/a web@3 watch
    INFO update default/a api@4
    INFO delete default/a api@4 at 5 watch
    INFO add default/a web@7 watch
    INFO delete default/a web@7 at 7 watch
    ");
    let filtered = world.metrics("informant_handler_events_total");
    assert!(
        filtered.contains(r#"event="delete",result="filtered"} 1"#),
        "{filtered}"
    );
}

#[tokio::test(start_paused = true)]
async fn merged_updates_are_judged_by_what_was_delivered() {
    let world = World::for_scripts();
    let Some((plugin, mut pods)) = run(&world, r#"labelSelector: "app=web""#).await else {
        return;
    };
    label(&world, &plugin, &mut pods, "a", "web").await;
    plugin.pause().await;
    for (name, app) in [("a", "db"), ("a", "web"), ("b", "web"), ("b", "db")] {
        pods.apply_with(name, &format!(r#","labels":{{"app":"{app}"}}"#));
    }
    plugin.resume().await;
    idle(&world, &plugin).await;
    insta::assert_snapshot!(hello_log(&world).join("\n"), @"
    INFO add default/a web@2 watch
    INFO update default/a web@4
    ");
}

#[tokio::test(start_paused = true)]
async fn a_delete_is_delivered_although_its_event_was_merged() {
    let world = World::for_scripts();
    let Some((plugin, mut pods)) = run(&world, r#"labelSelector: "app=web""#).await else {
        return;
    };
    label(&world, &plugin, &mut pods, "a", "web").await;
    plugin.pause().await;
    for (name, app) in [("a", "db"), ("b", "web"), ("b", "db"), ("c", "db"), ("c", "cache")] {
        pods.apply_with(name, &format!(r#","labels":{{"app":"{app}"}}"#));
    }
    for name in ["a", "b"] {
        pods.delete(name);
    }
    plugin.resume().await;
    idle(&world, &plugin).await;
    pods.apply_with("late", r#","labels":{"app":"web"}"#);
    let has_failed = || hello_log(&world).iter().any(|line| line.starts_with("DEBUG default"));
    world.until("the add fails", has_failed).await;
    label(&world, &plugin, &mut pods, "late", "db").await;
    insta::assert_snapshot!(hello_log(&world).join("\n"), @"
    INFO add default/a web@2 watch
    INFO delete default/a undefined at 3 watch
    INFO add default/late web@10 watch
    DEBUG default/late: handler.js:7:48: Error: asked to fail
    INFO delete default/late undefined at 11 watch
    ");
}

#[tokio::test(start_paused = true)]
async fn a_rule_selects_namespaces() {
    let world = World::for_scripts();
    let Some((plugin, mut pods)) = run(&world, r#"namespaces: ["web", "api"], payload: "metadata""#).await else {
        return;
    };
    for namespace in ["web", "default", "api"] {
        pods.apply_in(namespace, "a", "");
        idle(&world, &plugin).await;
    }
    pods.delete("a");
    idle(&world, &plugin).await;
    insta::assert_snapshot!(hello_log(&world).join("\n"), @"
    INFO add web/a undefined@2 watch
    INFO add api/a undefined@4 watch
    ");
}

#[tokio::test(start_paused = true)]
async fn a_requeued_object_that_no_longer_matches_is_a_delete() {
    let world = World::for_scripts();
    let Some((plugin, mut pods)) = run(&world, r#"labelSelector: "app=web""#).await else {
        return;
    };
    label(&world, &plugin, &mut pods, "stuck", "web").await;
    label(&world, &plugin, &mut pods, "stuck", "db").await;
    assert_eq!(plugin.listener().ledger().dead_letters().len(), 1);
    let key = Key::new("default", "stuck");
    let _ = plugin.listener().control().requeue(pods.id, key.as_ref(), plugin.now());
    idle(&world, &plugin).await;
    insta::assert_snapshot!(hello_log(&world).join("\n"), @r#"
    INFO add default/stuck web@2 watch
    INFO delete default/stuck web@2 at 3 watch
    DEBUG default/stuck: handler.js:12:79: Permanent: asked to fail
    INFO delete default/stuck undefined at 3 requeue
    "#);
    assert_eq!(plugin.listener().ledger().dead_letters().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_rule_without_payload_passes_keys_alone() {
    let world = World::for_scripts();
    let Some((plugin, mut pods)) = run(&world, r#"payload: "none""#).await else {
        return;
    };
    label(&world, &plugin, &mut pods, "a", "web").await;
    label(&world, &plugin, &mut pods, "a", "db").await;
    pods.delete("a");
    idle(&world, &plugin).await;
    insta::assert_snapshot!(hello_log(&world).join("\n"), @"
    INFO add default/a undefined watch
    INFO update default/a undefined
    INFO delete default/a undefined at 3 watch
    ");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_match_cannot_be_triggered() {
    let world = World::for_scripts();
    let Some((plugin, mut pods)) = run(&world, r#"labelSelector: "app=web""#).await else {
        return;
    };
    label(&world, &plugin, &mut pods, "a", "web").await;
    label(&world, &plugin, &mut pods, "b", "db").await;
    let keys = ["a", "b"].map(|name| Key::new("default", name));
    plugin.listener().control().trigger(pods.id, &keys, plugin.now());
    // A call that is asked for is no pending event.
    tokio::time::sleep(Duration::from_secs(1)).await;
    idle(&world, &plugin).await;
    insta::assert_snapshot!(hello_log(&world).join("\n"), @"
    INFO add default/a web@2 watch
    INFO update default/a web@2
    ");
}

/// Applies a section with these namespaces and labels, and waits until the handler has received `lines` more calls.
async fn select(world: &World, plugin: &Plugin, namespaces: &[&str], labels: &str, lines: usize) {
    let before = hello_log(world).len();
    let mut spec = plugin.spec();
    spec.selection = EventSelection {
        namespaces: namespaces.iter().map(|namespace| (*namespace).to_owned()).collect(),
        label_selector: Some(LabelSelector::parse(labels).unwrap()),
    };
    assert!(
        plugin.reconfigure(spec).await.unwrap().is_none(),
        "its instance is kept"
    );
    let is_received = || hello_log(world).len() >= before + lines;
    world.until("the difference", is_received).await;
    if !plugin.status().paused {
        idle(world, plugin).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_section_delivers_only_the_difference() {
    let world = World::for_scripts();
    let Some((plugin, mut pods)) = run(&world, r#"labelSelector: "app in (web, api)""#).await else {
        return;
    };
    for (namespace, app) in [("a", "web"), ("a", "db"), ("b", "web"), ("b", "api"), ("c", "api")] {
        pods.apply_in(namespace, app, &format!(r#","labels":{{"app":"{app}"}}"#));
    }
    idle(&world, &plugin).await;
    select(&world, &plugin, &["a", "b"], "", 1).await;
    select(&world, &plugin, &["b", "c"], "app!=web", 3).await;
    for namespace in ["a", "c"] {
        pods.apply_in(namespace, "api", r#","labels":{"app":"api"}"#);
    }
    idle(&world, &plugin).await;
    insta::assert_snapshot!(hello_log(&world).join("\n"), @"
    INFO add a/web web@2 watch
    INFO add b/web web@4 watch
    INFO add b/api api@5 watch
    INFO add c/api api@6 watch
    INFO delete c/api api@6 at 6 reconfigured
    INFO delete a/web web@2 at 2 reconfigured
    INFO delete b/web web@4 at 4 reconfigured
    INFO add c/api api@6 reconfigured
    INFO update c/api api@8
    ");
    assert_eq!(plugin.status().reloads, 0);
}

#[tokio::test(start_paused = true)]
async fn a_changed_section_meets_pending_events() {
    let world = World::for_scripts();
    let Some((plugin, mut pods)) = run(&world, r#"labelSelector: "app""#).await else {
        return;
    };
    let label = |pods: &mut Pods, name: &str, app: &str| {
        pods.apply_with(name, &format!(r#","labels":{{"app":"{app}"}}"#));
    };
    for (name, app) in [
        ("deleted", "web"),
        ("left", "web"),
        ("joins", "api"),
        ("stays", "both"),
        ("never", "db"),
    ] {
        label(&mut pods, name, app);
    }
    idle(&world, &plugin).await;
    select(&world, &plugin, &[], "app in (web, both)", 2).await;
    plugin.pause().await;
    pods.delete("deleted");
    for (name, app) in [
        ("left", "db"),
        ("joins", "api"),
        ("stays", "both"),
        ("never", "db"),
        ("new", "api"),
    ] {
        label(&mut pods, name, app);
    }
    select(&world, &plugin, &[], "app in (api, both)", 0).await;
    label(&mut pods, "joins", "api");
    plugin.resume().await;
    world.until("the difference", || hello_log(&world).len() >= 12).await;
    idle(&world, &plugin).await;
    insta::assert_snapshot!(hello_log(&world).join("\n"), @"
    INFO add default/deleted web@2 watch
    INFO add default/left web@3 watch
    INFO add default/joins api@4 watch
    INFO add default/stays both@5 watch
    INFO add default/never db@6 watch
    INFO delete default/joins api@4 at 4 reconfigured
    INFO delete default/never db@6 at 6 reconfigured
    INFO delete default/deleted undefined at 2 watch
    INFO add default/joins api@13 reconfigured
    INFO delete default/left db@8 at 8 reconfigured
    INFO add default/new api@12 reconfigured
    INFO add default/stays both@10 reconfigured
    ");
}

#[tokio::test(start_paused = true)]
async fn a_failed_delete_outlives_further_changes_of_the_section() {
    let world = World::for_scripts();
    let Some((plugin, mut pods)) = run(&world, r#"payload: "metadata""#).await else {
        return;
    };
    pods.apply_in("a", "stuck", "");
    pods.apply_in("c", "other", "");
    idle(&world, &plugin).await;
    select(&world, &plugin, &["b"], "", 3).await;
    select(&world, &plugin, &["c"], "", 1).await;
    assert_eq!(plugin.listener().ledger().dead_letters().len(), 1);
    let key = Key::new("a", "stuck");
    let _ = plugin.listener().control().requeue(pods.id, key.as_ref(), plugin.now());
    idle(&world, &plugin).await;
    insta::assert_snapshot!(hello_log(&world).join("\n"), @"
    INFO add a/stuck undefined@2 watch
    INFO add c/other undefined@3 watch
    INFO delete a/stuck undefined@2 at 2 reconfigured
    DEBUG a/stuck: handler.js:12:79: Permanent: asked to fail
    INFO delete c/other undefined@3 at 3 reconfigured
    INFO add c/other undefined@3 reconfigured
    INFO delete a/stuck undefined at 2 requeue
    ");
}
