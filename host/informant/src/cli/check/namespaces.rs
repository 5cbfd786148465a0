//! Do the namespaces exist that informers name? One that does not is watched without an error, and nothing happens.

use std::collections::BTreeSet;

use http::Request;
use informant_config::Problem;
use kube::Client;

use super::cluster::{RESPONSE_MAX, ReachableCluster};
use crate::cli::in_cluster;

/// One warning for each namespace that informers of the cluster name and that does not exist. Who may not read
/// namespaces gets none.
pub(super) async fn missing(cluster: &ReachableCluster<'_>) -> Vec<Problem> {
    let config = cluster.config;
    let here = config
        .informers
        .iter()
        .filter(|(_, section)| config.clusters_of(section).any(|name| name == cluster.name));
    let (mut asked, mut problems) = (BTreeSet::new(), Vec::new());
    for (informer, section) in here {
        for namespace in &section.namespaces {
            if asked.insert(namespace) && is_missing(&cluster.client, namespace).await {
                let within = in_cluster(cluster.name);
                let message =
                    format!("[informer.{informer}] names namespace \"{namespace}\", which does not exist{within}");
                let problem = config.problem(section.position, message).warning();
                problems
                    .push(problem.help("correct the name; a namespace that is created later is watched from then on"));
            }
        }
    }
    problems
}

/// Whether the API server says that there is no such namespace.
async fn is_missing(client: &Client, namespace: &str) -> bool {
    let Ok(request) = Request::get(format!("/api/v1/namespaces/{namespace}")).body(Vec::new()) else {
        return false;
    };
    let answer = tokio::time::timeout(RESPONSE_MAX, client.request::<serde_json::Value>(request)).await;
    matches!(answer, Ok(Err(kube::Error::Api(status))) if status.code == 404)
}
