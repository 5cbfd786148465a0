//! Reads the cache.
//!
//! During one call from Informant, all reads of a source see the same snapshot, which is at least as new as the event.
//! Informers have the names that the plugin's section of config.toml uses. That section also grants which informers the
//! plugin can read; other reads fail with [`ErrorCode::Denied`]. So do all reads in an index function and in
//! `describe`.
//!
//! A source belongs to one informer, so look up an object of another resource in a source of that resource's informer:
//!
//! ```no_run
//! # use informant_plugin_sdk::prelude::*;
//! # fn example() -> Result {
//! for pod in store::by_index("pods", "image", "nginx:1.25").namespace("web").objects::<Value>() {
//!     info!("{}", pod?.object["metadata"]["name"]);
//! }
//! # Ok(())
//! # }
//!
//! /// The node with this name, in the cluster of the event.
//! fn node(event: &Event, name: &str) -> Result<Option<Value>> {
//!     let cluster = &event.source_info()?.cluster;
//!     for source in store::sources("nodes")? {
//!         if store::source(source)?.cluster == *cluster {
//!             return store::get(source, "", name);
//!         }
//!     }
//!     Ok(None)
//! }
//! ```

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use crate::bindings::imports::informant::plugin::store as contract;
use crate::event::{SourceId, fmt_key};
use crate::failure::Result;
use crate::host;
use crate::host_error::{ErrorCode, HostError};
use crate::payload::Payload;

mod query;
mod values;

pub use contract::{SourceInfo, SourceVersion};
pub use query::{Item, Items, Query};
pub use values::IndexValueNames;

/// The key of an object in the cache.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The source that the object comes from.
    pub source: SourceId,
    /// Empty for cluster-scoped objects.
    pub namespace: String,
    /// The object's name.
    pub name: String,
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_key(f, &self.namespace, &self.name)
    }
}

thread_local! {
    // The details of a source do not change, and IDs are never reused.
    static SOURCES: RefCell<BTreeMap<SourceId, Rc<SourceInfo>>> = const { RefCell::new(BTreeMap::new()) };
}

/// The details of a source: its informer, cluster, apiVersion and kind. Requested from Informant once, then cached.
///
/// # Errors
/// [`ErrorCode::NotFound`] if the source does not exist, or no longer exists; [`ErrorCode::Denied`].
pub fn source(id: SourceId) -> Result<Rc<SourceInfo>, HostError> {
    if let Some(known) = SOURCES.with_borrow(|sources| sources.get(&id).cloned()) {
        return Ok(known);
    }
    let info = Rc::new(host::source(id.0)?);
    SOURCES.with_borrow_mut(|sources| sources.insert(id, Rc::clone(&info)));
    Ok(info)
}

/// Clears the cached details, because the next test has other sources.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn forget_sources() {
    SOURCES.take();
}

/// The sources of an informer: one per cluster and namespace it covers.
///
/// # Errors
/// [`ErrorCode::UnknownInformer`], [`ErrorCode::Denied`].
pub fn sources(informer: &str) -> Result<Vec<SourceId>, HostError> {
    Ok(host::sources(informer)?.into_iter().map(SourceId).collect())
}

/// Whether a source is synced, and up to which resource version it is complete.
///
/// # Errors
/// [`ErrorCode::NotFound`], [`ErrorCode::Denied`].
pub fn version(source: SourceId) -> Result<SourceVersion, HostError> {
    Ok(host::version(source.0)?)
}

/// Reads one object of this source, whole. Returns `None` if it is not in the cache. `namespace` is empty for
/// cluster-scoped objects.
///
/// # Errors
/// Errors of Informant ([`ErrorCode::NotReady`] before the initial list of the source, [`ErrorCode::Denied`]), and a
/// document that does not match `T`.
pub fn get<T: Payload>(source: SourceId, namespace: &str, name: &str) -> Result<Option<T>> {
    get_fields(source, namespace, name, &[])
}

/// Reads the fields of one object at these JSON pointers; `*` matches every element. Returns `None` if the object is
/// not in the cache.
///
/// # Errors
/// As for [`get`]; [`ErrorCode::Invalid`] for a malformed pointer.
pub fn get_fields<T: Payload>(source: SourceId, namespace: &str, name: &str, pointers: &[&str]) -> Result<Option<T>> {
    let pointers: Vec<String> = pointers.iter().map(ToString::to_string).collect();
    match host::get(source.0, namespace, name, &pointers).map_err(HostError::from) {
        Ok(json) => Ok(Some(T::decode(json)?)),
        Err(error) if error.code == ErrorCode::NotFound => Ok(None),
        Err(error) => Err(error)?,
    }
}

/// Lists the objects of an informer, ordered by key.
pub fn list(informer: &str) -> Query<'_> {
    Query::list(informer)
}

/// Lists the objects of an informer that have `value` in `index`.
pub fn by_index<'a>(informer: &'a str, index: &'a str, value: &'a str) -> Query<'a> {
    Query::by_index(informer, index, value)
}

/// The keys of the objects that have `value` in `index`.
///
/// # Errors
/// [`ErrorCode::UnknownIndex`]; [`ErrorCode::NotReady`] until the index is complete: it never returns a partial result.
pub fn index_keys(informer: &str, index: &str, value: &str) -> Result<Vec<ObjectKey>, HostError> {
    let keys = host::index_keys(informer, index, value)?;
    let key = |key: contract::ObjectKey| ObjectKey {
        source: SourceId(key.source),
        namespace: key.namespace,
        name: key.name,
    };
    Ok(keys.into_iter().map(key).collect())
}

/// Lists the values in use in `index`, sorted.
pub fn index_values<'a>(informer: &'a str, index: &'a str) -> IndexValueNames<'a> {
    IndexValueNames::new(informer, index)
}

#[cfg(test)]
mod tests;
