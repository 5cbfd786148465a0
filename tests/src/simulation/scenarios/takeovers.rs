//! Cases in which another process calls a handler for a while.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::Environment as _;
use informant_cache::listener::{Beginning, Pause, Takeover};
use informant_cache::seeded_bug::SeededBug;

use super::super::scenario::{Scenario, Stage};
use super::super::world::Setting;
use super::play_fn;

pub(super) const SCENARIOS: &[Scenario] = &[Scenario {
    case: "T3",
    name: "takeover_delivers_kept_deletes_and_what_the_watermark_does_not_cover",
    bugs: &[SeededBug::DeleteLostAtTakeover],
    setting: Setting::default,
    play: play_fn!(away_and_back),
}];

/// For how long deletes are kept.
const KEPT: Duration = Duration::from_secs(600);

/// A process hands its handler over with a delete that was not delivered, and takes over again.
async fn away_and_back(stage: Arc<Stage>) {
    let world = &stage.world;
    world.catalog.kept_deletes().keep(Some(KEPT), world.environment.now());
    let versions = ["a", "b", "c"].map(|name| stage.put(name, "A").version);
    let watched = stage.watch();
    let handler = stage.handle(&watched);
    stage.synced(&watched).await;
    stage.pass(10).await;
    handler.listener.control().pause(Pause::Swap);
    let a = stage.delete("a").version;
    stage.pass(1).await;
    let source = watched.named.sources()[0].source();
    let takeover = Takeover {
        watermark: handler.listener.ledger().watermark(source),
        all_objects: false,
    };
    assert!(
        takeover
            .watermark
            .is_some_and(|watermark| versions[2] <= watermark && watermark < a)
    );
    watched.named.hand_over(&handler.listener).await;
    let b = stage.delete("b").version;
    let c = stage.put("c", "B").version;
    stage.pass(1).await;
    let before = stage.calls(&handler).len();
    handler.resume(world);
    let begun = watched
        .named
        .begin_listener(handler.listener.clone(), |_| Beginning::Takeover(takeover, None));
    begun.expect("the informer runs");
    stage.pass(10).await;
    let expected = [
        format!("delete a@{a} (takeover)"),
        format!("delete b@{b} (takeover)"),
        format!("add c@{c} (takeover)"),
    ];
    assert_eq!(stage.calls(&handler).split_off(before), expected);
    assert_eq!(handler.counters().handed_over, 1);
}
