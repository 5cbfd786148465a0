//! Write plugins for Informant in Rust.
//!
//! Informant runs Kubernetes informers and calls plugins: WebAssembly components that are told about each change
//! ([`EventHandler`], [`SyncHandler`]) or compute index values ([`IndexFuncs`]). This is one, whole:
//!
//! ```
//! use informant_plugin_sdk::prelude::*;
//!
//! struct Greeter;
//!
//! impl Plugin for Greeter {
//!     fn init(_: Init) -> Result<Self> {
//!         Ok(Greeter)
//!     }
//! }
//!
//! impl EventHandler for Greeter {
//!     type Object = Value;
//!     fn on_upsert(&mut self, event: &Event, pod: Value) -> Result {
//!         info!("{event} is {}", pod["status"]["phase"]);
//!         Ok(())
//!     }
//! }
//!
//! export!(Greeter: events);
//! ```
//!
//! With `[lib] crate-type = ["cdylib"]` in Cargo.toml, `cargo build --release --target wasm32-wasip2` makes the
//! component, and `cargo test` runs the plugin's own tests natively: [`testing`] stands in for Informant there.
//!
//! # Results and traps
//! A [`Failure`] is an answer: Informant tries again, later or never, as it says. A panic is a trap: its message is
//! logged, the instance and all it remembered are gone, a new one gets `init`, and the event is tried again. Running
//! out of memory, time or stack is a trap too. Nothing is caught on the way, because a WebAssembly guest cannot unwind.
//!
//! # Memory
//! One instance makes one call at a time, so `&mut self` is all the state a plugin needs. With `instances` above 1 in
//! config.toml each instance sees its own share of the keys.

#[cfg_attr(
    not(target_arch = "wasm32"),
    allow(dead_code, reason = "natively, nothing is imported or exported")
)]
#[doc(hidden)]
pub mod bindings;
mod event;
mod export;
mod exports;
mod failure;
mod host;
mod host_error;
mod index_values;
pub mod kube;
pub mod log;
mod manifest;
mod names;
mod payload;
mod plugin;
pub mod store;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;

pub use event::{Deleted, Event, ObjectRef, Reason, SourceId};
pub use failure::{Failure, Result};
pub use host_error::{ErrorCode, HostError};
pub use index_values::IndexValues;
pub use manifest::{Events, KubeNeed, Manifest, Need, Objects, PayloadKind, Verb};
pub use payload::{Payload, Raw};
pub use plugin::{EventHandler, IndexFuncs, Init, InstanceRole, Plugin, Stateful, SyncHandler};

/// What a plugin usually needs, for `use informant_plugin_sdk::prelude::*`.
pub mod prelude {
    pub use crate::{
        Deleted, Event, EventHandler, Events, Failure, IndexFuncs, IndexValues, Init, Manifest, Need, ObjectRef,
        Objects, Plugin, Raw, Reason, Result, SourceId, Stateful, SyncHandler, Verb, kube, store,
    };
    pub use crate::{debug, error, export, info, trace, warn};
    pub use serde_json::Value;
}

/// For the macros of this crate only.
#[doc(hidden)]
pub mod __private {
    pub use crate::bindings;
    pub use crate::exports::{Exports, plays_events, plays_index, plays_state, plays_sync};
    pub use crate::manifest::Named;
}
