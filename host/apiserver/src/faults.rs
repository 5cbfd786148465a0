//! Fault injection: what networks, proxies and loaded API servers do to clients. The control of a server's faults, for
//! tests and over HTTP.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Response, header};
use serde_json::json;

use crate::body::{self, Body};
use crate::fault::{Action, Answer, Ending, Fault, Filter, Injection, Rule};
use crate::state::ServerState;
use crate::status::Status;
use crate::watches::WatchCommand;

/// Control of a server's faults. Cheap to clone.
#[derive(Clone)]
pub struct Faults {
    state: Arc<ServerState>,
}

impl Faults {
    pub(crate) fn new(state: Arc<ServerState>) -> Self {
        Self { state }
    }

    /// Applies `fault`. Returns the number of affected open watches; for rules, the number of active rules; for
    /// replicas, the number of replicas.
    pub fn apply(&self, fault: Fault) -> usize {
        match fault {
            Fault::DropWatches { filter, ending } => self.drop_watches(&filter, ending),
            Fault::FreezeWatches { filter } => self.freeze_watches(&filter),
            Fault::ThawWatches { filter } => self.thaw_watches(&filter),
            Fault::Inject { filter, injection } => self.inject(&filter, &injection),
            Fault::Compact { revision } => {
                self.state.store().compact(revision);
                self.state.watches().count()
            }
            Fault::Rule(rule) => self.rule(rule),
            Fault::Restart { down_ms, empty_history } => self.restart(Duration::from_millis(down_ms), empty_history),
            Fault::FreezeReplicas {} => self.state.freeze_replicas(true),
            Fault::ThawReplicas {} => self.state.freeze_replicas(false),
            Fault::Clear => {
                self.clear();
                self.state.watches().count()
            }
        }
    }

    /// Ends the open watches that match. Returns how many.
    pub fn drop_watches(&self, filter: &Filter, ending: Ending) -> usize {
        self.state.watches().command(filter, &WatchCommand::End(ending))
    }

    /// Makes the open watches that match silent. Returns how many.
    pub fn freeze_watches(&self, filter: &Filter) -> usize {
        self.state.watches().command(filter, &WatchCommand::Freeze)
    }

    /// Ends the silence of the watches that match. Returns how many.
    pub fn thaw_watches(&self, filter: &Filter) -> usize {
        self.state.watches().command(filter, &WatchCommand::Thaw)
    }

    /// Injects a line into the open watches that match. Returns how many.
    pub fn inject(&self, filter: &Filter, injection: &Injection) -> usize {
        self.state
            .watches()
            .command(filter, &WatchCommand::Inject(injection.clone()))
    }

    /// Forgets all history: watches and lists from versions before the newest get 410.
    pub fn compact(&self) {
        self.state.store().compact(None);
    }

    /// Forgets the history before `revision`.
    pub fn compact_before(&self, revision: u64) {
        self.state.store().compact(Some(revision));
    }

    /// Adds a rule. Returns the number of active rules.
    pub fn rule(&self, rule: Rule) -> usize {
        let mut rules = self.state.rules();
        rules.add(rule);
        rules.len()
    }

    fn add(&self, filter: Filter, times: Option<u32>, action: Action) {
        self.rule(Rule { filter, times, action });
    }

    /// Responds to the next `times` matching requests in the server's place.
    pub fn answer(&self, filter: Filter, times: u32, answer: Answer) {
        self.add(filter, Some(times), Action::Answer(answer));
    }

    /// Delays the next `times` requests that match.
    pub fn delay(&self, filter: Filter, times: u32, delay: Duration) {
        let milliseconds = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self.add(filter, Some(times), Action::DelayMs(milliseconds));
    }

    /// Holds the next `times` requests that match until [`release`](Self::release) or [`clear`](Self::clear).
    pub fn hold(&self, filter: Filter, times: u32) {
        self.add(filter, Some(times), Action::Hold);
    }

    /// Lets all requests that are held continue. Later ones are not held.
    pub fn release(&self) {
        self.state.rules().release();
    }

    /// Responds with 403 to all matching requests, until [`allow`](Self::allow) with the same filter or
    /// [`clear`](Self::clear).
    pub fn forbid(&self, filter: Filter) {
        self.add(filter, None, Action::Forbid);
    }

    /// Reverts [`forbid`](Self::forbid).
    pub fn allow(&self, filter: &Filter) {
        self.state.rules().remove(filter, &Action::Forbid);
    }

    /// Resets all connections, open watches among them, and refuses new ones for `down`. Data stays; with
    /// `empty_history` all older watches get 410 afterwards. Returns how many watches were open.
    pub fn restart(&self, down: Duration, empty_history: bool) -> usize {
        let open = self.state.watches().count();
        if empty_history {
            self.state.store().compact(None);
        }
        self.state.restart(down);
        open
    }

    /// The active rules, in the order in which they were added.
    pub fn rules(&self) -> Vec<Rule> {
        self.state.rules().active()
    }

    /// Removes all rules, releases held requests, and thaws all watches and replicas.
    pub fn clear(&self) {
        self.state.rules().clear();
        self.state.freeze_replicas(false);
        self.state.watches().command(&Filter::any(), &WatchCommand::Thaw);
    }
}

/// Refuses requests of web pages: those with an `Origin`, and those whose `Host` is a name other than `localhost`,
/// which its owner may have let resolve to this address.
///
/// # Errors
/// 403 with the reason.
pub(crate) fn refuse_foreign(headers: &HeaderMap) -> Result<(), Status> {
    let refused = |why: String| Status::new(403, "Forbidden", format!("faults cannot be injected {why}"));
    if let Some(origin) = headers.get(header::ORIGIN) {
        return Err(refused(format!("from a web page (origin {origin:?})")));
    }
    let is_known = |host: &HeaderValue| {
        let Ok(host) = Authority::try_from(host.as_bytes()) else {
            return false;
        };
        let name = host.host();
        let address = name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'))
            .unwrap_or(name);
        name.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok()
    };
    match headers.get_all(header::HOST).iter().find(|host| !is_known(host)) {
        Some(host) => Err(refused(format!("through host {host:?}; use an address or localhost"))),
        None => Ok(()),
    }
}

/// Answers a request to `/informant/faults`: POST applies one [`Fault`] as JSON, GET lists the active rules, DELETE
/// clears all faults.
pub(crate) fn answer_http(faults: &Faults, method: &Method, body: &Bytes) -> Result<Response<Body>, Status> {
    match *method {
        Method::POST => {
            let fault: Fault = serde_json::from_slice(body).map_err(|error| {
                Status::bad_request(format!(
                    "invalid fault: {error}; send one fault as JSON, for example {{\"drop-watches\":{{}}}}"
                ))
            })?;
            tracing::info!(
                fault = serde_json::to_string(&fault).unwrap_or_default(),
                "fault injected"
            );
            Ok(body::json(200, &json!({ "met": faults.apply(fault) })))
        }
        Method::GET => Ok(body::json(200, &json!({ "rules": faults.rules() }))),
        Method::DELETE => Ok(body::json(200, &json!({ "met": faults.apply(Fault::Clear) }))),
        _ => Err(Status::method_not_allowed()),
    }
}
