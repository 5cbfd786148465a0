//! How watches are opened, end and are reopened.

mod lines;

use std::time::Duration;

use informant_apiserver::{Action, Answer, ApiServer, Ending, Filter, Injection, Rule};
use informant_cache::SourceState;

use super::{asked_at, one_pod, watches};
use crate::reflector::ReflectorOptions;
use crate::testing::{RecordedCalls, Replaceable, Rig, RigOptions, api_server, by_list, delete, pass, put, settle};

/// When requests with this verb arrived, in seconds.
fn times(rig: &Rig, verb: &str) -> Vec<f64> {
    asked_at(rig, verb).iter().map(Duration::as_secs_f64).collect()
}

/// A server with a pod `a`, an informer that watches it, and a handler that has received it.
async fn synced_with_a() -> (ApiServer, Rig, RecordedCalls) {
    let (server, rig) = one_pod();
    let recorder = rig.record();
    settle().await;
    recorder.take();
    (server, rig, recorder)
}

/// The versions at which watches were opened.
fn watched_from(rig: &Rig) -> Vec<String> {
    let version = |query: &String| {
        let from = query
            .split("resourceVersion=")
            .nth(1)
            .expect("a watch names its version");
        from.split('&').next().unwrap_or_default().to_owned()
    };
    rig.requests("watch").iter().map(version).collect()
}

