//! An embedded Kubernetes API server for tests, for trying plugins and for the demo.
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
//! A `tower::Service` first ([`ApiServer::service`], usable under `kube::Client::new`, without its own sockets, tasks
//! or clock) and a listener second ([`ApiServer::serve`]). Versions, lists, watches, conflicts and errors are those of
//! kube-apiserver, so that a client that works here works there. The same seed, times and requests give byte-identical
//! responses.
//!
//! Custom resources are served by their definitions: several versions, subresources, columns, schemas with pruning,
//! defaults and validation.
//!
//! This is a test instrument, not a product. It has no authentication, admission, defaulting or validation of built-in
//! specs, managed fields or controllers: pods do not run, dependents of deleted owners are not collected, deletes take
//! effect at once (finalizers are respected). It reads protocol buffers and YAML but responds with JSON. Server-side
//! apply is a merge that creates. See docs/reference/embedded-apiserver.md.
//!
//! Its modules, lowest layer first; none imports from a layer above its own. Up to `writes` they are the objects and
//! their store, from `state` on what answers requests:
//!
//! ```layers
//! body clock json_path printers random tls tree
//! kinds status definitions options
//! stored
//! history protobuf query table
//! shard_selector
//! document openapi page routes selection
//! admit labels owners representation store
//! fault patch replica_cache scale
//! list watches writes
//! discovery state
//! call faults watch
//! review
//! handlers
//! service
//! listen
//! replica
//! server
//! snapshot
//! ```

mod admit;
mod body;
mod call;
mod clock;
mod definitions;
mod discovery;
mod document;
mod fault;
mod faults;
mod handlers;
mod history;
pub mod json_path;
mod kinds;
mod labels;
mod list;
mod listen;
mod openapi;
mod options;
mod owners;
mod page;
mod patch;
pub mod printers;
mod protobuf;
mod query;
mod random;
mod replica;
mod replica_cache;
mod representation;
mod review;
mod routes;
mod scale;
mod selection;
mod server;
mod service;
mod shard_selector;
mod snapshot;
mod state;
mod status;
mod store;
mod stored;
mod table;
mod tls;
pub mod tree;
mod watch;
mod watches;
mod writes;

pub use body::{Body, BodyError};
pub use clock::Clock;
pub use fault::{Action, Answer, Ending, Fault, Filter, Injection, Rule};
pub use faults::Faults;
pub use kinds::{Kind, built_in as built_in_kinds};
pub use options::Options;
pub use replica::Replica;
pub use server::{ApiServer, Stats, WriteRecord};
pub use service::{ApiService, ServiceError};
pub use snapshot::{ServerSnapshot, SnapshotError};
pub use state::{RequestRecord, TokenOwner};
pub use status::{Cause, Details, Status};
pub use tls::{Identity, IdentityError};
