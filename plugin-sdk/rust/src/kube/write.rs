//! Builders for writes: options first, then the document, which sends the request.

use std::time::Duration;

use serde::Serialize;

use super::contract::PatchKind;
use super::options::{DeleteOptions, FieldValidation, WriteOptions, document, whole_seconds};
use super::{Address, Deferred, Error, Object, Result, contract};
use crate::host;

macro_rules! write {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        #[must_use = "sends nothing until you pass the document"]
        pub struct $name {
            pub(super) address: Address,
            pub(super) options: WriteOptions,
        }

        impl $name {
            pub(super) fn new(address: &Address) -> Self {
                Self { address: address.clone(), options: WriteOptions::default() }
            }

            /// The field manager that owns the written fields. The default is `informant-` followed by the plugin's
            /// name in config.toml.
            pub fn field_manager(mut self, name: impl Into<String>) -> Self {
                self.options.field_manager = name.into();
                self
            }

            /// What to do with unknown and duplicate fields.
            pub fn field_validation(mut self, validation: FieldValidation) -> Self {
                self.options.field_validation = Some(validation);
                self
            }

            /// Makes the request after the call from Informant has succeeded.
            pub fn defer(self) -> Deferred<Self> {
                Deferred(self)
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
pub(super) fn json(document: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(document).expect("a document can be written as JSON: the keys of its maps are strings")
}

impl Create {
    /// Creates this object. Returns it as stored.
    ///
    /// # Errors
    /// [`Error`]; [`is_already_exists`](Error::is_already_exists) if the name is taken.
    pub fn object(self, object: &impl Serialize) -> Result<Object> {
        written(host::kube_create(
            &self.address.resolve()?,
            &json(object),
            &document(&self.options),
        ))
    }
}

impl Update {
    /// Replaces the object with this one. Returns it as stored.
    ///
    /// # Errors
    /// [`Error`]; [`is_conflict`](Error::is_conflict) if the object has a resource version other than the stored
    /// one.
    pub fn object(self, object: &impl Serialize) -> Result<Object> {
        written(host::kube_update(
            &self.address.resolve()?,
            &json(object),
            &document(&self.options),
        ))
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

    fn send(self, kind: PatchKind, patch: &impl Serialize) -> Result<Object> {
        let (address, options) = (self.address.resolve()?, document(&self.options));
        written(host::kube_patch(&address, kind, &json(patch), &options))
    }
}

fn written(response: std::result::Result<Vec<u8>, contract::ApiError>) -> Result<Object> {
    Ok(Object(response.map_err(Error::from)?))
}

/// Builds a delete request.
#[derive(Debug, Clone)]
#[must_use = "sends nothing until you call `send`"]
pub struct Delete {
    pub(super) address: Address,
    pub(super) options: DeleteOptions,
}

impl Delete {
    pub(super) fn new(address: &Address) -> Self {
        Self {
            address: address.clone(),
            options: DeleteOptions::default(),
        }
    }

    /// Delete the object only if it has this uid.
    pub fn if_uid(mut self, uid: impl Into<String>) -> Self {
        self.options.preconditions.uid = uid.into();
        self
    }

    /// Delete the object only if it has this resource version.
    pub fn if_resource_version(mut self, version: impl Into<String>) -> Self {
        self.options.preconditions.resource_version = version.into();
        self
    }

    /// Delete dependents afterwards.
    pub fn background(self) -> Self {
        self.propagation("Background")
    }

    /// Delete dependents first.
    pub fn foreground(self) -> Self {
        self.propagation("Foreground")
    }

    /// Keep dependents.
    pub fn orphan(self) -> Self {
        self.propagation("Orphan")
    }

    fn propagation(mut self, policy: &'static str) -> Self {
        self.options.propagation_policy = Some(policy);
        self
    }

    /// How long the object has to end, rounded up to whole seconds. Zero deletes it at once. The default is that of
    /// the object.
    pub fn grace_period(mut self, period: Duration) -> Self {
        self.options.grace_period_seconds = Some(whole_seconds(period));
        self
    }

    /// Validate the request without deleting anything.
    pub fn dry_run(mut self) -> Self {
        self.options.dry_run = true;
        self
    }

    /// Makes the request after the call from Informant has succeeded.
    pub fn defer(self) -> Deferred<Self> {
        Deferred(self)
    }

    /// Deletes the object. The delete arrives as an event; finalizers can delay it.
    ///
    /// # Errors
    /// [`Error`]; [`is_conflict`](Error::is_conflict) if the stored object has another uid or resource version.
    pub fn send(self) -> Result<()> {
        Ok(host::kube_delete(&self.address.resolve()?, &document(&self.options))?)
    }
}
