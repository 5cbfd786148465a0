//! Calls the Kubernetes API server with Informant's identity.
//!
//! Informant checks every call against `allow.kube` in the plugin's section of config.toml. A call that is not granted
//! fails with [`ErrorCode::Denied`], and the message contains the line that would grant it. Declare the permissions
//! that the plugin requires in its manifest ([`Manifest::needs`](crate::Manifest::needs)): Informant then refuses to
//! load the plugin without them.
//!
//! Reads go to the API server and cost it work. Read what informers cache from [`store`].
//!
//! ```no_run
//! # use informant_plugin_sdk::prelude::*;
//! # use serde_json::json;
//! # fn example(event: &Event) -> Result {
//! let label = json!({ "metadata": { "labels": { "seen": "yes" } } });
//! kube::defer_patch(&kube::of(event)).merge(&label)?;
//! # Ok(())
//! # }
//! ```
//!
//! This write is *deferred*: Informant makes it once the handler has succeeded, and calls the handler again if the
//! write fails. So a failed call has changed nothing, and no call waits for the API server. See [`Deferred`]. The other
//! functions send their request at once and return the answer, for handlers that need it.
//!
//! A reconciler sets all objects that belong to the one that it is called for with [`children()`], and writes its
//! status with [`set_status`]. Both are deferred, too.
//!
//! A call goes to the cluster of the object that the current call from Informant is about, or, in `on_synced`, of the
//! source, unless the address names another one. In `on_timer`, name the cluster if there are several.
//!
//! A plugin that writes to objects that it watches receives events for its own writes. Compare before you write, and
//! request [`changed_only`](crate::Events::changed_only) fields in the manifest: then each write causes one more call,
//! which finds nothing to do.

use crate::bindings::imports::informant::plugin::kube as contract;
use crate::event::{Event, Request, SourceId};
use crate::failure::Result as AnyResult;
use crate::payload::Payload;
use crate::{host, store};

mod children;
mod deferred;
mod error;
mod list;
mod options;
mod status;
mod write;

pub use children::{Children, SetChildren};
pub use contract::ApiErrorCode as ErrorCode;
pub use deferred::Deferred;
pub use error::Error;
pub use list::{List, Objects};
pub use options::FieldValidation;
pub use status::{Condition, ConditionStatus, set_status};
pub use write::{Create, Delete, Patch, Update};

/// The result of a call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The address of an object: cluster, resource, namespace and name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    address: contract::Address,
    /// The source of the object, which has its resource and cluster.
    of: Option<SourceId>,
    /// The uid of the object, if it is known.
    uid: String,
}

/// The address of the event's object, in its cluster. Works for every kind, also where the informer is a pattern (`*`).
pub fn of(event: &Event) -> Address {
    Address {
        of: Some(event.source),
        uid: event.uid.clone(),
        ..object("", &event.namespace, &event.name)
    }
}

/// The address of an object. Write `resource` as in config.toml: `v1/pods`, `apps/v1/deployments`. `namespace` is empty
/// for cluster-scoped resources.
pub fn object(resource: impl Into<String>, namespace: impl Into<String>, name: impl Into<String>) -> Address {
    Address {
        address: contract::Address {
            cluster: String::new(),
            resource: resource.into(),
            namespace: namespace.into(),
            name: name.into(),
            subresource: String::new(),
        },
        of: None,
        uid: String::new(),
    }
}

/// The address of the collection in which [`create`] creates an object.
pub fn collection(resource: impl Into<String>, namespace: impl Into<String>) -> Address {
    object(resource, namespace, "")
}

impl Address {
    /// Selects the cluster. The default is the cluster of the object that the call is about.
    #[must_use]
    pub fn in_cluster(mut self, cluster: impl Into<String>) -> Self {
        self.address.cluster = cluster.into();
        self
    }

    /// Selects a subresource: `status`, `scale`, `eviction` and so on.
    #[must_use]
    pub fn subresource(mut self, subresource: impl Into<String>) -> Self {
        self.address.subresource = subresource.into();
        self
    }

    /// Selects the subresource `status`.
    #[must_use]
    pub fn status(self) -> Self {
        self.subresource("status")
    }

    /// As the contract wants it.
    fn resolve(&self) -> Result<contract::Address> {
        let mut address = self.address.clone();
        if let Some(source) = self.of {
            let source = store::constant(source)?;
            address.resource.clone_from(&source.resource);
            if address.cluster.is_empty() {
                address.cluster.clone_from(&source.cluster);
            }
        }
        Ok(address)
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
    match host::kube_get(&object.resolve()?).map_err(Error::from) {
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

/// Creates an object after the call: [`Create::defer`].
pub fn defer_create(at: &Address) -> Deferred<Create> {
    create(at).defer()
}

/// Replaces an object after the call: [`Update::defer`].
pub fn defer_update(object: &Address) -> Deferred<Update> {
    update(object).defer()
}

/// Patches an object after the call: [`Patch::defer`].
pub fn defer_patch(object: &Address) -> Deferred<Patch> {
    patch(object).defer()
}

/// Deletes an object after the call: [`Delete::defer`].
pub fn defer_delete(object: &Address) -> Deferred<Delete> {
    delete(object).defer()
}

/// Makes these the objects that belong to the one that is reconciled. The writes are [deferred](Deferred).
///
/// ```no_run
/// # use informant_plugin_sdk::prelude::*;
/// # fn example(request: &Request, deployment: Value, service: Value, config: Value) -> Result {
/// let done = kube::children(request).fields([deployment, service]).whole([config]).set()?;
/// if !done.refused.is_empty() {
///     warn!("{request} does not own {}", done.refused.join(", "));
/// }
/// # Ok(())
/// # }
/// ```
///
/// [`Reconciles::owns`](crate::Reconciles::owns) names their kinds, and the plugin needs an informer for each. An
/// object is anything that serde serializes, with apiVersion, kind and metadata.name. Without metadata.namespace it is
/// in that of its owner. Informant adds an owner reference and the labels `informant.dev/owner-uid` and
/// `informant.dev/plugin`.
///
/// Call it once for a request, with all of them, at most 1,000: others that the plugin has made for the object are
/// deleted. An object that exists and belongs to somebody else stays as it is. The writes do not count as writes of the
/// call.
///
/// `allow.kube` needs `create` and `patch` for [`fields`](SetChildren::fields), `create` and `update` for
/// [`whole`](SetChildren::whole), and `delete` for both.
pub fn children(request: &Request) -> SetChildren {
    SetChildren::of(request)
}

#[cfg(test)]
mod tests;
