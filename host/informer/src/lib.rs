//! Kubernetes informers in Rust: list and watch a resource of a cluster, keep its objects in an indexed store whose
//! readers never wait, and notify handlers of changes.
//!
//! ```text
//! API server ─▶ reflector ─▶ bounded channel ─▶ informer loop (DeltaFIFO, store, indexes) ─▶ listeners ─▶ handlers
//! ```
//!
//! This crate contains everything that waits for a cluster: [`discover`] resolves a resource name, a [`SharedInformer`]
//! serves one source, a [`NamedInformer`] several under one name. Each source is visibly in one state
//! ([`ReflectorStatus`]), failures are retried at a stated pace and shown, and nothing is dropped without a counter
//! ([`InformerMetrics`]). Time, tasks and randomness come from an [`Environment`](informant_cache::Environment), so
//! that a whole informer can be replayed from a seed under paused time; [`TokioEnvironment`] is the production one.
//! Only the client of kube is used. The store and the delivery to handlers are in `informant-cache`.
//!
//! Its modules, lowest layer first; none imports from a layer above its own:
//!
//! ```layers
//! environment spec durable_source cache_share call_barrier
//! metrics update_channel source_name
//! api cluster_client handler status
//! discovery bodies
//! informer_loop
//! reflector
//! shared_informer
//! named_informer
//! ```

mod api;
mod bodies;
mod cache_share;
mod call_barrier;
mod cluster_client;
mod discovery;
mod durable_source;
mod environment;
mod handler;
mod informer_loop;
mod metrics;
mod named_informer;
mod reflector;
mod shared_informer;
mod source_name;
mod spec;
mod status;
#[cfg(test)]
mod testing;
mod update_channel;

pub use api::{ApiError, ApiErrorCause, LoginFailed, WithoutLogin};
pub use call_barrier::{CallBarrier, Released};
pub use cluster_client::{
    CLUSTER_SILENCE_MAX, ClusterClient, PROBE_MAX, RECOVERIES_PER_SECOND_MAX, RECOVERY_PROBE_PERIOD,
};
pub use discovery::{
    ABSENT_RESPONSES_MIN, AbsentResources, Discovered, DiscoveryError, Exclusion, ServedResources, UnusedExclusion,
    discover, discover_in, discover_matching,
};
pub use durable_source::{DurableSource, HANDOFF_WAIT_SECONDS_MAX};
pub use environment::TokioEnvironment;
pub use handler::{HandlerStatus, Registration};
pub use metrics::InformerMetrics;
pub use named_informer::{InformerSpec, NamedInformer};
pub use reflector::{LIST_BYTES_MAX, LIST_OBJECTS_MAX, LIST_PAGES_MAX, ReflectorOptions};
pub use shared_informer::{
    AddIndexersError, DurableSources, InformerOptions, InformerStopped, NotFresh, ReconfigureError, SharedInformer,
    StartError, StopReport, try_request,
};
pub use spec::SourceSpec;
pub use status::{OUTDATED_KEYS_MAX, Reconfiguring, ReflectorStatus, WatchListUse};

// What a `SourceSpec` names.
pub use informant_spec::GroupVersionResource;
