//! What a plugin's section selects: checks, and a change while the daemon runs.

use super::configuration::reloads;
use super::program::transcript;
use super::world::{World, pod};

const CONFIG: &str = "[state]\npath = \"state.redb\"\n[informer.pods]\nresource = \"v1/pods\"\ndurable = \"metadata\"\n\
    [plugin.p]\ncomponent = \"recorder.wasm\"\ninformers = [\"pods\"]\nrequired = true\n";

#[tokio::test(flavor = "multi_thread")]
async fn changed_selection_delivers_the_difference_to_the_running_instance() {
    let world = World::start().await;
    world.install("guest-recorder", "recorder.wasm");
    world.create_pod("web-0", "nginx");
    let mut dns = pod("dns", "coredns");
    dns["metadata"]["namespace"] = "kube-system".into();
    world.server.create("v1/pods", "kube-system", dns).unwrap();
    let daemon = world.daemon(&format!("{CONFIG}namespaces = [\"default\"]\n")).await;
    daemon.wait_for_events("p", "sync", 1.0).await;
    daemon.wait_for_events("p", "add", 1.0).await;

    world.configure(&format!("{CONFIG}namespaces = [\"kube-system\"]\n"));
    reloads(&daemon, "ok", 1.0).await;
    // The delete of the one, which counts as the add that it takes the place of, and the add of the other.
    daemon.wait_for_events("p", "add", 3.0).await;
    world.configure(CONFIG);
    reloads(&daemon, "ok", 2.0).await;
    daemon.wait_for_events("p", "add", 4.0).await;
    world.create_pod("web-1", "nginx");
    daemon.wait_for_events("p", "add", 5.0).await;
    let of_plugin = ["plugin=\"p\""];
    assert_eq!(daemon.metric("informant_plugin_reloads_total", &of_plugin).await, 0.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn check_warns_of_selections_that_never_match() {
    let world = World::start().await;
    let script = "export const manifest = { events: [{ apiVersion: \"v1\", kind: \"Pod\", namespaces: [\"a\", \"c\"], \
        labelSelector: \"app in (web, api)\" }] };\nexport function onAdd() {}\n";
    world.write("p.js", script.as_bytes());
    let config = "[informer.pods]\nresource = \"v1/pods\"\n[plugin.p]\nscript = \"p.js\"\ninformers = [\"pods\"]\n";
    let check = async |lines: &str| {
        world.configure(&format!("{config}{lines}"));
        let text = transcript(&world, &["check", "--offline"]).await;
        let lines = text
            .lines()
            .filter(|line| line.contains("warning") || line.contains("help"));
        lines.collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(check("namespaces = [\"a\", \"b\"]\nlabel-selector = \"app=db\"\n").await, @r#"
    warning: config.toml:8:14: [plugin.p] `namespaces` has "b", which no rule of its manifest selects
      help: remove it; the rules select the namespaces: a, c
    warning: config.toml:8:14: [plugin.p] no object matches both `label-selector` "app=db" and a rule of its manifest
      help: change it, or remove it; the rules select: "app in (api,web)"
    "#);
    insta::assert_snapshot!(check("label-selector = \"app=web,!app\"\n").await, @r#"
    warning: config.toml:8:18: [plugin.p] `label-selector` "app=web,!app" matches no object
      help: its requirements contradict each other; change it, or remove it
    "#);
    assert_eq!(check("namespaces = [\"c\"]\nlabel-selector = \"app!=api\"\n").await, "");
}
