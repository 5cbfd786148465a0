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
async fn a_too_large_delete_is_delivered_by_its_name() {
    let server = api_server();
    put(&server, "a", 1);
    let reflector = ReflectorOptions {
        watch_line_bytes_max: 5_000,
        ..ReflectorOptions::default()
    };
    let options = RigOptions {
        informer: by_list(reflector),
        ..RigOptions::default()
    };
    let rig = Rig::start_with(&server, options);
    let recorder = rig.record();
    settle().await;
    recorder.take();
    let padding = serde_json::json!({"metadata": {"annotations": {"padding": "x".repeat(10_000)}}});
    server.patch("v1/pods", "default", "a", padding).unwrap();
    settle().await;
    assert_eq!(rig.informer.status().outdated.len(), 1);
    delete(&server, "a");
    settle().await;
    assert_eq!(recorder.take(), ["delete a unknown"]);
    assert_eq!(rig.names(), Vec::<String>::new());
    assert_eq!(rig.informer.status().outdated.len(), 0);
    // A new incarnation is a new object.
    put(&server, "a", 1);
    settle().await;
    assert_eq!(recorder.take(), ["add a"]);
}

/// A watch line of a pod that cannot be kept: brackets in its spec do not match.
fn broken(kind: &str, metadata: &str) -> Injection {
    Injection::Raw(format!(
        r#"{{"type":"{kind}","object":{{"apiVersion":"v1","kind":"Pod","metadata":{{"namespace":"default",{metadata}}},"spec":{{"x":[}}]}}}}}}"#
    ))
}

#[tokio::test(start_paused = true)]
async fn unreadable_events_mark_their_keys_as_outdated() {
    let (server, rig, recorder) = synced_with_a().await;
    let newest = server.revision() + 1;
    let metadata = format!(r#""name":"a","resourceVersion":"{newest}""#);
    server.faults().inject(&watches(), &broken("MODIFIED", &metadata));
    settle().await;
    let status = rig.informer.status();
    assert_eq!(status.outdated, [informant_object::Key::new("default", "a")]);
    assert_eq!((status.state, status.skipped), (SourceState::Live, 1));
    assert_eq!(recorder.take(), Vec::<String>::new());
    // A complete list shows again what is outdated.
    server.faults().drop_watches(&watches(), Ending::Expired);
    pass(5).await;
    assert_eq!(rig.informer.status().outdated, Vec::<informant_object::Key>::new());
}

#[tokio::test(start_paused = true)]
async fn unreadable_deletes_are_delivered_by_name() {
    let (server, rig, recorder) = synced_with_a().await;
    put(&server, "b", 1);
    settle().await;
    recorder.take();
    let of = |name: &str, version: u64| format!(r#""name":"{name}","uid":"u","resourceVersion":"{version}""#);
    let newest = server.revision();
    for (event, metadata) in [
        // An older one, of an earlier incarnation.
        ("DELETED", of("a", 1)),
        // One of an object that no handler knows.
        ("DELETED", of("unknown", newest + 1)),
        // Its key may be another one: the namespace is known, the name is not.
        ("DELETED", r#""uid":"u""#.to_owned()),
        ("MODIFIED", of("b", newest + 2)),
    ] {
        server.faults().inject(&watches(), &broken(event, &metadata));
    }
    settle().await;
    assert_eq!(recorder.take(), Vec::<String>::new());
    assert_eq!(rig.names(), ["a", "b"]);
    assert_eq!(rig.informer.status().outdated.len(), 1);

    server
        .faults()
        .inject(&watches(), &broken("DELETED", &of("b", newest + 3)));
    // A server whose deletes have no version.
    server.faults().inject(&watches(), &broken("DELETED", r#""name":"a""#));
    settle().await;
    assert_eq!(recorder.take(), ["delete b unknown", "delete a unknown"]);
    assert_eq!(rig.names(), Vec::<String>::new());
    let status = rig.informer.status();
    assert_eq!((status.state, status.outdated.len()), (SourceState::Live, 0));
    assert!(status.guarded, "a version that cannot be read turns no guard off");
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
