//! Fault injection: what networks, proxies and loaded API servers do to clients.
//!
//! A fault either applies at once to open connections and watches ([`Fault::DropWatches`], [`Fault::Restart`] …) or is
//! a [`Rule`] for future requests. Faults are data, so that a simulation's schedule can be recorded and replayed.

mod body;
mod filter;
mod rule;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Response, header};
use serde::{Deserialize, Serialize};
use serde_json::json;

pub(crate) use self::body::FaultyBody;
pub(crate) use self::filter::Attributes;
pub use self::filter::Filter;
pub use self::rule::{Action, Answer, RULES_MAX, Rule};
pub(crate) use self::rule::{RuleEffects, Rules};
use crate::body::Body;
use crate::server::Inner;
use crate::status::Status;
use crate::watch::WatchCommand;

/// A fault to inject.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Fault {
    /// Ends open watches.
    DropWatches {
        /// Which watches.
        #[serde(default)]
        filter: Filter,
        /// How they end.
        #[serde(default)]
        ending: Ending,
    },
    /// Makes open watches silent; after [`Fault::ThawWatches`] they continue with everything that they missed.
    FreezeWatches {
        /// Which watches.
        #[serde(default)]
        filter: Filter,
    },
    /// Ends the silence of frozen watches.
    ThawWatches {
        /// Which watches.
        #[serde(default)]
        filter: Filter,
    },
    /// Injects a line between the events of open watches.
    Inject {
        /// Which watches.
        #[serde(default)]
        filter: Filter,
        /// The line to inject.
        injection: Injection,
    },
    /// Compacts the history: watches and lists from versions before `revision` (absent: before the newest one) get 410.
    /// Open watches that have read everything continue.
    Compact {
        /// The oldest version from which a watch can start.
        #[serde(default)]
        revision: Option<u64>,
    },
    /// A fault for future requests.
    Rule(Rule),
    /// Resets all connections and refuses new ones for a time. Data stays.
    Restart {
        /// How long the server is away, in milliseconds.
        #[serde(default)]
        down_ms: u64,
        /// Whether the history is empty afterwards, like a newly filled watch cache: watches from older versions get
        /// 410.
        #[serde(default)]
        empty_history: bool,
    },
    /// Makes all replicas but the first lag: they answer watches, and reads that need not be consistent, from an old
    /// state.
    FreezeReplicas {},
    /// Lets frozen replicas catch up.
    ThawReplicas {},
    /// Removes all rules, releases held requests, and thaws all watches and replicas.
    Clear,
}

/// How a watch ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ending {
    /// An orderly end of the body between two lines.
    #[default]
    Clean,
    /// A connection reset between two lines.
    Reset,
    /// Half of the next event's line, then a reset. Waits for that event.
    MidLine,
    /// Half of the next event's line, then an orderly end of the body. Waits for that event.
    MidLineClean,
    /// An ERROR event with 410 `Expired`, then an orderly end.
    Expired,
}

/// An invalid or unusual line in a watch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Injection {
    /// An ADDED event whose object has no metadata.
    Garbage,
    /// A line that is not JSON.
    NotJson,
    /// An event of a type that does not exist.
    UnknownType,
    /// A MODIFIED event of an existing object (or, if nothing is selected, of an invented one), padded to this many
    /// bytes.
    HugeLineBytes(usize),
    /// These bytes, a newline added.
    Raw(String),
    /// The same, in watches that have sent their initial events; the others ignore it.
    RawAfterInitialEvents(String),
}

/// Control of a server's faults. Cheap to clone.
#[derive(Clone)]
pub struct Faults {
    pub(crate) inner: Arc<Inner>,
}

impl Faults {
    /// Applies `fault`. Returns the number of affected open watches; for rules, the number of active rules; for
    /// replicas, the number of replicas.
    pub fn apply(&self, fault: Fault) -> usize {
        match fault {
            Fault::DropWatches { filter, ending } => self.drop_watches(&filter, ending),
            Fault::FreezeWatches { filter } => self.freeze_watches(&filter),
            Fault::ThawWatches { filter } => self.thaw_watches(&filter),
            Fault::Inject { filter, injection } => self.inject(&filter, &injection),
            Fault::Compact { revision } => {
                self.inner.store().compact(revision);
                self.inner.watches().count()
            }
            Fault::Rule(rule) => self.rule(rule),
            Fault::Restart { down_ms, empty_history } => self.restart(Duration::from_millis(down_ms), empty_history),
            Fault::FreezeReplicas {} => self.inner.freeze_replicas(true),
            Fault::ThawReplicas {} => self.inner.freeze_replicas(false),
            Fault::Clear => {
                self.clear();
                self.inner.watches().count()
            }
        }
    }

