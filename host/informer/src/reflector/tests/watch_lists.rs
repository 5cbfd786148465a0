use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use informant_apiserver::{Action, Answer, Ending, Filter, Options, Rule};
use informant_cache::SourceState;
use kube::Client;
use kube::client::Body;
use serde_json::json;

use crate::WatchListUse;
use crate::reflector::watch_list_support::WATCH_LIST_RETRY_PACE;
use crate::testing::{
    Rig, RigOptions, TestBody, Writer, api_server, by_watch_list, client, delete, json_answer, pass, put, refusal,
    settle, streamed,
};

fn watches() -> Filter {
    Filter::any().verb("watch").resource("pods")
}

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
async fn the_first_state_and_the_watch_come_over_one_connection() {
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
async fn a_watch_that_ends_is_opened_again_where_it_was_without_the_initial_events() {
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
async fn a_relist_tells_the_difference_alone() {
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
    // What did not change is the very same object.
    let key = informant_object::KeyRef::new("default", "c");
    let after = rig.informer.snapshot();
    assert!(after.get(key).unwrap().ptr_eq(before.get(key).unwrap()));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_is_listed_and_asked_again_after_an_hour() {
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
async fn what_list_refuses_too_is_not_held_against_the_watch_list() {
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
async fn too_many_requests_are_waited_out_and_asked_for_again() {
    let server = api_server();
    put(&server, "a", 1);
    server.faults().answer(watches(), 2, Answer::too_many_requests(1));
    let rig = Rig::start_with(&server, by_watch_list());
    pass(10).await;
    assert_eq!((initial_requests(&rig), rig.requests("list").len()), (3, 0));
    assert_eq!(rig.stored(), rig.truth());
}

/// Whatever cuts the initial events short: nothing of them is shown, and the state comes by LIST at once.
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
    let told = recorder.take();
    assert_eq!(told.len(), 21, "{told:?}");
    // The next time it is asked for again.
    server.faults().drop_watches(&watches(), Ending::Expired);
    pass(2).await;
    assert_eq!(initial_requests(&rig), 2);
    assert_eq!(rig.informer.status().watch_list, WatchListUse::InUse);
    assert!(recorder.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn initial_events_that_break_off_leave_no_trace() {
    check_cut_short(Action::CutBodyBytes(3_000), "broke-off").await;
    check_cut_short(Action::CutBodyBytes(0), "broke-off").await;
    check_cut_short(Action::Answer(Answer::internal_error()), "error").await;
    check_cut_short(Action::Answer(Answer::forbidden("may list, not watch")), "forbidden").await;
}

#[tokio::test(start_paused = true)]
async fn streams_that_break_off_time_and_again_are_given_up_for_a_while() {
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
async fn frames_cut_anywhere_make_no_difference() {
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

fn pod(name: &str, version: u64) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{name}"), "resourceVersion": version.to_string()},
    })
}

fn line(kind: &str, object: serde_json::Value) -> String {
    // As API servers write it: the type first.
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

fn bookmark(version: u64, mark: Option<&str>) -> String {
    let mut metadata = json!({"resourceVersion": version.to_string()});
    if let Some(mark) = mark {
        metadata["annotations"] = json!({"k8s.io/initial-events-end": mark});
    }
    line(
        "BOOKMARK",
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata}),
    )
}

/// The writers of the watches that were opened, in order.
type Writers = Arc<Mutex<Vec<Writer>>>;

/// An API server whose watches are written by the test; lists answer with one pod `listed`.
fn scripted(writers: &Writers) -> Client {
    let writers = Arc::clone(writers);
    client(move |request: &Request<Body>| -> Response<TestBody> {
        let query = request.uri().query().unwrap_or_default();
        if query.contains("watch=true") {
            let (writer, answer) = streamed();
            writers.lock().unwrap().push(writer);
            return answer;
        }
        let list = json!({
            "apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "90"}, "items": [pod("listed", 80)],
        });
        json_answer(list.to_string())
    })
}

fn scripted_rig(writers: &Writers) -> Rig {
    Rig::start_with(
        &api_server(),
        RigOptions {
            client: Some(scripted(writers)),
            ..by_watch_list()
        },
    )
}

fn write(writers: &Writers, text: impl Into<bytes::Bytes>) {
    writers.lock().unwrap().last().expect("a watch is open").write(text);
}

#[tokio::test(start_paused = true)]
async fn only_the_mark_itself_ends_the_initial_events() {
    let writers = Writers::default();
    let rig = scripted_rig(&writers);
    settle().await;
    write(&writers, line("ADDED", pod("a", 5)));
    write(&writers, bookmark(6, None));
    write(&writers, bookmark(7, Some("false")));
    pass(10).await;
    assert!(!rig.informer.has_synced());
    assert!(rig.stored().is_empty());
    write(&writers, bookmark(8, Some("true")));
    settle().await;
    assert!(rig.informer.has_synced());
    assert_eq!(rig.stored(), ["a@5"]);
    assert_eq!(rig.informer.status().version.as_str(), "8");
}

#[tokio::test(start_paused = true)]
async fn what_happens_among_the_initial_events_changes_what_is_staged() {
    let writers = Writers::default();
    let rig = scripted_rig(&writers);
    settle().await;
    let lines = [
        line("ADDED", pod("a", 1)),
        line("ADDED", pod("b", 2)),
        line("ADDED", pod("c", 3)),
        line("MODIFIED", pod("b", 5)),
        line("DELETED", pod("a", 6)),
        line("DELETED", pod("never-there", 7)),
        line("ADDED", pod("d", 8)),
        line("DELETED", pod("c", 9)),
        line("ADDED", pod("c", 10)),
        line("MODIFIED", pod("d", 11)),
    ];
    write(&writers, lines.concat());
    write(&writers, bookmark(12, Some("true")));
    settle().await;
    assert_eq!(rig.stored(), ["b@5", "c@10", "d@11"]);
}

#[tokio::test(start_paused = true)]
async fn what_stands_behind_the_mark_in_the_same_frame_is_the_watch() {
    let writers = Writers::default();
    let rig = scripted_rig(&writers);
    let recorder = rig.record();
    settle().await;
    let frame = [
        line("ADDED", pod("a", 1)),
        bookmark(2, Some("true")),
        line("ADDED", pod("b", 3)),
        line("DELETED", pod("a", 4)),
    ];
    write(&writers, frame.concat());
    settle().await;
    assert_eq!(rig.stored(), ["b@3"]);
    // A handler that was there before the first list is shown it as it is by then, or as it becomes.
    let told = recorder.take();
    assert!(told.iter().any(|line| line.starts_with("add b")), "{told:?}");
    assert_eq!(writers.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_error_among_the_initial_events_leaves_no_trace() {
    let writers = Writers::default();
    let rig = scripted_rig(&writers);
    settle().await;
    let gone = json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"});
    write(&writers, [line("ADDED", pod("a", 1)), line("ERROR", gone)].concat());
    settle().await;
    // The newest state was asked for already, so that only LIST is left.
    assert_eq!(rig.stored(), ["listed@80"]);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_expired_is_asked_for_anew_at_once() {
    let writers = Writers::default();
    let rig = scripted_rig(&writers);
    settle().await;
    write(
        &writers,
        [line("ADDED", pod("a", 1)), bookmark(5, Some("true"))].concat(),
    );
    settle().await;
    let gone = json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"});
    write(&writers, line("ERROR", gone.clone()));
    pass(2).await;
    assert_eq!(writers.lock().unwrap().len(), 2, "asked for nothing older than 5");
    write(&writers, [line("ADDED", pod("half", 1)), line("ERROR", gone)].concat());
    settle().await;
    assert_eq!(writers.lock().unwrap().len(), 3, "asked for the newest state");
    assert_eq!(rig.stored(), ["a@1"]);
    write(
        &writers,
        [line("ADDED", pod("b", 7)), bookmark(9, Some("true"))].concat(),
    );
    settle().await;
    assert_eq!(rig.stored(), ["b@7"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ignores_the_question_is_listed_once_it_is_silent() {
    let writers = Writers::default();
    let rig = scripted_rig(&writers);
    settle().await;
    write(&writers, line("ADDED", pod("half", 1)));
    pass(14).await;
    assert!(rig.stored().is_empty());
    pass(2).await;
    assert_eq!(rig.stored(), ["listed@80"]);
    let status = rig.informer.status();
    assert!(matches!(status.watch_list, WatchListUse::Refused(_)), "{status:?}");
    assert!(writers.lock().unwrap()[0].is_closed());
    assert_eq!(watch_lists(&rig, "late"), 1.0);
}

#[tokio::test(start_paused = true)]
async fn initial_events_without_end_have_a_deadline() {
    let writers = Writers::default();
    let rig = scripted_rig(&writers);
    for second in 0..179 {
        settle().await;
        assert!(rig.stored().is_empty(), "{second}");
        write(&writers, line("MODIFIED", pod("busy", second + 1)));
        pass(1).await;
    }
    pass(5).await;
    assert_eq!(rig.stored(), ["listed@80"]);
    assert!(matches!(rig.informer.status().watch_list, WatchListUse::Refused(_)));
}

#[tokio::test(start_paused = true)]
async fn an_item_too_large_among_the_initial_events_keeps_its_older_state() {
    let server = api_server();
    put(&server, "a", 1);
    put(&server, "b", 1);
    let mut options = by_watch_list();
    options.informer.reflector.watch_line_bytes_max = 5_000;
    let rig = Rig::start_with(&server, options);
    settle().await;
    let mut large = server.get("v1/pods", "default", "a").unwrap().unwrap();
    server.faults().freeze_watches(&Filter::any());
    large["metadata"]["annotations"] = json!({"padding": "x".repeat(10_000)});
    server.put("v1/pods", "default", large).unwrap();
    server.faults().drop_watches(&watches(), Ending::Expired);
    server.faults().compact();
    pass(3).await;
    let status = rig.informer.status();
    assert_eq!(status.outdated.len(), 1, "{status:?}");
    assert_eq!(rig.stored().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_lags_is_refused() {
    let writers = Writers::default();
    let rig = scripted_rig(&writers);
    settle().await;
    write(
        &writers,
        [line("ADDED", pod("a", 50)), bookmark(60, Some("true"))].concat(),
    );
    settle().await;
    let gone = json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"});
    write(&writers, line("ERROR", gone));
    pass(2).await;
    write(
        &writers,
        [line("ADDED", pod("a", 10)), bookmark(20, Some("true"))].concat(),
    );
    settle().await;
    assert_eq!(rig.stored(), ["a@50"]);
    assert_eq!(watch_lists(&rig, "rejected"), 1.0);
    assert_eq!(rig.informer.status().rejected, 1);
}

#[tokio::test(start_paused = true)]
async fn switched_off_it_is_not_asked_for() {
    let server = api_server();
    put(&server, "a", 1);
    let rig = Rig::start(&server);
    settle().await;
    assert_eq!((initial_requests(&rig), rig.requests("list").len()), (0, 1));
    assert_eq!(rig.informer.status().watch_list, WatchListUse::Off);
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_does_not_exist_is_waited_for_without_lists() {
    let client = client(|_| refusal(404, "NotFound", "the server could not find the requested resource"));
    let rig = Rig::start_with(
        &api_server(),
        RigOptions {
            client: Some(client),
            ..by_watch_list()
        },
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(rig.informer.status().state, SourceState::WaitingForResource);
    assert_eq!(watch_lists(&rig, "not-found"), 1.0);
}
