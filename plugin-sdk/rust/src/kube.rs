//! Calls the Kubernetes API server with Informant's identity.
//!
//! Informant checks every call against `allow.kube` in the plugin's section of config.toml. A call that is not granted
//! fails with [`ErrorCode::Denied`], and the message contains the line that would grant it. Declare the permissions
//! that the plugin requires in its manifest ([`Manifest::needs`](crate::Manifest::needs)): Informant then refuses to
//! load the plugin without them.
//!
//! Reads go to the API server and cost it work. Read what informers cache from [`store`](crate::store).
//!
//! ```no_run
//! # use informant_plugin_sdk::prelude::*;
//! # use serde_json::json;
//! # fn example(event: &Event) -> Result {
//! let cluster = event.source_info()?.cluster.clone();
//! let pod = kube::object("v1/pods", &event.namespace, &event.name).in_cluster(cluster);
//! match kube::patch(&pod).merge(&json!({ "metadata": { "uid": event.uid, "labels": { "seen": "yes" } } })) {
//!     // The pod is gone or was replaced: that has its own event.
//!     Err(error) if error.is_conflict() || error.is_not_found() => Ok(()),
//!     done => Ok(done.map(drop)?),
//! }
//! # }
//! ```
//!
//! A plugin that writes to objects that it watches receives events for its own writes. Compare before you write, and
//! request [`changed_only`](crate::Events::changed_only) fields in the manifest: then each write causes one more call,
//! which finds nothing to do.

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

/// The result of a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The address of an object: resource, namespace and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address(contract::Address);

/// The address of an object. Write `resource` as in config.toml: `v1/pods`, `apps/v1/deployments`. `namespace` is empty
/// for cluster-scoped resources.
pub fn object(resource: impl Into<String>, namespace: impl Into<String>, name: impl Into<String>) -> Address {
    Address(contract::Address {
        cluster: String::new(),
        resource: resource.into(),
        namespace: namespace.into(),
        name: name.into(),
        subresource: String::new(),
    })
}

/// The address of the collection in which [`create`] creates an object.
pub fn collection(resource: impl Into<String>, namespace: impl Into<String>) -> Address {
    object(resource, namespace, "")
}

impl Address {
    /// Selects the cluster. Required if config.toml has several; [`Event::source_info`](crate::Event::source_info)
    /// returns the cluster of an event.
    #[must_use]
    pub fn in_cluster(mut self, cluster: impl Into<String>) -> Self {
        self.0.cluster = cluster.into();
        self
    }

    /// Selects a subresource: `status`, `scale`, `eviction` and so on.
    #[must_use]
    pub fn subresource(mut self, subresource: impl Into<String>) -> Self {
        self.0.subresource = subresource.into();
        self
    }

    /// Selects the subresource `status`.
    #[must_use]
    pub fn status(self) -> Self {
        self.subresource("status")
    }
}

/// An object as returned by the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object(Vec<u8>);

impl Object {
    /// Deserializes the object.
    ///
    /// # Errors
    /// [`Failure::Permanent`](crate::Failure::Permanent) if the document does not match the type.
    pub fn decode<T: Payload>(self) -> AnyResult<T> {
        T::decode(self.0)
    }

    /// The JSON document.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Reads one object. Returns `None` if it does not exist.
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

/// Lists the objects of a resource.
pub fn list(resource: impl Into<String>) -> List {
    List::new(resource.into())
}

/// Creates an object, or a subresource such as `eviction`:
/// `kube::create(&kube::collection("v1/configmaps", "web")).object(&map)`.
pub fn create(at: &Address) -> Create {
    Create::new(at)
}

/// Replaces an object.
pub fn update(object: &Address) -> Update {
    Update::new(object)
}

/// Patches an object.
pub fn patch(object: &Address) -> Patch {
    Patch::new(object)
}

/// Deletes an object.
pub fn delete(object: &Address) -> Delete {
    Delete::new(object)
}

#[cfg(test)]
mod tests;
