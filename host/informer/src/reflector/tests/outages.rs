//! An API server that hangs or is away: all sources of the cluster notice soon, and return soon.

use std::time::Duration;

use informant_apiserver::Ending;
use informant_cache::SourceState;

use super::{asked_at, in_state, one_pod, sources, watches};
use crate::RECOVERIES_PER_SECOND_MAX;
use crate::testing::{HangingServer, Rig, api_server, pass, put, settle};

/// Waits until all are in `state`; returns how many seconds that took.
async fn seconds_until(rigs: &[Rig], state: SourceState) -> u64 {
    let mut seconds = 0;
    while in_state(rigs, state) < rigs.len() {
        assert!(seconds < 200, "{} of {} are {state}", in_state(rigs, state), rigs.len());
        pass(1).await;
        seconds += 1;
    }
    seconds
}

#[tokio::test(start_paused = true)]
async fn a_hanging_server_is_noticed_within_45_seconds() {
    let hanging = HangingServer::new(&api_server());
    put(&hanging.server, "a", 1);
    let rigs = sources(&hanging.server, &hanging.client(), 20);
    for quiet in [3, 70, 95] {
        pass(quiet).await;
        assert_eq!(in_state(&rigs, SourceState::Live), 20);
        hanging.take_probes();
        hanging.stop();
        pass(14).await;
        assert_eq!(in_state(&rigs, SourceState::Live), 20, "an API server may pause");
        let seconds = 14 + seconds_until(&rigs, SourceState::Stale).await;
        assert!(seconds <= 45, "noticed after {seconds} s");
        let probes = hanging.take_probes().len();
        assert!(probes <= 3, "{probes}: one for all sources, then one a second");
        hanging.resume();
        let seconds = seconds_until(&rigs, SourceState::Live).await;
        assert!(seconds <= 10, "back after {seconds} s");
    }
}

#[tokio::test(start_paused = true)]
async fn quiet_watches_of_a_healthy_server_stay_live() {
    let hanging = HangingServer::new(&api_server());
    let rigs = sources(&hanging.server, &hanging.client(), 20);
    settle().await;
    hanging.server.faults().freeze_watches(&watches());
    hanging.take_probes();
    for _ in 0..150 {
        pass(1).await;
        assert_eq!(in_state(&rigs, SourceState::Live), 20);
    }
    let probes = hanging.take_probes().len();
    assert!((5..=6).contains(&probes), "{probes} in 150 s, for all sources together");
}

#[tokio::test(start_paused = true)]
async fn sources_return_together_after_a_long_outage() {
    let hanging = HangingServer::new(&api_server());
    put(&hanging.server, "a", 1);
    let rigs = sources(&hanging.server, &hanging.client(), 200);
    settle().await;
    hanging.server.faults().restart(Duration::from_secs(600), false);
    pass(600).await;
    put(&hanging.server, "a", 2);
    let before = hanging.server.requests().len();
    let seconds = seconds_until(&rigs, SourceState::Live).await;
    let least = 200 / u64::from(RECOVERIES_PER_SECOND_MAX) - 1;
    assert!((least..=4).contains(&seconds), "back after {seconds} s");
    let requests = hanging.server.requests();
    let per_second = |second: u64| {
        let of_second = |request: &&informant_apiserver::RequestRecord| request.at.as_secs() == second;
        requests[before..].iter().filter(of_second).count()
    };
    let most = (600..620).map(per_second).max().unwrap();
    assert!(
        most <= 4 * RECOVERIES_PER_SECOND_MAX as usize,
        "{most} requests in a second"
    );
    assert!(rigs.iter().all(|rig| rig.stored() == rig.truth()));
}

#[tokio::test(start_paused = true)]
async fn short_restarts_never_make_a_source_stale_for_long() {
    let (server, rig) = one_pod();
    let rigs = [rig];
    for _ in 0..10 {
        pass(40).await;
        assert_eq!(in_state(&rigs, SourceState::Live), 1);
        server.faults().restart(Duration::from_secs(3), false);
        pass(3).await;
        let seconds = seconds_until(&rigs, SourceState::Live).await;
        assert!(seconds <= 5, "back {seconds} s after a restart of 3 s");
    }
}

#[tokio::test(start_paused = true)]
async fn repeated_410_backs_off_until_a_watch_lives() {
    let (server, rig) = one_pod();
    pass(100).await;
    let lists = || asked_at(&rig, "list").len();
    server.faults().drop_watches(&watches(), Ending::Expired);
    settle().await;
    assert_eq!(lists(), 2);
    server.faults().drop_watches(&watches(), Ending::Expired);
    settle().await;
    assert_eq!(lists(), 2, "the second one in a row waits");
    pass(100).await;
    assert_eq!(lists(), 3);
    server.faults().drop_watches(&watches(), Ending::Expired);
    settle().await;
    assert_eq!(lists(), 4, "a bookmark ended the back-off");
}

#[tokio::test(start_paused = true)]
async fn relists_count_states_and_not_attempts() {
    let (server, rig) = one_pod();
    pass(100).await;
    server
        .faults()
        .answer(super::lists(), 3, informant_apiserver::Answer::internal_error());
    server.faults().drop_watches(&watches(), Ending::Expired);
    settle().await;
    assert_eq!(rig.informer.status().relists, 0);
    pass(30).await;
    assert_eq!(rig.informer.status().relists, 1);
    let relists = r#"reflector_relists_total{informer="pods",cluster="",reason="expired"}"#;
    assert_eq!(rig.metric(relists), 1.0);
}
