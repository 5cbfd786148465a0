//! The host of plugins: WebAssembly components that handle events and compute index values.
//!
//! ```text
//! file ──▶ judged ──▶ compiled (artifact) ──▶ linked ──▶ described ──▶ instance, init ──▶ actor ◀──pull── listener, index feed
//! ```
//!
//! This room owns: the engine and its ticker, compiled artifacts, what a component must be and what is said about one
//! that is not ([`LoadError`]), manifests, limits and grants, instances, and the swap of one version for another. It
//! promises: a guest cannot crash, hang, starve or read the memory of the host or of another guest; what a guest does
//! wrong costs its own instance and no event; a component that is refused changes nothing that runs. It knows no
//! Kubernetes client: what plugins are told comes through [`informant_cache::ListenerHandle`], what they may read
//! through [`informant_cache::Catalog`], and what they do on the cluster goes through [`KubeApi`], once it is found
//! granted.
//!
//! Where to begin: [`PluginHost::load`], [`Plugin`]. Inside, `instance` is one wasmtime store and the calls into it,
//! `events` and `indexing` are the actors that own one each, `place` is what they do about one that was lost.

mod artifact;
mod binary;
mod bindings;
mod budget;
mod compile;
mod component;
mod dead_letter_warnings;
mod deliver;
mod described;
mod digest;
mod engine;
mod error;
mod events;
mod grant;
mod guest;
mod hand_over;
mod host;
mod host_kube;
mod host_store;
mod imports;
mod indexing;
mod instance;
mod interface_name;
mod kube_api;
mod lanes;
mod last_good;
mod limiter;
mod manifest;
mod metrics;
mod needs;
mod noting;
mod orders;
mod output;
mod place;
mod plugin;
mod pool;
mod private_dir;
mod rebuild;
mod rehearsal;
mod roles;
mod rules;
mod script;
mod shared;
mod spec;
mod status;
mod terms;
#[cfg(test)]
mod testing;
mod ticker;
mod trap;
mod trial;
mod wasi;
mod watch;

pub use compile::{ChildCompiler, CompileLimits, Compiler, compile_worker};
pub use digest::{Digest, DigestError};
pub use error::{HostError, LoadError, Problem};
pub use grant::{KubeGrant, KubeResource, KubeResourceError, KubeVerb, allow_line};
pub use host::{HostOptions, Inspection, PluginHost};
pub use kube_api::{
    KubeAction, KubeAddress, KubeApi, KubeCall, KubeDelete, KubeError, KubeErrorCode, KubeFuture, KubeList,
    KubePatchKind, KubePropagation, KubeWrite,
};
pub use manifest::{EventRule, IndexRule, Indexes, Manifest, ManifestError};
pub use metrics::PluginMetrics;
pub use needs::Need;
pub use plugin::{Plugin, Stopped, Swapped};
pub use rehearsal::{Refused, Rehearsal};
pub use roles::{CONTRACT, Roles};
pub use script::is_script;
pub use spec::{Continuation, Limits, OnFailure, PluginSpec};
pub use status::{PluginState, PluginStatus, Reload, StuckOn};
pub use trap::{TrapKind, TrapReport};

/// Every limit of this room that is not a plugin's own ([`Limits`]), with what happens at it.
pub mod limits {
    pub use crate::artifact::ARTIFACTS_BYTES_MAX;
    pub use crate::compile::{ARTIFACT_BYTES_MAX, COMPILE_MEMORY_BYTES, COMPILE_THREADS_MAX, COMPILE_TIME};
    pub use crate::component::COMPONENT_BYTES_MAX;
    pub use crate::engine::WASM_STACK_BYTES_MAX;
    pub use crate::guest::TRANSFER_BYTES_MAX;
    pub use crate::hand_over::STATE_BYTES_MAX;
    pub use crate::host_kube::{
        KUBE_ANSWER_BYTES_MAX, KUBE_CALLS_MAX, KUBE_DOCUMENT_BYTES_MAX, KUBE_PAGE_OBJECTS_MAX, KUBE_WAIT_MAX,
    };
    pub use crate::host_store::{
        INDEX_KEYS_MAX, INDEX_VALUES_DEFAULT, INDEX_VALUES_LIMIT_MAX, PAGE_BYTES_MAX, PAGE_ITEMS_MAX, POINTERS_MAX,
    };
    pub use crate::lanes::{OVERRAN_FOR, SLOW_CALL};
    pub use crate::manifest::MANIFEST_BYTES_MAX;
    pub use crate::output::{CALL_BYTES_MAX, LINE_BYTES_MAX, TAIL_LINES_MAX};
    pub use crate::rebuild::{LOSS_POINTS_MAX, LOSS_WINDOW, TIMEOUT_POINTS};
    pub use crate::script::SCRIPT_BYTES_MAX;
    pub use crate::spec::{CALL, CPU, INSTANCES, MEMORY_BYTES};
    pub use crate::ticker::TICK;
    pub use crate::trial::TRIAL;
}
