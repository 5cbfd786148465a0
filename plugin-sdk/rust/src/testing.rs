//! Stands in for Informant when a plugin is tested natively, with `cargo test`.
//!
//! A [`Driver`] starts a plugin and calls it as Informant would: objects are put and deleted, the payload is cut to
//! what the manifest asks for, the store answers from what was put, and what was logged can be looked at. No component
//! is built.
//!
//! ```
//! # use informant_plugin_sdk::prelude::*;
//! # struct Greeter;
//! # impl Plugin for Greeter {
//! #     fn init(_: Init) -> Result<Self> { Ok(Greeter) }
//! # }
//! # impl EventHandler for Greeter {
//! #     type Object = Value;
//! #     fn on_add(&mut self, event: &Event, _: Value) -> Result { info!("hello {event}"); Ok(()) }
//! # }
//! use informant_plugin_sdk::testing::Driver;
//! use serde_json::json;
//!
//! let mut driver = Driver::<Greeter>::start(json!({})).unwrap();
//! driver.put(json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "namespace": "web", "name": "a" } })).unwrap();
//! assert_eq!(driver.take_log(), ["info: hello web/a"]);
//! ```
//!
//! What a plugin does with [`kube`](crate::kube) happens in the same cache: it reads what was put there and changes it,
//! and [`Cache::take_writes`] says what it did. [`Driver::settle`] tells the plugin of its own writes until it makes
//! none.
//!
//! Plugin code that is called without a driver can log (to stderr) but not read the store, unless a [`Cache`] is there.
//! Not here: retries, limits, several instances. These are Informant's, and only a component shows them.

mod cache;
pub(crate) mod cluster;
mod driver;
pub(crate) mod host;
mod projection;
mod selector;

pub use cache::Cache;
pub use cluster::Write;
pub use driver::{Driver, SETTLE_CALLS_MAX};

#[cfg(test)]
mod tests;
