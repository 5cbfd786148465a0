//! Cases about handlers: paused, slow, failing, and writing to what they watch.

use std::sync::Arc;
use std::time::Duration;

use informant_cache::Environment;
use informant_cache::listener::{ListenerOptions, Pause, RequeueResult, RetryOptions};
use informant_cache::seeded_bug::SeededBug;
use serde_json::Value;

use super::super::handler::LANES;
use super::super::recorder::Script;
use super::super::scenario::{NAMESPACE, Scenario, Stage};
use super::super::world::{RESOURCE, SEEN, Setting};
use super::play_fn;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        case: "T2",
        name: "unseen_changes_fold_and_skipped_states_are_counted",
        bugs: &[SeededBug::FoldLosesLastState, SeededBug::FoldTakesNewerOld],
        setting: Setting::default,
        play: play_fn!(there_and_back),
    },
    Scenario {
        case: "T12",
        name: "external_change_concurrent_with_own_write_is_delivered",
        bugs: &[SeededBug::FoldLosesLastState],
        setting: Setting::default,
        play: play_fn!(own_and_external_writes),
    },
    Scenario {
        case: "T14",
        name: "last_event_while_paused_is_delivered_once_on_resume",
        bugs: &[SeededBug::SwapDropsEvents, SeededBug::FoldLosesLastState],
        setting: Setting::default,
        play: play_fn!(held_back),
    },
    Scenario {
        case: "T14",
        name: "initial_burst_reaches_each_handler_once",
        bugs: &[SeededBug::SyncedDeliveredFirst, SeededBug::CursorSkipsObject],
        setting: Setting::default,
        play: play_fn!(burst_at_the_start),
    },
    Scenario {
        case: "T18",
        name: "always_failing_object_is_dead_lettered_and_redelivered_on_requeue",
        bugs: &[SeededBug::FailureNotRetried],
        setting: Setting::default,
        play: play_fn!(poisoned),
    },
];

/// An object changes from A to B and back, and another is created and deleted, while no handler is called.
async fn there_and_back(stage: Arc<Stage>) {
    let folding = ListenerOptions {
        pending_events_max: 1,
        ..ListenerOptions::default()
    };
    let first = stage.put("map", "A");
    let watched = stage.watch();
    let handler = stage.handle_by(&watched, Script::default(), folding);
    stage.synced(&watched).await;
    let before = stage.calls(&handler).len();
    let counted = handler.counters();

    handler.listener.control().pause(Pause::Swap);
    let mut last = first.clone();
    for value in ["B", "A", "B", "A"] {
        last = stage.put("map", value);
        stage.settle().await;
    }
    stage.put("passing", "there");
    stage.settle().await;
    stage.delete("passing");
    stage.settle().await;
    assert_eq!(stage.calls(&handler).len(), before, "it is paused");
    handler.resume(&stage.world);
    stage.settle().await;

    let expected = format!("update map@{} from {} (watch)", last.version, first.version);
    assert_eq!(stage.calls(&handler)[before..], [expected]);
    let counters = handler.counters();
    assert_eq!(
        counters.coalesced - counted.coalesced,
        3,
        "one of four states was delivered"
    );
    assert_eq!(counters.vanished - counted.vanished, 1);
}

/// A handler writes what it saw into a label, while another client changes the object: before its write, after it, and
/// at the same moment.
async fn own_and_external_writes(stage: Arc<Stage>) {
    const CALL_MS: u64 = 100;
    let script = Script {
        call_ms_min: CALL_MS,
        call_ms_max: CALL_MS,
        writes_back: true,
        ..Script::default()
    };
    let watched = stage.watch();
    let receives_every_state = stage.handle_by(&watched, script, ListenerOptions::default());
    let folding = ListenerOptions {
        pending_events_max: 1,
        ..ListenerOptions::default()
    };
    let folds = stage.handle_by(&watched, script, folding);
    stage.synced(&watched).await;
    // Its own write comes 100 ms after the call: the other writes come 10 ms before, 10 ms after, and at the same time.
    let mut outside = Vec::new();
    for (number, pause_ms) in [90, 110, 100, 5, 95, 100, 50, 105].into_iter().enumerate() {
        outside.push(stage.put("map", &format!("outside-{number}")));
        stage.world.environment.sleep(Duration::from_millis(pause_ms)).await;
    }
    stage.pass(10).await;
    let calls = stage.calls(&receives_every_state);
    for state in &outside {
        let shown = format!(" map@{}", state.version);
        let is_told = calls.iter().any(|line| line.contains(&shown));
        assert!(is_told, "{state} was not delivered: {calls:#?}");
    }
    // A write that changes nothing causes no event, and so ends the loop.
    let object = stage.world.server().get(RESOURCE, NAMESPACE, "map");
    let object = object.expect("a built-in kind").expect("the object exists");
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    assert_eq!(text("/data/value").as_deref(), Some("outside-7"));
    assert_eq!(text(&format!("/metadata/labels/{SEEN}")), text("/data/value"));
    let calls = (stage.calls(&receives_every_state).len(), stage.calls(&folds).len());
    stage.pass(60).await;
    assert_eq!(
        (stage.calls(&receives_every_state).len(), stage.calls(&folds).len()),
        calls
    );
}

