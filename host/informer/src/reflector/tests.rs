//! The reflector against the embedded API server, and against responses that no API server should send.

mod bounds;
mod deep_objects;
mod lists;
mod liveness;
mod odd_answers;
mod outages;
mod watch_lists;
mod watches;

use std::time::Duration;

use informant_apiserver::{ApiServer, Filter};

use crate::testing::{Rig, api_server, put};

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
