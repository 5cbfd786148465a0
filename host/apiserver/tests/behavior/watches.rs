//! Watches: where they begin, what they show, how they end.

use std::time::Duration;

use informant_apiserver::{ApiServer, Options};
use serde_json::json;

use crate::support::{Client, PODS, pod, server};

fn watch(query: &str) -> String {
    format!("{PODS}?watch=true&{query}")
}

#[tokio::test(start_paused = true)]
async fn a_watch_shows_what_came_after_its_version() {
    let server = server();
    server.create("v1/pods", "default", pod("a", json!({}))).unwrap();
    let mut watch = Client::of(&server).watch(&watch("resourceVersion=5")).await;
    server
        .patch("v1/pods", "default", "a", json!({ "spec": { "nodeName": "n2" } }))
        .unwrap();
    server
        .create("v1/configmaps", "default", json!({ "metadata": { "name": "other" } }))
        .unwrap();
    server.create("v1/pods", "default", pod("b", json!({}))).unwrap();
    server.delete("v1/pods", "default", "a").unwrap();
    assert_eq!(watch.shorts(3).await, ["MODIFIED a@6", "ADDED b@8", "DELETED a@9"]);
    watch.is_silent().await;
}

#[tokio::test(start_paused = true)]
async fn events_carry_objects_with_their_type_and_type_first() {
    let server = server();
    server.create("v1/pods", "default", pod("a", json!({}))).unwrap();
    let mut watch = Client::of(&server).watch(&watch("resourceVersion=4")).await;
    let line = watch.event().await;
    assert_eq!(
        (&line["object"]["kind"], &line["object"]["apiVersion"]),
        (&json!("Pod"), &json!("v1"))
    );
    let mut again = Client::of(&server).watch(&self::watch("resourceVersion=4")).await;
    let crate::support::WatchItem::Line(text) = again.next().await else {
        panic!("no line")
    };
    assert!(
        text.starts_with(r#"{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a""#),
        "{text}"
    );
}

#[tokio::test(start_paused = true)]
async fn deleted_events_have_the_last_state_and_the_deletes_version() {
    let server = server();
    server
        .create("v1/pods", "default", pod("a", json!({ "app": "web" })))
        .unwrap();
    server.delete("v1/pods", "default", "a").unwrap();
    let mut watch = Client::of(&server).watch(&watch("resourceVersion=5")).await;
    let event = watch.event().await;
    assert_eq!(event["type"], "DELETED");
    assert_eq!(event["object"]["metadata"]["resourceVersion"], "6");
    assert_eq!(event["object"]["metadata"]["labels"], json!({ "app": "web" }));
    assert_eq!(event["object"]["spec"], json!({ "nodeName": "n1" }));
}

#[tokio::test(start_paused = true)]
async fn watches_without_version_or_at_zero_begin_with_the_state() {
    let server = server();
    server.create("v1/pods", "default", pod("b", json!({}))).unwrap();
    server.create("v1/pods", "default", pod("a", json!({}))).unwrap();
    for query in ["", "resourceVersion=0"] {
        let mut watch = Client::of(&server).watch(&watch(query)).await;
        assert_eq!(watch.shorts(2).await, ["ADDED a@6", "ADDED b@5"]);
        watch.is_silent().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_selector_turns_entering_and_leaving_into_added_and_deleted() {
    let server = server();
    let label = |value: &str| json!({ "metadata": { "labels": { "app": value } } });
    server
        .create("v1/pods", "default", pod("a", json!({ "app": "x" })))
        .unwrap();
    let mut watch = Client::of(&server)
        .watch(&watch("resourceVersion=5&labelSelector=app=web"))
        .await;
    server.patch("v1/pods", "default", "a", label("web")).unwrap();
    server
        .patch("v1/pods", "default", "a", json!({ "spec": { "nodeName": "n2" } }))
        .unwrap();
    server.patch("v1/pods", "default", "a", label("y")).unwrap();
    server.delete("v1/pods", "default", "a").unwrap();
    assert_eq!(watch.shorts(2).await, ["ADDED a@6", "MODIFIED a@7"]);
    let left = watch.event().await;
    assert_eq!(
        (&left["type"], &left["object"]["metadata"]["resourceVersion"]),
        (&json!("DELETED"), &json!("8"))
    );
    assert_eq!(
        left["object"]["metadata"]["labels"]["app"], "web",
        "the last state that was selected"
    );
    watch.is_silent().await;
}

#[tokio::test(start_paused = true)]
async fn field_selectors_work_on_watches_as_on_lists() {
    let server = server();
    let mut watch = Client::of(&server)
        .watch(&watch("resourceVersion=4&fieldSelector=status.phase=Running"))
        .await;
    server.create("v1/pods", "default", pod("a", json!({}))).unwrap();
    server
        .patch("v1/pods", "default", "a", json!({ "status": { "phase": "Running" } }))
        .unwrap();
    server
        .patch("v1/pods", "default", "a", json!({ "status": { "phase": "Failed" } }))
        .unwrap();
    assert_eq!(watch.shorts(2).await, ["ADDED a@6", "DELETED a@7"]);
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_gets_one_error_event_and_the_end() {
    let server = server();
    server.create("v1/pods", "default", pod("a", json!({}))).unwrap();
    server.faults().compact();
    let mut watch = Client::of(&server).watch(&watch("resourceVersion=4")).await;
    let event = watch.event().await;
    insta::assert_snapshot!(event, @r#"{"object":{"apiVersion":"v1","code":410,"kind":"Status","message":"too old resource version: 4 (5)","metadata":{},"reason":"Expired","status":"Failure"},"type":"ERROR"}"#);
    watch.ends().await;
    let mut kept = Client::of(&server).watch(&self::watch("resourceVersion=5")).await;
    kept.is_silent().await;
}

#[tokio::test(start_paused = true)]
async fn the_history_is_bounded() {
    let server = ApiServer::new(Options {
        history_events_max: 3,
        ..Options::default()
    });
    for name in ["a", "b", "c", "d", "e"] {
        server.create("v1/pods", "default", pod(name, json!({}))).unwrap();
    }
    let client = Client::of(&server);
    assert_eq!(
        client.watch(&watch("resourceVersion=6")).await.shorts(3).await,
        ["ADDED c@7", "ADDED d@8", "ADDED e@9"]
    );
    assert_eq!(
        client.watch(&watch("resourceVersion=5")).await.event().await["object"]["message"],
        "too old resource version: 5 (6)"
    );
}

#[tokio::test(start_paused = true)]
async fn a_version_from_the_future_is_waited_for_in_silence() {
    let server = server();
    let mut watch = Client::of(&server).watch(&watch("resourceVersion=6")).await;
    server.create("v1/pods", "default", pod("a", json!({}))).unwrap();
    server.create("v1/pods", "default", pod("b", json!({}))).unwrap();
    server.create("v1/pods", "default", pod("c", json!({}))).unwrap();
    assert_eq!(watch.short().await, "ADDED c@7");
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_at_its_timeout() {
    let server = server();
    let began = tokio::time::Instant::now();
    let mut watch = Client::of(&server).watch(&watch("timeoutSeconds=7")).await;
    watch.ends().await;
    assert_eq!(began.elapsed().as_secs(), 7);
    assert_eq!(server.stats().watches_open, 0);
}

#[tokio::test(start_paused = true)]
async fn watches_without_timeout_last_half_to_one_hour() {
    let server = server();
    let began = tokio::time::Instant::now();
    Client::of(&server).watch(&watch("")).await.ends().await;
    let lived = began.elapsed().as_secs();
    assert!((1_800..=3_600).contains(&lived), "{lived}");
}

#[tokio::test(start_paused = true)]
async fn bookmarks_are_sent_each_minute_and_before_the_end() {
    let server = server();
    let began = tokio::time::Instant::now();
    let mut watch = Client::of(&server)
        .watch(&watch("allowWatchBookmarks=true&timeoutSeconds=100"))
        .await;
    server
        .create("v1/configmaps", "default", json!({ "metadata": { "name": "other" } }))
        .unwrap();
    let mut seen = Vec::new();
    for _ in 0..2 {
        let event = watch.event().await;
        seen.push(format!("{}s {}", began.elapsed().as_secs(), event));
    }
    watch.ends().await;
    insta::assert_snapshot!(seen.join("\n"), @r#"
    60s {"object":{"apiVersion":"v1","kind":"Pod","metadata":{"resourceVersion":"5"}},"type":"BOOKMARK"}
    98s {"object":{"apiVersion":"v1","kind":"Pod","metadata":{"resourceVersion":"5"}},"type":"BOOKMARK"}
    "#);
}

#[tokio::test(start_paused = true)]
async fn a_watch_list_sends_state_then_annotated_bookmark_then_events() {
    let server = server();
    server.create("v1/pods", "default", pod("a", json!({}))).unwrap();
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = Client::of(&server).watch(&watch(query)).await;
    assert_eq!(watch.short().await, "ADDED a@5");
    let bookmark = watch.event().await;
    assert_eq!(bookmark["type"], "BOOKMARK");
    assert_eq!(
        bookmark["object"]["metadata"]["annotations"],
        json!({ "k8s.io/initial-events-end": "true" })
    );
    assert_eq!(bookmark["object"]["metadata"]["resourceVersion"], "5");
    server.create("v1/pods", "default", pod("b", json!({}))).unwrap();
    assert_eq!(watch.short().await, "ADDED b@6");
}

#[tokio::test(start_paused = true)]
async fn an_empty_watch_list_is_only_its_bookmark() {
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut watch = Client::of(&server()).watch(&watch(query)).await;
    assert_eq!(watch.short().await, "BOOKMARK @4");
}

#[tokio::test(start_paused = true)]
async fn watch_list_in_future_errors_and_in_past_is_served() {
    let server = server();
    server.create("v1/pods", "default", pod("a", json!({}))).unwrap();
    server.faults().compact();
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion";
    let client = Client::of(&server);
    let mut future = client.watch(&watch(&format!("{query}=99"))).await;
    let error = future.event().await;
    assert_eq!(
        (&error["type"], &error["object"]["code"]),
        (&json!("ERROR"), &json!(504))
    );
    assert_eq!(
        error["object"]["details"]["causes"][0]["reason"],
        "ResourceVersionTooLarge"
    );
    future.ends().await;
    assert_eq!(
        client.watch(&watch(&format!("{query}=1"))).await.short().await,
        "ADDED a@5"
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_without_watch_list_refuses_it() {
    let server = ApiServer::new(Options {
        watch_list: false,
        ..Options::default()
    });
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let answer = Client::of(&server).get(&watch(query)).await;
    insta::assert_snapshot!(answer.failure(), @r#"422 Invalid: ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"#);
}

#[tokio::test(start_paused = true)]
async fn a_slow_watch_is_closed_silently_and_counted() {
    let server = ApiServer::new(Options {
        watch_backlog_events_max: 10,
        ..Options::default()
    });
    let client = Client::of(&server);
    let mut slow = client.watch(&watch("resourceVersion=4")).await;
    for number in 0..11 {
        server
            .create("v1/pods", "default", pod(&format!("p{number}"), json!({})))
            .unwrap();
    }
    slow.ends().await;
    assert_eq!(server.stats().watches_closed_slow, 1);
    // Events from before it was opened are not its backlog.
    let mut late = client.watch(&watch("resourceVersion=4")).await;
    assert_eq!(late.shorts(11).await.len(), 11);
}

#[tokio::test(start_paused = true)]
async fn watches_share_an_objects_bytes_and_see_every_event() {
    let server = server();
    let client = Client::of(&server);
    let mut watches = Vec::new();
    for _ in 0..5 {
        watches.push(client.watch(&watch("resourceVersion=4")).await);
    }
    for number in 0..100 {
        server
            .put("v1/pods", "default", pod("a", json!({ "n": number.to_string() })))
            .unwrap();
    }
    for watch in &mut watches {
        let events = watch.shorts(100).await;
        assert_eq!(
            (events[0].as_str(), events[99].as_str()),
            ("ADDED a@5", "MODIFIED a@104")
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_wakes_a_waiting_watch_at_once() {
    let server = server();
    let mut watch = Client::of(&server).watch(&watch("resourceVersion=4")).await;
    let writer = server.clone();
    let began = tokio::time::Instant::now();
    let (event, ()) = tokio::join!(watch.short(), async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        writer.create("v1/pods", "default", pod("a", json!({}))).unwrap();
    });
    assert_eq!((event.as_str(), began.elapsed()), ("ADDED a@5", Duration::from_secs(3)));
}
