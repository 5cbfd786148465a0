//! Builders for writes: options first, then the document, which sends the request.

use serde::Serialize;

use super::contract::{DeleteOptions, PatchKind, Propagation, WriteOptions};
use super::{Address, Error, Object, Result, contract};
use crate::host;

macro_rules! write {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        #[must_use = "sends nothing until you pass the document"]
        pub struct $name {
            address: contract::Address,
            options: WriteOptions,
        }

        impl $name {
            pub(super) fn new(address: &Address) -> Self {
                let options = WriteOptions {
                    field_manager: String::new(),
                    force: false,
                    dry_run: false,
                };
                Self { address: address.0.clone(), options }
            }

            /// The field manager that owns the written fields. The default is `informant-` followed by the plugin's
            /// name in config.toml.
            pub fn field_manager(mut self, name: impl Into<String>) -> Self {
                self.options.field_manager = name.into();
                self
            }

            /// Validate the request and return the result without changing anything.
            pub fn dry_run(mut self) -> Self {
                self.options.dry_run = true;
                self
            }
        }
    };
}

write!(
    /// Builds a create request.
    Create
);
write!(
    /// Builds an update request.
    Update
);
write!(
    /// Builds a patch request.
    Patch
);

/// Documents are serializable values of the plugin. One that cannot be written as JSON is a bug in the plugin.
fn json(document: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(document).expect("a document can be written as JSON: the keys of its maps are strings")
}

impl Create {
    /// Creates this object. Returns it as stored.
    ///
    /// # Errors
    /// [`Error`]; [`is_already_exists`](Error::is_already_exists) if the name is taken.
    pub fn object(self, object: &impl Serialize) -> Result<Object> {
        written(host::kube_create(&self.address, &json(object), &self.options))
    }
}

impl Update {
    /// Replaces the object with this one. Returns it as stored.
    ///
    /// # Errors
    /// [`Error`]; [`is_conflict`](Error::is_conflict) if the object has a resource version other than the stored
    /// one.
    pub fn object(self, object: &impl Serialize) -> Result<Object> {
        written(host::kube_update(&self.address, &json(object), &self.options))
    }
}

impl Patch {
    /// For [`apply`](Self::apply): take ownership of fields from other managers.
    pub fn force(mut self) -> Self {
        self.options.force = true;
        self
    }

    /// Merge patch (RFC 7386): null removes a member, and lists are replaced. If the document has `metadata.uid` or
    /// `metadata.resourceVersion`, the patch applies only to that object or state.
    ///
    /// # Errors
    /// [`Error`]; [`is_conflict`](Error::is_conflict) if the stored object or state is another.
    pub fn merge(self, document: &impl Serialize) -> Result<Object> {
        self.send(PatchKind::Merge, document)
    }

    /// JSON patch (RFC 6902).
    ///
    /// # Errors
    /// [`Error`].
    pub fn json(self, operations: &impl Serialize) -> Result<Object> {
        self.send(PatchKind::Json, operations)
    }

    /// Strategic merge patch: like [`merge`](Self::merge), but lists are merged by key. Not supported for custom
    /// resources.
    ///
    /// # Errors
    /// [`Error`].
    pub fn strategic(self, document: &impl Serialize) -> Result<Object> {
        self.send(PatchKind::Strategic, document)
    }

    /// Server-side apply. Sets these fields, and removes the other fields that this field manager owned. The document
    /// must have apiVersion and kind. It creates the object if there is none, so it also requires the verb `create`,
    /// unless the document has a `metadata.uid`.
    ///
    /// # Errors
    /// [`Error`]; [`is_conflict`](Error::is_conflict) if another manager owns a field and [`force`](Self::force) was
    /// not called.
    pub fn apply(self, document: &impl Serialize) -> Result<Object> {
        self.send(PatchKind::Apply, document)
    }

    fn send(self, kind: PatchKind, document: &impl Serialize) -> Result<Object> {
        written(host::kube_patch(&self.address, kind, &json(document), &self.options))
    }
}

fn written(response: std::result::Result<Vec<u8>, contract::ApiError>) -> Result<Object> {
    Ok(Object(response.map_err(Error::from)?))
}

/// Builds a delete request.
#[derive(Debug, Clone)]
#[must_use = "sends nothing until you call `send`"]
pub struct Delete {
    address: contract::Address,
    options: DeleteOptions,
}

impl Delete {
    pub(super) fn new(address: &Address) -> Self {
        let options = DeleteOptions {
            propagation: Propagation::Unset,
            uid: String::new(),
            resource_version: String::new(),
            dry_run: false,
        };
        Self {
            address: address.0.clone(),
            options,
        }
    }

    /// Delete the object only if it has this uid.
    pub fn if_uid(mut self, uid: impl Into<String>) -> Self {
        self.options.uid = uid.into();
        self
    }

    /// Delete the object only if it has this resource version.
    pub fn if_resource_version(mut self, version: impl Into<String>) -> Self {
        self.options.resource_version = version.into();
        self
    }

    /// Delete dependents afterwards.
    pub fn background(self) -> Self {
        self.propagation(Propagation::Background)
    }

    /// Delete dependents first.
    pub fn foreground(self) -> Self {
        self.propagation(Propagation::Foreground)
    }

    /// Keep dependents.
    pub fn orphan(self) -> Self {
        self.propagation(Propagation::Orphan)
    }

    fn propagation(mut self, propagation: Propagation) -> Self {
        self.options.propagation = propagation;
        self
    }

    /// Validate the request without deleting anything.
    pub fn dry_run(mut self) -> Self {
        self.options.dry_run = true;
        self
    }

    /// Deletes the object. The delete arrives as an event; finalizers can delay it.
    ///
    /// # Errors
    /// [`Error`]; [`is_conflict`](Error::is_conflict) if the stored object has another uid or resource version.
    pub fn send(self) -> Result<()> {
        Ok(host::kube_delete(&self.address, &self.options)?)
    }
}
