//! Cases in which an informer's selection changes while its handlers are busy.

use std::collections::BTreeSet;
use std::sync::Arc;

use informant_cache::listener::{ListenerOptions, Pause};
use informant_cache::seeded_bug::SeededBug;
use informant_informer::ReflectorOptions;

use super::super::history::Selection;
use super::super::recorder::Script;
use super::super::scenario::{NAMESPACE, Scenario, Stage};
use super::super::watched::Watched;
use super::super::world::Setting;
use super::play_fn;

pub(super) const SCENARIOS: &[Scenario] = &[Scenario {
    case: "T4",
    name: "namespace_removed_and_readded_delivers_deletes_then_adds",
    bugs: &[SeededBug::ReattachOvertakesDeletes],
    setting: Setting::default,
    play: play_fn!(away_and_back),
}];

/// The namespace that is removed and added.
const OTHER: &str = "kube-system";

async fn ask_for(stage: &Stage, watched: &Watched, namespaces: &[&str]) {
    let selection = Selection {
        namespaces: namespaces
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<BTreeSet<_>>(),
        group: None,
    };
    watched
        .reconfigure(&stage.world, selection, ReflectorOptions::default())
        .await;
}

/// A namespace is removed and added again while a handler is paused, and again while it is slow.
async fn away_and_back(stage: Arc<Stage>) {
    let names: Vec<_> = (0..20).map(|number| format!("map-{number:02}")).collect();
    let versions: Vec<_> = names
        .iter()
        .map(|name| stage.world.put(OTHER, name, "A", "a").version)
        .collect();
    let watched = stage.watch();
    ask_for(&stage, &watched, &[NAMESPACE, OTHER]).await;
    let slow = Script {
        call_ms_min: 500,
        call_ms_max: 500,
        ..Script::default()
    };
    let handler = stage.handle_by(&watched, slow, ListenerOptions::default());
    stage.pass(60).await;
    for holds_back in [true, false] {
        let before = stage.calls(&handler).len();
        if holds_back {
            handler.listener.control().pause(Pause::Swap);
        }
        ask_for(&stage, &watched, &[NAMESPACE]).await;
        stage.settle().await;
        ask_for(&stage, &watched, &[NAMESPACE, OTHER]).await;
        stage.pass(2).await;
        handler.resume(&stage.world);
        stage.pass(120).await;
        let calls = stage.calls(&handler).split_off(before);
        for (name, version) in names.iter().zip(&versions) {
            let shown = format!(" {name}@");
            let of_it: Vec<_> = calls.iter().filter(|line| line.contains(&shown)).collect();
            let expected = [
                format!("delete {name}@{version} (reconfigured)"),
                format!("add {name}@{version} (initial)"),
            ];
            assert!(of_it.iter().copied().eq(&expected), "{of_it:?}");
        }
    }
}
