use std::time::Duration;

use informant_apiserver::{Action, Answer, ApiServer, Ending, Filter, Rule};
use informant_cache::listener::ListenerOptions;
use informant_cache::{Environment, SourceState};
use informant_object::{KeyRef, LabelSelector, Pointer};

use crate::testing::log_lines::LogLines;
use crate::testing::{RecordedCalls, Rig, RigOptions, api_server, by_watch_list, delete, pass, pods, put, settle};
use crate::{ReconfigureError, ReflectorOptions, SourceSpec, TokioEnvironment};

fn selecting(selector: &str) -> SourceSpec {
    SourceSpec {
        label_selector: Some(LabelSelector::parse(selector).unwrap()),
        ..pods()
    }
}

fn dropping(pointer: &str) -> SourceSpec {
    SourceSpec {
        drop: vec![Pointer::parse(pointer).unwrap()],
        ..pods()
    }
}

async fn reconfigure(rig: &Rig, spec: SourceSpec) {
    rig.informer
        .reconfigure(spec, ReflectorOptions::default())
        .await
        .unwrap();
}

/// A synced informer with a synced handler.
async fn synced(server: &ApiServer) -> (Rig, RecordedCalls) {
    let rig = Rig::start_with(server, by_watch_list());
    let recorder = rig.record();
    settle().await;
    recorder.take();
    (rig, recorder)
}

#[tokio::test(start_paused = true)]
async fn a_changed_selector_delivers_only_the_difference() {
    let server = api_server();
    for (name, revision) in [("a", 1), ("b", 2), ("c", 3)] {
        put(&server, name, revision);
    }
    let (rig, recorder) = synced(&server).await;
    let source = rig.informer.source();
    let before = rig.informer.snapshot();
    reconfigure(&rig, selecting("revision in (2,3)")).await;
    settle().await;
    // With its last state, and not as unknown.
    assert_eq!(recorder.take(), ["delete a (reconfigured)"]);
    assert_eq!(
        (rig.names(), rig.informer.source()),
        (vec!["b".into(), "c".into()], source)
    );
    let key = KeyRef::new("default", "b");
    assert!(
        rig.informer
            .snapshot()
            .get(key)
            .unwrap()
            .ptr_eq(before.get(key).unwrap())
    );
    assert_eq!(rig.informer.status().reconfiguring, None);
    assert_eq!(rig.informer.status().state, SourceState::Live);

    put(&server, "c", 1);
    put(&server, "d", 2);
    settle().await;
    assert_eq!(recorder.take(), ["delete c", "add d"]);
    reconfigure(&rig, pods()).await;
    settle().await;
    assert_eq!(recorder.take(), ["add a (reconfigured)", "add c (reconfigured)"]);
    assert_eq!(rig.stored(), rig.truth());
    // One watch is open: the others were closed.
    assert_eq!(server.stats().watches_open, 1);
}

#[tokio::test(start_paused = true)]
async fn changed_drops_are_updates_of_objects_that_differ() {
    let server = api_server();
    put(&server, "a", 1);
    put(&server, "b", 1);
    let mut annotated = server.get("v1/pods", "default", "b").unwrap().unwrap();
    annotated["metadata"]["annotations"] = serde_json::json!({"note": "long"});
    server.put("v1/pods", "default", annotated).unwrap();
    let mut indexed = pods();
    indexed.indexes = vec![("note".to_owned(), Pointer::parse("/metadata/annotations/note").unwrap())];
    let options = RigOptions {
        spec: indexed.clone(),
        ..by_watch_list()
    };
    let rig = Rig::start_with(&server, options);
    let recorder = rig.record();
    settle().await;
    recorder.take();
    let by_note = || rig.informer.snapshot().by_index("note", "long").unwrap().count();
    assert_eq!(by_note(), 1);
    let spec = SourceSpec {
        indexes: indexed.indexes,
        ..dropping("/metadata/annotations")
    };
    reconfigure(&rig, spec).await;
    settle().await;
    assert_eq!(recorder.take(), ["update b 1->1 (reconfigured)"]);
    assert_eq!(by_note(), 0);
    assert!(!rig.informer.snapshot().iter().any(|pod| pod.text().contains("long")));
    assert_eq!(rig.stored(), rig.truth());
}

fn lists() -> Filter {
    Filter::any().verb("list")
}

/// A server with a pod `a` and an informer with a new selector, whose lists are refused from now on.
async fn refused() -> (ApiServer, Rig, RecordedCalls) {
    let server = api_server();
    put(&server, "a", 1);
    let (rig, recorder) = synced(&server).await;
    server.faults().forbid(lists());
    reconfigure(&rig, selecting("revision=2")).await;
    pass(5).await;
    (server, rig, recorder)
}

