//! Replaces Informant in native tests of a plugin, with `cargo test`.
//!
//! A [`Driver`] starts a plugin and calls it as Informant does. The test puts and deletes objects, and the plugin
//! receives the fields that its manifest requests. The store contains the objects that were put, and the test can read
//! the log. No component is built.
//!
//! ```
//! # use informant_plugin_sdk::prelude::*;
//! # struct Greeter;
//! # impl Plugin for Greeter {
//! #     fn init(_: Init) -> Result<Self> { Ok(Greeter) }
//! # }
//! # impl EventHandler for Greeter {
//! #     fn on_add(&mut self, event: &Event, _: Value) -> Result<Action> { info!("hello {event}"); Ok(Action::done()) }
//! # }
//! # export!(Greeter: events);
//! use informant_plugin_sdk::testing::Driver;
//! use serde_json::json;
//!
//! let mut driver = Driver::<Greeter>::start(json!({})).unwrap();
//! driver.put(json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "namespace": "web", "name": "a" } })).unwrap();
//! assert_eq!(driver.take_log(), ["info: hello web/a"]);
//! ```
//!
//! Calls to [`kube`](crate::kube) read and change the same cache, and [`Cache::take_writes`] returns the writes.
//! Deferred writes are made when the handler has succeeded, and dropped if it failed. [`Driver::settle`] delivers the
//! events of the plugin's own writes until it stops writing.
//!
//! What the plugin remembers ([`kv`](crate::kv)) takes effect when a call succeeds: [`Cache::remembered`] and
//! [`Cache::remember`]. The same holds for the plugin's own [`metrics`](crate::metrics): [`Cache::metric`].
//!
//! [`Driver::reconcile`] calls a reconciler for an object in the cache. Its [children](crate::kube::children) are set
//! in the cache, too, as if the plugin had complete informers of their kinds.
//!
//! [`Driver::tick`] runs a timer of the manifest. [`Cache::take_events`] returns the Kubernetes Events that the plugin
//! has recorded ([`recorder`](crate::recorder)) in calls that succeeded.
//!
//! A plugin that asks to be called again ([`Action::requeue_after`](crate::Action::requeue_after)) is called by
//! [`Driver::run_requeues`], without waiting. [`Driver::put_in_cluster`] puts objects into several clusters.
//!
//! Plugin code that runs without a driver can log (to stderr), but cannot read the store unless the test creates a
//! [`Cache`]. A driver simulates neither retries nor limits. Retries and time are in
//! [scenarios](run_scenario), files that `informant plugin test` runs with the component, too.

mod cache;
pub(crate) mod children;
pub(crate) mod cluster;
pub(crate) mod deferred;
mod driver;
pub(crate) mod events;
mod exported;
pub(crate) mod host;
pub(crate) mod http;
mod instance;
pub(crate) mod keys;
pub(crate) mod metrics;
mod options;
mod projection;
mod scenario;
mod selector;

pub use cache::Cache;
pub use cluster::Write;
pub use driver::{Driver, SETTLE_CALLS_MAX};
pub use events::{RecordedEvent, Regarding};
pub use exported::Exported;
#[doc(hidden)]
pub use exported::Roles;
pub use scenario::run_scenario;

#[cfg(test)]
mod tests;
