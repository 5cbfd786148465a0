//! The reflector against the embedded API server, and against answers that no API server should give.

mod alive;
mod lists;
mod odd_answers;
mod watch_lists;
mod watches;

use std::time::Duration;

use informant_apiserver::Filter;

use crate::testing::Rig;

fn lists() -> Filter {
    Filter::any().verb("list").resource("pods")
}

fn watches() -> Filter {
    Filter::any().verb("watch").resource("pods")
}

/// When requests with this verb came.
fn asked_at(rig: &Rig, verb: &str) -> Vec<Duration> {
    let all = rig.server.requests().into_iter().filter(|request| request.verb == verb);
    all.map(|request| request.at).collect()
}
