//! The budget of all caches: what is shed, what is read again, and what returns.

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use informant_apiserver::{Answer, ApiServer, Ending, Filter};
use informant_cache::{AnswerBody, BodyUnavailable, CacheBudget};
use informant_object::{KeyRef, Object, Pointer};
use serde_json::json;
use tokio::time::Instant;

use crate::testing::log_lines::LogLines;
use crate::testing::{Rig, RigOptions, api_server, pass, pods, put, settle};

/// Room for 20 of the pods that [`put_large`] writes.
const MAX_BYTES: usize = 100 * 1_024;

fn with_budget(max_bytes: usize) -> RigOptions {
    let mut spec = pods();
    spec.indexes = vec![("node".to_owned(), Pointer::parse("/spec/nodeName").unwrap())];
    RigOptions {
        spec,
        budget: CacheBudget::new(Some(max_bytes)),
        ..RigOptions::default()
    }
}

fn with_namespaces() -> ApiServer {
    let server = api_server();
    for name in ["small", "large"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        server.put("v1/namespaces", "", namespace).unwrap();
    }
    server
}

/// Writes a pod of some 5 KiB.
fn put_large(server: &ApiServer, namespace: &str, number: usize) {
    put_sized(server, namespace, number, 5_000);
}

fn put_sized(server: &ApiServer, namespace: &str, number: usize, bytes: usize) {
    server.put("v1/pods", namespace, pod(namespace, number, bytes)).unwrap();
}

fn pod(namespace: &str, number: usize, bytes: usize) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": namespace, "name": format!("pod-{number:03}")},
        "spec": {"nodeName": "node-1", "text": "x".repeat(bytes)},
    })
}

/// A source with 5 large pods in the namespace `small`, to which 40 in `large` were added.
async fn shed_by_events(server: &ApiServer) -> Rig {
    (0..5).for_each(|number| put_large(server, "small", number));
    let rig = Rig::start_with(server, with_budget(MAX_BYTES));
    settle().await;
    for number in 0..40 {
        put_large(server, "large", number);
        settle().await;
    }
    rig
}

fn heads_in(rig: &Rig, namespace: &str) -> usize {
    let snapshot = rig.informer.snapshot();
    let here = snapshot.iter().filter(|object| object.namespace() == namespace);
    here.filter(|object| object.is_head()).count()
}

fn head(rig: &Rig, namespace: &str, number: usize) -> Object {
    let name = format!("pod-{number:03}");
    let snapshot = rig.informer.snapshot();
    snapshot.get(KeyRef::new(namespace, &name)).unwrap().clone()
}

/// Asks for the body of `head`.
fn ask(rig: &Rig, head: &Object) -> Receiver<Result<Object, BodyUnavailable>> {
    let (sender, answer) = channel();
    let source = rig.catalog.source(rig.informer.source()).unwrap();
    source.read_body(head, Box::new(move |body| drop(sender.send(body))));
    answer
}

async fn read(rig: &Rig, head: &Object) -> Result<Object, BodyUnavailable> {
    let answer = ask(rig, head);
    pass(3).await;
    answer.try_recv().unwrap()
}

fn assert_complete(rig: &Rig) {
    let (mut stored, mut truth) = (rig.stored(), rig.truth());
    stored.sort_unstable();
    truth.sort_unstable();
    assert_eq!(stored, truth);
}

fn indexed(rig: &Rig) -> usize {
    rig.informer.snapshot().by_index("node", "node-1").unwrap().count()
}