#[tokio::test(start_paused = true)]
async fn the_old_request_continues_while_the_new_one_is_refused() {
    let (server, rig, recorder) = refused().await;
    put(&server, "b", 1);
    settle().await;
    assert_eq!(recorder.take(), ["add b"]);
    let status = rig.informer.status();
    assert_eq!(status.state, SourceState::Live);
    let error = status.reconfiguring.unwrap().last_error.unwrap();
    assert!(error.contains("403"), "{error}");
    assert_eq!(status.last_error, None);

    server.faults().allow(&lists());
    put(&server, "c", 2);
    pass(60).await;
    rig.informer.reconfigured().await.unwrap();
    assert_eq!(
        recorder.take(),
        ["add c", "delete a (reconfigured)", "delete b (reconfigured)"]
    );
}

#[tokio::test(start_paused = true)]
async fn an_applied_change_is_no_recovery_of_its_source() {
    let log = LogLines::read();
    let (server, rig, _) = refused().await;
    server.faults().allow(&lists());
    pass(60).await;
    rig.informer.reconfigured().await.unwrap();
    let lines = log.take();
    assert!(
        lines
            .iter()
            .any(|line| line.starts_with("WARN reconfiguration not applied yet"))
    );
    assert!(
        !lines.iter().any(|line| line.starts_with("INFO source recovered")),
        "{lines:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_change_that_is_reverted_changes_nothing() {
    let (server, rig, recorder) = refused().await;
    server.faults().allow(&lists());
    reconfigure(&rig, pods()).await;
    pass(100).await;
    assert!(recorder.take().is_empty());
    assert_eq!(rig.informer.status().reconfiguring, None);
    assert_eq!(rig.names(), ["a"]);
    assert_eq!(server.stats().watches_open, 1);
}

#[tokio::test(start_paused = true)]
async fn events_during_the_candidates_list_are_not_lost() {
    let server = api_server();
    for name in ["a", "b", "c"] {
        put(&server, name, 1);
    }
    let (rig, recorder) = synced(&server).await;
    // Preflight and list both take their time.
    server.faults().rule(Rule {
        filter: Filter::any(),
        times: Some(2),
        action: Action::DelayMs(3_000),
    });
    reconfigure(&rig, dropping("/spec/containers")).await;
    for round in 0..8 {
        put(&server, "a", 10 + round);
        put(&server, &format!("new-{round}"), 1);
        if round == 5 {
            delete(&server, "b");
        }
        pass(1).await;
    }
    settle().await;
    assert_eq!(rig.stored(), rig.truth());
    let calls = recorder.take();
    assert!(calls.iter().any(|line| line.starts_with("delete b")), "{calls:?}");
    assert_eq!(
        calls.iter().filter(|line| line.starts_with("add new-")).count(),
        8,
        "{calls:?}"
    );
    assert!(!rig.informer.snapshot().iter().any(|pod| pod.text().contains("nginx")));
}

#[tokio::test(start_paused = true)]
async fn a_candidates_slow_list_is_abandoned_and_retried() {
    let server = api_server();
    put(&server, "a", 1);
    let (rig, recorder) = synced(&server).await;
    // The preflight succeeds, the list does not.
    server.faults().rule(Rule {
        filter: Filter::any().verb("watch"),
        times: Some(1),
        action: Action::DelayMs(80_000),
    });
    reconfigure(&rig, selecting("revision=2")).await;
    pass(10).await;
    put(&server, "b", 1);
    settle().await;
    assert!(recorder.take().is_empty(), "the reflector is paused");
    pass(50).await;
    assert_eq!(recorder.take(), ["add b"]);
    assert!(
        rig.informer
            .status()
            .reconfiguring
            .unwrap()
            .last_error
            .unwrap()
            .contains("60 s")
    );
    pass(60).await;
    assert_eq!(recorder.take(), ["delete a (reconfigured)", "delete b (reconfigured)"]);
}

#[tokio::test(start_paused = true)]
async fn native_indexes_change_without_a_relist() {
    let server = api_server();
    put(&server, "a", 1);
    let (rig, recorder) = synced(&server).await;
    let mut spec = pods();
    spec.indexes = vec![("node".to_owned(), Pointer::parse("/spec/nodeName").unwrap())];
    let requests = server.requests().len();
    reconfigure(&rig, spec).await;
    assert_eq!(rig.informer.snapshot().by_index("node", "node-1").unwrap().count(), 1);
    reconfigure(&rig, pods()).await;
    assert!(rig.informer.snapshot().by_index("node", "node-1").is_err());
    settle().await;
    assert_eq!(server.requests().len(), requests);
    assert!(recorder.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_change_before_the_first_list_replaces_it() {
    let server = api_server();
    put(&server, "a", 1);
    put(&server, "b", 2);
    server.faults().answer(Filter::any(), 2, Answer::internal_error());
    let rig = Rig::start_with(&server, by_watch_list());
    let recorder = rig.record();
    reconfigure(&rig, selecting("revision=2")).await;
    pass(60).await;
    assert!(rig.informer.has_synced());
    let calls = recorder.take();
    assert_eq!(rig.names(), ["b"]);
    assert!(calls.contains(&"add b (initial)".to_owned()), "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn the_identity_of_a_source_cannot_change() {
    let server = api_server();
    let (rig, _recorder) = synced(&server).await;
    let other = SourceSpec {
        namespace: Some("elsewhere".to_owned()),
        ..pods()
    };
    let error = rig
        .informer
        .reconfigure(other, ReflectorOptions::default())
        .await
        .unwrap_err();
    insta::assert_snapshot!(error, @"the namespace cannot change while the informer runs: remove it and start another one");
    let error = rig
        .informer
        .reconfigure(dropping("/metadata/name"), ReflectorOptions::default())
        .await;
    assert!(matches!(error, Err(ReconfigureError::Drop(_))));
    let _ = rig.informer.stop(Duration::ZERO).await;
    let error = rig
        .informer
        .reconfigure(selecting("a=b"), ReflectorOptions::default())
        .await;
    assert!(matches!(error, Err(ReconfigureError::Stopped(_))));
}

/// Random writes, faults and configuration changes: in the end handler, store and cluster agree on the selected
/// objects.
async fn run(seed: u64) {
    let random = TokioEnvironment::current(seed);
    let server = api_server();
    let rig = Rig::start_with(&server, by_watch_list());
    let recorder = rig.record_with(ListenerOptions {
        seed: seed + 1,
        ..ListenerOptions::default()
    });
    let specs = [
        pods(),
        selecting("revision in (1,2,3)"),
        dropping("/spec"),
        selecting("revision notin (2)"),
    ];
    let mut last = 0;
    for _ in 0..60 {
        for _ in 0..random.random() % 6 {
            let draw = random.random();
            let name = format!("pod-{}", draw % 10);
            match draw >> 8 & 7 {
                0 | 1 => drop(server.delete("v1/pods", "default", &name)),
                _ => put(&server, &name, draw >> 16 & 3),
            }
        }
        match random.random() % 6 {
            0 => {
                last = (random.random() % 4) as usize;
                let options = ReflectorOptions {
                    watch_list: random.random().is_multiple_of(2),
                    ..ReflectorOptions::default()
                };
                rig.informer.reconfigure(specs[last].clone(), options).await.unwrap();
            }
            1 => server.faults().compact(),
            2 => server.faults().answer(Filter::any(), 1, Answer::internal_error()),
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(random.random() % 1_500)).await;
    }
    server.faults().clear();
    pass(180).await;
    let selector = specs[last]
        .label_selector
        .clone()
        .unwrap_or_else(LabelSelector::everything);
    let truth: Vec<_> = server
        .list("v1/pods")
        .unwrap()
        .iter()
        .filter(|pod| selector.matches_with(|key| pod["metadata"]["labels"][key].as_str().map(Into::into)))
        .map(crate::testing::name_at_version)
        .collect();
    assert_eq!(sorted(rig.stored()), sorted(truth), "seed {seed}");
    let view: Vec<_> = super::random::replay(&recorder.take()).into_keys().collect();
    assert_eq!(view, rig.names(), "seed {seed}");
    assert_eq!(server.stats().watches_open, 1, "seed {seed}");
}

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

#[tokio::test(start_paused = true)]
async fn random_configuration_changes_converge() {
    for seed in 0..30 {
        run(seed).await;
    }
}

#[tokio::test(start_paused = true)]
async fn metadata_only_sources_keep_the_resources_kind() {
    for options in [RigOptions::default(), by_watch_list()] {
        let server = api_server();
        put(&server, "a", 1);
        let spec = SourceSpec {
            metadata_only: true,
            ..pods()
        };
        let rig = Rig::start_with(&server, RigOptions { spec, ..options });
        let recorder = rig.record();
        settle().await;
        put(&server, "a", 2);
        put(&server, "b", 1);
        settle().await;
        assert_eq!(rig.stored(), rig.truth());
        for pod in rig.informer.snapshot().iter() {
            assert_eq!((&*pod.api_version(), &*pod.kind()), ("v1", "Pod"));
            assert!(
                !pod.text().contains("nodeName") && !pod.text().contains("Partial"),
                "{}",
                pod.text()
            );
        }
        recorder.take();
        reconfigure(&rig, pods()).await;
        settle().await;
        assert_eq!(
            recorder.take(),
            ["update a 2->2 (reconfigured)", "update b 1->1 (reconfigured)"]
        );
        assert!(
            rig.informer
                .snapshot()
                .iter()
                .all(|pod| pod.text().contains("nodeName"))
        );
        assert_eq!(rig.stored(), rig.truth());
    }
}

#[tokio::test(start_paused = true)]
async fn relist_notify_unchanged_delivers_unchanged_objects() {
    let server = api_server();
    put(&server, "a", 1);
    put(&server, "b", 1);
    let (rig, recorder) = synced(&server).await;
    let expire = || {
        let watches = Filter::any().verb("watch").resource("pods");
        server.faults().drop_watches(&watches, Ending::Expired);
    };
    let telling = SourceSpec {
        relist_notify_unchanged: true,
        ..pods()
    };
    reconfigure(&rig, telling).await;
    expire();
    pass(5).await;
    assert_eq!(recorder.take(), ["update a 1->1 (relist)", "update b 1->1 (relist)"]);

    reconfigure(&rig, pods()).await;
    expire();
    pass(5).await;
    assert_eq!(rig.informer.status().relists, 2);
    assert_eq!(recorder.take(), Vec::<String>::new());
}