    /// Ends the open watches that match. Returns how many.
    pub fn drop_watches(&self, filter: &Filter, ending: Ending) -> usize {
        self.inner.watches().command(filter, &WatchCommand::End(ending))
    }

    /// Makes the open watches that match silent. Returns how many.
    pub fn freeze_watches(&self, filter: &Filter) -> usize {
        self.inner.watches().command(filter, &WatchCommand::Freeze)
    }

    /// Ends the silence of the watches that match. Returns how many.
    pub fn thaw_watches(&self, filter: &Filter) -> usize {
        self.inner.watches().command(filter, &WatchCommand::Thaw)
    }

    /// Injects a line into the open watches that match. Returns how many.
    pub fn inject(&self, filter: &Filter, injection: &Injection) -> usize {
        self.inner
            .watches()
            .command(filter, &WatchCommand::Inject(injection.clone()))
    }

    /// Forgets all history: watches and lists from versions before the newest get 410.
    pub fn compact(&self) {
        self.inner.store().compact(None);
    }

    /// Forgets the history before `revision`.
    pub fn compact_before(&self, revision: u64) {
        self.inner.store().compact(Some(revision));
    }

    /// Adds a rule. Returns the number of active rules.
    pub fn rule(&self, rule: Rule) -> usize {
        let mut rules = self.inner.rules();
        rules.add(rule);
        rules.len()
    }

    /// Responds to the next `times` matching requests in the server's place.
    pub fn answer(&self, filter: Filter, times: u32, answer: Answer) {
        self.rule(Rule {
            filter,
            times: Some(times),
            action: Action::Answer(answer),
        });
    }

    /// Delays the next `times` requests that match.
    pub fn delay(&self, filter: Filter, times: u32, delay: Duration) {
        let milliseconds = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self.rule(Rule {
            filter,
            times: Some(times),
            action: Action::DelayMs(milliseconds),
        });
    }

    /// Holds the next `times` requests that match until [`release`](Self::release) or [`clear`](Self::clear).
    pub fn hold(&self, filter: Filter, times: u32) {
        self.rule(Rule {
            filter,
            times: Some(times),
            action: Action::Hold,
        });
    }

    /// Lets all requests that are held continue. Later ones are not held.
    pub fn release(&self) {
        self.inner.rules().release();
    }

    /// Responds with 403 to all matching requests, until [`allow`](Self::allow) with the same filter or
    /// [`clear`](Self::clear).
    pub fn forbid(&self, filter: Filter) {
        self.rule(Rule {
            filter,
            times: None,
            action: Action::Forbid,
        });
    }

    /// Reverts [`forbid`](Self::forbid).
    pub fn allow(&self, filter: &Filter) {
        self.inner.rules().remove(filter, &Action::Forbid);
    }

    /// Resets all connections, open watches among them, and refuses new ones for `down`. Data stays; with
    /// `empty_history` all older watches get 410 afterwards. Returns how many watches were open.
    pub fn restart(&self, down: Duration, empty_history: bool) -> usize {
        let open = self.inner.watches().count();
        if empty_history {
            self.inner.store().compact(None);
        }
        self.inner.restart(down);
        open
    }

    /// The active rules, in the order in which they were added.
    pub fn rules(&self) -> Vec<Rule> {
        self.inner.rules().active()
    }

    /// Removes all rules, releases held requests, and thaws all watches and replicas.
    pub fn clear(&self) {
        self.inner.rules().clear();
        self.inner.freeze_replicas(false);
        self.inner.watches().command(&Filter::any(), &WatchCommand::Thaw);
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
            Ok(crate::body::json(200, &json!({ "met": faults.apply(fault) })))
        }
        Method::GET => Ok(crate::body::json(200, &json!({ "rules": faults.rules() }))),
        Method::DELETE => Ok(crate::body::json(200, &json!({ "met": faults.apply(Fault::Clear) }))),
        _ => Err(Status::method_not_allowed()),
    }
}