#[tokio::test(start_paused = true)]
async fn events_beyond_the_budget_shed_the_largest_namespace() {
    let log = LogLines::read();
    let server = with_namespaces();
    let rig = shed_by_events(&server).await;
    assert_eq!((heads_in(&rig, "large"), heads_in(&rig, "small")), (40, 0));
    assert!(rig.catalog.budget().used_bytes() < MAX_BYTES);
    assert_complete(&rig);
    assert_eq!(indexed(&rig), 45);
    assert_eq!(rig.metric(r#"shed_namespaces{informer="pods",cluster=""}"#) as u64, 1);
    let warnings: Vec<_> = log.take().into_iter().filter(|line| line.starts_with("WARN")).collect();
    insta::assert_snapshot!(warnings.join("\n"), @r#"WARN cache budget reached, only heads are kept; raise max-bytes, or use digest, drop or a selector informer="pods" resource="v1/pods" shed_namespace="large" max_bytes=102400 code="cache-shed""#);
}

#[tokio::test(start_paused = true)]
async fn a_list_beyond_the_budget_is_kept_as_heads() {
    for watch_list in [false, true] {
        let server = with_namespaces();
        (0..5).for_each(|number| put_large(&server, "small", number));
        (0..200).for_each(|number| put_large(&server, "large", number));
        let mut options = with_budget(2 * MAX_BYTES);
        options.informer.reflector.watch_list = watch_list;
        options.informer.reflector.list_bytes_max = 1_024;
        let rig = Rig::start_with(&server, options);
        let calls = rig.record();
        settle().await;
        assert_eq!((heads_in(&rig, "large"), heads_in(&rig, "small")), (200, 0));
        assert_complete(&rig);
        assert_eq!(indexed(&rig), 205);
        assert_eq!(calls.take().len(), 206);
        let whole = read(&rig, &head(&rig, "large", 7)).await.unwrap();
        assert!(!whole.is_head() && whole.size_bytes() > 5_000);
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_of_a_shed_namespace_is_delivered() {
    let server = with_namespaces();
    let rig = shed_by_events(&server).await;
    let calls = rig.record();
    settle().await;
    assert_eq!(calls.take().len(), 46);
    put_large(&server, "large", 40);
    settle().await;
    assert_eq!(calls.take(), ["add pod-040"]);
    assert_eq!(heads_in(&rig, "large"), 41);
}

#[tokio::test(start_paused = true)]
async fn many_bodies_of_a_namespace_are_read_by_page() {
    let server = with_namespaces();
    let rig = shed_by_events(&server).await;
    let before = rig.requests("list").len();
    for number in 0..40 {
        let head = head(&rig, "large", number);
        let answer = ask(&rig, &head);
        settle().await;
        let body = answer.try_recv().unwrap().unwrap();
        assert!(!body.is_head() && body.version() == head.version(), "{number}");
    }
    let lists = rig.requests("list").split_off(before);
    assert_eq!(lists.len(), 8, "{lists:?}");
    insta::assert_snapshot!(lists[6], @"fieldSelector=metadata.name%3Dpod-006&limit=1");
    insta::assert_snapshot!(lists[7], @"limit=500");
    assert_eq!(
        rig.metric(r#"body_reads_total{informer="pods",cluster="",result="ok"}"#) as u64,
        40
    );
    put_large(&server, "large", 3);
    put(&server, "other", 1);
    settle().await;
    let body = read(&rig, &head(&rig, "large", 3)).await.unwrap();
    assert_eq!(body.version(), head(&rig, "large", 3).version(), "the page is older");
}

#[tokio::test(start_paused = true)]
async fn reads_of_bodies_are_paced() {
    let server = with_namespaces();
    let rig = shed_by_events(&server).await;
    pass(10).await;
    let (asked, head) = (Instant::now(), head(&rig, "large", 0));
    server
        .faults()
        .answer(Filter::any().verb("list"), 1, Answer::internal_error());
    let answers: Vec<_> = (0..300).map(|_| ask(&rig, &head)).collect();
    assert_eq!(answers[299].try_recv().unwrap().unwrap_err(), BodyUnavailable::Busy);
    assert!(asked.elapsed() < Duration::from_millis(1));
    pass(5).await;
    assert!(matches!(answers[0].try_recv(), Ok(Err(BodyUnavailable::Failed(_)))));
    assert!(answers[255].try_recv().unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn the_body_of_a_deleted_object_is_gone() {
    let server = with_namespaces();
    let rig = shed_by_events(&server).await;
    let head = head(&rig, "large", 3);
    server.delete("v1/pods", "large", "pod-003").unwrap();
    assert_eq!(read(&rig, &head).await.unwrap_err(), BodyUnavailable::Gone);
    put_large(&server, "large", 3);
    assert_eq!(read(&rig, &head).await.unwrap_err(), BodyUnavailable::Gone);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_not_answered_in_time_is_busy() {
    let server = with_namespaces();
    let rig = shed_by_events(&server).await;
    server.faults().hold(Filter::any().verb("list"), 1);
    assert_eq!(
        read(&rig, &head(&rig, "large", 3)).await.unwrap_err(),
        BodyUnavailable::Busy
    );
}

#[tokio::test(start_paused = true)]
async fn bodies_of_a_stopped_source_are_not_read() {
    let server = with_namespaces();
    let rig = shed_by_events(&server).await;
    let (head, source) = (
        head(&rig, "large", 3),
        rig.catalog.source(rig.informer.source()).unwrap(),
    );
    let _ = rig.informer.stop(Duration::from_secs(1)).await;
    settle().await;
    let (sender, answer) = channel();
    source.read_body(&head, Box::new(move |body| drop(sender.send(body))));
    assert_eq!(answer.try_recv().unwrap().unwrap_err(), BodyUnavailable::NoReader);
    assert_eq!(rig.catalog.budget().used_bytes(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_shed_namespace_returns_when_there_is_room() {
    let server = with_namespaces();
    let rig = shed_by_events(&server).await;
    let calls = rig.record();
    for number in 6..40 {
        server.delete("v1/pods", "large", &format!("pod-{number:03}")).unwrap();
    }
    pass(30).await;
    assert_eq!(heads_in(&rig, "large"), 6, "too early");
    calls.take();
    pass(50).await;
    assert_eq!(rig.informer.snapshot().heads(), 0);
    assert_complete(&rig);
    assert_eq!(indexed(&rig), 11);
    assert_eq!(rig.metric(r#"shed_namespaces{informer="pods",cluster=""}"#) as u64, 0);
    assert_eq!(
        rig.metric(r#"cache_returns_total{informer="pods",cluster=""}"#) as u64,
        1
    );
    assert_eq!(calls.take(), Vec::<String>::new(), "no object has changed");
    put_large(&server, "large", 1);
    settle().await;
    assert_eq!(rig.informer.snapshot().heads(), 0, "whole from now on");
}

#[tokio::test(start_paused = true)]
async fn a_return_that_fails_is_tried_again() {
    let server = with_namespaces();
    let rig = shed_by_events(&server).await;
    for number in 6..40 {
        server.delete("v1/pods", "large", &format!("pod-{number:03}")).unwrap();
    }
    server
        .faults()
        .answer(Filter::any().verb("list"), 1, Answer::internal_error());
    pass(80).await;
    assert_eq!(heads_in(&rig, "large"), 6);
    put_large(&server, "large", 1);
    settle().await;
    assert_eq!(heads_in(&rig, "large"), 6, "shed again");
    pass(70).await;
    assert_eq!(rig.informer.snapshot().heads(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_empty_shed_namespace_is_forgotten() {
    let server = with_namespaces();
    let rig = shed_by_events(&server).await;
    for number in 0..40 {
        server.delete("v1/pods", "large", &format!("pod-{number:03}")).unwrap();
    }
    pass(11).await;
    assert_eq!(rig.metric(r#"shed_namespaces{informer="pods",cluster=""}"#) as u64, 0);
    put_large(&server, "large", 1);
    settle().await;
    assert_eq!(rig.informer.snapshot().heads(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_source_of_metadata_sheds_nothing() {
    let server = with_namespaces();
    (0..40).for_each(|number| put_large(&server, "large", number));
    let mut options = with_budget(1_024);
    options.spec.metadata_only = true;
    options.spec.indexes.clear();
    let rig = Rig::start_with(&server, options);
    settle().await;
    assert_eq!((rig.stored().len(), rig.informer.snapshot().heads()), (40, 0));
}

#[tokio::test(start_paused = true)]
async fn a_page_with_too_many_bytes_is_read_again_smaller() {
    let server = with_namespaces();
    for number in 0..72 {
        put_sized(&server, "large", number, if number < 60 { 2_000 } else { 1_000_000 });
    }
    let options = with_budget(MAX_BYTES);
    let budget = options.budget.clone();
    let rig = Rig::start_with(&server, options);
    settle().await;
    assert_eq!(heads_in(&rig, "large"), 72);
    let before = rig.requests("list").len();
    budget.set_max_bytes(None);
    pass(80).await;
    assert_eq!(rig.informer.snapshot().heads(), 0);
    assert_complete(&rig);
    let lists = rig.requests("list").split_off(before);
    let limits = lists.iter().filter_map(|list| list.split('&').next());
    insta::assert_snapshot!(limits.collect::<Vec<_>>().join(" "), @"limit=24 limit=24 limit=24 limit=10 limit=10 limit=10");
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_ignores_the_selector_is_cut_off() {
    let server = with_namespaces();
    let rig = shed_by_events(&server).await;
    let items: Vec<_> = (100..112).map(|number| pod("large", number, 1_000_000)).collect();
    let list = json!({"apiVersion": "v1", "kind": "PodList", "metadata": {"resourceVersion": "9"}, "items": items});
    let answer = Answer::Raw {
        code: 200,
        content_type: "application/json".to_owned(),
        body: list.to_string(),
    };
    server.faults().answer(Filter::any().verb("list"), 1, answer);
    let body = read(&rig, &head(&rig, "large", 3)).await;
    assert!(matches!(body, Err(BodyUnavailable::Failed(_))), "{body:?}");
}

#[tokio::test(start_paused = true)]
async fn an_old_snapshot_does_not_shed_other_namespaces() {
    let server = with_namespaces();
    (0..12).for_each(|number| put_large(&server, "small", number));
    (0..3).for_each(|number| put_large(&server, "large", number));
    let rig = Rig::start_with(&server, with_budget(MAX_BYTES));
    settle().await;
    let held = rig.informer.snapshot();
    assert_eq!(held.heads(), 0);
    for number in 3..9 {
        put_large(&server, "large", number);
        settle().await;
    }
    assert_eq!((heads_in(&rig, "small"), heads_in(&rig, "large")), (12, 0));
    let held_bytes = rig.informer.snapshot().held_bytes();
    assert!(held_bytes > 12 * 5_000, "{held_bytes}");
    assert!(rig.catalog.budget().used_bytes() < MAX_BYTES);
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn bodies_of_alternating_namespaces_are_read_by_page() {
    let server = with_namespaces();
    for number in 0..30 {
        put_large(&server, "small", number);
        put_large(&server, "large", number);
    }
    let rig = Rig::start_with(&server, with_budget(MAX_BYTES));
    settle().await;
    assert_eq!((heads_in(&rig, "small"), heads_in(&rig, "large")), (30, 30));
    let before = rig.requests("list").len();
    for number in 0..30 {
        for namespace in ["small", "large"] {
            let answer = ask(&rig, &head(&rig, namespace, number));
            settle().await;
            assert!(answer.try_recv().unwrap().is_ok());
        }
    }
    assert_eq!(rig.requests("list").len() - before, 2 * 8);
}

/// A call that gave up waiting for a body.
struct GivenUp(bool);

impl AnswerBody for GivenUp {
    fn is_closed(&self) -> bool {
        self.0
    }

    fn send(self: Box<Self>, _body: Result<Object, BodyUnavailable>) -> bool {
        false
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_that_no_call_waits_for_are_not_read() {
    let server = with_namespaces();
    let rig = shed_by_events(&server).await;
    let source = rig.catalog.source(rig.informer.source()).unwrap();
    let before = rig.requests("list").len();
    for _ in 0..100 {
        source.read_body(&head(&rig, "large", 1), Box::new(GivenUp(true)));
    }
    let answer = ask(&rig, &head(&rig, "large", 2));
    settle().await;
    assert!(answer.try_recv().unwrap().is_ok());
    assert_eq!(rig.requests("list").len() - before, 1);
}

#[tokio::test(start_paused = true)]
async fn only_a_body_that_is_taken_wakes_refused_calls() {
    let server = with_namespaces();
    let rig = shed_by_events(&server).await;
    let source = rig.catalog.source(rig.informer.source()).unwrap();
    let (sender, woken) = channel();
    let _watch = rig.catalog.watch_ready(move |ready| sender.send(ready).unwrap());
    source.read_body(&head(&rig, "large", 1), Box::new(GivenUp(true)));
    source.read_body(&head(&rig, "large", 1), Box::new(GivenUp(false)));
    settle().await;
    assert_eq!(woken.try_iter().count(), 0);
    read(&rig, &head(&rig, "large", 2)).await.unwrap();
    assert_eq!(woken.try_iter().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_returning_during_a_list_has_no_heads_left() {
    let server = with_namespaces();
    let rig = shed_by_events(&server).await;
    for number in 6..40 {
        server.delete("v1/pods", "large", &format!("pod-{number:03}")).unwrap();
    }
    pass(30).await;
    server.faults().hold(Filter::any().verb("list"), 1);
    server.faults().compact();
    server.faults().drop_watches(&Filter::any(), Ending::Expired);
    put_large(&server, "large", 1);
    pass(50).await;
    server.faults().release();
    pass(5).await;
    assert_complete(&rig);
    assert!(
        matches!(heads_in(&rig, "large"), 0 | 6),
        "{} of 6 are heads",
        heads_in(&rig, "large")
    );
    pass(70).await;
    put_large(&server, "large", 2);
    settle().await;
    assert_eq!(rig.informer.snapshot().heads(), 0);
}
