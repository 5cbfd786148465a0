//! Scripted responses that no API server should send.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response, header};
use informant_cache::SourceState;
use informant_cache::listener::ListenerOptions;
use kube::client::Body;

use crate::testing::{
    RecordingHandler, Rig, RigOptions, TestBody, Writer, answer, api_server, client, json_answer, pass, ready_at_once,
    refusal, settle, streamed,
};

const ONE_POD: &str = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"10"},"items":[{"metadata":{"name":"a","namespace":"default","uid":"u-a","resourceVersion":"5"}}]}"#;

fn is_watch(request: &Request<Body>) -> bool {
    request.uri().query().is_some_and(|query| query.contains("watch=true"))
}

/// An informer whose requests are answered by `answer`, which gets the request and the number of earlier ones of its
/// kind (list or watch).
fn rig(
    mut answer: impl FnMut(&Request<Body>, usize) -> Response<TestBody> + Send + 'static,
) -> (Rig, Arc<[AtomicUsize; 2]>) {
    let counts: Arc<[AtomicUsize; 2]> = Arc::default();
    let seen = Arc::clone(&counts);
    let client = client(move |request| {
        let before = seen[usize::from(is_watch(request))].fetch_add(1, Ordering::Relaxed);
        answer(request, before)
    });
    let rig = Rig::start_with(
        &api_server(),
        RigOptions {
            client: Some(client.into()),
            ..RigOptions::default()
        },
    );
    (rig, counts)
}

fn lists_and_watches(counts: &[AtomicUsize; 2]) -> (usize, usize) {
    (counts[0].load(Ordering::Relaxed), counts[1].load(Ordering::Relaxed))
}

/// Watches that stay open for as long as they are kept.
fn open_watch(kept: &mut Vec<Writer>) -> Response<TestBody> {
    let (writer, response) = streamed();
    kept.push(writer);
    response
}

