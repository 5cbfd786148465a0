//! Cases about the connection of a watch: each way in which it can be lost.

use std::sync::Arc;
use std::time::Duration;

use informant_apiserver::{Action, Answer, Ending, Filter, Rule};
use informant_cache::SourceState;
use informant_cache::seeded_bug::SeededBug;

use super::super::handler::Handler;
use super::super::scenario::{Scenario, Stage};
use super::super::watched::Watched;
use super::super::world::Setting;
use super::play_fn;

/// The deadline for a new watch when the network reports the loss; includes back-off.
const HEALS_WITHIN: Duration = Duration::from_secs(65);

/// The same when nothing reports it: three minutes of silence (a bookmark is due each minute) and the back-off.
const SILENCE_ENDS_WITHIN: Duration = Duration::from_secs(180 + 65);

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        case: "T5",
        name: "reset_while_connecting_shows_as_stale_and_recovers",
        bugs: &[SeededBug::WatchSkipsVersion],
        setting: Setting::default,
        play: play_fn!(reset_while_connecting),
    },
    Scenario {
        case: "T5",
        name: "reset_mid_event_loses_and_repeats_nothing",
        bugs: &[SeededBug::WatchSkipsVersion],
        setting: Setting::default,
        play: play_fn!(reset_mid_frame),
    },
    Scenario {
        case: "T5",
        name: "half_open_watch_is_detected_and_reopened",
        bugs: &[SeededBug::SilentWatchStaysLive],
        setting: Setting::default,
        play: play_fn!(half_open),
    },
    Scenario {
        case: "T5",
        name: "frequent_clean_watch_ends_lose_nothing_and_show_as_stale",
        bugs: &[SeededBug::WatchSkipsVersion],
        setting: Setting::default,
        play: play_fn!(clean_ends),
    },
    Scenario {
        case: "T5",
        name: "watch_that_stays_silent_after_200_is_detected",
        bugs: &[SeededBug::SilentWatchStaysLive],
        setting: Setting::default,
        play: play_fn!(nothing_after_200),
    },
];

/// An informer that has delivered its first object, and its handler.
async fn running(stage: &Stage) -> (Arc<Watched>, Arc<Handler>) {
    stage.put("map", "A");
    let watched = stage.watch();
    let handler = stage.handle(&watched);
    stage.synced(&watched).await;
    // A bookmark, so that the informer knows that the server sends them.
    stage.pass(70).await;
    assert_eq!(watched.state(), SourceState::Live);
    (watched, handler)
}

/// Waits until the source is stale, and until it is live again. Returns how long both took.
async fn down_and_up(stage: &Stage, watched: &Watched) -> Duration {
    let down = stage.until("the source to be stale", || watched.state() == SourceState::Stale);
    let down = down.await;
    let up = stage.until("the source to be live", || watched.state() == SourceState::Live);
    down + up.await
}

/// The handler received the change once, without a list.
async fn assert_delivered_once(stage: &Stage, watched: &Watched, handler: &Handler, version: u64) {
    stage.settle().await;
    let calls = stage.calls(handler);
    let of_it = calls.iter().filter(|line| line.contains(&format!(" map@{version} ")));
    assert_eq!(of_it.count(), 1, "{calls:#?}");
    assert_eq!((watched.status().relists, watched.status().rejected), (0, 0));
}

async fn reset_while_connecting(stage: Arc<Stage>) {
    let (watched, handler) = running(&stage).await;
    stage.faults().answer(Filter::any(), 4, Answer::Reset);
    stage.faults().drop_watches(&Filter::any(), Ending::Reset);
    stage.settle().await;
    let written = stage.put("map", "B");
    let took = down_and_up(&stage, &watched).await;
    assert!(took < HEALS_WITHIN, "{took:?}");
    assert_delivered_once(&stage, &watched, &handler, written.version).await;
}

async fn reset_mid_frame(stage: Arc<Stage>) {
    let (watched, handler) = running(&stage).await;
    for ending in [Ending::MidLine, Ending::MidLineClean] {
        stage.faults().drop_watches(&Filter::any(), ending);
        // Half of this event's line arrives.
        let written = stage.put("map", &format!("{ending:?}"));
        stage.pass(10).await;
        assert_eq!(watched.state(), SourceState::Live);
        assert_delivered_once(&stage, &watched, &handler, written.version).await;
    }
}

async fn half_open(stage: Arc<Stage>) {
    let (watched, handler) = running(&stage).await;
    // The server's end of this watch stays silent for the rest of the scenario.
    stage.faults().freeze_watches(&Filter::any());
    let written = stage.put("map", "B");
    let waited = stage.until("the write to be delivered", || {
        stage
            .calls(&handler)
            .iter()
            .any(|line| line.contains(" map@") && line.starts_with("update"))
    });
    let waited = waited.await;
    assert!(waited < SILENCE_ENDS_WITHIN, "{waited:?}");
    assert!(
        waited > Duration::from_secs(100),
        "one late bookmark is not enough: {waited:?}"
    );
    assert_delivered_once(&stage, &watched, &handler, written.version).await;
    stage
        .until("the source to be live", || watched.state() == SourceState::Live)
        .await;
}

async fn clean_ends(stage: Arc<Stage>) {
    let (watched, handler) = running(&stage).await;
    let requests = (stage.requests("watch"), stage.requests("list"));
    let mut stale = 0;
    // Every watch is closed shortly after it was opened, for five minutes, as some proxies do.
    for second in 0..300 {
        if second % 60 == 30 {
            let written = stage.put("map", &format!("{second}"));
            stage
                .until("the write to be delivered", || {
                    let shown = format!(" map@{} ", written.version);
                    stage.calls(&handler).iter().any(|line| line.contains(&shown))
                })
                .await;
        }
        stage.faults().drop_watches(&Filter::any(), Ending::Clean);
        stale += u32::from(watched.state() == SourceState::Stale);
        stage.pass(1).await;
    }
    let requested = (
        stage.requests("watch") - requests.0,
        stage.requests("list") - requests.1,
    );
    assert!(stale > 0, "a source without any data is not live");
    assert!(
        requested.0 + requested.1 <= 300,
        "{requested:?} requests in five minutes"
    );
    stage.pass(200).await;
    assert_eq!(watched.state(), SourceState::Live);
}

async fn nothing_after_200(stage: Arc<Stage>) {
    let (watched, handler) = running(&stage).await;
    stage.faults().rule(Rule {
        filter: Filter::any().verb("watch"),
        times: Some(1),
        action: Action::Freeze,
    });
    stage.faults().drop_watches(&Filter::any(), Ending::Reset);
    stage.pass(5).await;
    let written = stage.put("map", "B");
    let waited = stage.until("the write to be delivered", || {
        let shown = format!(" map@{} ", written.version);
        stage.calls(&handler).iter().any(|line| line.contains(&shown))
    });
    let waited = waited.await;
    assert!(waited < SILENCE_ENDS_WITHIN, "{waited:?}");
    stage
        .until("the source to be live", || watched.state() == SourceState::Live)
        .await;
    assert_delivered_once(&stage, &watched, &handler, written.version).await;
}
