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
//! Start at [`PluginHost::load`] and [`Plugin`]. The modules, each of which uses only those above it:
//!
//! - `text`, `json_error`, `bindings`: bounded texts, errors of JSON, the generated side of the contract; `bindings`
//!   lists the host functions that are async.
//! - `engine`: the wasmtime engine, its ticker, CPU scheduling and budgets, memory limits, compiling, deadlines, traps.
//! - `bodies`: objects of which the cache has only the head, read whole.
//! - `error`: what is wrong with a component, in words that say what to change.
//! - `artifacts`: compiled components on disk, and the last good version of each plugin.
//! - `component`: what a file must be: names, roles, imports, manifest, scripts and their runners. Knows no capability.
//! - `series`: metrics over the plugins that live.
//! - `observed`: what plugins do, for who watches them: calls, deliveries and effects.
//! - `capture`: the recording of one call, for `informant plugin capture`.
//! - `output`, `effects`: a guest's output; whether a plugin may act, how much of its rates it has, and what it would
//!   have done in dry run.
//! - `capability`: the interfaces `store`, `kube`, `kv`, `metrics`, `log` and wasi:http, each in one module.
//!   Deferred writes: `capability/kube/writes.rs`.
//! - `status`, `metrics`: a plugin's status, and the metrics of its calls.
//! - `instance`: one wasmtime store and the calls into it: WASI, configuration, a version of a plugin.
//! - `schema`: JSON schemas of manifest and context.
//! - `runtime`: what all plugins share, and how a version is loaded.
//! - `actor`: the two tasks of a plugin: `events`, which owns one or several instances, and `index`, which owns one.
//!   Also how a lost instance is replaced.
//! - `plugin`: the handle of a plugin. `host`: from a section to a running plugin. `preflight`: a start without running
//!   it. `simulated`: a host for simulations, without a ticker and threads (feature `simulation`).
//!
//! ```layers
//! text sync json_error bindings clock
//! engine
//! bodies
//! error
//! artifacts
//! component
//! series
//! observed
//! capture
//! output effects
//! capability
//! status
//! metrics
//! instance
//! runtime schema
//! actor
//! plugin
//! host
//! preflight simulated
//! ```

mod actor;
mod artifacts;
mod bindings;
mod bodies;
mod capability;
mod capture;
mod clock;
mod component;
mod effects;
mod engine;
mod error;
mod host;
mod instance;
mod json_error;
mod metrics;
mod observed;
mod output;
mod plugin;
mod preflight;
mod runtime;
mod schema;
mod series;
#[cfg(feature = "simulation")]
mod simulated;
mod status;
mod sync;
#[cfg(test)]
mod testing;
mod text;

pub use actor::TimerTriggered;
pub use actor::replay::ReplayedCall;
pub use bindings::CONTRACT;
pub use capability::Services;
pub use capability::http::client::{HttpBody, HttpCall, HttpClient, HttpError, HttpErrorCode, HttpFuture, HttpPermit};
pub use capability::http::{ClosedHost, forbidden_address};
pub use capability::kube::KubeTraffic;
pub use capability::kube::api::{
    KubeAction, KubeAddress, KubeApi, KubeCall, KubeDelete, KubeError, KubeErrorCode, KubeFuture, KubeList,
    KubePatchKind, KubePropagation, KubePurpose, KubeWrite,
};
pub use capability::kube::writes::{WritesStatus, WritingKey};
pub use capability::kv::key_value::{KeyValue, KvChange, KvHandled, KvHeld, KvOpening, KvSpace, KvUsage, NoKeys};
pub use capture::{
    CAPTURE_BYTES_MAX, Capture, CaptureError, Captured, HttpAnswer, HttpRecord, KubeFailure, KubeRequest, LogRecord,
    Record,
};
pub use component::binary::SdkInfo;
pub use component::manifest::{
    By, EventRule, EventsNeed, IndexRule, Indexes, Manifest, MetricDeclaration, MetricKind, PrimaryRule,
    ReconcilerRules, RelatedRule, Requirement, When,
};
pub use component::precompile::{Architecture, PrecompileError, precompile_runner};
pub use component::roles::{Role, Roles};
pub use component::runner::{Compiling, RunnerSource, RunnerSources, RunnerStatus};
pub use component::script::script_component;
pub use effects::EffectList;
pub use effects::acting::{ActingGate, ActsFor, NotActing};
pub use engine::compile::{ChildCompiler, CompileLimits, Compiler, compile_worker};
pub use engine::trap::{TrapKind, TrapReport, trap_report_lines};
pub use error::{HostError, LoadError, LoadProblem, ManifestError, RunnerProblem};
pub use host::{HostOptions, Inspection, PluginHost};
pub use metrics::PluginMetrics;
pub use observed::{
    CallCause, CallResult, CauseObject, CauseSubject, Effect, EffectKind, EffectObject, FailedCall, KubernetesEvent,
    ObservedCall, ObservedDelivery, ObservedSubject, PluginObserver,
};
pub use output::GUEST_TARGET;
pub use plugin::{Plugin, PreparedChange, Stopped, Swapped};
pub use preflight::Preflight;
pub use schema::{CONTEXT_SCHEMA, MANIFEST_SCHEMA};
#[cfg(feature = "simulation")]
pub use simulated::SimulatedGuests;
pub use status::{EndedRun, PluginCost, PluginState, PluginStatus, Reload, StuckOn, TimerStatus};

/// Limits that other crates show or keep to.
pub mod limits {
    pub use crate::component::script::SCRIPT_BYTES_MAX;
    pub use crate::engine::compile::{COMPILE_MEMORY_DEFAULT_BYTES, COMPONENT_BYTES_MAX, SHORT_COMPILE_BYTES_MAX};
}
