//! Acting on the cluster, with Informant's identity there.
//!
//! Every call is judged by `allow.kube` in the plugin's section of config.toml; what is not granted is
//! [`ErrorCode::Denied`], and the message holds the line that would grant it. Say in the manifest what the plugin
//! cannot do without ([`Manifest::needs`](crate::Manifest::needs)): then Informant refuses to load it where that is not
//! granted.
//!
//! What is read here comes from the API server, and costs it something: read what the informers have from
//! [`store`](crate::store).
//!
//! ```no_run
//! # use informant_plugin_sdk::prelude::*;
//! # use serde_json::json;
//! # fn example(event: &Event) -> Result {
//! let pod = kube::object("v1/pods", &event.namespace, &event.name);
//! match kube::patch(&pod).merge(&json!({ "metadata": { "uid": event.uid, "labels": { "seen": "yes" } } })) {
//!     // Another pod has its name by now, or none: its own event comes, or has come.
//!     Err(error) if error.is_conflict() || error.is_not_found() => Ok(()),
//!     done => Ok(done.map(drop)?),
//! }
//! # }
//! ```
//!
//! A plugin that writes to what it watches is told of its own writes. Compare before writing, and let the manifest ask
//! for [`changed_only`](crate::Events::changed_only) fields: then one write is followed by one call that finds nothing
//! to do.

use crate::bindings::imports::informant::plugin::kube as contract;
use crate::failure::Result as AnyResult;
use crate::host;
use crate::payload::Payload;

mod error;
mod list;
mod write;

pub use contract::ApiErrorCode as ErrorCode;
pub use error::Error;
pub use list::{List, Objects};
pub use write::{Create, Delete, Patch, Update};

/// What a call comes to.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An object, or where one is to be made: resource, namespace, name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address(contract::Address);

/// An object. `resource` is written as in config.toml, `v1/pods` or `apps/v1/deployments`; `namespace` is empty for
/// what lives outside of namespaces.
pub fn object(resource: impl Into<String>, namespace: impl Into<String>, name: impl Into<String>) -> Address {
    Address(contract::Address {
        cluster: String::new(),
        resource: resource.into(),
        namespace: namespace.into(),
        name: name.into(),
        subresource: String::new(),
    })
}

/// Where objects of a resource live: for [`create`].
pub fn collection(resource: impl Into<String>, namespace: impl Into<String>) -> Address {
    object(resource, namespace, "")
}

impl Address {
    /// In this cluster, where config.toml has several.
    #[must_use]
    pub fn in_cluster(mut self, cluster: impl Into<String>) -> Self {
        self.0.cluster = cluster.into();
        self
    }

    /// This part of the object: `status`, `scale`, `eviction` …
    #[must_use]
    pub fn subresource(mut self, subresource: impl Into<String>) -> Self {
        self.0.subresource = subresource.into();
        self
    }

    /// The object's status.
    #[must_use]
    pub fn status(self) -> Self {
        self.subresource("status")
    }
}

/// An object as the API server has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object(Vec<u8>);

impl Object {
    /// Reads it.
    ///
    /// # Errors
    /// [`Failure::Permanent`](crate::Failure::Permanent) if the document does not fit the type.
    pub fn decode<T: Payload>(self) -> AnyResult<T> {
        T::decode(self.0)
    }

    /// The JSON document.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Reads one object; none if there is none.
///
/// # Errors
/// [`Error`].
pub fn get(object: &Address) -> Result<Option<Object>> {
    match host::kube_get(&object.0).map_err(Error::from) {
        Ok(json) => Ok(Some(Object(json))),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Asks for the objects of a resource.
pub fn list(resource: impl Into<String>) -> List {
    List::new(resource.into())
}

/// Makes an object, or something of an object: `kube::create(&kube::collection("v1/configmaps", "web")).object(&map)`.
pub fn create(at: &Address) -> Create {
    Create::new(at)
}

/// Replaces an object.
pub fn update(object: &Address) -> Update {
    Update::new(object)
}

/// Changes an object.
pub fn patch(object: &Address) -> Patch {
    Patch::new(object)
}

/// Deletes an object.
pub fn delete(object: &Address) -> Delete {
    Delete::new(object)
}

#[cfg(test)]
mod tests;
