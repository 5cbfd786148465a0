use std::time::Duration;

use informant_apiserver::{Action, Answer, ApiServer, Filter, Rule};
use informant_cache::{Snapshot, SourceState};
use informant_object::{KeyRef, ResourceVersion};

use crate::NotFresh;
use crate::testing::{Replaceable, Rig, api_server, pass, put, settle};

const MINUTE: Duration = Duration::from_secs(60);

fn newest(server: &ApiServer) -> ResourceVersion {
    ResourceVersion::new(&server.revision().to_string())
}

/// Writes an object that no informer watches here, so that only a bookmark shows its version.
fn put_another_kind(server: &ApiServer) {
    let object = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}});
    server.create("v1/configmaps", "default", object).unwrap();
}

fn has(snapshot: &Snapshot, name: &str) -> bool {
    let key = KeyRef {
        namespace: "default",
        name,
    };
    snapshot.get(key).is_some()
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_version_makes_a_write_visible() {
    let server = api_server();
    let rig = Rig::start(&server);
    settle().await;
    for name in ["a", "b", "c"] {
        put(&server, name, 1);
        assert!(!has(&rig.informer.snapshot(), name), "nothing ran in between");
        let wanted = newest(&server);
        let snapshot = rig.informer.wait_for_version(&wanted, None, MINUTE).await.unwrap();
        assert!(has(&snapshot, name));
        // A version that was already seen needs no wait.
        let again = rig.informer.wait_for_version(&wanted, Some(0), Duration::ZERO).await;
        assert!(again.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn version_zero_is_seen_with_the_first_list() {
    let server = api_server();
    put(&server, "a", 1);
    server.faults().rule(Rule {
        filter: Filter::any().verb("list"),
        times: Some(1),
        action: Action::Answer(Answer::internal_error()),
    });
    let rig = Rig::start(&server);
    let zero = ResourceVersion::new("0");
    let early = rig
        .informer
        .wait_for_version(&zero, None, Duration::from_millis(10))
        .await;
    let Err(NotFresh::Timeout {
        seen: None,
        state: SourceState::Syncing,
        ..
    }) = early
    else {
        panic!("{early:?}");
    };
    insta::assert_snapshot!(early.unwrap_err(), @"version 0 was not seen within 0.0 s; the source is Syncing, its first list is not complete");
    let snapshot = rig.informer.wait_for_version(&zero, None, MINUTE).await.unwrap();
    assert!(has(&snapshot, "a"));
}

#[tokio::test(start_paused = true)]
async fn another_resources_version_is_seen_with_the_next_bookmark() {
    let server = api_server();
    put(&server, "a", 1);
    let seen = newest(&server);
    let rig = Rig::start(&server);
    settle().await;
    put_another_kind(&server);
    let wanted = newest(&server);
    let began = tokio::time::Instant::now();
    let late = rig
        .informer
        .wait_for_version(&wanted, None, Duration::from_secs(2))
        .await;
    assert_eq!(began.elapsed(), Duration::from_secs(2));
    let late = late.unwrap_err();
    assert_eq!(
        late,
        NotFresh::Timeout {
            wanted: wanted.clone(),
            seen: Some(seen),
            state: SourceState::Live,
            waited: Duration::from_secs(2),
        }
    );
    insta::assert_snapshot!(late.to_string().replace(wanted.as_str(), "V"), @"version V was not seen within 2.0 s; the source is Live, fresh as of 5");
    let snapshot = rig.informer.wait_for_version(&wanted, None, 2 * MINUTE).await.unwrap();
    assert_eq!(snapshot.version(), Some(&wanted));
}

#[tokio::test(start_paused = true)]
async fn a_version_of_an_old_epoch_is_stale() {
    let servers = Replaceable::new();
    let rig = servers.start();
    pass(70).await;
    put_another_kind(&servers.old);
    let wanted = newest(&servers.old);
    let waits = rig.informer.wait_for_version(&wanted, None, 10 * MINUTE);
    let restores = async {
        pass(1).await;
        servers.old.faults().restart(Duration::from_secs(20), false);
        pass(2).await;
        servers.replace();
    };
    let (stale, ()) = tokio::join!(waits, restores);
    let stale = stale.unwrap_err();
    assert_eq!(
        stale,
        NotFresh::Stale {
            wanted: wanted.clone(),
            epoch: 0,
            now: 1
        }
    );
    insta::assert_snapshot!(stale.to_string().replace(wanted.as_str(), "V"), @"version V is stale: it belongs to epoch 0, but the cluster was rolled back and the source is in epoch 1; read the object again");
    // With the epoch of the version the call fails at once; in the new epoch waits work as before.
    let remembered = rig
        .informer
        .wait_for_version(&ResourceVersion::new("1"), Some(0), MINUTE)
        .await;
    assert!(matches!(remembered, Err(NotFresh::Stale { .. })), "{remembered:?}");
    put(&servers.new, "d", 1);
    let snapshot = rig
        .informer
        .wait_for_version(&newest(&servers.new), Some(1), MINUTE)
        .await
        .unwrap();
    assert!(has(&snapshot, "d"));
}

#[tokio::test(start_paused = true)]
async fn non_integer_versions_and_stops_end_the_wait() {
    let server = api_server();
    let rig = Rig::start(&server);
    settle().await;
    for text in ["", "abc", "007", "-1"] {
        let refused = rig
            .informer
            .wait_for_version(&ResourceVersion::new(text), None, MINUTE)
            .await;
        assert_eq!(refused.err(), Some(NotFresh::Unsupported(text.to_owned())));
    }
    let wanted = ResourceVersion::new("999999");
    let waits = rig.informer.wait_for_version(&wanted, None, 5 * MINUTE);
    let (stopped, report) = tokio::join!(waits, rig.informer.stop(MINUTE));
    assert!(report.is_clean());
    assert_eq!(stopped.err(), Some(NotFresh::Stopped));
}
