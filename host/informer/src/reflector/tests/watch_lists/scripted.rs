//! Scripted initial events, line by line.

use super::*;

/// The writers of the opened watches, in order.
type Writers = Arc<Mutex<Vec<Writer>>>;

fn pod(name: &str, version: u64) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": name, "uid": format!("uid-{name}"), "resourceVersion": version.to_string()},
    })
}

fn line(kind: &str, object: serde_json::Value) -> String {
    // In the order of API servers: the type first.
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

/// An API server whose watches are written by the test; lists return one pod `listed`.
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
            client: Some(scripted(writers).into()),
            ..by_watch_list()
        },
    )
}

fn write(writers: &Writers, text: impl Into<bytes::Bytes>) {
    writers.lock().unwrap().last().expect("a watch is open").write(text);
}

#[tokio::test(start_paused = true)]
async fn only_the_end_mark_ends_the_initial_events() {
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
async fn changes_among_the_initial_events_change_the_staged_list() {
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
async fn replaced_and_removed_initial_events_give_their_bytes_back() {
    let writers = Writers::default();
    let rig = scripted_rig(&writers);
    settle().await;
    write(&writers, line("ADDED", pod("a", 1)));
    settle().await;
    let bytes = rig.informer.status().staged_bytes;
    assert!(bytes > 0);
    for version in 2..9 {
        write(&writers, line("MODIFIED", pod("a", version)));
        write(&writers, line("ADDED", pod("b", version)));
        write(&writers, line("DELETED", pod("b", version)));
        settle().await;
        assert_eq!(rig.informer.status().staged_bytes, bytes);
    }
    write(&writers, bookmark(10, Some("true")));
    settle().await;
    assert_eq!(rig.stored(), ["a@8"]);
    assert_eq!(rig.informer.status().staged_bytes, 0);
}

#[tokio::test(start_paused = true)]
async fn events_after_the_end_mark_belong_to_the_watch() {
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
    // A handler from before the first list receives its objects in their present or a later state.
    let calls = recorder.take();
    assert!(calls.iter().any(|line| line.starts_with("add b")), "{calls:?}");
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
    // The newest state was already requested, so only LIST is left.
    assert_eq!(rig.stored(), ["listed@80"]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_watch_list_is_retried_at_once() {
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
async fn a_server_that_ignores_watch_list_is_listed_after_silence() {
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
async fn a_server_known_to_support_watch_list_has_a_minute() {
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
    pass(58).await;
    assert_eq!(rig.stored(), ["a@50"]);
    pass(5).await;
    assert_eq!(rig.stored(), ["listed@80"]);
    // Once, not for an hour.
    assert_eq!(rig.informer.status().watch_list, WatchListUse::InUse);
    assert_eq!(watch_lists(&rig, "late"), 1.0);
}

#[tokio::test(start_paused = true)]
async fn support_that_shows_during_the_silence_counts() {
    let writers = Writers::default();
    let cluster: ClusterClient = scripted(&writers).into();
    let start = || {
        let options = RigOptions {
            client: Some(cluster.clone()),
            ..by_watch_list()
        };
        Rig::start_with(&api_server(), options)
    };
    let rig = start();
    pass(10).await;
    let other = start();
    settle().await;
    write(&writers, bookmark(60, Some("true")));
    pass(40).await;
    assert!(other.informer.has_synced());
    assert!(!rig.informer.has_synced());
    writers.lock().unwrap()[0].write(bookmark(70, Some("true")));
    settle().await;
    assert!(rig.informer.has_synced());
    assert_eq!(watch_lists(&rig, "late"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn support_in_one_group_says_nothing_of_another() {
    let writers = Writers::default();
    let cluster: ClusterClient = scripted(&writers).into();
    let start = |group: &str| {
        let resource = GroupVersionResource::new(group, "v1", "pods");
        let options = RigOptions {
            client: Some(cluster.clone()),
            spec: SourceSpec::new("pods", resource, "Pod"),
            ..by_watch_list()
        };
        Rig::start_with(&api_server(), options)
    };
    let _rig = start("");
    settle().await;
    write(&writers, bookmark(60, Some("true")));
    let other = start("aggregated.example");
    pass(16).await;
    assert_eq!(watch_lists(&other, "late"), 1.0);
    assert!(matches!(other.informer.status().watch_list, WatchListUse::Refused(_)));
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
async fn a_too_large_initial_event_keeps_the_older_state() {
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
async fn a_lagging_replica_is_rejected() {
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
async fn watches_that_expire_at_once_are_relisted_with_back_off() {
    let requests = Arc::new(Mutex::new(0_usize));
    let counted = Arc::clone(&requests);
    let service = client(move |request: &Request<Body>| -> Response<TestBody> {
        let mut counted = counted.lock().unwrap();
        *counted += 1;
        if *counted > 1_000 {
            // Without a pause, the paused time would never pass.
            return refusal(403, "Forbidden", "enough");
        }
        let query = request.uri().query().unwrap_or_default();
        assert!(query.contains("watch=true"), "{query}");
        let gone = json!({"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"});
        let state = [line("ADDED", pod("a", 1)), bookmark(5, Some("true"))].concat();
        ready_at_once([state, line("ERROR", gone)].into_iter())
    });
    let options = RigOptions {
        client: Some(service.into()),
        ..by_watch_list()
    };
    let rig = Rig::start_with(&api_server(), options);
    pass(120).await;
    let requests = *requests.lock().unwrap();
    assert!((4..=20).contains(&requests), "{requests} requests in two minutes");
    assert_eq!(rig.stored(), ["a@1"]);
}
