//! Reading the cache.
//!
//! Within one call from Informant all reads of a source see one snapshot, at least as new as the event. An informer is
//! named as the plugin's section of config.toml names it. Which informers may be read is granted there too; what is not
//! is [`ErrorCode::Denied`], and so is everything in an index function and in `describe`.
//!
//! ```no_run
//! # use informant_plugin_sdk::prelude::*;
//! # fn example(event: &Event) -> Result {
//! let node: Option<Value> = store::get(event.source, "", "node-1")?;
//! for pod in store::by_index("pods", "image", "nginx:1.29").namespace("web").objects::<Value>() {
//!     info!("{}", pod?.object["metadata"]["name"]);
//! }
//! # Ok(())
//! # }
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

/// Where an object is found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The source it came from.
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
    // What a source is does not change, and ids are never used again.
    static SOURCES: RefCell<BTreeMap<SourceId, Rc<SourceInfo>>> = const { RefCell::new(BTreeMap::new()) };
}

/// What a source is: its informer, cluster, apiVersion and kind. Asked for once, then remembered.
///
/// # Errors
/// [`ErrorCode::NotFound`] if there is no such source (any more), [`ErrorCode::Denied`].
pub fn source(id: SourceId) -> Result<Rc<SourceInfo>, HostError> {
    if let Some(known) = SOURCES.with_borrow(|sources| sources.get(&id).cloned()) {
        return Ok(known);
    }
    let info = Rc::new(host::source(id.0)?);
    SOURCES.with_borrow_mut(|sources| sources.insert(id, Rc::clone(&info)));
    Ok(info)
}

/// Forgets what the sources are, because the next test has others.
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

/// How far a source is.
///
/// # Errors
/// [`ErrorCode::NotFound`], [`ErrorCode::Denied`].
pub fn version(source: SourceId) -> Result<SourceVersion, HostError> {
    Ok(host::version(source.0)?)
}

/// One object, whole; none if it is not in the cache. `namespace` is empty for cluster-scoped objects.
///
/// # Errors
/// Those of Informant ([`ErrorCode::NotReady`] before the source's first list, [`ErrorCode::Denied`]) and of a document
/// that does not fit `T`.
pub fn get<T: Payload>(source: SourceId, namespace: &str, name: &str) -> Result<Option<T>> {
    get_fields(source, namespace, name, &[])
}

/// Of one object what these JSON pointers name, `*` for every element; none if it is not in the cache.
///
/// # Errors
/// As [`get`]; [`ErrorCode::Invalid`] for a malformed pointer.
pub fn get_fields<T: Payload>(source: SourceId, namespace: &str, name: &str, pointers: &[&str]) -> Result<Option<T>> {
    let pointers: Vec<String> = pointers.iter().map(ToString::to_string).collect();
    match host::get(source.0, namespace, name, &pointers).map_err(HostError::from) {
        Ok(json) => Ok(Some(T::decode(json)?)),
        Err(error) if error.code == ErrorCode::NotFound => Ok(None),
        Err(error) => Err(error)?,
    }
}

/// Asks for the objects of an informer, in the order of their keys.
pub fn list(informer: &str) -> Query<'_> {
    Query::list(informer)
}

/// Asks for the objects of an informer that have `value` in `index`.
pub fn by_index<'a>(informer: &'a str, index: &'a str, value: &'a str) -> Query<'a> {
    Query::by_index(informer, index, value)
}

/// The keys of the objects that have `value` in `index`.
///
/// # Errors
/// [`ErrorCode::UnknownIndex`]; [`ErrorCode::NotReady`] while the index is not attached: it never answers a part.
pub fn index_keys(informer: &str, index: &str, value: &str) -> Result<Vec<ObjectKey>, HostError> {
    let keys = host::index_keys(informer, index, value)?;
    let key = |key: contract::ObjectKey| ObjectKey {
        source: SourceId(key.source),
        namespace: key.namespace,
        name: key.name,
    };
    Ok(keys.into_iter().map(key).collect())
}

/// The values in use in `index`, sorted.
pub fn index_values<'a>(informer: &'a str, index: &'a str) -> IndexValueNames<'a> {
    IndexValueNames::new(informer, index)
}

#[cfg(test)]
mod tests;
