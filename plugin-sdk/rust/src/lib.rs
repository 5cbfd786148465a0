//! Write plugins for Informant in Rust.
//!
//! Informant runs Kubernetes informers and calls plugins: WebAssembly components that handle each change
//! ([`EventHandler`], [`SyncHandler`]) or compute index values ([`IndexFuncs`]). This is a complete plugin:
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
//!     fn on_upsert(&mut self, event: &Event, pod: Value) -> Result<Action> {
//!         info!("{event} is {}", pod["status"]["phase"]);
//!         Ok(Action::done())
//!     }
//! }
//!
//! export!(Greeter: events);
//! ```
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
//! # Memory
//! One instance handles all events of a plugin, one call at a time, so a plugin can keep its state in `&mut self`.
//! Index functions run in separate instances, which share no memory with it.

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

pub use action::Action;
pub use context::{Because, Describe, Init, Previous, Role};
pub use event::{Deleted, Event, ObjectRef, Reason, SourceId};
pub use failure::{Failure, Result};
pub use host_error::{ErrorCode, HostError};
pub use index_values::IndexValues;
pub use manifest::{Events, KubeNeed, Manifest, Need, Objects, PayloadKind, Verb};
pub use payload::{Payload, Raw};
pub use plugin::{EventHandler, IndexFuncs, Plugin, Stateful, SyncHandler};

macro_rules! contract {
    () => {
        "0.2.0"
    };
}

/// The version of the contract, `informant:plugin`, that this SDK is built for.
pub const CONTRACT: &str = contract!();

/// What most plugins need: `use informant_plugin_sdk::prelude::*`.
pub mod prelude {
    pub use crate::{
        Action, Deleted, Describe, Event, EventHandler, Events, Failure, IndexFuncs, IndexValues, Init, Manifest, Need,
        ObjectRef, Objects, Plugin, Raw, Reason, Result, SourceId, Stateful, SyncHandler, Verb, kube, store,
    };
    pub use crate::{debug, error, export, info, trace, warn};
    pub use serde_json::Value;
}

/// Only for the macros of this crate.
#[doc(hidden)]
pub mod __private {
    pub use crate::bindings;
    pub use crate::exports::{Exports, plays_events, plays_index, plays_state, plays_sync};
    pub use crate::manifest::Named;

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