#[tokio::test(start_paused = true)]
async fn a_list_answered_in_html_is_retried() {
    let mut kept = Vec::new();
    let (rig, counts) = rig(move |request, before| match (is_watch(request), before) {
        (false, 0) => answer(200, "text/html", "<html><body>Please log in</body></html>"),
        (false, 1) => answer(502, "text/html", "<html><body>Bad gateway</body></html>"),
        (false, 2) => json_answer("<html>claims to be JSON</html>"),
        (false, _) => json_answer(ONE_POD),
        (true, _) => open_watch(&mut kept),
    });
    settle().await;
    insta::assert_snapshot!(rig.informer.status().last_error.unwrap().0, @r#"list: the response is not JSON but text/html that starts with "<html><body>Please log in</body></html>"; the address is not a Kubernetes API server, or a proxy answers instead of it"#);
    pass(2).await;
    insta::assert_snapshot!(rig.informer.status().last_error.unwrap().0, @"list: the API server responded with 502: <html><body>Bad gateway</body></html>");
    pass(4).await;
    insta::assert_snapshot!(rig.informer.status().last_error.unwrap().0, @r#"list: the server responded to a list with HTML, not JSON: "<html>claims to be JSON</html>"; is a proxy or a login page in between?"#);
    pass(10).await;
    assert_eq!(rig.stored(), ["a@5"]);
    assert_eq!(rig.informer.status().state, SourceState::Live);
    assert_eq!(lists_and_watches(&counts), (4, 1));
}

#[tokio::test(start_paused = true)]
async fn a_watch_answered_in_html_is_retried_without_loss() {
    let mut kept = Vec::new();
    let (rig, _) = rig(move |request, before| match (is_watch(request), before) {
        (false, _) => json_answer(ONE_POD),
        (true, 0) => json_answer("<html>\n<body>Please log in</body>\n</html>\n"),
        (true, 1) => answer(200, "text/html", "<html>"),
        (true, _) => open_watch(&mut kept),
    });
    settle().await;
    assert_eq!(rig.informer.status().state, SourceState::Stale);
    insta::assert_snapshot!(rig.informer.status().last_error.unwrap().0, @r#"watch: the response is not JSON but HTML that starts with "<html>"; the address is not a Kubernetes API server, or a proxy answers instead of it"#);
    pass(20).await;
    assert_eq!(rig.informer.status().state, SourceState::Live);
    assert_eq!(rig.stored(), ["a@5"]);
}

#[tokio::test(start_paused = true)]
async fn a_table_is_not_a_list() {
    let (rig, _) = rig(|_, _| {
        json_answer(r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"1"},"rows":[]}"#)
    });
    settle().await;
    insta::assert_snapshot!(rig.informer.status().last_error.unwrap().0, @"list: the server responded with a Table instead of a list; the request must accept application/json without `as=Table`");
    assert!(!rig.informer.has_synced());
}

#[tokio::test(start_paused = true)]
async fn a_status_response_to_a_watch_is_an_error() {
    let mut kept = Vec::new();
    let (rig, counts) = rig(move |request, before| match (is_watch(request), before) {
        (false, _) => json_answer(ONE_POD),
        // Pretty-printed, as for some clients.
        (true, 0) => answer(
            429,
            "application/json",
            "{\n\"kind\": \"Status\",\n\"code\": 429,\n\"message\": \"slow down\"\n}\n",
        ),
        (true, 1) => json_answer("{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\"}\n"),
        (true, _) => open_watch(&mut kept),
    });
    settle().await;
    insta::assert_snapshot!(rig.informer.status().last_error.unwrap().0, @"watch: the API server responded with 429: slow down");
    pass(10).await;
    assert_eq!(lists_and_watches(&counts), (2, 3), "429 makes no list, 410 does");
    assert_eq!(rig.informer.status().skipped, 0);
}

#[tokio::test(start_paused = true)]
async fn a_compressed_watch_is_refused_with_the_reason() {
    let (rig, _) = rig(|request, _| {
        if !is_watch(request) {
            return json_answer(ONE_POD);
        }
        assert_eq!(request.headers()[header::ACCEPT_ENCODING], "identity");
        let mut response = json_answer("");
        response
            .headers_mut()
            .insert(header::CONTENT_ENCODING, "gzip".parse().unwrap());
        response
    });
    settle().await;
    insta::assert_snapshot!(rig.informer.status().last_error.unwrap().0, @"watch: the response is compressed (gzip) despite `Accept-Encoding: identity`; a proxy in between must not compress watches");
}

#[tokio::test(start_paused = true)]
async fn short_watches_back_off_and_eventually_relist() {
    let (rig, counts) = rig(|request, _| {
        if is_watch(request) {
            json_answer("")
        } else {
            json_answer(ONE_POD)
        }
    });
    settle().await;
    assert_eq!(lists_and_watches(&counts), (1, 1));
    pass(50).await;
    let (lists, watches) = lists_and_watches(&counts);
    assert!(
        lists <= 2 && (4..=7).contains(&watches),
        "{lists} lists, {watches} watches in 50 s"
    );
    pass(600).await;
    let (lists, watches) = lists_and_watches(&counts);
    assert!(
        watches <= 30 && lists <= watches / 5 + 2,
        "{lists} lists, {watches} watches in 650 s"
    );
    assert_eq!(rig.informer.status().state, SourceState::Stale);
}

#[tokio::test(start_paused = true)]
async fn a_short_watch_with_events_is_reopened_at_once() {
    let mut kept = Vec::new();
    let (rig, counts) = rig(move |request, before| match (is_watch(request), before) {
        (false, _) => json_answer(ONE_POD),
        (true, 0) => json_answer(
            "{\"type\":\"MODIFIED\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\",\"namespace\":\"default\",\"uid\":\"u-a\",\"resourceVersion\":\"11\"}}}\n",
        ),
        (true, _) => open_watch(&mut kept),
    });
    settle().await;
    assert_eq!(lists_and_watches(&counts), (1, 2));
    assert_eq!(rig.stored(), ["a@11"]);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_item_is_skipped_and_its_known_state_kept() {
    let broken = ONE_POD
        .replace(
            r#""uid":"u-a","resourceVersion":"5""#,
            r#""uid":7,"resourceVersion":"12""#,
        )
        .replace("\"10\"", "\"12\"");
    let mut kept = Vec::new();
    let (rig, _) = rig(move |request, before| match (is_watch(request), before) {
        (false, 0) => json_answer(ONE_POD),
        (false, _) => json_answer(broken.clone()),
        (true, 0) => json_answer("{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410}}\n"),
        (true, _) => open_watch(&mut kept),
    });
    let recorder = rig.record();
    pass(5).await;
    assert_eq!(rig.informer.status().skipped, 1);
    assert_eq!(recorder.take(), ["add a (initial)", "synced (initial)"]);
}

#[tokio::test(start_paused = true)]
async fn an_older_consistent_list_starts_a_new_epoch() {
    let mut kept = Vec::new();
    let (rig, _) = rig(move |request, before| match (is_watch(request), before) {
        (false, 0) => json_answer(ONE_POD),
        // The restored database has not reached the known version.
        (false, 1) => refusal(504, "Timeout", "Timeout: Too large resource version: 10, current: 4"),
        (false, _) => json_answer(ONE_POD.replace("\"10\"", "\"4\"").replace("\"5\"", "\"3\"")),
        (true, 0) => json_answer("{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410}}\n"),
        (true, _) => open_watch(&mut kept),
    });
    let recorder = rig.record();
    pass(5).await;
    assert_eq!(rig.stored(), ["a@3"]);
    assert_eq!(
        recorder.take(),
        ["add a (initial)", "synced (initial)", "update a ?->? (restored)"]
    );
    let status = rig.informer.status();
    assert_eq!(
        (status.epoch, status.version.as_str(), status.state),
        (1, "4", SourceState::Live)
    );
    assert_eq!(rig.informer.snapshot().epoch(), 1);
    assert_eq!(rig.metric(r#"source_epochs_total{informer="pods",cluster=""}"#), 1.0);
}

#[tokio::test(start_paused = true)]
async fn an_older_list_is_rejected_until_a_consistent_one() {
    let mut kept = Vec::new();
    let (rig, counts) = rig(move |request, before| match (is_watch(request), before) {
        (false, 0) => json_answer(ONE_POD),
        // A replica that lags without knowing it.
        (false, 1) => json_answer(ONE_POD.replace("\"10\"", "\"4\"").replace("\"5\"", "\"3\"")),
        (false, _) => {
            assert!(
                !request.uri().query().unwrap().contains("resourceVersion"),
                "the next list is consistent"
            );
            json_answer(ONE_POD.replace("\"10\"", "\"12\""))
        }
        (true, 0) => json_answer("{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410}}\n"),
        (true, _) => open_watch(&mut kept),
    });
    let recorder = rig.record();
    settle().await;
    assert_eq!(rig.stored(), ["a@5"]);
    assert_eq!(rig.informer.status().state, SourceState::Stale);
    insta::assert_snapshot!(rig.informer.status().last_error.unwrap().0, @"list: the API server returned version 4, older than 10 which was already seen: its replica lags behind; keeping the newer state");
    pass(5).await;
    assert_eq!(lists_and_watches(&counts), (3, 2));
    assert_eq!(
        rig.metric(r#"reflector_rejected_total{informer="pods",cluster="",type="list"}"#),
        1.0
    );
    assert_eq!(recorder.take(), ["add a (initial)", "synced (initial)"]);
    assert_eq!(rig.informer.status().state, SourceState::Live);
}

#[tokio::test(start_paused = true)]
async fn non_integer_versions_turn_the_guard_off_visibly() {
    let mut kept = Vec::new();
    let (rig, _) = rig(move |request, _| match is_watch(request) {
        false => json_answer(ONE_POD.replace("\"10\"", "\"ten\"")),
        true => open_watch(&mut kept),
    });
    settle().await;
    assert_eq!(rig.stored(), ["a@5"]);
    assert!(!rig.informer.status().guarded);
    assert_eq!(rig.metric(r#"source_guard_off{informer="pods",cluster=""}"#), 1.0);
}

#[tokio::test(start_paused = true)]
async fn a_too_large_list_item_is_skipped_and_marked_outdated() {
    let item = |padding: usize| {
        format!(
            r#"{{"metadata":{{"name":"big","namespace":"default","uid":"u","resourceVersion":"6"}},"data":"{}"}}"#,
            "x".repeat(padding)
        )
    };
    let list = ONE_POD.replace("\"items\":[", &format!("\"items\":[{},", item(17 << 20)));
    let mut kept = Vec::new();
    let (rig, _) = rig(move |request, _| match is_watch(request) {
        false => json_answer(list.clone()),
        true => open_watch(&mut kept),
    });
    settle().await;
    assert_eq!(rig.stored(), ["a@5"]);
    assert!(rig.informer.has_synced());
    assert_eq!(
        rig.informer
            .status()
            .outdated
            .iter()
            .map(|key| key.as_str())
            .collect::<Vec<_>>(),
        ["default/big"]
    );
}

fn event(kind: &str, name: &str, version: u64) -> String {
    let object = serde_json::json!({"kind": "Pod", "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "default", "uid": format!("u-{name}"), "resourceVersion": version.to_string()}});
    format!("{}\n", serde_json::json!({"type": kind, "object": object}))
}

#[tokio::test(start_paused = true)]
async fn a_broken_watch_resumes_from_the_last_event() {
    let writers: Arc<std::sync::Mutex<Vec<Writer>>> = Arc::default();
    let kept = Arc::clone(&writers);
    let (rig, counts) = rig(move |request, before| {
        if !is_watch(request) {
            // After the lost connection it asks how new the server is.
            return json_answer(ONE_POD.replace(r#""10""#, if before == 0 { r#""10""# } else { r#""12""# }));
        }
        let from = if before == 0 {
            "resourceVersion=10&"
        } else {
            "resourceVersion=12&"
        };
        assert!(request.uri().query().unwrap().contains(from), "{}", request.uri());
        open_watch(&mut kept.lock().unwrap())
    });
    settle().await;
    let writer = writers.lock().unwrap().pop().unwrap();
    // Two events and a half in one frame.
    writer.write(event("ADDED", "b", 11) + &event("MODIFIED", "a", 12) + &event("ADDED", "c", 13)[..40]);
    writer.reset();
    settle().await;
    assert_eq!(rig.stored(), ["a@12", "b@11"]);
    assert_eq!(lists_and_watches(&counts), (2, 2));
    let writer = writers.lock().unwrap().pop().unwrap();
    assert!(writer.write(event("ADDED", "c", 13)));
    settle().await;
    assert_eq!(rig.stored(), ["a@12", "b@11", "c@13"]);
    drop(rig);
    settle().await;
    assert!(writer.is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_complete_last_line_without_newline_counts() {
    let mut kept = Vec::new();
    let (rig, _) = rig(move |request, before| match (is_watch(request), before) {
        (false, _) => json_answer(ONE_POD),
        (true, 0) => json_answer(event("ADDED", "b", 11).trim_end()),
        (true, _) => open_watch(&mut kept),
    });
    settle().await;
    assert_eq!(rig.stored(), ["a@5", "b@11"]);
}

#[tokio::test(start_paused = true)]
async fn a_new_uid_without_a_delete_is_delete_and_add() {
    let mut kept = Vec::new();
    let (rig, _) = rig(move |request, _| match is_watch(request) {
        false => json_answer(ONE_POD),
        true => {
            let response = open_watch(&mut kept);
            kept[0].write(event("MODIFIED", "a", 12).replace("u-a", "another"));
            response
        }
    });
    let recorder = rig.record();
    settle().await;
    assert_eq!(
        recorder.take(),
        ["add a (initial)", "synced (initial)", "delete a unknown", "add a"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_delete_without_its_own_version_is_accepted() {
    let mut kept = Vec::new();
    let (rig, _) = rig(move |request, _| match is_watch(request) {
        false => json_answer(ONE_POD),
        true => {
            let response = open_watch(&mut kept);
            kept[0].write(event("DELETED", "a", 5));
            response
        }
    });
    settle().await;
    assert_eq!(rig.stored(), Vec::<String>::new());
    assert_eq!(rig.informer.status().rejected, 0);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_never_pauses_is_delivered_while_read() {
    const EVENTS: usize = 20_000;
    let read = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&read);
    let (rig, _) = rig(move |request, _| match is_watch(request) {
        false => json_answer(ONE_POD),
        true => {
            let counter = Arc::clone(&counter);
            let uid = format!(r#""annotations":{{"long":"{}"}},"uid""#, "x".repeat(10_000));
            ready_at_once((11..).take(EVENTS).map(move |version| {
                counter.fetch_add(1, Ordering::Relaxed);
                event("MODIFIED", "a", version).replace(r#""uid""#, &uid)
            }))
        }
    });
    let read_when_told = Arc::new(AtomicUsize::new(0));
    let calls = Arc::clone(&read_when_told);
    let note = move |line: &str| {
        if line.starts_with("update a") && calls.load(Ordering::Relaxed) == 0 {
            calls.store(read.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        Ok(())
    };
    let handler = RecordingHandler {
        lines: Arc::default(),
        fail: Some(Box::new(note)),
    };
    rig.informer
        .add_handler(Box::new(handler), ListenerOptions::default())
        .expect("the informer runs");
    while read_when_told.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    let read = read_when_told.load(Ordering::Relaxed);
    assert!(read < EVENTS / 4, "{read} events were read before the first was calls");
}
