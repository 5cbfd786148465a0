//! Watches show signs of life, or the source shows that they do not.

use std::time::Duration;

use informant_apiserver::{Action, Ending, Injection, Rule};
use informant_cache::SourceState;

use super::{one_pod, watches};
use crate::testing::{Rig, api_server, pass, put, settle};

fn state(rig: &Rig) -> SourceState {
    rig.informer.status().state
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_watch_makes_the_source_stale() {
    let (server, rig) = one_pod();
    pass(60).await;
    assert_eq!(state(&rig), SourceState::Live);
    server.faults().rule(Rule {
        filter: watches(),
        times: Some(1),
        action: Action::DelayMs(60_000),
    });
    server.faults().drop_watches(&watches(), Ending::Clean);
    pass(9).await;
    assert_eq!(state(&rig), SourceState::Live, "an answer may take its time");
    pass(2).await;
    assert_eq!(state(&rig), SourceState::Stale);
    let (error, _) = rig.informer.status().last_error.unwrap();
    assert_eq!(error, "watch: no response for 10 s");
    pass(50).await;
    assert_eq!(state(&rig), SourceState::Live);
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_stale_until_another_one_opens() {
    let (server, rig) = one_pod();
    pass(70).await;
    assert!(rig.informer.status().bookmark_age.is_some());
    server.faults().freeze_watches(&watches());
    server.faults().rule(Rule {
        filter: watches(),
        times: Some(1),
        action: Action::DelayMs(5_000),
    });
    let mut seconds = 0;
    while state(&rig) == SourceState::Live {
        pass(1).await;
        seconds += 1;
        assert!(seconds < 200, "the silence was not noticed");
    }
    assert!(seconds > 100, "{seconds}");
    assert_eq!(state(&rig), SourceState::Stale);
    pass(6).await;
    assert_eq!(state(&rig), SourceState::Live);
    assert_eq!(rig.informer.status().relists, 0);
}

#[tokio::test(start_paused = true)]
async fn after_a_bookmark_every_watch_must_send_them() {
    let (server, rig) = one_pod();
    pass(70).await;
    server.faults().rule(Rule {
        filter: watches(),
        times: Some(1),
        action: Action::Freeze,
    });
    server.faults().drop_watches(&watches(), Ending::Clean);
    pass(2).await;
    put(&server, "b", 1);
    // Before its first bookmark, and earlier than its timeout of five minutes and more.
    pass(182).await;
    assert_eq!(rig.stored(), rig.truth());
}

#[tokio::test(start_paused = true)]
async fn after_fruitless_watches_a_source_needs_a_sign_of_life() {
    let (server, rig) = one_pod();
    for _ in 0..3 {
        pass(2).await;
        assert_eq!(state(&rig), SourceState::Live);
        server.faults().drop_watches(&watches(), Ending::Clean);
    }
    // Reopened after the back-off; that alone proves nothing.
    pass(10).await;
    assert_eq!(state(&rig), SourceState::Stale);
    put(&server, "b", 1);
    settle().await;
    assert_eq!(state(&rig), SourceState::Live);
}

#[tokio::test(start_paused = true)]
async fn a_suspect_watch_that_lasts_is_confirmed() {
    let (server, rig) = one_pod();
    for _ in 0..3 {
        pass(2).await;
        server.faults().drop_watches(&watches(), Ending::Clean);
    }
    pass(20).await;
    assert_eq!(state(&rig), SourceState::Stale);
    pass(15).await;
    assert_eq!(state(&rig), SourceState::Live);
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_older_than_the_seen_version_is_rejected() {
    let server = api_server();
    for name in ["a", "b", "c"] {
        put(&server, name, 1);
    }
    let rig = Rig::start(&server);
    settle().await;
    let before = rig.informer.status();
    let bookmark =
        r#"{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"1"}}}"#;
    server.faults().inject(&watches(), &Injection::Raw(bookmark.to_owned()));
    settle().await;
    let after = rig.informer.status();
    assert_eq!((after.version, after.rejected), (before.version, before.rejected + 1));
    assert!(after.bookmark_age.unwrap() < Duration::from_secs(1), "a sign of life");
    assert_eq!(
        rig.metric(r#"reflector_rejected_total{informer="pods",cluster="",type="bookmark"}"#),
        1.0
    );
}
