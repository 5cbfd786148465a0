//! Plugins and their informers are added and removed in every order while events flow.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::world::{Running, World};

const RELOADS: &str = "informant_config_reloads_total";

/// Informers and their resources.
const INFORMERS: [(&str, &str); 3] = [("pods", "v1/pods"), ("again", "v1/pods"), ("maps", "v1/configmaps")];

/// Plugins and their informers.
const PLUGINS: [(&str, &[&str]); 4] = [
    ("one", &["pods"]),
    ("two", &["again"]),
    ("three", &["pods", "maps"]),
    ("four", &["again", "maps"]),
];

/// How often the configuration changes.
const STEPS: u64 = 24;

fn text(step: u64, informers: &BTreeSet<&str>, plugins: &[usize]) -> String {
    let mut text = format!("# {step}\n");
    for (name, resource) in INFORMERS.iter().filter(|(name, _)| informers.contains(name)) {
        let _ = write!(text, "[informer.{name}]\nresource = \"{resource}\"\n");
    }
    for (name, used) in plugins.iter().map(|plugin| PLUGINS[*plugin]) {
        let _ = write!(
            text,
            "[plugin.{name}]\ncomponent = \"recorder.wasm\"\ninformers = {used:?}\n"
        );
    }
    text
}

/// The running informers, by their sources.
async fn running(daemon: &Running) -> BTreeSet<String> {
    let answer = daemon.json("/api/v1/sources").await;
    let items = answer["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| item["informer"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn plugins_keep_their_informers_while_sections_change_in_any_order() {
    let world = World::start().await;
    world.install("guest-recorder", "recorder.wasm");
    let daemon = world.daemon("").await;
    let mut draw: u64 = 42;
    let mut next = move |bound: u64| {
        draw = draw
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (draw >> 33) % bound
    };
    let (mut plugins, mut informers) = (Vec::new(), BTreeSet::new());
    for step in 1..=STEPS {
        let wanted: Vec<usize> = (0..PLUGINS.len()).filter(|_| next(2) == 0).collect();
        let used: BTreeSet<&str> = wanted.iter().flat_map(|plugin| PLUGINS[*plugin].1).copied().collect();
        let missing = used.first().copied().filter(|_| next(4) == 0);
        let mut listed = used;
        // An unused informer may stay.
        listed.extend(INFORMERS.iter().map(|(name, _)| *name).filter(|_| next(3) == 0));
        listed.retain(|name| Some(*name) != missing);
        world.configure(&text(step, &listed, &wanted));
        daemon.wait_for_metric(RELOADS, &[], step as f64).await;
        let now = daemon.json("/api/v1/configuration").await;
        if missing.is_some() {
            assert_eq!(now["state"], "refused", "a plugin without its informer: {now}");
        } else {
            assert_eq!(now["state"], "applied", "{now}");
            (plugins, informers) = (wanted, listed);
        }

        let running = running(&daemon).await;
        assert!(
            running.iter().map(String::as_str).eq(informers.iter().copied()),
            "{running:?}, {informers:?}"
        );
        world.create_pod(&format!("web-{step}"), "nginx");
        for plugin in &plugins {
            // Whenever it was added, it has received each object once.
            daemon.wait_for_events(PLUGINS[*plugin].0, "add", step as f64).await;
        }
        let all = daemon
            .metric("informant_handler_events_total", &["event=\"add\""])
            .await;
        assert_eq!(
            all,
            (plugins.len() as u64 * step) as f64,
            "no other plugin received events"
        );
        let deletes = daemon
            .metric("informant_handler_events_total", &["event=\"delete\""])
            .await;
        assert_eq!(deletes, 0.0);
    }
}
