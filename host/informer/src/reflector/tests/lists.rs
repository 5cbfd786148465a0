use std::time::Duration;

use informant_apiserver::{Answer, ApiServer, Ending, Options};
use informant_cache::{BackoffOptions, SourceState};

use super::{asked_at, lists, one_pod, watches};
use crate::reflector::ReflectorOptions;
use crate::testing::{Rig, RigOptions, api_server, by_list, delete, pass, put, settle};

fn with_reflector(reflector: ReflectorOptions) -> RigOptions {
    RigOptions {
        informer: by_list(reflector),
        ..RigOptions::default()
    }
}

#[tokio::test(start_paused = true)]
async fn the_watch_starts_at_the_version_of_the_first_list() {
    let (server, rig) = one_pod();
    settle().await;
    assert_eq!(rig.requests("list"), ["limit=500&resourceVersion=0"]);
    let watches = rig.requests("watch");
    let version = server.revision();
    assert_eq!(watches.len(), 1);
    assert!(
        watches[0].starts_with(&format!(
            "watch=true&allowWatchBookmarks=true&resourceVersion={version}&"
        )),
        "{watches:?}"
    );
    assert_eq!(rig.stored(), rig.truth());
    assert_eq!(rig.informer.status().state, SourceState::Live);
}

#[tokio::test(start_paused = true)]
async fn lists_with_pages_are_merged() {
    let server = api_server();
    for number in 0..10 {
        put(&server, &format!("pod-{number}"), 1);
    }
    let server_pages = ReflectorOptions {
        page_items: Some(4),
        ..ReflectorOptions::default()
    };
    let paging = ApiServer::new(Options {
        paging_at_zero: true,
        ..Options::default()
    });
    for number in 0..10 {
        put(&paging, &format!("pod-{number}"), 1);
    }
    let rig = Rig::start_with(&paging, with_reflector(server_pages));
    settle().await;
    let lists = rig.requests("list");
    assert_eq!(lists.len(), 3, "{lists:?}");
    assert!(lists[1].starts_with("limit=4&continue="), "{lists:?}");
    assert_eq!(rig.stored(), rig.truth());
    assert_eq!(rig.stored().len(), 10);
}

/// A server with a pod, and an informer that has listed it and whose watch has just expired.
async fn with_expired_watch() -> (ApiServer, Rig) {
    let (server, rig) = one_pod();
    settle().await;
    server.faults().drop_watches(&watches(), Ending::Expired);
    (server, rig)
}

