//! The lines of a watch, wherever frames are split.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_bookmark_advances_the_version_the_watch_resumes_at() {
    let (server, rig) = one_pod();
    settle().await;
    let listed = server.revision();
    // Another resource changes; pods do not.
    let config_map =
        serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "default"}});
    server.create("v1/configmaps", "default", config_map).unwrap();
    pass(70).await;
    server.faults().drop_watches(&watches(), Ending::Clean);
    pass(5).await;
    assert_eq!(watched_from(&rig), [listed.to_string(), server.revision().to_string()]);
    assert_eq!(rig.informer.status().version.as_str(), server.revision().to_string());
    let status = rig.informer.status();
    assert!(status.bookmark_age.unwrap() < Duration::from_secs(20));
}

#[tokio::test(start_paused = true)]
async fn invalid_watch_lines_are_skipped_and_counted() {
    let (server, rig, recorder) = synced_with_a().await;
    let version = rig.informer.status().version;
    for injection in [
        Injection::NotJson,
        Injection::Garbage,
        Injection::UnknownType,
        Injection::Raw(r#"{"type":"ADDED","object":{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","resourceVersion":"999999"}}}"#.to_owned()),
    ] {
        server.faults().inject(&watches(), &injection);
    }
    settle().await;
    assert_eq!(rig.informer.status().version, version);
    assert_eq!(rig.informer.status().skipped, 4);
    for reason in ["not-json", "no-name", "unknown-type", "wrong-kind"] {
        let series = format!(r#"reflector_skipped_total{{informer="pods",cluster="",reason="{reason}"}}"#);
        assert_eq!(rig.metric(&series), 1.0, "{reason}");
    }
    put(&server, "a", 2);
    settle().await;
    assert_eq!(recorder.take(), ["update a 1->2"]);
    assert_eq!(rig.requests("list").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_too_long_watch_line_is_skipped_and_marked_outdated() {
    let (server, rig, recorder) = synced_with_a().await;
    server.faults().inject(&watches(), &Injection::HugeLineBytes(100 << 20));
    settle().await;
    let status = rig.informer.status();
    assert_eq!(status.outdated.len(), 1);
    assert_eq!(status.outdated[0].as_str(), "default/a");
    assert_eq!(rig.metric(r#"source_outdated_keys{informer="pods",cluster=""}"#), 1.0);
    assert_eq!(
        rig.metric(r#"reflector_skipped_total{informer="pods",cluster="",reason="too-long"}"#),
        1.0
    );
    assert_eq!(recorder.take(), Vec::<String>::new());
    pass(100).await;
    assert_eq!(
        (rig.requests("list").len(), rig.requests("watch").len()),
        (1, 1),
        "no storm of lists"
    );
    put(&server, "a", 2);
    settle().await;
    assert_eq!(rig.informer.status().outdated.len(), 0);
    assert_eq!(recorder.take(), ["update a 1->2"]);
}

#[tokio::test(start_paused = true)]
async fn events_older_than_the_known_state_are_rejected() {
    let server = api_server();
    put(&server, "a", 1);
    put(&server, "a", 2);
    let rig = Rig::start(&server);
    let recorder = rig.record();
    settle().await;
    put(&server, "b", 1);
    settle().await;
    delete(&server, "b");
    settle().await;
    recorder.take();
    let stored = rig.stored();
    let old = |kind: &str, name: &str, version: u64| {
        let object = serde_json::json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "uid": "u", "resourceVersion": version.to_string()}});
        Injection::Raw(serde_json::json!({"type": kind, "object": object}).to_string())
    };
    for replayed in [old("MODIFIED", "a", 1), old("DELETED", "a", 1), old("ADDED", "b", 2)] {
        server.faults().inject(&watches(), &replayed);
    }
    settle().await;
    assert_eq!(rig.stored(), stored);
    assert_eq!(recorder.take(), Vec::<String>::new());
    assert_eq!(
        rig.metric(r#"reflector_rejected_total{informer="pods",cluster="",type="event"}"#),
        3.0
    );
    assert_eq!(rig.informer.status().rejected, 3);
    // A rejected event does not take the watch back either.
    server.faults().drop_watches(&watches(), Ending::Clean);
    pass(5).await;
    assert_eq!(watched_from(&rig)[1], server.revision().to_string());
}

#[tokio::test(start_paused = true)]
async fn delete_and_recreate_is_delivered_as_delete_and_add() {
    let (server, _rig, recorder) = synced_with_a().await;
    delete(&server, "a");
    put(&server, "a", 7);
    settle().await;
    assert_eq!(recorder.take(), ["delete a", "add a"]);
}

#[tokio::test(start_paused = true)]
async fn frames_may_be_split_anywhere() {
    let server = api_server();
    for name in ["a", "b", "c"] {
        put(&server, name, 1);
    }
    for verb in ["list", "watch"] {
        let filter = Filter::any().verb(verb).resource("pods");
        server.faults().rule(Rule {
            filter,
            times: None,
            action: Action::SplitFramesBytes(7),
        });
    }
    let rig = Rig::start(&server);
    settle().await;
    put(&server, "b", 2);
    delete(&server, "c");
    settle().await;
    assert_eq!(rig.stored(), rig.truth());
    assert_eq!(rig.informer.status().skipped, 0);
}
