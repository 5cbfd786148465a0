use std::sync::Arc;
use std::time::Duration;

use informant_cache::listener::{ListenerOptions, NextDelivery, Pause};
use informant_cache::{HandlerError, ListenerHandle, Moment, SourceState};
use informant_object::{LabelSelector, Pointer};

use crate::InformerStopped;
use crate::testing::{RecordingHandler, Rig, RigOptions, api_server, pass, pods, put, settle};

#[tokio::test(start_paused = true)]
async fn a_graceful_stop_delivers_accepted_events() {
    let server = api_server();
    for number in 0..200 {
        put(&server, &format!("pod-{number}"), 1);
    }
    let rig = Rig::start(&server);
    let recorder = rig.record();
    rig.informer.synced().await.unwrap();
    let report = rig.informer.stop(Duration::from_secs(5)).await;
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(recorder.take().len(), 201);
    assert!(recorder.registration.has_ended());
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_neither_back_off_nor_paused_listeners() {
    let server = api_server();
    put(&server, "a", 1);
    put(&server, "b", 1);
    let rig = Rig::start(&server);
    let recorder = rig.record();
    let unread = ListenerHandle::new(ListenerOptions::default());
    unread.control().pause(Pause::Quarantine);
    rig.informer.add_listener(unread.clone()).unwrap();
    let paused = ListenerHandle::new(ListenerOptions::default());
    paused.control().pause(Pause::Operator);
    rig.informer.add_listener(paused).unwrap();
    let failing = RecordingHandler {
        lines: Arc::default(),
        fail: Some(Box::new(|_: &str| Err(HandlerError::Retryable("never".to_owned())))),
    };
    rig.informer
        .add_handler(Box::new(failing), ListenerOptions::default())
        .unwrap();
    settle().await;
    let before = tokio::time::Instant::now();
    let report = rig.informer.stop(Duration::from_secs(5)).await;
    assert!(before.elapsed() < Duration::from_secs(1), "{:?}", before.elapsed());
    assert!(report.undelivered >= 6, "queued events are counted: {report:?}");
    assert_eq!(recorder.take().len(), 3, "other handlers receive everything");
}

#[tokio::test(start_paused = true)]
async fn an_orderly_stop_counts_what_its_deadline_left_undelivered() {
    let server = api_server();
    put(&server, "a", 1);
    put(&server, "b", 1);
    let rig = Rig::start(&server);
    let fail = Box::new(|line: &str| match line.starts_with("add a") {
        true => Err(HandlerError::Retryable("never".to_owned())),
        false => Ok(()),
    });
    let handler = RecordingHandler {
        lines: Arc::default(),
        fail: Some(fail),
    };
    let registration = rig
        .informer
        .add_handler(Box::new(handler), ListenerOptions::default())
        .unwrap();
    let unread = ListenerHandle::new(ListenerOptions::default());
    rig.informer.add_listener(unread.clone()).unwrap();
    settle().await;
    let unanswered = unread.consumer().next(Moment::ZERO);
    assert!(matches!(unanswered, NextDelivery::Deliver(_)));
    let before = tokio::time::Instant::now();
    let report = rig.informer.stop(Duration::from_secs(5)).await;
    assert_eq!(before.elapsed().as_secs(), 5);
    assert!(
        report.undelivered >= 3,
        "one in back-off, one in flight, one that was never pulled: {report:?}"
    );
    assert_eq!(
        rig.metric(r#"stop_undelivered_total{informer="pods",cluster=""}"#),
        report.undelivered as f64
    );
    assert_eq!(unread.control().stats().sources, 0);
    settle().await;
    assert!(registration.has_ended());
}

#[tokio::test(start_paused = true)]
async fn a_stopped_informer_rejects_commands_and_leaves_nothing_behind() {
    let server = api_server();
    put(&server, "a", 1);
    let rig = Rig::start(&server);
    let recorder = rig.record();
    settle().await;
    let snapshot = rig.informer.snapshot();
    assert!(rig.informer.stop(Duration::from_secs(1)).await.is_clean());
    assert!(rig.informer.is_stopped());
    assert_eq!(rig.catalog.all().len(), 0);
    assert_eq!(rig.informer.snapshot().len(), 0);
    // A snapshot stays readable.
    assert_eq!(snapshot.len(), 1);
    let lines = Arc::default();
    let handler = Box::new(RecordingHandler { lines, fail: None });
    assert_eq!(
        rig.informer
            .add_handler(handler, ListenerOptions::default())
            .unwrap_err(),
        InformerStopped
    );
    let listener = ListenerHandle::new(ListenerOptions::default());
    assert_eq!(rig.informer.add_listener(listener), Err(InformerStopped));
    assert!(rig.informer.add_indexers(Vec::new()).await.is_err());
    rig.informer.remove_handler(&recorder.registration);
    assert!(
        rig.informer.stop(Duration::from_secs(1)).await.is_clean(),
        "a second stop finds nothing to do"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stopped_informer_frees_its_objects() {
    let server = api_server();
    for number in 0..50 {
        put(&server, &format!("pod-{number}"), 1);
    }
    let rig = Rig::start(&server);
    let recorder = rig.record();
    settle().await;
    let listener = recorder.registration.listener().clone();
    let one = rig.informer.snapshot().iter().next().unwrap().clone();
    let weak = rig.catalog.source(rig.informer.source()).unwrap();
    assert!(rig.informer.stop(Duration::from_secs(1)).await.is_clean());
    settle().await;
    assert_eq!(weak.snapshot().len(), 0);
    assert_eq!(listener.control().stats().sources, 0);
    let bytes = rig.metric(r#"store_bytes{informer="pods",cluster=""}"#);
    assert_eq!((bytes, one.name().is_empty()), (0.0, false), "an object stays readable");
}

#[tokio::test(start_paused = true)]
async fn dropping_an_informer_ends_it_at_once() {
    let server = api_server();
    put(&server, "a", 1);
    let rig = Rig::start(&server);
    let recorder = rig.record();
    settle().await;
    let Rig { informer, catalog, .. } = rig;
    drop(informer);
    settle().await;
    assert_eq!(catalog.all().len(), 0);
    assert_eq!(server.stats().watches_open, 0);
    assert!(recorder.registration.has_ended());
}

#[tokio::test(start_paused = true)]
async fn metrics_of_a_stopped_informer_are_removed() {
    let server = api_server();
    put(&server, "a", 1);
    let rig = Rig::start(&server);
    settle().await;
    let series = r#"store_objects{informer="pods",cluster=""}"#;
    assert_eq!(rig.metric(series), 1.0);
    assert_eq!(
        rig.metric(r#"source_state{informer="pods",cluster="",state="Live"}"#),
        1.0
    );
    let Rig { informer, .. } = &rig;
    assert!(informer.stop(Duration::from_secs(1)).await.is_clean());
    settle().await;
    assert_eq!(
        rig.metric(r#"source_state{informer="pods",cluster="",state="Live"}"#),
        0.0
    );
}

#[tokio::test(start_paused = true)]
async fn namespace_and_selectors_limit_what_is_stored() {
    let server = api_server();
    for (namespace, name, app) in [("default", "a", "web"), ("default", "b", "db"), ("other", "c", "web")] {
        let pod = serde_json::json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": namespace, "name": name, "labels": {"app": app}}});
        if namespace == "other" {
            let space = serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
            server.put("v1/namespaces", "", space).unwrap();
        }
        server.put("v1/pods", namespace, pod).unwrap();
    }
    let mut spec = pods();
    spec.namespace = Some("default".to_owned());
    spec.label_selector = Some(LabelSelector::parse("app=web").unwrap());
    let rig = Rig::start_with(
        &server,
        RigOptions {
            spec,
            ..RigOptions::default()
        },
    );
    settle().await;
    assert_eq!(rig.names(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn objects_have_type_meta_and_lack_dropped_fields() {
    let server = api_server();
    let pod = serde_json::json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "default", "name": "a", "annotations": {"big": "x", "small": "y"}, "managedFields": [{"manager": "m"}]}});
    server.put("v1/pods", "default", pod.clone()).unwrap();
    let mut spec = pods();
    spec.drop = vec![Pointer::parse("/metadata/annotations/big").unwrap()];
    let rig = Rig::start_with(
        &server,
        RigOptions {
            spec,
            ..RigOptions::default()
        },
    );
    settle().await;
    let of = |name: &str| -> serde_json::Value {
        let snapshot = rig.informer.snapshot();
        let object = snapshot
            .get(informant_object::KeyRef::new("default", name))
            .unwrap()
            .clone();
        serde_json::from_slice(object.json()).unwrap()
    };
    let listed = of("a");
    let mut second = pod;
    second["metadata"]["name"] = "b".into();
    server.put("v1/pods", "default", second).unwrap();
    settle().await;
    for object in [listed, of("b")] {
        assert_eq!(
            (object["apiVersion"].as_str(), object["kind"].as_str()),
            (Some("v1"), Some("Pod"))
        );
        assert_eq!(object["metadata"]["annotations"], serde_json::json!({"small": "y"}));
        assert!(object["metadata"].get("managedFields").is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_that_is_down_delays_no_other() {
    let (down, up) = (api_server(), api_server());
    put(&up, "a", 1);
    down.faults().restart(Duration::from_secs(3_600), false);
    let (rig_down, rig_up) = (Rig::start(&down), Rig::start(&up));
    settle().await;
    assert!(rig_up.informer.has_synced());
    assert!(!rig_down.informer.has_synced());
    pass(60).await;
    assert_eq!(rig_down.informer.status().state, SourceState::Syncing);
    assert!(
        rig_down
            .informer
            .status()
            .last_error
            .unwrap()
            .0
            .contains("cannot be reached")
    );
}