/// The last event arrives while a handler is quarantined (its circuit breaker is open), or swapped.
async fn held_back(stage: Arc<Stage>) {
    let first = stage.put("map", "A");
    let watched = stage.watch();
    // Quarantine folds events; a handler that may receive fewer than all states has a smaller buffer.
    let folding = ListenerOptions {
        pending_events_max: 100,
        ..ListenerOptions::default()
    };
    let quarantined = stage.handle_by(&watched, Script::default(), folding);
    let swapped = stage.handle(&watched);
    stage.synced(&watched).await;
    let before = [&quarantined, &swapped].map(|handler| stage.calls(handler).len());
    quarantined.listener.control().pause(Pause::Quarantine);
    swapped.listener.control().pause(Pause::Swap);
    let states = ["B", "C", "D"].map(|value| stage.put("map", value).version);
    // Long after everything else is at rest.
    stage.pass(600).await;
    for handler in [&quarantined, &swapped] {
        handler.resume(&stage.world);
    }
    stage.pass(600).await;
    let line = |new: u64, old: u64| format!("update map@{new} from {old} (watch)");
    assert_eq!(
        stage.calls(&quarantined)[before[0]..],
        [line(states[2], first.version)],
        "the last state, once"
    );
    let each = [
        line(states[0], first.version),
        line(states[1], states[0]),
        line(states[2], states[1]),
    ];
    assert_eq!(stage.calls(&swapped)[before[1]..], each, "each state, once");
}

/// Many objects exist when handlers are added, one of which is paused from the start; then each object changes at once.
async fn burst_at_the_start(stage: Arc<Stage>) {
    const OBJECTS: usize = 200;
    let names: Vec<_> = (0..OBJECTS).map(|number| format!("map-{number:03}")).collect();
    names.iter().for_each(|name| drop(stage.put(name, "A")));
    let watched = stage.watch();
    let handlers = [stage.handle(&watched), stage.handle(&watched), stage.handle(&watched)];
    handlers[2].listener.control().pause(Pause::Quarantine);
    stage.synced(&watched).await;
    for handler in &handlers[..2] {
        assert_eq!((stage.calls(handler).len(), stage.times_synced(handler)), (OBJECTS, 1));
    }
    let newest: Vec<_> = names.iter().map(|name| stage.put(name, "B")).collect();
    stage.settle().await;
    assert!(stage.calls(&handlers[2]).is_empty());
    handlers[2].resume(&stage.world);
    stage.pass(60).await;
    for handler in &handlers[..2] {
        assert_eq!(
            (stage.calls(handler).len(), stage.times_synced(handler)),
            (2 * OBJECTS, 1)
        );
    }
    let expected: Vec<_> = newest
        .iter()
        .map(|state| format!("add {}@{} (initial)", state.name, state.version))
        .collect();
    // It has several lanes, which are called side by side.
    let mut calls = stage.calls(&handlers[2]);
    calls.sort();
    assert_eq!(calls, expected, "each object once, in its current state");
    assert_eq!(
        stage.times_synced(&handlers[2]),
        usize::from(LANES),
        "once in each lane"
    );
}

/// One object always fails; other objects are handled as usual.
async fn poisoned(stage: Arc<Stage>) {
    const ATTEMPTS: u32 = 4;
    let options = ListenerOptions {
        retry: RetryOptions {
            attempts: ATTEMPTS,
            ..RetryOptions::default()
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
        let calls = stage.calls(&handler);
        calls.into_iter().filter(|line| line.contains("poison")).count()
    };
    for round in 0..20 {
        let written = stage.put("sound", &format!("v{round}"));
        stage.settle().await;
        let calls = stage.calls(&handler);
        let shown = format!(" sound@{}", written.version);
        assert!(
            calls.iter().any(|line| line.contains(&shown)),
            "{written} waits: {calls:?}"
        );
    }
    stage.pass(60).await;
    assert_eq!(about_poison(), ATTEMPTS as usize);
    let letters = handler.listener.ledger().dead_letters();
    assert_eq!(letters.len(), 1);
    assert_eq!((letters[0].key.name(), letters[0].attempts), ("poison", ATTEMPTS));

    // Another version of the handler replaces it; then the dead letter is requeued.
    handler.listener.control().pause(Pause::Swap);
    stage.settle().await;
    stage.world.end_faults();
    handler.resume(&stage.world);
    stage.pass(60).await;
    assert_eq!(
        about_poison(),
        ATTEMPTS as usize,
        "a dead letter is redelivered only on request"
    );
    let (source, key) = (letters[0].source, letters[0].key.as_ref());
    let queued = handler
        .listener
        .control()
        .requeue(source, key, stage.world.environment.now());
    assert_eq!(queued, RequeueResult::Queued);
    stage.settle().await;
    let last = stage.calls(&handler).pop();
    assert_eq!(last, Some(format!("add poison@{} (requeue)", state.version)));
    assert!(
        handler.listener.ledger().dead_letters().is_empty(),
        "an accepted object is not a dead letter"
    );
}
