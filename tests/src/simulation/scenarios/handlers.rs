//! Cases about what handlers make of events: held back, slow, failing, and writing to what they watch.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::Environment;
use informant_cache::listener::{ListenerOptions, Pause, RequeueResult, RetryPolicy};
use informant_cache::seeded_bug::SeededBug;
use serde_json::Value;

use super::super::scenario::{NAMESPACE, Scenario, Stage};
use super::super::witness::Script;
use super::super::world::{RESOURCE, SEEN, Setting};
use super::playing;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        case: "T2",
        name: "what_goes_there_and_back_unseen_is_told_once_and_the_skipped_states_are_counted",
        bugs: &[SeededBug::FoldLosesLastState, SeededBug::FoldTakesNewerOld],
        setting: Setting::default,
        play: playing!(there_and_back),
    },
    Scenario {
        case: "T12",
        name: "a_change_from_outside_beside_the_handlers_own_is_told",
        bugs: &[SeededBug::FoldLosesLastState],
        setting: Setting::default,
        play: playing!(beside_its_own),
    },
    Scenario {
        case: "T14",
        name: "what_came_last_while_a_handler_was_held_back_is_told_once_when_it_goes_on",
        bugs: &[SeededBug::SwapDropsEvents, SeededBug::FoldLosesLastState],
        setting: Setting::default,
        play: playing!(held_back),
    },
    Scenario {
        case: "T14",
        name: "a_burst_at_the_start_and_to_several_handlers_is_told_to_each_once",
        bugs: &[SeededBug::SyncedDeliveredFirst, SeededBug::CursorSkipsObject],
        setting: Setting::default,
        play: playing!(burst_at_the_start),
    },
    Scenario {
        case: "T18",
        name: "one_that_fails_for_ever_holds_up_nothing_becomes_a_dead_letter_and_is_told_when_requeued",
        bugs: &[SeededBug::FailureNotRetried],
        setting: Setting::default,
        play: playing!(poisoned),
    },
];

/// An object goes from A to B and back, and another comes and goes, while nobody is called.
async fn there_and_back(stage: Arc<Stage>) {
    let folding = ListenerOptions {
        pending_events_max: 1,
        ..ListenerOptions::default()
    };
    let first = stage.put("map", "A");
    let watched = stage.watch();
    let handler = stage.handle_by(&watched, Script::default(), folding);
    stage.synced(&watched).await;
    let before = stage.told(&handler).len();
    let counted = handler.counters();

    handler.listener.pause(Pause::Swap);
    let mut last = first.clone();
    for value in ["B", "A", "B", "A"] {
        last = stage.put("map", value);
        stage.settle().await;
    }
    stage.put("passing", "there");
    stage.settle().await;
    stage.delete("passing");
    stage.settle().await;
    assert_eq!(stage.told(&handler).len(), before, "it is held back");
    handler.resume();
    stage.settle().await;

    let expected = format!("update map@{} from {} (watch)", last.version, first.version);
    assert_eq!(stage.told(&handler)[before..], [expected]);
    let counters = handler.counters();
    assert_eq!(counters.coalesced - counted.coalesced, 3, "of four states one was told");
    assert_eq!(counters.vanished - counted.vanished, 1);
}

/// A handler notes in a label what it saw, while somebody else changes the object: before its write, after it, and at
/// the same moment.
async fn beside_its_own(stage: Arc<Stage>) {
    const CALL_MS: u64 = 100;
    let script = Script {
        call_ms_min: CALL_MS,
        call_ms_max: CALL_MS,
        writes_back: true,
        ..Script::default()
    };
    let watched = stage.watch();
    let keeps_all = stage.handle_by(&watched, script, ListenerOptions::default());
    let folding = ListenerOptions {
        pending_events_max: 1,
        ..ListenerOptions::default()
    };
    let folds = stage.handle_by(&watched, script, folding);
    stage.synced(&watched).await;
    // Its own write comes 100 ms after it was told: 10 ms before, 10 ms after, and together with one of somebody else.
    let mut outside = Vec::new();
    for (number, pause_ms) in [90, 110, 100, 5, 95, 100, 50, 105].into_iter().enumerate() {
        outside.push(stage.put("map", &format!("outside-{number}")));
        stage.world.environment.sleep(Duration::from_millis(pause_ms)).await;
    }
    stage.pass(10).await;
    let told = stage.told(&keeps_all);
    for state in &outside {
        let shown = format!(" map@{}", state.version);
        let is_told = told.iter().any(|line| line.contains(&shown));
        assert!(is_told, "{state} was not told: {told:#?}");
    }
    // A write that changes nothing brings no event, and so ends the exchange.
    let object = stage.world.server.get(RESOURCE, NAMESPACE, "map");
    let object = object.expect("a built-in kind").expect("it is there");
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    assert_eq!(text("/data/value").as_deref(), Some("outside-7"));
    assert_eq!(text(&format!("/metadata/labels/{SEEN}")), text("/data/value"));
    let calls = (stage.told(&keeps_all).len(), stage.told(&folds).len());
    stage.pass(60).await;
    assert_eq!((stage.told(&keeps_all).len(), stage.told(&folds).len()), calls);
}

