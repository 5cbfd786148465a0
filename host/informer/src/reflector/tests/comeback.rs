//! The return of all sources of a cluster after an outage, against a naive schedule: one request a second asks whether
//! the API server is back, and after its answer the sources follow in a row.

use std::time::Duration;

use informant_apiserver::{Action, Answer, Ending, Filter, Rule};
use informant_cache::SourceState;
use kube::Client;
use kube::client::Body;
use tokio::sync::watch;
use tokio::time::Instant;
use tower::Service as _;

use super::{in_state, lists, one_pod, sources, watches};
use crate::testing::log_lines::LogLines;
use crate::testing::{HangingServer, Rig, api_server, pass, put, settle};
use crate::{ClusterClient, RECOVERIES_PER_SECOND_MAX, RECOVERY_PROBE_PERIOD};

/// As many informers as the promise is about.
const SOURCES: usize = 50;

/// How often states are compared.
const STEP: Duration = Duration::from_millis(10);

/// Waits until all are live; returns how long that took.
async fn time_until_live(rigs: &[Rig]) -> Duration {
    let began = Instant::now();
    while in_state(rigs, SourceState::Live) < rigs.len() {
        let live = in_state(rigs, SourceState::Live);
        assert!(began.elapsed() < Duration::from_secs(200), "{live} of {}", rigs.len());
        tokio::time::sleep(STEP).await;
    }
    began.elapsed()
}

/// How long all sources take to return, if the API server came back at `back` and was asked at `probes`. The back-off
/// of a source may end before the next probe is due.
fn naive_return(probes: &[Instant], back: Instant) -> Duration {
    let due = *probes.last().expect("it was asked") + RECOVERY_PROBE_PERIOD;
    let answered = probes.iter().find(|at| **at >= back).copied().unwrap_or(due);
    let last = SOURCES as u32 - 1;
    (answered - back) + Duration::from_secs(1) / RECOVERIES_PER_SECOND_MAX * last
}

#[tokio::test(start_paused = true)]
async fn all_sources_return_as_the_naive_schedule_says() {
    let hanging = HangingServer::new(&api_server());
    put(&hanging.server, "a", 1);
    let rigs = sources(&hanging.server, &hanging.client(), SOURCES);
    settle().await;
    // The third follows right after the return from the second.
    for (round, (quiet, away)) in [(40, 5.3), (40, 75.7), (0, 75.2), (40, 150.9), (3, 0.4), (40, 1_000.6)]
        .into_iter()
        .enumerate()
    {
        pass(quiet).await;
        assert_eq!(in_state(&rigs, SourceState::Live), SOURCES, "round {round}");
        hanging.take_probes();
        let down = Duration::from_secs_f64(away);
        // Each watch gets 410 afterwards.
        hanging.server.faults().restart(down, true);
        let back = Instant::now() + down;
        tokio::time::sleep(down).await;
        put(&hanging.server, "a", 10 + round as u64);
        let took = time_until_live(&rigs).await;
        let probes = hanging.take_probes();
        let naive = naive_return(&probes, back);
        assert!(took <= naive + 2 * STEP, "round {round}: {took:?} instead of {naive:?}");
        for two in probes.windows(2) {
            assert!(
                two[1] - two[0] <= RECOVERY_PROBE_PERIOD + STEP,
                "round {round}: {probes:?}"
            );
        }
        let seconds = down.as_secs() as usize + 1;
        assert!(
            (seconds..=seconds + 2).contains(&probes.len()),
            "round {round}: {} requests in {away} s",
            probes.len()
        );
        settle().await;
        assert!(rigs.iter().all(|rig| rig.stored() == rig.truth()), "round {round}");
    }
}

