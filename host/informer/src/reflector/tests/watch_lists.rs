//! The initial state by WatchList.

mod scripted;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use informant_apiserver::{Action, Answer, Ending, Filter, Options, Rule};
use informant_cache::SourceState;
use kube::Client;
use kube::client::Body;
use serde_json::json;

use super::{one_pod, watches};
use crate::reflector::watch_list_support::WATCH_LIST_RETRY_PACE;
use crate::testing::{
    Rig, RigOptions, TestBody, Writer, api_server, by_watch_list, client, delete, json_answer, pass, put,
    ready_at_once, refusal, settle, streamed,
};
use crate::{ClusterClient, GroupVersionResource, SourceSpec, WatchListUse};

fn initial_requests(rig: &Rig) -> usize {
    let watches = rig.requests("watch");
    watches
        .iter()
        .filter(|query| query.contains("sendInitialEvents=true"))
        .count()
}

fn watch_lists(rig: &Rig, result: &str) -> f64 {
    rig.metric(&format!(
        r#"reflector_watch_lists_total{{informer="pods",cluster="",result="{result}"}}"#
    ))
}

#[tokio::test(start_paused = true)]
async fn the_initial_state_and_the_watch_share_one_connection() {
    let server = api_server();
    put(&server, "a", 1);
    put(&server, "b", 1);
    let rig = Rig::start_with(&server, by_watch_list());
    settle().await;
    assert!(rig.requests("list").is_empty());
    let watches = rig.requests("watch");
    assert_eq!(watches.len(), 1, "{watches:?}");
    assert!(
        watches[0].starts_with("watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&timeoutSeconds="),
        "{watches:?}"
    );
    assert_eq!(rig.stored(), rig.truth());
    let status = rig.informer.status();
    assert_eq!(
        (status.state, status.watch_list),
        (SourceState::Live, WatchListUse::InUse)
    );
    assert_eq!((status.lists, status.watches), (1, 1));

    let recorder = rig.record();
    settle().await;
    recorder.take();
    put(&server, "a", 2);
    delete(&server, "b");
    settle().await;
    assert_eq!(rig.requests("watch").len(), 1);
    assert_eq!(rig.stored(), rig.truth());
    assert_eq!(recorder.take(), ["update a 1->2", "delete b"]);
    assert_eq!(watch_lists(&rig, "ok"), 1.0);
}

#[tokio::test(start_paused = true)]
async fn an_ended_watch_is_reopened_without_initial_events() {
    let server = api_server();
    put(&server, "a", 1);
    let rig = Rig::start_with(&server, by_watch_list());
    settle().await;
    server.faults().drop_watches(&watches(), Ending::Clean);
    put(&server, "a", 2);
    settle().await;
    assert_eq!((initial_requests(&rig), rig.requests("watch").len()), (1, 2));
    assert_eq!(rig.stored(), rig.truth());
}

#[tokio::test(start_paused = true)]
async fn a_watch_list_relist_delivers_only_the_difference() {
    let server = api_server();
    for name in ["a", "b", "c"] {
        put(&server, name, 1);
    }
    let rig = Rig::start_with(&server, by_watch_list());
    settle().await;
    let recorder = rig.record();
    settle().await;
    recorder.take();
    let before = rig.informer.snapshot();
    server.faults().drop_watches(&watches(), Ending::Expired);
    put(&server, "a", 2);
    delete(&server, "b");
    put(&server, "d", 1);
    pass(2).await;
    assert_eq!(
        recorder.take(),
        ["delete b unknown (relist)", "update a 1->2 (relist)", "add d (relist)"]
    );
    assert_eq!(rig.stored(), rig.truth());
    assert_eq!((initial_requests(&rig), rig.requests("list").len()), (2, 0));
    // An unchanged object is the very same one.
    let key = informant_object::KeyRef::new("default", "c");
    let after = rig.informer.snapshot();
    assert!(after.get(key).unwrap().ptr_eq(before.get(key).unwrap()));
}

