//! The reflector against the embedded API server, and against responses that no API server should send.

mod bounds;
mod comeback;
mod deep_objects;
mod lists;
mod liveness;
mod odd_answers;
mod outages;
mod watch_lists;
mod watches;

use std::time::Duration;

use informant_apiserver::{ApiServer, Filter};
use informant_cache::SourceState;

use crate::ClusterClient;
use crate::testing::{Rig, RigOptions, api_server, put};

/// A server with a pod `a`, and an informer that starts to watch it.
fn one_pod() -> (ApiServer, Rig) {
    let server = api_server();
    put(&server, "a", 1);
    let rig = Rig::start(&server);
    (server, rig)
}

fn lists() -> Filter {
    Filter::any().verb("list").resource("pods")
}

fn watches() -> Filter {
    Filter::any().verb("watch").resource("pods")
}

/// When requests with this verb arrived.
fn asked_at(rig: &Rig, verb: &str) -> Vec<Duration> {
    let all = rig.server.requests().into_iter().filter(|request| request.verb == verb);
    all.map(|request| request.at).collect()
}

/// Sources of one cluster.
fn sources(server: &ApiServer, client: &ClusterClient, count: usize) -> Vec<Rig> {
    let start = |_| {
        let options = RigOptions {
            client: Some(client.clone()),
            ..RigOptions::default()
        };
        Rig::start_with(server, options)
    };
    (0..count).map(start).collect()
}

fn in_state(rigs: &[Rig], state: SourceState) -> usize {
    let states = rigs.iter().map(|rig| rig.informer.status().state);
    states.filter(|own| *own == state).count()
}