#[tokio::test(start_paused = true)]
async fn errors_of_the_restart_bring_no_long_back_off() {
    let (forbidden, busy, broken) = (
        Action::Forbid,
        Action::Answer(Answer::TooManyRequests { retry_after_seconds: 1 }),
        Action::Answer(Answer::InternalError),
    );
    for action in [forbidden, busy, broken] {
        let server = api_server();
        put(&server, "a", 1);
        let rigs = sources(&server, &Client::new(server.service(), "default").into(), SOURCES);
        settle().await;
        server.faults().restart(Duration::from_secs(150), true);
        for filter in [lists(), watches()] {
            let rule = Rule {
                filter,
                times: None,
                action: action.clone(),
            };
            server.faults().rule(rule);
        }
        // It answers, but these requests are refused for another two seconds.
        pass(152).await;
        server.faults().clear();
        let took = time_until_live(&rigs).await;
        assert!(took <= Duration::from_secs(2), "{action:?}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_sent_into_an_outage_are_sent_again_after_it() {
    let server = api_server();
    put(&server, "a", 1);
    let (service, reachable) = (server.service(), watch::Sender::new(true));
    let is_reachable = reachable.subscribe();
    let swallowing = tower::service_fn(move |request: http::Request<Body>| {
        let (mut service, is_reachable) = (service.clone(), *is_reachable.borrow());
        async move {
            // Its packets are lost: no source learns of it, also later.
            if !is_reachable {
                std::future::pending::<()>().await;
            }
            service.call(request).await
        }
    });
    let client: ClusterClient = Client::new(swallowing, "default").into();
    let rigs = sources(&server, &client, 1);
    for away in [45, 100, 151] {
        pass(40).await;
        assert_eq!(in_state(&rigs, SourceState::Live), 1);
        reachable.send_replace(false);
        server.faults().freeze_watches(&Filter::any());
        pass(away).await;
        assert_eq!(in_state(&rigs, SourceState::Stale), 1);
        reachable.send_replace(true);
        let took = time_until_live(&rigs).await;
        assert!(took <= Duration::from_secs(3), "{took:?} after {away} s");
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_one_line_at_each_end() {
    let server = api_server();
    put(&server, "a", 1);
    let client = ClusterClient::new("https://example.test", Client::new(server.service(), "default"));
    let rigs = sources(&server, &client, SOURCES);
    pass(40).await;
    let log = LogLines::read();
    for _ in 0..2 {
        server.faults().restart(Duration::from_secs(150), true);
        pass(200).await;
        assert_eq!(in_state(&rigs, SourceState::Live), SOURCES);
        let lines = log.take();
        assert_eq!(lines.len(), 2, "{lines:#?}");
        let begin = r#"WARN API server unavailable url="https://example.test" error="#;
        assert!(lines[0].starts_with(begin), "{}", lines[0]);
        assert_eq!(
            lines[1],
            r#"INFO API server available again url="https://example.test" outage_seconds=150.0 sources=50"#
        );
    }
    let failed = rigs[0].metric(r#"reflector_watches_total{informer="pods",cluster="",result="unreachable"}"#)
        + rigs[0].metric(r#"reflector_lists_total{informer="pods",cluster="",result="unreachable"}"#);
    assert!(failed > 1.0, "its failures are counted nevertheless: {failed}");
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_one_source_alone_is_warned_of() {
    let (server, rig) = one_pod();
    pass(40).await;
    let log = LogLines::read();
    server.faults().answer(watches(), 1, Answer::Reset);
    server.faults().drop_watches(&watches(), Ending::Reset);
    settle().await;
    let lines = log.take();
    assert!(
        matches!(&lines[..], [line] if line.starts_with("WARN watch failed ")),
        "{lines:#?}"
    );
    pass(40).await;
    assert_eq!(rig.informer.status().state, SourceState::Live);
    let lines = log.take();
    assert!(
        matches!(&lines[..], [line] if line.starts_with("INFO source recovered ")),
        "{lines:#?}"
    );
    server.faults().drop_watches(&watches(), Ending::Reset);
    settle().await;
    let lines = log.take();
    assert!(
        matches!(&lines[..], [line] if line.starts_with("INFO watch interrupted; reopened ")),
        "{lines:#?}"
    );
}