#[tokio::test(start_paused = true)]
async fn a_refused_watch_list_is_retried_after_an_hour() {
    let server = informant_apiserver::ApiServer::new(Options {
        watch_list: false,
        ..Options::default()
    });
    put(&server, "a", 1);
    let rig = Rig::start_with(&server, by_watch_list());
    settle().await;
    assert_eq!(rig.stored(), rig.truth());
    let status = rig.informer.status();
    let WatchListUse::Refused(why) = &status.watch_list else {
        panic!("{status:?}")
    };
    assert!(why.contains("sendInitialEvents is forbidden"), "{why}");
    assert_eq!(
        rig.metric(r#"source_watch_list_refused{informer="pods",cluster=""}"#),
        1.0
    );

    server.faults().drop_watches(&watches(), Ending::Expired);
    pass(2).await;
    assert_eq!((initial_requests(&rig), rig.requests("list").len()), (1, 2));
    pass(WATCH_LIST_RETRY_PACE.as_secs()).await;
    server.faults().drop_watches(&watches(), Ending::Expired);
    pass(2).await;
    assert_eq!((initial_requests(&rig), rig.requests("list").len()), (2, 3));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_list_too_keeps_watch_list_enabled() {
    let server = api_server();
    put(&server, "a", 1);
    let invalid = Answer::Raw {
        code: 400,
        content_type: "application/json".to_owned(),
        body: r#"{"kind":"Status","code":400,"reason":"BadRequest","message":"scripted"}"#.to_owned(),
    };
    server.faults().answer(Filter::any(), 2, invalid);
    let rig = Rig::start_with(&server, by_watch_list());
    pass(3).await;
    assert_eq!(rig.informer.status().watch_list, WatchListUse::InUse);
    assert_eq!(rig.stored(), rig.truth());
}

#[tokio::test(start_paused = true)]
async fn too_many_requests_delay_the_next_watch_list() {
    let server = api_server();
    put(&server, "a", 1);
    server.faults().answer(watches(), 2, Answer::too_many_requests(1));
    let rig = Rig::start_with(&server, by_watch_list());
    pass(10).await;
    assert_eq!((initial_requests(&rig), rig.requests("list").len()), (3, 0));
    assert_eq!(rig.stored(), rig.truth());
}

/// Whatever interrupts the initial events: none of them becomes visible, and the state is listed at once.
async fn check_cut_short(action: Action, result: &str) {
    let server = api_server();
    for number in 0..20 {
        put(&server, &format!("pod-{number:02}"), 1);
    }
    server.faults().rule(Rule {
        filter: watches(),
        times: Some(1),
        action,
    });
    let rig = Rig::start_with(&server, by_watch_list());
    let recorder = rig.record();
    settle().await;
    assert_eq!(rig.stored(), rig.truth());
    assert_eq!(rig.requests("list").len(), 1);
    assert_eq!(watch_lists(&rig, result), 1.0);
    let calls = recorder.take();
    assert_eq!(calls.len(), 21, "{calls:?}");
    // The next relist tries a WatchList again.
    server.faults().drop_watches(&watches(), Ending::Expired);
    pass(2).await;
    assert_eq!(initial_requests(&rig), 2);
    assert_eq!(rig.informer.status().watch_list, WatchListUse::InUse);
    assert!(recorder.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn interrupted_initial_events_leave_no_trace() {
    check_cut_short(Action::CutBodyBytes(3_000), "broke-off").await;
    check_cut_short(Action::CutBodyBytes(0), "broke-off").await;
    check_cut_short(Action::Answer(Answer::internal_error()), "error").await;
    check_cut_short(Action::Answer(Answer::forbidden("may list, not watch")), "forbidden").await;
}

#[tokio::test(start_paused = true)]
async fn repeatedly_interrupted_watch_lists_fall_back_to_list() {
    let server = api_server();
    put(&server, "a", 1);
    let cut_the_next = || {
        server.faults().rule(Rule {
            filter: watches(),
            times: Some(1),
            action: Action::CutBodyBytes(10),
        })
    };
    cut_the_next();
    let rig = Rig::start_with(&server, by_watch_list());
    settle().await;
    for _ in 0..2 {
        server.faults().drop_watches(&watches(), Ending::Expired);
        cut_the_next();
        pass(60).await;
    }
    assert_eq!(initial_requests(&rig), 3);
    server.faults().drop_watches(&watches(), Ending::Expired);
    pass(60).await;
    assert_eq!(initial_requests(&rig), 3);
    assert!(matches!(rig.informer.status().watch_list, WatchListUse::Refused(_)));
    assert_eq!(rig.stored(), rig.truth());
}

#[tokio::test(start_paused = true)]
async fn frames_split_anywhere_make_no_difference() {
    for bytes in [1, 7, 100] {
        let server = api_server();
        for number in 0..5 {
            put(&server, &format!("pod-{number}"), 1);
        }
        server.faults().rule(Rule {
            filter: Filter::any(),
            times: Some(1),
            action: Action::SplitFramesBytes(bytes),
        });
        let rig = Rig::start_with(&server, by_watch_list());
        settle().await;
        put(&server, "pod-1", 2);
        settle().await;
        assert_eq!(rig.stored(), rig.truth(), "{bytes}");
        assert_eq!(rig.requests("watch").len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_disabled_watch_list_is_not_requested() {
    let (_server, rig) = one_pod();
    settle().await;
    assert_eq!((initial_requests(&rig), rig.requests("list").len()), (0, 1));
    assert_eq!(rig.informer.status().watch_list, WatchListUse::Off);
}

#[tokio::test(start_paused = true)]
async fn a_missing_resource_is_awaited_without_lists() {
    let client = client(|_| refusal(404, "NotFound", "the server could not find the requested resource"));
    let rig = Rig::start_with(
        &api_server(),
        RigOptions {
            client: Some(client.into()),
            ..by_watch_list()
        },
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(rig.informer.status().state, SourceState::WaitingForResource);
    assert_eq!(watch_lists(&rig, "not-found"), 1.0);
}
