//! Faults: each has its effect, on the matching requests, as often as specified.

use std::time::Duration;

use http::{Method, header};
use informant_apiserver::{
    Action, Answer, ApiServer, Ending, Fault, Faults, Filter, Injection, Options, Rule, ServiceError,
};
use serde_json::{Value, json};

use crate::support::{Client, PODS, WatchItem, pod, server};

const WATCH: &str = "/api/v1/namespaces/default/pods?watch=true&resourceVersion=4";

fn pods() -> Filter {
    Filter::any().resource("pods")
}

#[tokio::test(start_paused = true)]
async fn dropped_watches_end_as_asked() {
    let server = server();
    let client = Client::of(&server);
    let other = client.watch("/api/v1/configmaps?watch=true").await;
    for (ending, expected) in [
        (Ending::Clean, WatchItem::End(String::new())),
        (Ending::Reset, WatchItem::Reset(String::new())),
    ] {
        let mut watch = client.watch(WATCH).await;
        assert_eq!(server.faults().drop_watches(&pods(), ending), 1);
        assert_eq!(watch.next().await, expected);
    }
    assert_eq!(server.stats().watches_open, 1);
    drop(other);
}

#[tokio::test(start_paused = true)]
async fn a_watch_can_be_cut_within_its_next_line() {
    let server = server();
    let client = Client::of(&server);
    for (name, ending) in [("a", Ending::MidLine), ("b", Ending::MidLineClean)] {
        let mut watch = client
            .watch(&format!("{PODS}?watch=true&resourceVersion={}", server.revision()))
            .await;
        server.faults().drop_watches(&pods(), ending);
        watch.is_silent().await;
        server.create("v1/pods", "default", pod(name, json!({}))).unwrap();
        let (rest, reset) = match watch.next().await {
            WatchItem::End(rest) => (rest, false),
            WatchItem::Reset(rest) => (rest, true),
            WatchItem::Line(line) => panic!("a whole line: {line}"),
        };
        assert!(rest.starts_with(r#"{"type":"ADDED","object":{"#), "{rest}");
        assert_eq!(reset, ending == Ending::MidLine);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_can_be_ended_as_expired() {
    let server = server();
    let mut watch = Client::of(&server).watch(WATCH).await;
    server.faults().drop_watches(&pods(), Ending::Expired);
    let event = watch.event().await;
    assert_eq!(
        (&event["type"], &event["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
    watch.ends().await;
}

#[tokio::test(start_paused = true)]
async fn a_frozen_watch_is_silent_until_it_thaws() {
    let server = server();
    let mut watch = Client::of(&server)
        .watch(&format!("{WATCH}&allowWatchBookmarks=true&timeoutSeconds=300"))
        .await;
    server.faults().freeze_watches(&pods());
    server.create("v1/pods", "default", pod("a", json!({}))).unwrap();
    let silence = tokio::time::timeout(Duration::from_secs(3_600), watch.next()).await;
    assert!(silence.is_err(), "not even its timeout ends it: {silence:?}");
    server.faults().thaw_watches(&pods());
    assert_eq!(watch.short().await, "ADDED a@5");
}

#[tokio::test(start_paused = true)]
async fn a_watch_can_be_frozen_from_the_start() {
    let server = server();
    server.create("v1/pods", "default", pod("a", json!({}))).unwrap();
    let filter = Filter::any().verb("watch");
    server.faults().rule(Rule {
        filter,
        times: Some(1),
        action: Action::Freeze,
    });
    let client = Client::of(&server);
    let mut first = client.watch(WATCH).await;
    first.is_silent().await;
    assert_eq!(client.watch(WATCH).await.short().await, "ADDED a@5");
}

#[tokio::test(start_paused = true)]
async fn invalid_lines_can_be_injected_into_a_watch() {
    let server = server();
    let mut watch = Client::of(&server).watch(WATCH).await;
    let mut seen = Vec::new();
    for injection in [
        Injection::Garbage,
        Injection::NotJson,
        Injection::UnknownType,
        Injection::Raw("{}".to_owned()),
    ] {
        assert_eq!(server.faults().inject(&pods(), &injection), 1);
        let WatchItem::Line(line) = watch.next().await else {
            panic!("no line")
        };
        seen.push(line);
    }
    insta::assert_snapshot!(seen.concat(), @r#"
    {"type":"ADDED","object":{"of":{"any":"kind"},"this":["is","no","object"]}}
    this line is not JSON
    {"type":"RENAMED","object":{"of":{"any":"kind"},"this":["is","no","object"]}}
    {}
    "#);
    server.create("v1/pods", "default", pod("a", json!({}))).unwrap();
    assert_eq!(watch.short().await, "ADDED a@5");
}

#[tokio::test(start_paused = true)]
async fn a_line_can_be_kept_out_of_initial_events() {
    let server = server();
    server.create("v1/pods", "default", pod("a", json!({}))).unwrap();
    server.faults().rule(Rule {
        filter: Filter::any().verb("watch"),
        times: Some(1),
        action: Action::Freeze,
    });
    let client = Client::of(&server);
    let initial = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut list = client.watch(&format!("{PODS}?{initial}")).await;
    let line =
        Injection::RawAfterInitialEvents(json!({"type": "MODIFIED", "object": pod("old", json!({}))}).to_string());
    server.faults().inject(&pods(), &line);
    list.is_silent().await;
    server.faults().thaw_watches(&pods());
    assert_eq!(list.short().await, "ADDED a@5");
    assert_eq!(list.event().await["type"], "BOOKMARK");
    list.is_silent().await;
    server.faults().inject(&pods(), &line);
    assert_eq!(list.event().await["type"], "MODIFIED");
}

#[tokio::test(start_paused = true)]
async fn a_huge_line_is_a_framed_event_of_an_object() {
    let server = server();
    server.create("v1/pods", "default", pod("a", json!({}))).unwrap();
    let mut watch = Client::of(&server)
        .watch(&format!("{PODS}?watch=true&resourceVersion=5"))
        .await;
    server.faults().inject(&pods(), &Injection::HugeLineBytes(100_000_000));
    let mut bytes = 0;
    let mut begin = String::new();
    loop {
        let frame = watch.frame().await.unwrap().unwrap();
        assert!(frame.len() <= 128 * 1024);
        if bytes == 0 {
            begin = String::from_utf8(frame.to_vec()).unwrap();
        }
        bytes += frame.len();
        if frame.ends_with(b"\n") {
            break;
        }
    }
    assert!((99_999_000..100_001_000).contains(&bytes), "{bytes}");
    assert!(
        begin.starts_with(r#"{"type":"MODIFIED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a""#),
        "{begin}"
    );
    server.delete("v1/pods", "default", "a").unwrap();
    assert_eq!(watch.short().await, "DELETED a@6");
}

#[tokio::test(start_paused = true)]
async fn a_huge_line_is_valid_json() {
    let server = server();
    let mut watch = Client::of(&server).watch(WATCH).await;
    server.faults().inject(&pods(), &Injection::HugeLineBytes(1_000_000));
    assert_eq!(watch.short().await, "MODIFIED huge@4");
}

#[tokio::test(start_paused = true)]
async fn requests_are_answered_by_rules_as_often_as_asked() {
    let server = server();
    let client = Client::of(&server);
    let lists = || Filter::any().verb("list").resource("pods");
    server.faults().answer(lists(), 2, Answer::too_many_requests(3));
    server.faults().answer(lists(), 1, Answer::internal_error());
    server.faults().answer(lists(), 1, Answer::html(200));
    server.faults().answer(lists(), 1, Answer::html(502));
    server.faults().answer(lists(), 1, Answer::unauthorized());
    assert_eq!(
        client.get("/api/v1/configmaps").await.code,
        200,
        "another resource is not met"
    );
    let first = client.get(PODS).await;
    assert_eq!((first.code, first.header(header::RETRY_AFTER)), (429, "3"));
    assert_eq!(first.json()["details"]["retryAfterSeconds"], 3);
    assert_eq!(client.get(PODS).await.code, 429);
    assert_eq!(
        client.get(PODS).await.failure(),
        "500 InternalError: Internal error occurred: fault injected"
    );
    let html = client.get(PODS).await;
    assert_eq!((html.code, html.header(header::CONTENT_TYPE)), (200, "text/html"));
    assert!(html.text.starts_with("<html>"));
    assert_eq!(client.get(PODS).await.code, 502);
    assert_eq!(client.get(PODS).await.code, 401);
    assert_eq!(client.get(PODS).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn requests_can_be_delayed_and_reset() {
    let server = server();
    let client = Client::of(&server);
    server.faults().delay(pods(), 1, Duration::from_secs(40));
    server.faults().answer(pods(), 1, Answer::Reset);
    let began = tokio::time::Instant::now();
    let reset = client.open(Method::GET, PODS, &[], String::new()).await;
    assert_eq!(
        (reset.err(), began.elapsed()),
        (Some(ServiceError::Reset), Duration::from_secs(40))
    );
    assert_eq!(client.get(PODS).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn held_requests_continue_when_released_or_cleared() {
    let server = server();
    let client = Client::of(&server);
    for end in [Faults::release as fn(&Faults), Faults::clear] {
        let faults = server.faults();
        faults.hold(pods(), 2);
        let (mut held, minute) = (Box::pin(client.get(PODS)), Duration::from_secs(60));
        assert!(tokio::time::timeout(minute, &mut held).await.is_err());
        end(&faults);
        assert_eq!(held.await.code, 200);
        // Nor is the next one held.
        let next = tokio::time::timeout(minute, client.get(PODS)).await;
        assert_eq!(next.expect("it is held").code, 200);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_can_be_lost_after_the_write_was_done() {
    let server = server();
    let client = Client::of(&server);
    server.faults().rule(Rule {
        filter: Filter::any().verb("create"),
        times: Some(1),
        action: Action::LoseAnswer,
    });
    let lost = client
        .open(Method::POST, PODS, &[], pod("a", json!({})).to_string())
        .await;
    assert_eq!(lost.err(), Some(ServiceError::Reset));
    assert_eq!(client.get(PODS).await.names(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn bodies_can_be_sliced_and_cut() {
    let server = server();
    server.create("v1/pods", "default", pod("a", json!({}))).unwrap();
    let client = Client::of(&server);
    server.faults().rule(Rule {
        filter: Filter::any().verb("watch"),
        times: Some(1),
        action: Action::SplitFramesBytes(7),
    });
    let mut watch = client.watch(WATCH).await;
    assert_eq!(watch.frame().await.unwrap().unwrap().as_ref(), b"{\"type\"");
    server.faults().rule(Rule {
        filter: Filter::any().verb("list"),
        times: Some(1),
        action: Action::CutBodyBytes(10),
    });
    let list = client.open(Method::GET, PODS, &[], String::new()).await.unwrap();
    let error = http_body_util::BodyExt::collect(list.into_body()).await.err();
    assert!(error.is_some());
    assert_eq!(client.get(PODS).await.names(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn forbidden_requests_are_403_as_by_rbac() {
    let server = server();
    let client = Client::of(&server);
    server.faults().forbid(Filter::any().verb("list").resource("pods"));
    let namespaced = client.get(PODS).await.failure();
    let everywhere = client.get("/api/v1/pods").await.failure();
    insta::assert_snapshot!(format!("{namespaced}\n{everywhere}"), @r#"
    403 Forbidden: pods is forbidden: User "informant" cannot list resource "pods" in API group "" in the namespace "default"
    403 Forbidden: pods is forbidden: User "informant" cannot list resource "pods" in API group "" at the cluster scope
    "#);
    assert_eq!(
        client.watch(WATCH).await.is_silent().await,
        (),
        "watching is another verb"
    );
    server.faults().clear();
    assert_eq!(client.get(PODS).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn a_restart_resets_connections_and_keeps_data() {
    let server = server();
    server.create("v1/pods", "default", pod("a", json!({}))).unwrap();
    let client = Client::of(&server);
    let mut watch = client.watch(&format!("{PODS}?watch=true&resourceVersion=5")).await;
    assert_eq!(server.faults().restart(Duration::from_secs(5), false), 1);
    assert_eq!(watch.next().await, WatchItem::Reset(String::new()));
    let refused = client.open(Method::GET, PODS, &[], String::new()).await;
    assert_eq!(refused.err(), Some(ServiceError::Refused));
    tokio::time::advance(Duration::from_secs(5)).await;
    assert_eq!(client.get(PODS).await.names(), ["a"]);
    assert_eq!(
        client.watch(WATCH).await.short().await,
        "ADDED a@5",
        "the history survived"
    );
}

#[tokio::test(start_paused = true)]
async fn a_restart_can_empty_the_history() {
    let server = server();
    server.create("v1/pods", "default", pod("a", json!({}))).unwrap();
    server.faults().restart(Duration::ZERO, true);
    let client = Client::of(&server);
    assert_eq!(client.watch(WATCH).await.event().await["object"]["code"], 410);
    client
        .watch(&format!("{PODS}?watch=true&resourceVersion=5"))
        .await
        .is_silent()
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_compaction_leaves_open_watches_that_have_read_everything() {
    let server = server();
    let mut watch = Client::of(&server).watch(WATCH).await;
    server.create("v1/pods", "default", pod("a", json!({}))).unwrap();
    assert_eq!(watch.short().await, "ADDED a@5");
    server
        .create("v1/configmaps", "default", json!({ "metadata": { "name": "other" } }))
        .unwrap();
    server.faults().compact();
    server.create("v1/pods", "default", pod("b", json!({}))).unwrap();
    assert_eq!(watch.short().await, "ADDED b@7");
}

#[tokio::test(start_paused = true)]
async fn faults_are_data() {
    let fault = Fault::Rule(Rule {
        filter: Filter::any().verb("list").resource("pods"),
        times: Some(2),
        action: Action::Answer(Answer::html(502)),
    });
    let text = serde_json::to_string(&fault).unwrap();
    insta::assert_snapshot!(text, @r#"{"rule":{"filter":{"verb":"list","resource":"pods"},"times":2,"action":{"answer":{"html":{"code":502}}}}}"#);
    assert_eq!(serde_json::from_str::<Fault>(&text).unwrap(), fault);
    assert!(serde_json::from_str::<Fault>(r#"{"drop-watches":{"filter":{"verbs":"list"}}}"#).is_err());
}

#[tokio::test(start_paused = true)]
async fn faults_come_over_http_only_where_that_was_asked_for() {
    let fault = json!({ "rule": { "filter": { "resource": "pods" }, "times": 1, "action": { "answer": { "html": { "code": 502 } } } } });
    assert_eq!(
        Client::of(&server())
            .post("/informant/faults", fault.clone())
            .await
            .code,
        405
    );
    let server = ApiServer::new(Options {
        faults_over_http: true,
        ..Options::default()
    });
    let client = Client::of(&server);
    assert_eq!(
        client.post("/informant/faults", fault).await.json(),
        json!({ "met": 1 })
    );
    assert_eq!(client.get(PODS).await.code, 502);
    let mut watch = client.watch(WATCH).await;
    assert_eq!(
        client
            .post("/informant/faults", json!({ "drop-watches": {} }))
            .await
            .json(),
        json!({ "met": 1 })
    );
    watch.ends().await;
    assert_eq!(
        client.post("/informant/faults", json!({ "explode": {} })).await.code,
        400
    );
}

#[tokio::test(start_paused = true)]
async fn web_pages_cannot_inject_faults() {
    let server = ApiServer::new(Options {
        faults_over_http: true,
        ..Options::default()
    });
    let client = Client::of(&server);
    let post = async |headers: &[(header::HeaderName, &str)]| {
        let fault = json!({ "drop-watches": {} }).to_string();
        client
            .send(Method::POST, "/informant/faults", headers, fault)
            .await
            .code
    };
    let form = (header::CONTENT_TYPE, "application/x-www-form-urlencoded");
    for headers in [
        vec![(header::ORIGIN, "http://evil.example.com"), form.clone()],
        vec![(header::ORIGIN, "null")],
        vec![(header::HOST, "evil.example.com:8088")],
        vec![(header::HOST, "localhost"), (header::HOST, "evil.example.com")],
    ] {
        assert_eq!(post(&headers).await, 403, "{headers:?}");
    }
    for host in ["localhost:8088", "127.0.0.1:8088", "[::1]:8088"] {
        assert_eq!(post(&[(header::HOST, host), form.clone()]).await, 200, "{host}");
    }
}

#[tokio::test(start_paused = true)]
async fn rules_can_be_listed_and_removed_over_http() {
    let server = ApiServer::new(Options {
        faults_over_http: true,
        ..Options::default()
    });
    let client = Client::of(&server);
    let too_many = json!({ "too-many-requests": { "retry_after_seconds": 7 } });
    for answer in [too_many, json!("internal-error")] {
        let rule = json!({ "filter": { "verb": "list" }, "times": 1, "action": { "answer": answer } });
        assert_eq!(
            client.post("/informant/faults", json!({ "rule": rule })).await.code,
            200
        );
    }
    let standing = client.get("/informant/faults").await.json();
    assert_eq!(standing["rules"].as_array().unwrap().len(), 2);
    let refused = client.get(PODS).await;
    assert_eq!((refused.code, refused.header(http::header::RETRY_AFTER)), (429, "7"));
    assert_eq!(client.get(PODS).await.code, 500);
    assert_eq!(client.get(PODS).await.code, 200);
    client.delete("/informant/faults", Value::Null).await;
    assert_eq!(client.get("/informant/faults").await.json(), json!({ "rules": [] }));
}

#[tokio::test(start_paused = true)]
async fn requests_are_recorded() {
    let server = server();
    let client = Client::of(&server);
    client.get(&format!("{PODS}?limit=5")).await;
    drop(client.watch(WATCH).await);
    let seen: Vec<String> = server
        .requests()
        .iter()
        .map(|request| format!("{} {}", request.verb, request.uri))
        .collect();
    assert_eq!(seen, [format!("list {PODS}?limit=5"), format!("watch {WATCH}")]);
}
