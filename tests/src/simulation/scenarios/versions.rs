//! Cases about versions: old events again, bookmarks that are ahead or behind, duplicate events, deletes at exactly the
//! version at which a watch starts.

use std::sync::Arc;
use std::time::Duration;

use informant_apiserver::{Ending, Filter};
use informant_cache::SourceState;
use informant_cache::seeded_bug::SeededBug;
use informant_informer::ReflectorOptions;

use super::super::scenario::{Scenario, Stage};
use super::super::world::Setting;
use super::play_fn;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        case: "T8",
        name: "past_replayed_after_reconnect_is_rejected_and_counted",
        bugs: &[SeededBug::VersionGuardOff],
        setting: Setting::default,
        play: play_fn!(past_again),
    },
    Scenario {
        case: "T9",
        name: "events_after_a_bookmark_ahead_of_them_are_delivered",
        bugs: &[SeededBug::BookmarkHidesEvents],
        setting: Setting::default,
        play: play_fn!(bookmark_ahead),
    },
    Scenario {
        case: "T9",
        name: "future_and_past_bookmarks_lose_and_repeat_nothing",
        bugs: &[SeededBug::BookmarkHidesEvents, SeededBug::SilentWatchStaysLive],
        setting: Setting::default,
        play: play_fn!(bookmarks_astray),
    },
    Scenario {
        case: "T10",
        name: "duplicate_event_is_delivered_once",
        bugs: &[SeededBug::VersionGuardOff],
        setting: Setting::default,
        play: play_fn!(twice),
    },
    Scenario {
        case: "T10",
        name: "events_missed_by_a_closed_slow_watch_are_delivered",
        bugs: &[SeededBug::RelistMissesDeletes, SeededBug::RelistComparesUidOnly],
        setting: || Setting {
            history_events_max: 3,
            watch_backlog_events_max: 4,
            ..Setting::default()
        },
        play: play_fn!(starved),
    },
    Scenario {
        case: "T11",
        name: "delete_right_after_the_watch_start_version_is_delivered",
        bugs: &[SeededBug::WatchSkipsVersion],
        setting: Setting::default,
        play: play_fn!(delete_behind_a_list),
    },
    Scenario {
        case: "T11",
        name: "delete_right_after_the_last_watch_event_is_delivered",
        bugs: &[SeededBug::WatchSkipsVersion],
        setting: Setting::default,
        play: play_fn!(delete_behind_a_watch),
    },
    Scenario {
        case: "T11",
        name: "delete_at_the_compacted_version_is_delivered_as_unknown",
        bugs: &[SeededBug::RelistMissesDeletes, SeededBug::TombstoneUnmarked],
        setting: Setting::default,
        play: play_fn!(delete_compacted),
    },
];

/// A watch is reopened, and its server sends everything again from the beginning.
async fn past_again(stage: Arc<Stage>) {
    let begin = stage.world.server().revision();
    let watched = stage.watch();
    let handler = stage.handle(&watched);
    stage.synced(&watched).await;
    for value in ["A", "B", "C"] {
        stage.put("stays", value);
        stage.put("goes", value);
    }
    stage.delete("goes");
    stage.put("comes-again", "A");
    stage.delete("comes-again");
    stage.put("comes-again", "B");
    stage.settle().await;
    let (calls, stored) = (stage.calls(&handler), watched.stored());
    let rejected = watched.status().rejected;

    stage.faults().drop_watches(&Filter::any(), Ending::Reset);
    stage.pass(10).await;
    let shown = stage.show_again(begin, u64::MAX);
    stage.pass(10).await;
    assert_eq!(shown, 10);
    assert_eq!(stage.calls(&handler), calls);
    assert_eq!(watched.stored(), stored);
    assert_eq!(watched.status().rejected - rejected, 10, "each is counted");
    assert_eq!(watched.state(), SourceState::Live);
}

/// A bookmark covers events that arrive only after it.
async fn bookmark_ahead(stage: Arc<Stage>) {
    stage.put("map", "A");
    let watched = stage.watch();
    let handler = stage.handle(&watched);
    stage.synced(&watched).await;
    let before = stage.calls(&handler).len();
    let now = stage.world.server().revision();
    stage.show_bookmark(now + 5);
    stage.settle().await;
    let written = [stage.put("map", "B"), stage.put("new", "A")];
    stage.settle().await;
    let removed = stage.delete("map");
    stage.settle().await;
    let calls = stage.calls(&handler).split_off(before);
    let expected = [
        format!("update map@{} from {} (watch)", written[0].version, now),
        format!("add new@{} (watch)", written[1].version),
        format!("delete map@{} (watch)", removed.version),
    ];
    assert_eq!(calls, expected);
}

/// Bookmarks of future and of long past versions; after each the watch is closed.
async fn bookmarks_astray(stage: Arc<Stage>) {
    let first = stage.world.server().revision();
    let watched = stage.watch();
    let handler = stage.handle(&watched);
    stage.synced(&watched).await;
    for version in [first, 1, 1_000_000] {
        let name = format!("after-{version}");
        stage.put("map", &name);
        stage.settle().await;
        stage.show_bookmark(version);
        stage.settle().await;
        stage.put(&name, "calls");
        stage.settle().await;
        let calls = stage.calls(&handler);
        assert!(calls.iter().any(|line| line.contains(&name)), "{name}: {calls:#?}");
        stage.faults().drop_watches(&Filter::any(), Ending::Clean);
        stage.put("map", "changed while away");
        let waited = stage.until("a store equal to the cluster", || {
            watched.stored() == stage.world.cluster(&watched.selection()) && watched.state() == SourceState::Live
        });
        let waited = waited.await;
        // No events come from a future version, not even bookmarks: only the silence shows it.
        assert!(waited < Duration::from_secs(300), "{version}: {waited:?}");
    }
}

