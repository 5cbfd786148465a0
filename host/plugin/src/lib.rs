//! The plugin host: runs WebAssembly components that handle events and compute index values.
//!
//! ```text
//! file ──▶ validate ──▶ compile ──▶ link ──▶ describe ──▶ instance, init ──▶ actor ◀──pull── listener, index feed
//! ```
//!
//! This crate owns the engine and its ticker, compiled artifacts, the requirements on a component and the messages
//! about one that does not meet them ([`LoadError`]), manifests, limits and grants, instances, and the swap of one
//! version for another. It promises: a guest cannot crash, hang, starve or read the memory of the host or of another
//! guest; a guest's error costs its own instance and no event; a rejected component changes nothing that runs. It
//! contains no Kubernetes client: events reach plugins through [`informant_cache::ListenerHandle`], they read the cache
//! through [`informant_cache::Catalog`], and they act on the cluster through [`KubeApi`] and call other services
//! through [`HttpClient`] after the call is authorized.
//!
//! Start at [`PluginHost::load`] and [`Plugin`]. The modules:
//!
//! - `host`, `plugin`, `preflight`: from a file to a running plugin; its handle; a start without running it.
//! - `engine`: the wasmtime engine, its ticker, CPU scheduling and budgets, memory limits, compiling.
//! - `component`: what a file must be: names, roles, imports, manifest, scripts.
//! - `artifacts`: compiled components on disk, and the last good version of each plugin.
//! - `instance`: one wasmtime store and the calls into it: bindings, WASI, output, deadlines, traps.
//! - `actor`: the two tasks that own an instance each (`events`, `index`), and how a lost instance is replaced.
//! - `simulated`: a host for simulations, without a ticker and threads.
//! - `effects`: dry run: what a plugin would have done.
//! - `hostcalls`: the interfaces `store`, `kube`, `kv`, `metrics` and wasi:http, authorized by grants.
//! - `writes`: the queue of writes that handlers deferred.

mod actor;
mod artifacts;
mod component;
mod effects;
mod engine;
mod error;
mod host;
mod hostcalls;
mod instance;
mod json_error;
mod metrics;
mod plugin;
mod preflight;
mod simulated;
mod status;
#[cfg(test)]
mod testing;
mod writes;

pub use component::binary::SdkInfo;
pub use component::manifest::{
    EventRule, IndexRule, Indexes, Manifest, ManifestError, MetricDeclaration, MetricKind, Requirement, WritesEnd,
};
pub use component::roles::{CONTRACT, Roles};
pub use component::script::script_component;
pub use effects::{Effect, EffectKind, EffectList};
pub use engine::compile::{ChildCompiler, CompileLimits, Compiler, compile_worker};
pub use error::{HostError, LoadError, LoadProblem};
pub use host::{HostOptions, Inspection, PluginHost};
pub use hostcalls::http::{ClosedHost, forbidden_address};
pub use hostcalls::http_client::{HttpBody, HttpCall, HttpClient, HttpError, HttpErrorCode, HttpFuture, HttpPermit};
pub use hostcalls::key_value::{KeyValue, KvChange, KvHandled, KvOpening, KvSpace, KvUsage, NoKeys};
pub use hostcalls::kube_api::{
    KubeAction, KubeAddress, KubeApi, KubeCall, KubeDelete, KubeError, KubeErrorCode, KubeFuture, KubeList,
    KubePatchKind, KubePropagation, KubeWrite,
};
pub use instance::trap::{TrapKind, TrapReport};
pub use metrics::PluginMetrics;
pub use plugin::{Plugin, PreparedChange, Stopped, Swapped};
pub use preflight::Preflight;
pub use simulated::SimulatedGuests;
pub use status::{PluginState, PluginStatus, Reload, StuckOn};
pub use writes::{WritesStatus, WritingKey};

/// Every limit of this crate that is not configured per plugin ([`Limits`](informant_spec::Limits)), with the behavior at the limit.
pub mod limits {
    pub use crate::actor::probation::PROBATION;
    pub use crate::actor::restart::{INIT_RETRY_MAX, LOSS_POINTS_MAX, LOSS_WINDOW, TIMEOUT_POINTS};
    pub use crate::actor::state_transfer::{STATE_BYTES_MAX, STATES_BYTES_MAX};
    pub use crate::artifacts::ARTIFACTS_BYTES_MAX;
    pub use crate::component::COMPONENT_BYTES_MAX;
    pub use crate::component::manifest::{
        MANIFEST_BYTES_MAX, METRIC_BUCKETS_MAX, METRIC_HELP_BYTES_MAX, METRIC_LABELS_MAX, METRIC_NAME_BYTES_MAX,
        METRICS_MAX,
    };
    pub use crate::component::script::SCRIPT_BYTES_MAX;
    pub use crate::effects::{EFFECT_TEXT_BYTES_MAX, EFFECTS_MAX};
    pub use crate::engine::WASM_STACK_BYTES_MAX;
    pub use crate::engine::compile::{ARTIFACT_BYTES_MAX, COMPILE_MEMORY_BYTES, COMPILE_THREADS_MAX, COMPILE_TIME};
    pub use crate::engine::scheduler::{OVERRAN_FOR, SLOW_CALL};
    pub use crate::engine::ticker::TICK;
    pub use crate::hostcalls::http::{
        HTTP_AUTHORITY_BYTES_MAX, HTTP_BURST, HTTP_CHUNK_BYTES_MAX, HTTP_CLOSED_HOSTS_MAX, HTTP_CLOSED_MAX,
        HTTP_FIELDS_BYTES_MAX, HTTP_METHOD_BYTES_MAX,
    };
    pub use crate::hostcalls::kube::{
        KUBE_ANSWER_BYTES_MAX, KUBE_DOCUMENT_BYTES_MAX, KUBE_PAGE_OBJECTS_MAX, KUBE_WAIT_MAX,
    };
    pub use crate::hostcalls::kv::{
        KV_KEY_BYTES_MAX, KV_KEY_COST_BYTES, KV_LIST_MAX, KV_VALUE_BYTES_MAX, KV_WAITING_MAX,
    };
    pub use crate::hostcalls::metrics::{METRIC_LABEL_VALUE_BYTES_MAX, METRIC_SERIES_EXPIRE, METRIC_SERIES_MAX};
    pub use crate::hostcalls::store::{
        INDEX_KEYS_MAX, INDEX_VALUES_DEFAULT, INDEX_VALUES_LIMIT_MAX, PAGE_BYTES_MAX, PAGE_ITEMS_MAX, POINTERS_MAX,
    };
    pub use crate::instance::guest::TRANSFER_BYTES_MAX;
    pub use crate::instance::output::{CALL_BYTES_MAX, LINE_BYTES_MAX, TAIL_LINES_MAX};
    pub use crate::plugin::INIT_RETRY_AT_SWAP;
    pub use crate::writes::{
        CALL_WRITES_BYTES_MAX, CALL_WRITES_MAX, OWN_WRITES_MAX, SEEN_MAX, SPACED_KEYS_MAX, SPACING_MAX, SPACING_MIN,
        SPACING_TARGETS_MAX, SPACING_WINDOW, SPACING_WRITES, WRITES_BURST, WRITES_LAST, WRITES_WAITING_BYTES_MAX,
        WRITES_WAITING_MAX,
    };
}