/// The last event comes while a handler is quarantined (a breaker is open), or swapped.
async fn held_back(stage: Arc<Stage>) {
    let first = stage.put("map", "A");
    let watched = stage.watch();
    // Quarantine folds; a handler that may be told less than every state has less room.
    let folding = ListenerOptions {
        pending_events_max: 100,
        ..ListenerOptions::default()
    };
    let quarantined = stage.handle_by(&watched, Script::default(), folding);
    let swapped = stage.handle(&watched);
    stage.synced(&watched).await;
    let before = [&quarantined, &swapped].map(|handler| stage.told(handler).len());
    quarantined.listener.pause(Pause::Quarantine);
    swapped.listener.pause(Pause::Swap);
    let states = ["B", "C", "D"].map(|value| stage.put("map", value).version);
    // Long after everything else has come to rest.
    stage.pass(600).await;
    for handler in [&quarantined, &swapped] {
        handler.resume();
    }
    stage.pass(600).await;
    let line = |new: u64, old: u64| format!("update map@{new} from {old} (watch)");
    assert_eq!(
        stage.told(&quarantined)[before[0]..],
        [line(states[2], first.version)],
        "the last state, once"
    );
    let each = [
        line(states[0], first.version),
        line(states[1], states[0]),
        line(states[2], states[1]),
    ];
    assert_eq!(stage.told(&swapped)[before[1]..], each, "each state, once");
}

/// Many objects are there when handlers come, one of which is held back from the beginning; then each changes at once.
async fn burst_at_the_start(stage: Arc<Stage>) {
    const OBJECTS: usize = 200;
    let names: Vec<_> = (0..OBJECTS).map(|number| format!("map-{number:03}")).collect();
    names.iter().for_each(|name| drop(stage.put(name, "A")));
    let watched = stage.watch();
    let handlers = [stage.handle(&watched), stage.handle(&watched), stage.handle(&watched)];
    handlers[2].listener.pause(Pause::Quarantine);
    stage.synced(&watched).await;
    for handler in &handlers[..2] {
        assert_eq!((stage.told(handler).len(), stage.times_synced(handler)), (OBJECTS, 1));
    }
    let newest: Vec<_> = names.iter().map(|name| stage.put(name, "B")).collect();
    stage.settle().await;
    assert!(stage.told(&handlers[2]).is_empty());
    handlers[2].resume();
    stage.pass(60).await;
    for handler in &handlers[..2] {
        assert_eq!(
            (stage.told(handler).len(), stage.times_synced(handler)),
            (2 * OBJECTS, 1)
        );
    }
    let expected: Vec<_> = newest
        .iter()
        .map(|state| format!("add {}@{} (initial)", state.name, state.version))
        .collect();
    assert_eq!(stage.told(&handlers[2]), expected, "each object once, as it is by then");
    assert_eq!(stage.times_synced(&handlers[2]), 1);
}

/// One object fails whatever is tried, beside others that go on.
async fn poisoned(stage: Arc<Stage>) {
    const ATTEMPTS: u32 = 4;
    let options = ListenerOptions {
        retry: RetryPolicy {
            attempts: ATTEMPTS,
            ..RetryPolicy::default()
        },
        ..ListenerOptions::default()
    };
    let script = Script {
        poison: Some("poison"),
        ..Script::default()
    };
    let state = stage.put("poison", "A");
    let watched = stage.watch();
    let handler = stage.handle_by(&watched, script, options);
    stage.synced(&watched).await;
    let about_poison = || {
        let told = stage.told(&handler);
        told.into_iter().filter(|line| line.contains("poison")).count()
    };
    for round in 0..20 {
        let written = stage.put("sound", &format!("v{round}"));
        stage.settle().await;
        let told = stage.told(&handler);
        let shown = format!(" sound@{}", written.version);
        assert!(
            told.iter().any(|line| line.contains(&shown)),
            "{written} waits: {told:?}"
        );
    }
    stage.pass(60).await;
    assert_eq!(about_poison(), ATTEMPTS as usize);
    let letters = handler.listener.dead_letters();
    assert_eq!(letters.len(), 1);
    assert_eq!((letters[0].key.name(), letters[0].attempts), ("poison", ATTEMPTS));

    // Another version of the handler takes its place; then somebody asks for the letter again.
    handler.listener.pause(Pause::Swap);
    stage.settle().await;
    stage.world.end_trouble();
    handler.resume();
    stage.pass(60).await;
    assert_eq!(
        about_poison(),
        ATTEMPTS as usize,
        "a dead letter is told again only when asked for"
    );
    let (source, key) = (letters[0].source, letters[0].key.as_ref());
    let queued = handler.listener.requeue(source, key, stage.world.environment.now());
    assert_eq!(queued, RequeueResult::Queued);
    stage.settle().await;
    let last = stage.told(&handler).pop();
    assert_eq!(last, Some(format!("add poison@{} (requeue)", state.version)));
    assert!(
        handler.listener.dead_letters().is_empty(),
        "what was accepted is no dead letter"
    );
}