#[tokio::test(start_paused = true)]
async fn events_are_applied_and_delivered_in_order() {
    let (server, rig) = one_pod();
    let recorder = rig.record();
    settle().await;
    put(&server, "a", 2);
    settle().await;
    put(&server, "b", 1);
    settle().await;
    delete(&server, "a");
    settle().await;
    assert_eq!(
        recorder.take(),
        [
            "add a (initial)",
            "synced (initial)",
            "update a 1->2",
            "add b",
            "delete a"
        ]
    );
    assert_eq!(rig.stored(), rig.truth());
    assert_eq!(
        rig.metric(r#"reflector_watch_events_total{informer="pods",cluster="",type="modified"}"#),
        1.0
    );
    assert_eq!(rig.informer.status().version.as_str(), server.revision().to_string());
}

#[tokio::test(start_paused = true)]
async fn watch_timeouts_vary_between_five_and_ten_minutes() {
    let (_server, rig) = one_pod();
    pass(6_000).await;
    let timeouts: Vec<u64> = rig
        .requests("watch")
        .iter()
        .map(|query| query.rsplit('=').next().expect("a value").parse().expect("seconds"))
        .collect();
    assert!(timeouts.len() >= 10, "{timeouts:?}");
    assert!(
        timeouts.iter().all(|seconds| (300..=600).contains(seconds)),
        "{timeouts:?}"
    );
    assert!(timeouts.windows(2).any(|pair| pair[0] != pair[1]), "{timeouts:?}");
    assert_eq!(
        rig.requests("list").len(),
        1,
        "a watch that ends as agreed is followed by a watch"
    );
    assert_eq!(rig.informer.status().state, SourceState::Live);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_watch_resumes_without_loss_or_duplicates() {
    let (server, rig, recorder) = synced_with_a().await;
    for (revision, ending) in [Ending::Clean, Ending::Reset, Ending::MidLine, Ending::MidLineClean]
        .into_iter()
        .enumerate()
    {
        put(&server, "b", revision as u64);
        settle().await;
        server.faults().drop_watches(&watches(), ending);
        put(&server, "a", 10 + revision as u64);
        put(&server, "c", revision as u64);
        pass(5).await;
        assert_eq!(rig.stored(), rig.truth(), "{ending:?}");
    }
    let calls = recorder.take();
    assert_eq!(
        calls,
        [
            "add b",
            "update a 1->10",
            "add c",
            "update b 0->1",
            "update a 10->11",
            "update c 0->1",
            "update b 1->2",
            "update a 11->12",
            "update c 1->2",
            "update b 2->3",
            "update a 12->13",
            "update c 2->3"
        ]
    );
    // After each lost connection it asks how new the server is.
    assert_eq!(rig.requests("list").len(), 3);
    assert_eq!(times(&rig, "watch").len(), 5);
}

#[tokio::test(start_paused = true)]
async fn an_expired_watch_is_relisted_at_once() {
    let (server, rig) = one_pod();
    pass(200).await;
    server.faults().drop_watches(&watches(), Ending::Expired);
    settle().await;
    assert_eq!(rig.informer.status().state, SourceState::Live);
    let lists = times(&rig, "list");
    assert_eq!(lists.len(), 2);
    assert!((200.0..200.01).contains(&lists[1]), "{lists:?}");
    assert_eq!(rig.informer.status().relists, 1);
    assert_eq!(
        rig.metric(r#"reflector_watch_events_total{informer="pods",cluster="",type="error"}"#),
        1.0
    );
}

#[tokio::test(start_paused = true)]
async fn a_compacted_history_is_detected_when_the_watch_reopens() {
    let (server, rig, recorder) = synced_with_a().await;
    server.faults().restart(Duration::from_secs(3), false);
    put(&server, "a", 2);
    delete(&server, "a");
    put(&server, "b", 1);
    server.faults().compact();
    pass(30).await;
    assert_eq!(rig.stored(), rig.truth());
    assert_eq!(recorder.take(), ["delete a unknown (relist)", "add b (relist)"]);
}

#[tokio::test(start_paused = true)]
async fn too_many_requests_pause_the_watch_without_a_relist() {
    let server = api_server();
    put(&server, "a", 1);
    server.faults().answer(watches(), 4, Answer::too_many_requests(1));
    let rig = Rig::start(&server);
    pass(60).await;
    assert_eq!(rig.requests("list").len(), 1);
    assert_eq!(rig.requests("watch").len(), 5);
    let watches = times(&rig, "watch");
    let waits: Vec<_> = watches.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(
        waits
            .iter()
            .zip([1.0, 1.6, 3.2, 6.4])
            .all(|(wait, least)| *wait >= least),
        "{waits:?}"
    );
    assert_eq!(rig.informer.status().state, SourceState::Live);
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_honored() {
    let server = api_server();
    put(&server, "a", 1);
    server.faults().answer(watches(), 1, Answer::too_many_requests(20));
    let rig = Rig::start(&server);
    pass(60).await;
    let watches = times(&rig, "watch");
    assert_eq!(watches.len(), 2);
    assert!(watches[1] - watches[0] >= 20.0, "{watches:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refused_connection_backs_off_without_a_relist() {
    let (server, rig) = one_pod();
    pass(10).await;
    server.faults().restart(Duration::from_secs(20), false);
    pass(60).await;
    assert_eq!(rig.requests("list")[1..], ["limit=1"]);
    assert_eq!(rig.informer.status().state, SourceState::Live);
    let attempts = rig.metric(r#"reflector_watches_total{informer="pods",cluster="",result="unreachable"}"#);
    assert!((3.0..=6.0).contains(&attempts), "{attempts}");
    assert!(
        rig.informer
            .status()
            .last_error
            .unwrap()
            .0
            .contains("cannot be reached")
    );
}

/// A server without a database, as the embedded one, or one restored from a backup: a watch at the old version would
/// wait forever.
#[tokio::test(start_paused = true)]
async fn a_rolled_back_server_is_detected_at_once() {
    let servers = Replaceable::new();
    let rig = servers.start();
    let recorder = rig.record();
    pass(10).await;
    recorder.take();
    servers.old.faults().restart(Duration::from_secs(20), false);
    pass(2).await;
    servers.replace();
    pass(60).await;
    assert_eq!(
        recorder.take(),
        [
            "delete a unknown (restored)",
            "delete b unknown (restored)",
            "delete c unknown (restored)",
            "add c (restored)"
        ]
    );
    assert_eq!(rig.informer.status().epoch, 1);
    put(&servers.new, "d", 1);
    settle().await;
    assert_eq!(recorder.take(), ["add d"]);
}

/// The server was only away for an instant, and sends no bookmarks: nothing else would tell.
#[tokio::test(start_paused = true)]
async fn a_server_restored_during_a_reconnect_is_detected() {
    let servers = Replaceable::new();
    let rig = servers.start();
    pass(10).await;
    servers.replace();
    servers.old.faults().drop_watches(&watches(), Ending::Reset);
    settle().await;
    pass(2).await;
    assert_eq!(rig.informer.status().epoch, 1);
    assert_eq!(rig.stored(), ["c@5"]);
}

/// Both histories have written the object once since the backup: its uid and version are the same.
#[tokio::test(start_paused = true)]
async fn restored_object_of_the_same_version_is_replaced() {
    let old = api_server();
    put(&old, "a", 1);
    let mut backup = Vec::new();
    old.snapshot().write(&mut backup).unwrap();
    put(&old, "a", 2);
    put(&old, "b", 1);
    let new = ApiServer::restore(informant_apiserver::Options::default(), &*backup).unwrap();
    put(&new, "a", 3);
    let servers = Replaceable::of(old, new);
    let rig = servers.start();
    let recorder = rig.record();
    pass(10).await;
    recorder.take();
    servers.replace();
    servers.old.faults().drop_watches(&watches(), Ending::Reset);
    settle().await;
    pass(2).await;
    assert_eq!(
        recorder.take(),
        ["delete b unknown (restored)", "update a 2->3 (restored)"]
    );
}

/// The watch reached the restored server in another way, and ends in an orderly way after its time.
#[tokio::test(start_paused = true)]
async fn a_restored_server_is_detected_after_one_silent_watch() {
    let servers = Replaceable::new();
    let rig = servers.start();
    pass(10).await;
    servers.replace();
    servers.old.faults().drop_watches(&watches(), Ending::Clean);
    pass(2).await;
    assert_eq!(rig.informer.status().epoch, 0);
    pass(1_210).await;
    assert_eq!(rig.informer.status().epoch, 1);
    assert_eq!(rig.stored(), ["c@5"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_refused_for_other_reasons_leads_to_a_relist() {
    let server = api_server();
    put(&server, "a", 1);
    server.faults().answer(watches(), 1, Answer::internal_error());
    let rig = Rig::start(&server);
    pass(10).await;
    assert_eq!(rig.requests("list").len(), 2);
    assert_eq!(rig.informer.status().state, SourceState::Live);
    assert_eq!(
        rig.metric(r#"reflector_relists_total{informer="pods",cluster="",reason="error"}"#),
        1.0
    );
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_reopened_after_its_deadline() {
    let server = api_server();
    put(&server, "a", 1);
    server.faults().rule(Rule {
        filter: watches(),
        times: Some(1),
        action: Action::Freeze,
    });
    let rig = Rig::start(&server);
    pass(60).await;
    put(&server, "b", 1);
    pass(640 - 60).await;
    assert_eq!(rig.stored(), rig.truth());
    let watches = times(&rig, "watch");
    // timeoutSeconds and half a minute more, whatever the random number.
    assert!((330.0..=631.0).contains(&watches[1]), "{watches:?}");
    assert!(rig.informer.status().last_error.unwrap().0.contains("no data for"));
    let lists = rig.requests("list");
    assert_eq!(lists.len(), 2, "{lists:?}");
    assert_eq!(lists[1], "limit=1", "only the newest version is requested");
}

#[tokio::test(start_paused = true)]
async fn a_watch_with_bookmarks_is_reopened_after_three_silent_minutes() {
    let (server, rig) = one_pod();
    pass(70).await;
    assert!(rig.informer.status().bookmark_age.is_some());
    server.faults().freeze_watches(&watches());
    put(&server, "b", 1);
    pass(250).await;
    assert_eq!(rig.stored(), rig.truth());
    let watches = times(&rig, "watch");
    assert!((200.0..=250.0).contains(&watches[1]), "{watches:?}");
}

#[tokio::test(start_paused = true)]
async fn stopping_ends_the_watch() {
    let (server, rig) = one_pod();
    settle().await;
    assert_eq!(server.stats().watches_open, 1);
    let report = rig.informer.stop(Duration::from_secs(5)).await;
    assert!(report.is_clean(), "{report:?}");
    settle().await;
    assert_eq!(server.stats().watches_open, 0);
    pass(600).await;
    assert_eq!(rig.requests("watch").len(), 1);
    assert_eq!(rig.informer.status().state, SourceState::Stopped);
}

#[tokio::test(start_paused = true)]
async fn stopping_cancels_a_pending_list() {
    let server = api_server();
    server
        .faults()
        .delay(Filter::any().verb("list"), 1, Duration::from_secs(50));
    let rig = Rig::start(&server);
    settle().await;
    let report = rig.informer.stop(Duration::from_secs(5)).await;
    assert!(report.is_clean(), "{report:?}");
    pass(600).await;
    assert_eq!((rig.requests("list").len(), rig.requests("watch").len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_truncated_list_is_retried() {
    let server = api_server();
    for number in 0..50 {
        put(&server, &format!("pod-{number}"), 1);
    }
    for verb in ["list", "watch"] {
        let filter = Filter::any().verb(verb).resource("pods");
        server.faults().rule(Rule {
            filter,
            times: Some(1),
            action: Action::CutBodyBytes(1_000),
        });
    }
    let rig = Rig::start(&server);
    pass(10).await;
    for number in 0..20 {
        put(&server, &format!("pod-{number}"), 2);
    }
    pass(20).await;
    assert_eq!(rig.stored(), rig.truth());
    // The truncated one, its repetition, and one that asks how new the server is after the truncated watch.
    assert_eq!(rig.requests("list").len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_silent_list_is_abandoned_and_retried() {
    let server = api_server();
    put(&server, "a", 1);
    server
        .faults()
        .delay(Filter::any().verb("list"), 1, Duration::from_secs(3_600));
    let rig = Rig::start_with(
        &server,
        RigOptions {
            informer: by_list(ReflectorOptions::default()),
            ..RigOptions::default()
        },
    );
    pass(100).await;
    assert_eq!(rig.stored(), rig.truth());
    assert!(rig.informer.status().last_error.unwrap().0.contains("no data for 90 s"));
}