/// Each event comes twice in a row: an add, an update, a delete.
async fn twice(stage: Arc<Stage>) {
    let watched = stage.watch();
    let handler = stage.handle(&watched);
    stage.synced(&watched).await;
    let mut before = stage.world.server().revision();
    let mut expected = 0;
    for change in 0..3 {
        match change {
            2 => drop(stage.delete("map")),
            _ => drop(stage.put("map", &format!("v{change}"))),
        }
        stage.settle().await;
        for _ in 0..3 {
            assert_eq!(stage.show_again(before, u64::MAX), 1);
            stage.settle().await;
        }
        before = stage.world.server().revision();
        expected += 1;
        assert_eq!(stage.calls(&handler).len(), expected, "{:?}", stage.calls(&handler));
    }
    // A duplicate delete is ignored without being counted.
    assert_eq!(watched.status().rejected, 6);
    assert_eq!(watched.status().relists, 0);
}

/// A reader is so slow that its server closes the watch, and has dropped the reader's position by then.
async fn starved(stage: Arc<Stage>) {
    for name in ["a", "b", "c"] {
        stage.put(name, "A");
    }
    let watched = stage.watch();
    let handler = stage.handle(&watched);
    stage.synced(&watched).await;
    let closed = || stage.world.server().stats().watches_closed_slow;
    stage.faults().freeze_watches(&Filter::any());
    stage.delete("a");
    let mut last = None;
    for round in 0..20 {
        last = Some(stage.put("b", &format!("v{round}")));
        stage.put("new", &format!("v{round}"));
    }
    stage.faults().thaw_watches(&Filter::any());
    stage
        .until("the replica to catch up", || {
            watched.stored() == stage.world.cluster(&watched.selection())
        })
        .await;
    stage.settle().await;
    assert_eq!((closed(), watched.status().relists), (1, 1));
    let calls = stage.calls(&handler);
    let last = format!(" b@{} ", last.expect("it was created").version);
    assert!(
        calls.iter().any(|line| line.starts_with("delete unknown a@")),
        "{calls:#?}"
    );
    assert!(calls.iter().any(|line| line.contains(&last)), "{calls:#?}");
}

/// An object is deleted between a list and its watch, at the list's version plus one.
async fn delete_behind_a_list(stage: Arc<Stage>) {
    for watch_list in [false, true] {
        let name = format!("map-{watch_list}");
        stage.put(&name, "A");
        stage
            .faults()
            .delay(Filter::any().verb("watch"), 1, Duration::from_secs(2));
        let watched = stage.watch_by(ReflectorOptions {
            watch_list,
            ..ReflectorOptions::default()
        });
        let handler = stage.handle(&watched);
        stage.pass(1).await;
        // With WatchList, the first watch is the list.
        assert_eq!(watched.named.has_synced(), !watch_list);
        let opened_at = stage.world.server().revision();
        let removed = stage.delete(&name);
        assert_eq!(removed.version, opened_at + 1, "nothing else happens in between");
        stage.pass(10).await;
        let calls = stage.calls(&handler);
        let about_it: Vec<_> = calls.iter().filter(|line| line.contains(&name)).collect();
        if watch_list {
            assert!(about_it.is_empty(), "it was deleted before the list: {calls:?}");
        } else {
            assert_eq!(*about_it[1], format!("delete {name}@{} (watch)", removed.version));
        }
        assert_eq!(watched.status().relists, 0);
    }
}

/// A watch is closed after its last event, and the next version is a delete.
async fn delete_behind_a_watch(stage: Arc<Stage>) {
    stage.put("map", "A");
    let watched = stage.watch();
    let handler = stage.handle(&watched);
    stage.synced(&watched).await;
    for ending in [Ending::Clean, Ending::Reset, Ending::MidLineClean] {
        let shown = stage.put("map", &format!("{ending:?}"));
        stage.settle().await;
        stage
            .faults()
            .delay(Filter::any().verb("watch"), 1, Duration::from_secs(2));
        stage.faults().drop_watches(&Filter::any(), ending);
        stage.settle().await;
        let removed = stage.delete("map");
        assert_eq!(removed.version, shown.version + 1);
        stage.pass(10).await;
        let last = stage.calls(&handler).pop();
        assert_eq!(
            last,
            Some(format!("delete map@{} (watch)", removed.version)),
            "{ending:?}"
        );
    }
    assert_eq!((watched.status().relists, watched.status().rejected), (0, 0));
}

/// The history is compacted to exactly the version of a missed delete, and once to the version before it, which loses
/// nothing.
async fn delete_compacted(stage: Arc<Stage>) {
    let watched = stage.watch();
    let handler = stage.handle(&watched);
    stage.synced(&watched).await;
    for keeps_delete in [true, false] {
        let shown = stage.put("map", "A");
        stage.settle().await;
        let relists = watched.status().relists;
        stage
            .faults()
            .delay(Filter::any().verb("watch"), 1, Duration::from_secs(2));
        stage.faults().drop_watches(&Filter::any(), Ending::Reset);
        stage.settle().await;
        let removed = stage.delete("map");
        let compacted = if keeps_delete { shown.version } else { removed.version };
        stage.put("other", "advances");
        stage.faults().compact_before(compacted);
        stage.pass(30).await;
        let calls = stage.calls(&handler);
        let deleted = if keeps_delete {
            format!("delete map@{} (watch)", removed.version)
        } else {
            format!("delete unknown map@{} (relist)", shown.version)
        };
        assert!(calls.contains(&deleted), "{deleted}: {calls:#?}");
        assert_eq!(watched.status().relists - relists, u64::from(!keeps_delete));
    }
}
