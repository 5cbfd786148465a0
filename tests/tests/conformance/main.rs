//! Checks what informers promise against the real kube-apiserver and, where possible, the embedded one, through a proxy
//! that resets, slows, slices, holds and half-opens connections.
//!
//! Starting a cluster costs more than most scenarios. Scenarios that leave the API server alone therefore run
//! concurrently on one cluster, each in its own namespace and behind its own proxy; scenarios that restart it run one
//! after the other. A failure names its scenario.

mod discovery;
mod disturbances;
mod resources;
mod restarts;
mod rights;
mod shown;
mod versions;

use std::future::Future;
use std::pin::Pin;
use std::time::Instant;

use anyhow::{Result, ensure};
use futures::future::join_all;
use informant_tests::cluster::{Cluster, Kind};

/// A scenario with its name.
type Scenario<'a> = (&'static str, Pin<Box<dyn Future<Output = Result<()>> + 'a>>);

/// Names scenarios without starting them.
macro_rules! scenarios {
    ($cluster:expr; $($module:ident :: $name:ident),* $(,)?) => {
        vec![$((stringify!($name), Box::pin($module::$name($cluster, stringify!($name))) as _)),*]
    };
}

/// A cluster of that kind; none where xtask found no Go to build the real one with (never in CI).
async fn cluster(kind: Kind) -> Option<Cluster> {
    if kind == Kind::Real && std::env::var_os("INFORMANT_TESTS_WITHOUT_CLUSTER").is_some() {
        return None;
    }
    Some(Cluster::start(kind).await.expect("the cluster starts"))
}

/// Runs all of them concurrently; reports each that failed.
async fn side_by_side(scenarios: Vec<Scenario<'_>>) -> Result<()> {
    let begin = Instant::now();
    let run = scenarios.into_iter().map(async |(name, scenario)| {
        let end = scenario.await;
        end.err()
            .map(|error| format!("{name}, after {:.1} s: {error:#}", begin.elapsed().as_secs_f64()))
    });
    let failed: Vec<String> = join_all(run).await.into_iter().flatten().collect();
    ensure!(failed.is_empty(), "{} failed:\n{}", failed.len(), failed.join("\n\n"));
    Ok(())
}

/// The name of a scenario's namespace and files.
fn label(name: &str) -> String {
    const LENGTH_MAX: usize = 50;
    name.replace('_', "-")
        .chars()
        .take(LENGTH_MAX)
        .collect::<String>()
        .trim_end_matches('-')
        .to_owned()
}

/// Scenarios for a healthy API server: faults of the network, and requests.
fn on_one_that_runs(cluster: &Cluster) -> Vec<Scenario<'_>> {
    scenarios![cluster;
        disturbances::everything_arrives_through_slices_drips_cuts_and_resets,
        disturbances::half_open_watch_is_detected_and_loses_nothing,
        disturbances::blackholed_network_shows_as_stale_and_recovers,
        disturbances::stalled_watch_list_falls_back_to_list_without_partial_state,
        disturbances::frequent_clean_watch_ends_lose_nothing,
        resources::custom_resource_may_appear_disappear_and_return,
        resources::field_selectors_match_for_each_kind,
        resources::unsupported_field_selector_is_reported,
        resources::resources_are_found_by_any_of_their_names,
        discovery::aggregated_discovery_follows_added_and_removed_kinds,
        discovery::both_discovery_formats_find_the_same,
        versions::list_resource_versions_follow_the_api_conventions,
        versions::watch_resource_versions_follow_the_api_conventions,
        versions::wait_for_version_reads_own_writes,
        shown::lost_api_server_shows_in_metrics_readiness_and_api,
    ]
}

/// Scenarios that only the real one supports.
fn on_the_real_one(cluster: &Cluster) -> Vec<Scenario<'_>> {
    scenarios![cluster;
        rights::list_without_watch_permission_polls_and_reports_it,
        rights::watch_without_list_permission_uses_watch_list,
        discovery::unavailable_api_service_hides_no_other_kind,
        discovery::kinds_of_a_failing_api_service_are_kept,
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_embedded_api_server() {
    let cluster = cluster(Kind::Embedded)
        .await
        .expect("the embedded API server needs no tools");
    side_by_side(on_one_that_runs(&cluster)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_kube_apiserver() {
    let Some(cluster) = cluster(Kind::Real).await else {
        return;
    };
    let mut scenarios = on_one_that_runs(&cluster);
    scenarios.extend(on_the_real_one(&cluster));
    side_by_side(scenarios).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarted_embedded_api_server() {
    let mut cluster = cluster(Kind::Embedded)
        .await
        .expect("the embedded API server needs no tools");
    restarts::killed_in_the_middle_of_a_list(&mut cluster).await.unwrap();
    restarts::killed_in_the_middle_of_watches(&mut cluster).await.unwrap();
    restarts::history_compacted_while_disconnected(&mut cluster)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarted_kube_apiserver() {
    let Some(mut cluster) = cluster(Kind::Real).await else {
        return;
    };
    // Its token is refused from the first restart on, and its token file is read again within a minute.
    let token = restarts::TokenHolder::begin(&mut cluster).await.unwrap();
    restarts::killed_in_the_middle_of_a_list(&mut cluster).await.unwrap();
    token.is_refused().await.unwrap();
    restarts::killed_in_the_middle_of_watches(&mut cluster).await.unwrap();
    restarts::history_compacted_while_disconnected(&mut cluster)
        .await
        .unwrap();
    restarts::list_that_expires_between_pages(&mut cluster).await.unwrap();
    token.is_accepted_again().await.unwrap();
}
