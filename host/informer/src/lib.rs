//! The informer that Rust lacks: lists and watches a resource of a Kubernetes cluster, keeps its objects in an indexed
//! store that never makes a reader wait, and tells handlers what changed.
//!
//! ```text
//! API server ─▶ reflector ─▶ channel, bounded in bytes ─▶ informer loop (DeltaFIFO, store, indexes) ─▶ listeners ─▶ handlers
//! ```
//!
//! This room owns everything that waits for a cluster: [`discover`] finds out what a name means, a [`SharedInformer`]
//! serves one source, a [`SharedInformerFactory`] several. It promises that each source is visibly in one state
//! ([`SourceStatus`]), that what goes wrong is retried at a stated pace and shown, and that nothing is dropped without
//! a counter ([`InformerMetrics`]). Time, tasks and chance come from an [`Environment`](informant_cache::Environment),
//! so that a whole informer replays from a seed under paused time; [`TokioEnvironment`] is the one for daily use. Of
//! kube it uses the client alone. What is kept, and how handlers are served, is `informant-cache`'s.

mod api;
mod background_drop;
mod backoff;
mod discovery;
mod environment;
mod factory;
mod handler;
mod informer;
mod informer_loop;
mod metrics;
mod named_informer;
mod reflector;
mod resource;
mod shared_informer;
mod source_name;
mod spec;
mod status;
#[cfg(test)]
mod testing;
mod update_channel;

pub use api::{ApiError, ApiErrorCause};
pub use backoff::BackoffOptions;
pub use discovery::{
    Discovered, DiscoveryError, Exclude, Exclusion, ResourceName, ResourceNameError, ResourcePattern,
    ResourcePatternError, ServedResources, UnusedExclusion, discover, discover_in, discover_matching,
};
pub use environment::TokioEnvironment;
pub use factory::{FactoryError, NotSynced, NotSyncedSource, SharedInformerFactory, wait_for_cache_sync};
pub use handler::{HandlerStatus, HandlersNotSynced, NotSyncedHandler, Registration, wait_for_handler_sync};
pub use informer::{Informer, InformerHandler, WhenFull};
pub use metrics::InformerMetrics;
pub use named_informer::{InformerSpec, NamedInformer};
pub use reflector::ReflectorOptions;
pub use resource::GroupVersionResource;
pub use shared_informer::{
    AddIndexersError, DurableSource, DurableSources, HANDOFF_WAIT_SECONDS_MAX, InformerOptions, InformerStopped,
    NotFresh, ReconfigureError, SharedInformer, StartError, StopReport,
};
pub use spec::SourceSpec;
pub use status::{OUTDATED_KEYS_MAX, Reconfiguring, SourceStatus, WatchListUse};
