//! Informant as a whole: the binary, real components, an API server in another process.
//!
//! This is one program, because linking each program takes minutes on a small machine. Scenarios that make sense on
//! both API servers run against the embedded one and against the real kube-apiserver.

mod acting;
mod as_pod;
mod bad_input;
mod broken_kinds;
mod changes_under_load;
mod chart;
mod clusters;
mod comeback;
mod console_blocks;
mod custom_resources;
mod dashboard;
mod deploy;
mod dry_run;
mod durable;
mod examples;
mod identity;
mod kills;
mod kubectl;
mod lifecycle;
mod load;
mod memory;
mod pages;
mod queries;
mod quick_start;
mod requeues;
mod rights;
mod rolling_updates;
mod scripts;
mod secured;
mod shard_moves;
mod shed;
mod ship_plugins;
mod start;
mod stop_and_clear;
mod swap_under_load;
mod swap_with_state;
mod takeovers;
mod top;
mod why;

use informant_tests::cluster::{Cluster, Kind};

/// A cluster of that kind; none where xtask found no Go to build the real one with (never in CI).
async fn cluster(kind: Kind) -> Option<Cluster> {
    if kind == Kind::Real && std::env::var_os("INFORMANT_TESTS_WITHOUT_CLUSTER").is_some() {
        return None;
    }
    Some(Cluster::start(kind).await.expect("the cluster starts"))
}

/// Turns each scenario into a test for each kind of cluster.
macro_rules! on_both_clusters {
    ($($scenario:ident),* $(,)?) => {
        mod on_the_embedded_api_server {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() {
                if let Some(cluster) = crate::cluster(informant_tests::cluster::Kind::Embedded).await {
                    super::$scenario(cluster).await.unwrap();
                }
            })*
        }
        mod on_kube_apiserver {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $scenario() {
                if let Some(cluster) = crate::cluster(informant_tests::cluster::Kind::Real).await {
                    super::$scenario(cluster).await.unwrap();
                }
            })*
        }
    };
}
pub(crate) use on_both_clusters;
