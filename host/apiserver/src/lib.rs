//! An embedded Kubernetes API server: for the demo, for trying plugins and for tests.
//!
//! ```text
//!  tests ──create / update / patch / delete──▶ ApiServer ──▶ Store ──▶ History
//!                                                 │             ▲         │
//!  kube::Client ──Request──▶ ApiService ──────────┴── writes ───┘         ▼
//!        ▲                    ▲   list, get ◀── snapshots ──────────── watches
//!        │  kubectl ──TCP──▶ serve
//!        └────────────────── faults: rules for requests, commands for watches
//! ```
//!
//! A `tower::Service` first ([`ApiServer::service`], usable under `kube::Client::new`, without sockets, tasks or a
//! clock of its own) and a listener second ([`ApiServer::serve`]). Promises: versions, lists, watches, conflicts and
//! errors as kube-apiserver has them, so that a client that is right here is right there; the same seed, times and
//! requests give the same answers to the byte.
//!
//! Custom resources are served as their definitions say: several versions, subresources, columns, schemas with pruning,
//! defaults and validation.
//!
//! A test instrument, not a product. It has no authentication, admission, defaulting or validation of built-in specs,
//! managed fields or controllers; it reads protocol buffers and YAML but answers JSON: pods do not run, owners do not
//! collect what they own, deletes take effect at once (finalizers are respected). Server-side apply is a merge that
//! creates. docs/apiserver.md is the page for its users.

mod admit;
mod body;
mod clock;
mod definitions;
mod discovery;
mod disturb;
mod document;
mod faults;
mod handlers;
mod history;
mod kinds;
mod labels;
mod list;
mod listen;
mod openapi;
mod options;
mod patch;
mod protobuf;
mod query;
mod random;
mod replica;
mod representation;
mod response;
mod review;
mod routes;
mod scale;
mod selection;
mod server;
mod service;
mod snapshot;
mod status;
mod store;
mod stored;
mod table;
mod tls;
mod view;
mod watch;
mod writes;

pub use body::{Body, BodyError};
pub use clock::{Clock, Sleep, TokioClock};
pub use faults::{Action, Answer, Ending, Fault, Faults, Filter, Injection, RULES_MAX, Rule};
pub use kinds::Kind;
pub use listen::CONNECTIONS_MAX;
pub use options::{
    BOOKMARK_INTERVAL, HISTORY_BYTES_MAX, HISTORY_EVENTS_MAX, LAST_BOOKMARK_LEAD, Options, REQUEST_BYTES_MAX,
    REQUESTS_KEPT_MAX, WATCH_BACKLOG_EVENTS_MAX, WATCH_TIMEOUT_MIN,
};
pub use replica::Replica;
pub use server::{ApiServer, RequestRecord, Stats, WriteRecord};
pub use service::{ApiService, ServiceError};
pub use snapshot::{Snapshot, SnapshotError};
pub use status::{Cause, Details, Status};
pub use tls::{Identity, IdentityError};
