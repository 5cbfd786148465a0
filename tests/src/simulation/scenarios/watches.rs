//! Cases about the connection of a watch: each way in which one is lost.

use std::sync::Arc;
use std::time::Duration;

use informant_apiserver::{Action, Answer, Ending, Filter, Rule};
use informant_cache::SourceState;
use informant_cache::seeded_bug::SeededBug;

use super::super::handler::Handler;
use super::super::scenario::{Scenario, Stage};
use super::super::watched::Watched;
use super::super::world::Setting;
use super::playing;

/// Within what time a watch that can be had again is there, if the network says that it is gone; with back-off.
const HEALS_WITHIN: Duration = Duration::from_secs(65);

/// The same if nothing says so: three minutes of silence (a bookmark is due each minute) and the back-off.
const SILENCE_ENDS_WITHIN: Duration = Duration::from_secs(180 + 65);

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        case: "T5",
        name: "a_connection_that_is_reset_while_it_is_made_shows_as_stale_and_heals",
        bugs: &[SeededBug::WatchSkipsVersion],
        setting: Setting::default,
        play: playing!(reset_while_connecting),
    },
    Scenario {
        case: "T5",
        name: "a_reset_in_the_midst_of_an_event_loses_and_repeats_nothing",
        bugs: &[SeededBug::WatchSkipsVersion],
        setting: Setting::default,
        play: playing!(reset_mid_frame),
    },
    Scenario {
        case: "T5",
        name: "a_watch_that_is_half_open_is_found_out_and_opened_anew",
        bugs: &[SeededBug::SilentWatchStaysLive],
        setting: Setting::default,
        play: playing!(half_open),
    },
    Scenario {
        case: "T5",
        name: "watches_that_end_cleanly_all_the_time_lose_nothing_and_do_not_count_as_alive",
        bugs: &[SeededBug::WatchSkipsVersion],
        setting: Setting::default,
        play: playing!(clean_ends),
    },
    Scenario {
        case: "T5",
        name: "a_watch_that_is_answered_and_then_shows_nothing_is_found_out",
        bugs: &[SeededBug::SilentWatchStaysLive],
        setting: Setting::default,
        play: playing!(nothing_after_200),
    },
];

/// An informer that has shown its first object, and its handler.
async fn running(stage: &Stage) -> (Arc<Watched>, Arc<Handler>) {
    stage.put("map", "A");
    let watched = stage.watch();
    let handler = stage.handle(&watched);
    stage.synced(&watched).await;
    // A bookmark, so that the server is known to send them.
    stage.pass(70).await;
    assert_eq!(watched.state(), SourceState::Live);
    (watched, handler)
}

/// Waits until the source is seen to be down, and until it is alive again. Returns how long both took.
async fn down_and_up(stage: &Stage, watched: &Watched) -> Duration {
    let down = stage.until("the source to be stale", || watched.state() == SourceState::Stale);
    let down = down.await;
    let up = stage.until("the source to be live", || watched.state() == SourceState::Live);
    down + up.await
}

/// The handler was told of the change, once, and that without a list.
async fn assert_told_once(stage: &Stage, watched: &Watched, handler: &Handler, version: u64) {
    stage.settle().await;
    let told = stage.told(handler);
    let of_it = told.iter().filter(|line| line.contains(&format!(" map@{version} ")));
    assert_eq!(of_it.count(), 1, "{told:#?}");
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
    assert_told_once(&stage, &watched, &handler, written.version).await;
}

async fn reset_mid_frame(stage: Arc<Stage>) {
    let (watched, handler) = running(&stage).await;
    for ending in [Ending::MidLine, Ending::MidLineClean] {
        stage.faults().drop_watches(&Filter::any(), ending);
        // Of this event half a line arrives.
        let written = stage.put("map", &format!("{ending:?}"));
        stage.pass(10).await;
        assert_eq!(watched.state(), SourceState::Live);
        assert_told_once(&stage, &watched, &handler, written.version).await;
    }
}

async fn half_open(stage: Arc<Stage>) {
    let (watched, handler) = running(&stage).await;
    // For ever: the server's end of this watch never speaks again.
    stage.faults().freeze_watches(&Filter::any());
    let written = stage.put("map", "B");
    let waited = stage.until("what was written", || {
        stage
            .told(&handler)
            .iter()
            .any(|line| line.contains(" map@") && line.starts_with("update"))
    });
    let waited = waited.await;
    assert!(waited < SILENCE_ENDS_WITHIN, "{waited:?}");
    assert!(
        waited > Duration::from_secs(100),
        "one bookmark that is late is no reason: {waited:?}"
    );
    assert_told_once(&stage, &watched, &handler, written.version).await;
    stage
        .until("the source to be live", || watched.state() == SourceState::Live)
        .await;
}

async fn clean_ends(stage: Arc<Stage>) {
    let (watched, handler) = running(&stage).await;
    let requests = (stage.requests("watch"), stage.requests("list"));
    let mut stale = 0;
    // Every watch is ended a moment after it was opened, for five minutes, as some proxies do.
    for second in 0..300 {
        if second % 60 == 30 {
            let written = stage.put("map", &format!("{second}"));
            stage
                .until("what was written", || {
                    let shown = format!(" map@{} ", written.version);
                    stage.told(&handler).iter().any(|line| line.contains(&shown))
                })
                .await;
        }
        stage.faults().drop_watches(&Filter::any(), Ending::Clean);
        stale += u32::from(watched.state() == SourceState::Stale);
        stage.pass(1).await;
    }
    let asked = (
        stage.requests("watch") - requests.0,
        stage.requests("list") - requests.1,
    );
    assert!(stale > 0, "what shows no sign of life is not alive");
    assert!(asked.0 + asked.1 <= 300, "{asked:?} requests in five minutes");
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
    let waited = stage.until("what was written", || {
        let shown = format!(" map@{} ", written.version);
        stage.told(&handler).iter().any(|line| line.contains(&shown))
    });
    let waited = waited.await;
    assert!(waited < SILENCE_ENDS_WITHIN, "{waited:?}");
    stage
        .until("the source to be live", || watched.state() == SourceState::Live)
        .await;
    assert_told_once(&stage, &watched, &handler, written.version).await;
}
