//! What informers promise, held against the real kube-apiserver (and, where it can, the embedded one), through a proxy
//! that resets, slows, slices, holds and half-opens connections.
//!
//! Starting a cluster costs more than most scenarios, so that those which leave the API server alone run side by side
//! on one, each in a namespace of its own and behind a proxy of its own; those which restart it run one after the
//! other. A failure names its scenario.

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

/// A scenario by name.
type Scenario<'a> = (&'static str, Pin<Box<dyn Future<Output = Result<()>> + 'a>>);

/// Names scenarios and begins none of them yet.
macro_rules! scenarios {
    ($cluster:expr; $($module:ident :: $name:ident),* $(,)?) => {
        vec![$((stringify!($name), Box::pin($module::$name($cluster, stringify!($name))) as _)),*]
    };
}

/// A cluster of that kind; none where xtask found no Go to build the real one with (never so in CI).
async fn cluster(kind: Kind) -> Option<Cluster> {
    if kind == Kind::Real && std::env::var_os("INFORMANT_TESTS_WITHOUT_CLUSTER").is_some() {
        return None;
    }
    Some(Cluster::start(kind).await.expect("the cluster starts"))
}

/// Runs all of them at once; tells of each that failed.
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

/// What a scenario's namespace and files are called.
fn label(name: &str) -> String {
    const LENGTH_MAX: usize = 50;
    name.replace('_', "-")
        .chars()
        .take(LENGTH_MAX)
        .collect::<String>()
        .trim_end_matches('-')
        .to_owned()
}

/// What may happen on the way to an API server that itself is well, and what it may be asked.
fn on_one_that_runs(cluster: &Cluster) -> Vec<Scenario<'_>> {
    scenarios![cluster;
        disturbances::everything_arrives_through_slices_drips_cuts_and_resets,
        disturbances::a_half_open_watch_is_found_out_and_loses_nothing,
        disturbances::a_network_that_swallows_everything_shows_as_stale_and_heals,
        disturbances::a_first_state_that_stops_half_way_is_not_shown_and_asked_for_otherwise,
        disturbances::watches_that_end_cleanly_all_the_time_lose_nothing,
        resources::a_custom_resource_is_waited_for_and_may_go_and_come_back,
        resources::field_selectors_of_each_kind_select_what_they_say,
        resources::a_field_that_cannot_be_selected_by_is_said_so,
        resources::resources_are_found_by_any_of_their_names,
        discovery::kinds_are_found_in_two_answers_and_come_and_go,
        discovery::either_way_of_asking_finds_the_same,
        versions::versions_of_lists_mean_what_the_api_conventions_say,
        versions::versions_of_watches_mean_what_the_api_conventions_say,
        versions::own_writes_are_read_once_their_version_was_seen,
        shown::a_lost_api_server_is_seen_everywhere_one_looks,
    ]
}

/// What only the real one knows.
fn on_the_real_one(cluster: &Cluster) -> Vec<Scenario<'_>> {
    scenarios![cluster;
        rights::who_may_list_but_not_watch_is_served_by_lists_and_says_so,
        rights::who_may_watch_but_not_list_is_served_by_watch_list_alone,
        discovery::a_service_that_is_down_hides_no_other_kind,
        discovery::the_kinds_of_a_service_that_goes_down_stay,
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_embedded_api_server_that_runs() {
    let cluster = cluster(Kind::Embedded).await.expect("it needs nothing");
    side_by_side(on_one_that_runs(&cluster)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kube_apiserver_that_runs() {
    let Some(cluster) = cluster(Kind::Real).await else {
        return;
    };
    let mut scenarios = on_one_that_runs(&cluster);
    scenarios.extend(on_the_real_one(&cluster));
    side_by_side(scenarios).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_embedded_api_server_that_is_restarted() {
    let mut cluster = cluster(Kind::Embedded).await.expect("it needs nothing");
    restarts::killed_in_the_middle_of_a_list(&mut cluster).await.unwrap();
    restarts::killed_in_the_middle_of_watches(&mut cluster).await.unwrap();
    restarts::what_was_compacted_while_away(&mut cluster).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kube_apiserver_that_is_restarted() {
    let Some(mut cluster) = cluster(Kind::Real).await else {
        return;
    };
    // Its token is refused from the first restart on, and the file that holds it is read again within a minute.
    let token = restarts::TokenHolder::begin(&mut cluster).await.unwrap();
    restarts::killed_in_the_middle_of_a_list(&mut cluster).await.unwrap();
    token.is_refused().await.unwrap();
    restarts::killed_in_the_middle_of_watches(&mut cluster).await.unwrap();
    restarts::what_was_compacted_while_away(&mut cluster).await.unwrap();
    restarts::a_state_that_expires_between_two_pages(&mut cluster)
        .await
        .unwrap();
    token.is_let_in_again().await.unwrap();
}
