//! Writes: what is said of how, then what.

use serde::Serialize;

use super::contract::{DeleteOptions, PatchKind, Propagation, WriteOptions};
use super::{Address, Error, Object, Result, contract};
use crate::host;

macro_rules! write {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        #[must_use = "nothing is sent before it is said what"]
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

            /// Who owns the fields that are written. Without it: `informant-` and the plugin's name in config.toml.
            pub fn field_manager(mut self, name: impl Into<String>) -> Self {
                self.options.field_manager = name.into();
                self
            }

            /// Judge it and answer what it would come to, but change nothing.
            pub fn dry_run(mut self) -> Self {
                self.options.dry_run = true;
                self
            }
        }
    };
}

write!(
    /// A creation in the making.
    Create
);
write!(
    /// A replacement in the making.
    Update
);
write!(
    /// A change in the making.
    Patch
);

/// Everything that is sent is made of serde's types by the plugin itself: it is JSON, or a bug.
fn json(document: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(document).expect("a document that JSON can hold: maps have strings as keys")
}

impl Create {
    /// Makes this object. Answers it as it was stored.
    ///
    /// # Errors
    /// [`Error`]; [`is_already_exists`](Error::is_already_exists) if its name is taken.
    pub fn object(self, object: &impl Serialize) -> Result<Object> {
        done(host::kube_create(&self.address, &json(object), &self.options))
    }
}

impl Update {
    /// Puts this object in the place of the one there is. Answers it as it was stored.
    ///
    /// # Errors
    /// [`Error`]; [`is_conflict`](Error::is_conflict) if the object carries a resource version and another is stored.
    pub fn object(self, object: &impl Serialize) -> Result<Object> {
        done(host::kube_update(&self.address, &json(object), &self.options))
    }
}

impl Patch {
    /// With [`apply`](Self::apply): take fields over from other managers.
    pub fn force(mut self) -> Self {
        self.options.force = true;
        self
    }

    /// Merges this document into the object (RFC 7386): null takes a member away, lists are replaced. With
    /// `metadata.uid` or `metadata.resourceVersion` in it, only that object or state is changed.
    ///
    /// # Errors
    /// [`Error`]; [`is_conflict`](Error::is_conflict) if it is another object or state.
    pub fn merge(self, document: &impl Serialize) -> Result<Object> {
        self.send(PatchKind::Merge, document)
    }

    /// Carries out these operations (RFC 6902).
    ///
    /// # Errors
    /// [`Error`].
    pub fn json(self, operations: &impl Serialize) -> Result<Object> {
        self.send(PatchKind::Json, operations)
    }

    /// As [`merge`](Self::merge), but lists are merged by key. Not for custom resources.
    ///
    /// # Errors
    /// [`Error`].
    pub fn strategic(self, document: &impl Serialize) -> Result<Object> {
        self.send(PatchKind::Strategic, document)
    }

    /// Server-side apply: these fields, and no others that the field manager has owned so far. The document has
    /// apiVersion and kind. Makes the object if there is none; `create` has to be granted too, unless the document has
    /// a `metadata.uid`.
    ///
    /// # Errors
    /// [`Error`]; [`is_conflict`](Error::is_conflict) if another manager owns a field and [`force`](Self::force) was
    /// not said.
    pub fn apply(self, document: &impl Serialize) -> Result<Object> {
        self.send(PatchKind::Apply, document)
    }

    fn send(self, kind: PatchKind, document: &impl Serialize) -> Result<Object> {
        done(host::kube_patch(&self.address, kind, &json(document), &self.options))
    }
}

fn done(answer: std::result::Result<Vec<u8>, contract::ApiError>) -> Result<Object> {
    Ok(Object(answer.map_err(Error::from)?))
}

/// A deletion in the making.
#[derive(Debug, Clone)]
#[must_use = "nothing is sent before `send`"]
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

    /// Only the incarnation with this uid.
    pub fn if_uid(mut self, uid: impl Into<String>) -> Self {
        self.options.uid = uid.into();
        self
    }

    /// Only the state of this resource version.
    pub fn if_resource_version(mut self, version: impl Into<String>) -> Self {
        self.options.resource_version = version.into();
        self
    }

    /// What it owns is deleted later.
    pub fn background(self) -> Self {
        self.propagation(Propagation::Background)
    }

    /// What it owns is deleted first.
    pub fn foreground(self) -> Self {
        self.propagation(Propagation::Foreground)
    }

    /// What it owns stays.
    pub fn orphan(self) -> Self {
        self.propagation(Propagation::Orphan)
    }

    fn propagation(mut self, propagation: Propagation) -> Self {
        self.options.propagation = propagation;
        self
    }

    /// Judge it, but delete nothing.
    pub fn dry_run(mut self) -> Self {
        self.options.dry_run = true;
        self
    }

    /// Deletes it. That it is gone is told as an event; finalizers may hold it back for a while.
    ///
    /// # Errors
    /// [`Error`]; [`is_conflict`](Error::is_conflict) if it is another incarnation or state.
    pub fn send(self) -> Result<()> {
        Ok(host::kube_delete(&self.address, &self.options)?)
    }
}
