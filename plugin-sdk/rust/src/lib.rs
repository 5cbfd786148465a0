//! Write plugins for Informant in Rust.
//!
//! Informant runs Kubernetes informers and calls plugins: WebAssembly components that handle each change
//! ([`EventHandler`], [`SyncHandler`]), bring what belongs to an object to its wanted state ([`Reconciler`]), run on a
//! schedule ([`TimerHandler`]), or compute index values ([`IndexFuncs`]). This is a complete plugin:
//!
//! ```
//! use informant_plugin_sdk::prelude::*;
//!
//! #[informant::handler]
//! fn on_pod(event: &Event, pod: Value) -> Result {
//!     info!("{event} is {}", pod["status"]["phase"]);
//!     Ok(())
//! }
//! ```
//!
//! A plugin with state, several kinds of objects or other roles is a type with [traits](Plugin), named in [`export!`].
//!
//! With `[lib] crate-type = ["cdylib"]` in Cargo.toml, `cargo build --release --target wasm32-wasip2` builds the
//! component. `cargo test` runs the plugin's tests natively, with [`testing`] in place of Informant.
//!
//! # Results and traps
//! A handler that succeeds returns an [`Action`]: done, or call again later.
//!
//! A [`Failure`] is a result: it tells Informant whether and when to retry. A panic is a trap: Informant logs its
//! message, discards the instance with its memory, calls `init` on a new one, and retries the event. Running out of
//! memory, time or stack is also a trap. A panic cannot be caught, because WebAssembly guests cannot unwind.
//!
//! # Reconcilers
//! A [`Reconciler`] need not compare: [`kube::children`] makes the difference between the objects that it wants and
//! those that there are. [`kube::set_status`] writes the status of the object that it is called for, and
//! [`finalizer::finalize`] cleans up before that is gone.
//!
//! # Memory
//! One instance handles all events of a plugin, one call at a time, so a plugin can keep its state in `&mut self`.
//! Index functions run in separate instances, which share no memory with it.

#![warn(missing_docs)]

// The name by which the macros refer to this crate.
pub extern crate self as informant;

mod action;
#[cfg_attr(
    not(target_arch = "wasm32"),
    allow(dead_code, reason = "a native build has no imports or exports")
)]
#[doc(hidden)]
pub mod bindings;
mod call;
mod context;
mod event;
mod export;
mod exports;
mod failure;
pub mod finalizer;
mod host;
mod host_error;
pub mod http;
mod index_values;
pub mod kube;
pub mod kv;
pub mod log;
mod manifest;
pub mod metrics;
mod names;
mod owner;
mod payload;
mod plugin;
mod projection;
pub mod recorder;
pub mod store;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;

pub use action::Action;
pub use context::{Because, Describe, Init, Limits, Previous, Role};
pub use event::{Deleted, Event, ObjectRef, Reason, Request, SourceId, Synced, Tick};
pub use failure::{Failure, Result};
pub use host_error::{ErrorCode, HostError};
pub use index_values::IndexValues;
pub use informant_plugin_sdk_macros::Projection;
/// Makes a function a plugin: the handler of adds and updates of one kind.
///
/// ```
/// use informant_plugin_sdk::prelude::*;
/// use serde::Deserialize;
///
/// #[derive(Deserialize, Projection)]
/// #[projection(api_version = "v1", kind = "Pod")]
/// struct Pod {
///     status: Status,
/// }
///
/// #[derive(Deserialize, Projection)]
/// struct Status {
///     phase: String,
/// }
///
/// #[informant::handler]
/// fn on_pod(event: &Event, pod: Pod) -> Result {
///     info!("{event} is {}", pod.status.phase);
///     Ok(())
/// }
/// ```
///
/// - The type of the object is a [`Kind`]: the manifest has a rule for it, and asks only for the fields that it reads.
///   `Value` is every object, whole. For any other type, name the objects:
///   `#[informant::handler(api_version = "v1", kind = "Pod")]`.
/// - `Option<Pod>` receives deletes, too, as `None`.
/// - The function returns `Result`, or `Result<Action>` to be called again later. `?` takes any error.
/// - Arguments of the attribute change the rule, like the methods of [`Events`] with these names: `changed_only`,
///   `namespaces = ["web"]`, `label_selector = "app=web"`. `needs = Need::kube([Verb::Patch], "v1/pods")` is
///   [`Manifest::needs`].
/// - The plugin is a type named like the function: `OnPod`. Use it in tests: `Driver::<OnPod>`.
///
/// A crate has one such function. A plugin with state, with a config, or for several kinds implements [`Plugin`] and
/// [`EventHandler`]. The attribute needs the name `informant`, which the [`prelude`] has.
///
/// ```compile_fail
/// use informant_plugin_sdk::prelude::*;
///
/// #[derive(serde::Deserialize)]
/// struct Pod {}
///
/// // Which objects is this?
/// #[informant::handler]
/// fn on_pod(event: &Event, pod: Pod) -> Result {
///     Ok(())
/// }
/// ```
pub use informant_plugin_sdk_macros::handler;
pub use manifest::{Events, KubeNeed, Manifest, Metric, Need, Objects, PayloadKind, Reconciles, Related, Timer, Verb};
pub use owner::OwnerReference;
pub use payload::{Payload, Raw};
pub use plugin::{EventHandler, IndexFuncs, Plugin, Reconciler, Stateful, SyncHandler, TimerHandler};
pub use projection::{Kind, Projection};

macro_rules! contract {
    () => {
        "0.3.0"
    };
}

/// The version of the contract, `informant:plugin`, that this SDK is built for.
pub const CONTRACT: &str = contract!();

/// What most plugins need: `use informant_plugin_sdk::prelude::*`.
pub mod prelude {
    /// The name by which `#[informant::handler]` and `#[derive(Projection)]` refer to this crate.
    pub use crate::informant;
    pub use crate::{
        Action, Deleted, Describe, Event, EventHandler, Events, Failure, IndexFuncs, IndexValues, Init, Kind, Manifest,
        Metric, Need, ObjectRef, Objects, OwnerReference, Plugin, Projection, Raw, Reason, Reconciler, Reconciles,
        Related, Request, Result, SourceId, Stateful, SyncHandler, Synced, Tick, Timer, TimerHandler, Verb, finalizer,
        http, kube, kv, metrics, recorder, store,
    };
    pub use crate::{debug, error, export, handler, info, trace, warn};
    pub use serde_json::{Value, json};
}

/// Only for the macros of this crate.
#[doc(hidden)]
pub mod __private {
    pub use crate::bindings;
    pub use crate::exports::{
        Change, Exports, HandleEvents, handle, is_of, no_handler, plays_events, plays_index, plays_reconciler,
        plays_state, plays_sync, plays_timers, source_of,
    };
    pub use crate::manifest::Named;
    pub use crate::projection::below;

    /// The content of the section `informant-sdk` of a component. `informant plugin inspect` shows it.
    pub const SDK: &[u8] = concat!(
        r#"{"language":"rust","sdk":""#,
        env!("CARGO_PKG_VERSION"),
        r#"","contract":""#,
        contract!(),
        r#""}"#
    )
    .as_bytes();

    /// [`SDK`] in the form that a section takes.
    pub const fn sdk_section() -> [u8; SDK.len()] {
        *SDK.first_chunk().expect("it has this length")
    }
}