#[tokio::test(start_paused = true)]
async fn a_relist_requests_nothing_older_than_seen() {
    let (server, rig) = with_expired_watch().await;
    pass(2).await;
    assert_eq!(
        rig.requests("list"),
        [
            "limit=500&resourceVersion=0",
            &format!("resourceVersion={}", server.revision())
        ]
    );
    assert_eq!(rig.informer.status().relists, 1);
    assert_eq!(
        rig.metric(r#"reflector_relists_total{informer="pods",cluster="",reason="expired"}"#),
        1.0
    );
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_leads_to_an_immediate_consistent_list() {
    let (server, rig) = with_expired_watch().await;
    server.faults().answer(lists(), 1, Answer::expired());
    pass(2).await;
    let version = format!("resourceVersion={}", server.revision());
    assert_eq!(
        rig.requests("list"),
        ["limit=500&resourceVersion=0", &version, "limit=500"]
    );
    // After a success, versions are used again.
    server.faults().drop_watches(&watches(), Ending::Expired);
    pass(4).await;
    assert_eq!(rig.requests("list").last(), Some(&version));
}

#[tokio::test(start_paused = true)]
async fn a_too_large_version_leads_to_an_immediate_consistent_list() {
    let (server, rig) = with_expired_watch().await;
    let too_large = r#"{"kind":"Status","code":504,"reason":"Timeout","message":"Timeout: Too large resource version: 9, current: 1"}"#;
    let answer = Answer::Raw {
        code: 504,
        content_type: "application/json".to_owned(),
        body: too_large.to_owned(),
    };
    server.faults().answer(lists(), 1, answer);
    pass(2).await;
    assert_eq!(rig.requests("list").len(), 3);
    assert_eq!(rig.requests("list")[2], "limit=500");
    assert_eq!(rig.informer.status().state, SourceState::Live);
}

#[tokio::test(start_paused = true)]
async fn an_expired_continuation_leads_to_an_unpaged_list() {
    let server = ApiServer::new(Options {
        paging_at_zero: true,
        ..Options::default()
    });
    for number in 0..10 {
        put(&server, &format!("pod-{number}"), 1);
    }
    // The second page.
    server.faults().delay(lists(), 1, Duration::ZERO);
    let rig = Rig::start_with(
        &server,
        with_reflector(ReflectorOptions {
            page_items: Some(4),
            ..ReflectorOptions::default()
        }),
    );
    let faults = server.faults();
    faults.clear();
    faults.delay(lists(), 1, Duration::from_secs(1));
    tokio::time::sleep(Duration::from_millis(500)).await;
    faults.answer(lists(), 1, Answer::expired());
    pass(5).await;
    let lists = rig.requests("list");
    assert_eq!(rig.stored(), rig.truth(), "{lists:?}");
}

#[tokio::test(start_paused = true)]
async fn failed_lists_are_retried_with_growing_waits_until_one_succeeds() {
    let server = api_server();
    put(&server, "a", 1);
    server.faults().answer(lists(), 5, Answer::internal_error());
    let rig = Rig::start(&server);
    pass(120).await;
    let times = asked_at(&rig, "list");
    let waits: Vec<_> = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
    let expected = [0.8, 1.6, 3.2, 6.4, 12.8];
    assert_eq!(waits.len(), expected.len(), "{waits:?}");
    for (wait, least) in waits.iter().zip(expected) {
        assert!((least..least * 2.0 + 0.1).contains(wait), "{waits:?}");
    }
    assert_eq!(rig.stored(), rig.truth());
    let status = rig.informer.status();
    assert_eq!(status.state, SourceState::Live);
    assert!(status.last_error.unwrap().0.contains("500"));
}

#[tokio::test(start_paused = true)]
async fn a_configured_backoff_is_used() {
    let server = api_server();
    server.faults().answer(lists(), 3, Answer::internal_error());
    let backoff = BackoffOptions {
        first: Duration::from_millis(10),
        max: Duration::from_millis(20),
        jitter_percent: 0,
        ..BackoffOptions::default()
    };
    let rig = Rig::start_with(
        &server,
        with_reflector(ReflectorOptions {
            backoff,
            ..ReflectorOptions::default()
        }),
    );
    pass(1).await;
    let times: Vec<_> = asked_at(&rig, "list").iter().map(Duration::as_millis).collect();
    let waits: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(waits.len(), 3);
    assert!(
        waits
            .iter()
            .zip([10, 20, 20])
            .all(|(wait, least)| *wait >= least && *wait <= least + 3),
        "{waits:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_lagging_replica_is_rejected_and_the_next_list_consistent() {
    let server = api_server();
    put(&server, "a", 1);
    let replica = server.replica();
    replica.freeze();
    put(&server, "a", 2);
    put(&server, "b", 1);
    let (current, lagging) = (server.service(), replica.service());
    // Every request after the first list and watch goes to the replica.
    let moved = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let to_replica = std::sync::Arc::clone(&moved);
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let service = if to_replica.load(std::sync::atomic::Ordering::Relaxed) {
            lagging.clone()
        } else {
            current.clone()
        };
        tower::ServiceExt::oneshot(service, request)
    });
    let client = kube::Client::new(service, "default");
    let rig = Rig::start_with(
        &server,
        RigOptions {
            client: Some(client.into()),
            ..RigOptions::default()
        },
    );
    let recorder = rig.record();
    settle().await;
    recorder.take();
    let stored = rig.stored();
    moved.store(true, std::sync::atomic::Ordering::Relaxed);
    // A replica that knows that it lags answers a list at the known version with 504; one that does not answers with
    // its old state.
    server.faults().drop_watches(&watches(), Ending::Expired);
    pass(20).await;
    assert_eq!(rig.stored(), stored);
    assert_eq!(recorder.take(), Vec::<String>::new());
    assert_eq!(rig.informer.status().epoch, 0);
}

#[tokio::test(start_paused = true)]
async fn an_unchanged_relist_delivers_and_copies_nothing() {
    let server = api_server();
    for number in 0..20 {
        put(&server, &format!("pod-{number}"), 1);
    }
    let rig = Rig::start(&server);
    let recorder = rig.record();
    settle().await;
    recorder.take();
    let before = rig.informer.snapshot();
    server.faults().drop_watches(&watches(), Ending::Expired);
    pass(2).await;
    assert_eq!(rig.informer.status().relists, 1);
    assert_eq!(recorder.take(), Vec::<String>::new());
    let after = rig.informer.snapshot();
    assert!(
        before
            .iter()
            .zip(after.iter())
            .all(|(before, after)| before.ptr_eq(after))
    );
}

#[tokio::test(start_paused = true)]
async fn a_relist_delivers_the_difference_with_deletes_as_unknown() {
    let server = api_server();
    for name in ["a", "b", "c"] {
        put(&server, name, 1);
    }
    let rig = Rig::start(&server);
    let recorder = rig.record();
    settle().await;
    recorder.take();
    // The watch ends and cannot be reopened for a while: these changes only show in the next list.
    server.faults().forbid(watches());
    server.faults().drop_watches(&watches(), Ending::Reset);
    pass(5).await;
    put(&server, "a", 2);
    delete(&server, "b");
    delete(&server, "c");
    put(&server, "c", 5);
    put(&server, "d", 1);
    server.faults().clear();
    pass(60).await;
    let mut calls = recorder.take();
    calls.sort();
    assert_eq!(
        calls,
        [
            "add c (relist)",
            "add d (relist)",
            "delete b unknown (relist)",
            "delete c unknown (relist)",
            "update a 1->2 (relist)"
        ]
    );
    assert_eq!(rig.stored(), rig.truth());
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_source_is_retried_at_a_fixed_pace() {
    let server = api_server();
    put(&server, "a", 1);
    server.faults().forbid(lists());
    let rig = Rig::start(&server);
    pass(300).await;
    let status = rig.informer.status();
    assert_eq!(status.state, SourceState::Forbidden);
    assert!(status.last_error.unwrap().0.contains("403 Forbidden"));
    let attempts = rig.requests("list").len();
    assert!((8..=11).contains(&attempts), "{attempts} attempts in 300 s");
    assert_eq!(
        rig.metric(r#"source_state{informer="pods",cluster="",state="Forbidden"}"#),
        1.0
    );
    server.faults().allow(&lists());
    pass(37).await;
    assert_eq!(rig.informer.status().state, SourceState::Live);
    assert_eq!(
        rig.metric(r#"source_state{informer="pods",cluster="",state="Forbidden"}"#),
        0.0
    );
    assert_eq!(rig.metric(r#"informer_synced{informer="pods",cluster=""}"#), 1.0);
}

#[tokio::test(start_paused = true)]
async fn an_authentication_failure_is_shown_as_forbidden() {
    let server = api_server();
    server.faults().answer(lists(), 1, Answer::unauthorized());
    let rig = Rig::start(&server);
    settle().await;
    assert_eq!(rig.informer.status().state, SourceState::Forbidden);
}

#[tokio::test(start_paused = true)]
async fn a_source_waits_for_a_missing_resource() {
    let server = api_server();
    let mut spec = crate::testing::pods();
    spec.resource = informant_spec::GroupVersionResource::new("shop.example.com", "v1", "orders");
    spec.kind = "Order".to_owned();
    let rig = Rig::start_with(
        &server,
        RigOptions {
            spec,
            ..RigOptions::default()
        },
    );
    pass(60).await;
    assert_eq!(rig.informer.status().state, SourceState::WaitingForResource);
    let attempts = rig.requests("list").len().max(rig.requests("get").len());
    assert!((5..=8).contains(&attempts), "{attempts} attempts in 60 s");
}
