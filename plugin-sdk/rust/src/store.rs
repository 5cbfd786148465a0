//! Reads the cache.
//!
//! During one call from Informant, all reads of a source see the same snapshot, which is at least as new as the event.
//! Informers have the names that the plugin's section of config.toml uses. That section also grants which informers the
//! plugin can read; other reads fail with [`ErrorCode::Denied`]. So do all reads in an index function, in `describe`
//! and in `init`. Before the first list of a source is complete, reads of it fail with [`ErrorCode::NotReady`].
//!
//! A plugin can run in several clusters. Reads return objects of the cluster that the object of the current call is in,
//! or, in `on_synced`, the source. [`Query::all_clusters`] and [`Query::in_cluster`] read others, which `on_timer`
//! needs if there are several.
//!
//! ```no_run
//! # use informant_plugin_sdk::prelude::*;
//! # fn example(node: &str) -> Result {
//! for pod in store::by_index("pods", "image", "nginx:1.25").namespace("web").objects::<Value>() {
//!     info!("{}", pod?.object["metadata"]["name"]);
//! }
//! if let Some(node) = store::get::<Value>("nodes", "", node)? {
//!     info!("{}", node["status"]["nodeInfo"]);
//! }
//! # Ok(())
//! # }
//! ```

use crate::bindings::imports::informant::plugin::store as contract;
use crate::event::SourceId;
use crate::failure::Result;
use crate::host;
#[cfg(doc)]
use crate::host_error::ErrorCode;
use crate::host_error::HostError;
use crate::payload::Payload;

mod keys;
mod query;
mod sources;
mod values;

pub use contract::SourceVersion;
pub use keys::{IndexKeys, ObjectKey};
pub use query::{Item, Items, Query};
pub(crate) use sources::constant;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use sources::forget as forget_sources;
pub use sources::{SourceInfo, SourceState, source, sources};
pub use values::IndexValueNames;

/// Whether a source is synced, and up to which resource version it is complete.
///
/// # Errors
/// [`ErrorCode::NotFound`], [`ErrorCode::Denied`].
pub fn version(source: SourceId) -> Result<SourceVersion, HostError> {
    Ok(host::version(source.0)?)
}

/// Where an object is read from: `"pods".into()`, `event.source.into()`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin<'a> {
    /// An informer, in the cluster of the object that the call is about; in a call about no object, in the only
    /// cluster.
    Informer(&'a str),
    /// A source, such as [`Event::source`](crate::Event::source).
    Source(SourceId),
}

impl<'a> From<&'a str> for Origin<'a> {
    fn from(informer: &'a str) -> Self {
        Self::Informer(informer)
    }
}

impl<'a> From<&'a String> for Origin<'a> {
    fn from(informer: &'a String) -> Self {
        Self::Informer(informer)
    }
}

impl From<SourceId> for Origin<'_> {
    fn from(source: SourceId) -> Self {
        Self::Source(source)
    }
}

/// Reads one object of an informer or a source, whole: `store::get("nodes", "", "node-1")`. Returns `None` if it is not
/// in the cache. `namespace` is empty for cluster-scoped objects.
///
/// # Errors
/// Errors of Informant ([`ErrorCode::NotReady`] before the initial list of the source; [`ErrorCode::Denied`];
/// [`ErrorCode::Invalid`] for an informer that has several kinds, or if several clusters are possible), and a document
/// that does not match `T`.
pub fn get<'a, T: Payload>(origin: impl Into<Origin<'a>>, namespace: &str, name: &str) -> Result<Option<T>> {
    get_fields(origin, namespace, name, &[])
}

/// As [`get`], but reads only the fields at these JSON pointers; `*` matches every element.
///
/// # Errors
/// As for [`get`]; [`ErrorCode::Invalid`] for a malformed pointer.
pub fn get_fields<'a, T: Payload>(
    origin: impl Into<Origin<'a>>,
    namespace: &str,
    name: &str,
    pointers: &[&str],
) -> Result<Option<T>> {
    let pointers = owned(pointers);
    let found = match origin.into() {
        Origin::Source(source) => host::get(source.0, namespace, name, &pointers),
        Origin::Informer(informer) => {
            host::find(informer, namespace, name, &pointers).map(|found| found.map(|item| item.object))
        }
    };
    found.map_err(HostError::from)?.map(T::decode).transpose()
}

fn owned(pointers: &[&str]) -> Vec<String> {
    pointers.iter().map(ToString::to_string).collect()
}

/// Lists the objects of an informer, ordered by key.
pub fn list(informer: &str) -> Query<'_> {
    Query::list(informer)
}

/// Lists the objects of an informer that have `value` in `index`.
pub fn by_index<'a>(informer: &'a str, index: &'a str, value: &'a str) -> Query<'a> {
    Query::by_index(informer, index, value)
}

/// The keys of the objects that have `value` in `index`: `store::index_keys("pods", "image", "nginx:1.25").keys()?`.
pub fn index_keys<'a>(informer: &'a str, index: &'a str, value: &'a str) -> IndexKeys<'a> {
    IndexKeys::new(informer, index, value)
}

/// Lists the values in use in `index`, sorted.
pub fn index_values<'a>(informer: &'a str, index: &'a str) -> IndexValueNames<'a> {
    IndexValueNames::new(informer, index)
}

#[cfg(test)]
mod tests;
