//! Deferred writes: validated at once, made after the call.

use serde::Serialize;

use super::contract::PatchKind;
use super::options::document;
use super::write::json;
use super::{Create, Delete, Patch, Result, Update};
use crate::host;

/// A write that Informant makes once the call has succeeded, whatever happens to this instance afterwards.
///
/// If the call fails or traps, none of its writes is made. Writes of a call are made in their order, and the event
/// counts as handled when they have ended. The first one that fails ends the rest, and becomes the failure of the
/// event: Informant then calls the handler again, with the same memory. So decide by the object, not by what the plugin
/// remembers of its writes.
///
/// Only handler calls can defer writes, at most 100 in a call. A write is checked when it is deferred: one that is
/// invalid or not granted is an [`Error`](super::Error) at once. A patch or update that would not change the cached
/// object may be left out.
#[derive(Debug, Clone)]
#[must_use = "defers nothing until you pass the document, or call `send`"]
pub struct Deferred<W>(pub(super) W);

impl Deferred<Create> {
    /// Creates this object. It needs a name, so that another attempt does not create another object.
    ///
    /// # Errors
    /// [`Error`](super::Error). An object of this name that exists already becomes a retryable failure of the event.
    pub fn object(self, object: &impl Serialize) -> Result<()> {
        let Create { address, options } = self.0;
        Ok(host::kube_defer_create(
            &address.resolve()?,
            &json(object),
            &document(&options),
        )?)
    }
}

impl Deferred<Update> {
    /// Replaces the object with this one.
    ///
    /// # Errors
    /// [`Error`](super::Error).
    pub fn object(self, object: &impl Serialize) -> Result<()> {
        let Update { address, options } = self.0;
        Ok(host::kube_defer_update(
            &address.resolve()?,
            &json(object),
            &document(&options),
        )?)
    }
}

impl Deferred<Patch> {
    /// As [`Patch::merge`].
    ///
    /// # Errors
    /// [`Error`](super::Error).
    pub fn merge(self, document: &impl Serialize) -> Result<()> {
        self.push(PatchKind::Merge, document)
    }

    /// As [`Patch::json`].
    ///
    /// # Errors
    /// [`Error`](super::Error).
    pub fn json(self, operations: &impl Serialize) -> Result<()> {
        self.push(PatchKind::Json, operations)
    }

    /// As [`Patch::strategic`].
    ///
    /// # Errors
    /// [`Error`](super::Error).
    pub fn strategic(self, document: &impl Serialize) -> Result<()> {
        self.push(PatchKind::Strategic, document)
    }

    /// As [`Patch::apply`].
    ///
    /// # Errors
    /// [`Error`](super::Error).
    pub fn apply(self, document: &impl Serialize) -> Result<()> {
        self.push(PatchKind::Apply, document)
    }

    fn push(self, kind: PatchKind, patch: &impl Serialize) -> Result<()> {
        let Patch { address, options } = self.0;
        let (address, options) = (address.resolve()?, document(&options));
        Ok(host::kube_defer_patch(&address, kind, &json(patch), &options)?)
    }
}

impl Deferred<Delete> {
    /// Deletes the object. One that is gone by then, or whose name has another object, counts as deleted: a deferred
    /// delete always has a uid. The address of an [event](super::of) has it; for any other, set
    /// [`if_uid`](Delete::if_uid).
    ///
    /// # Errors
    /// [`Error`](super::Error).
    pub fn send(self) -> Result<()> {
        let Delete { address, mut options } = self.0;
        if options.preconditions.uid.is_empty() {
            options.preconditions.uid.clone_from(&address.uid);
        }
        Ok(host::kube_defer_delete(&address.resolve()?, &document(&options))?)
    }
}
