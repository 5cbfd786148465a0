//! Cases about lists: the history expires while they are read.

use std::sync::Arc;
use std::time::Duration;

use informant_apiserver::{Answer, Ending, Filter};
use informant_cache::seeded_bug::SeededBug;
use informant_cache::{Environment, SourceState};
use informant_informer::ReflectorOptions;
use serde_json::json;

use super::super::scenario::{NAMESPACE, Scenario, Stage};
use super::super::world::{RESOURCE, Setting};
use super::play_fn;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        case: "T7",
        name: "history_expired_between_pages_relists_without_partial_state",
        bugs: &[SeededBug::FirstPageTakenForList],
        setting: || Setting {
            server_knows_watch_list: false,
            paging_at_zero: true,
            ..Setting::default()
        },
        play: play_fn!(between_pages),
    },
    Scenario {
        case: "T7",
        name: "history_expired_during_watch_relists_and_delivers_missed_deletes",
        bugs: &[SeededBug::RelistMissesDeletes, SeededBug::TombstoneUnmarked],
        setting: Setting::default,
        play: play_fn!(mid_stream),
    },
    Scenario {
        case: "T7",
        name: "history_expired_during_initial_events_retries_without_partial_state",
        bugs: &[SeededBug::SyncedDeliveredFirst],
        setting: Setting::default,
        play: play_fn!(mid_initial_events),
    },
    Scenario {
        case: "T7",
        name: "compaction_at_the_watch_version_needs_no_relist",
        bugs: &[SeededBug::WatchSkipsVersion],
        setting: Setting::default,
        play: play_fn!(compacted_exactly),
    },
];

async fn between_pages(stage: Arc<Stage>) {
    for name in ["a", "b", "c"] {
        stage.put(name, "A");
    }
    // Each page takes a second.
    stage
        .faults()
        .delay(Filter::any().verb("list"), 3, Duration::from_secs(1));
    let watched = stage.watch_by(ReflectorOptions {
        page_items: Some(1),
        ..ReflectorOptions::default()
    });
    let handler = stage.handle(&watched);
    stage.world.environment.sleep(Duration::from_millis(1_500)).await;
    // The first page, with `a` on it, has been read.
    stage.delete("a");
    stage.put("d", "A");
    stage.faults().compact();
    assert!(!watched.named.has_synced() && stage.calls(&handler).is_empty());
    stage.synced(&watched).await;
    stage.pass(10).await;
    assert_eq!(watched.stored(), stage.world.cluster(&watched.selection()));
    let calls = stage.calls(&handler);
    assert_eq!(calls.len(), 3, "{calls:?}");
    assert!(
        calls
            .iter()
            .all(|line| line.starts_with("add") && !line.starts_with("add a@")),
        "{calls:?}"
    );
}

async fn mid_stream(stage: Arc<Stage>) {
    for name in ["goes", "stays", "changes"] {
        stage.put(name, "A");
    }
    let watched = stage.watch();
    let handler = stage.handle(&watched);
    stage.synced(&watched).await;
    let before = stage.calls(&handler).len();
    stage.faults().freeze_watches(&Filter::any());
    stage.delete("goes");
    stage.put("changes", "B");
    stage.put("comes", "A");
    stage.faults().compact();
    stage.faults().drop_watches(&Filter::any(), Ending::Expired);
    stage.pass(10).await;
    let calls = stage.calls(&handler).split_off(before);
    assert_eq!(calls.len(), 3, "{calls:?}");
    assert!(
        calls[0].starts_with("delete unknown goes@") && calls[0].ends_with("(relist)"),
        "{calls:?}"
    );
    assert!(
        calls.iter().any(|line| line.starts_with("update changes@")),
        "{calls:?}"
    );
    assert!(calls.iter().any(|line| line.starts_with("add comes@")), "{calls:?}");
    assert_eq!((watched.status().relists, watched.state()), (1, SourceState::Live));
}

/// A WatchList that sends a part of the initial events, and then an ERROR 410 instead of their end.
async fn mid_initial_events(stage: Arc<Stage>) {
    for name in ["a", "b", "c"] {
        stage.put(name, "A");
    }
    let first = stage.world.server().get(RESOURCE, NAMESPACE, "a");
    let added = json!({"type": "ADDED", "object": first.expect("a built-in kind")});
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 410, "reason": "Expired",
        "message": "The resourceVersion for the provided watch is too old.",
    });
    let error = json!({"type": "ERROR", "object": status});
    let half = Answer::Raw {
        code: 200,
        content_type: "application/json".into(),
        body: format!("{added}\n{error}\n"),
    };
    stage.faults().answer(Filter::any().verb("watch"), 2, half);
    let watched = stage.watch();
    let handler = stage.handle(&watched);
    // The objects of the partial list are deleted meanwhile.
    stage.delete("a");
    stage.synced(&watched).await;
    stage.pass(10).await;
    let calls = stage.calls(&handler);
    assert_eq!(calls.len(), 2, "{calls:?}");
    assert!(calls.iter().all(|line| !line.contains(" a@")), "{calls:?}");
    assert_eq!(stage.times_synced(&handler), 1);
}

async fn compacted_exactly(stage: Arc<Stage>) {
    stage.put("map", "A");
    let watched = stage.watch();
    let handler = stage.handle(&watched);
    stage.synced(&watched).await;
    let shown = stage.put("map", "B");
    stage.settle().await;
    stage
        .faults()
        .delay(Filter::any().verb("watch"), 1, Duration::from_secs(2));
    stage.faults().drop_watches(&Filter::any(), Ending::Reset);
    stage.settle().await;
    let missed = stage.put("map", "C");
    stage.faults().compact_before(shown.version);
    stage.pass(10).await;
    let calls = stage.calls(&handler);
    let expected = format!("update map@{} from {} (watch)", missed.version, shown.version);
    assert_eq!(calls.last(), Some(&expected));
    assert_eq!(watched.status().relists, 0);
}
