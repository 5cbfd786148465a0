//! Writes of definitions and custom resources: what a definition changes, and what its objects must conform to.
//!
//! Replaces the controllers of apiextensions-apiserver: names, conditions and the clean-up of a deleted
//! definition's objects.

use std::sync::Arc;

use serde_json::Value;

use super::{Part, Write};
use crate::definitions::{self, Definition, UnknownFields};
use crate::kinds::Kind;
use crate::protobuf;
use crate::selection::Selection;
use crate::status::{FieldError, Status};
use crate::stored::Stored;

impl Write<'_> {
    /// Makes an object conform to its kind's schema. For a definition, returns what is to be served once it is stored.
    pub(super) fn conform(
        &self,
        kind: &Kind,
        object: &mut Value,
        old: Option<&Stored>,
    ) -> Result<Option<Definition>, Status> {
        if let Some(version) = &kind.custom_version {
            version.conform(kind, object, self.unknown_fields)?;
        } else if self.unknown_fields == UnknownFields::Refuse {
            check_field_types(kind, object)?;
        }
        if !definitions::is_definitions(kind) {
            return Ok(None);
        }
        if let Some(old) = old {
            check_scope(kind, object, &old.value())?;
        }
        let definition = Definition::read(object)?;
        let wanted = &definition.storage;
        let slot = self.store.defined(&wanted.group, &wanted.plural);
        let conflict = self
            .store
            .registry()
            .name_conflict(slot, wanted)
            .map(|conflict| conflict.qualified());
        definitions::complete(object, self.now, conflict.as_deref());
        Ok((conflict.is_none() && !self.dry_run).then_some(definition))
    }

    /// A resource whose definition is being deleted accepts no new objects.
    pub(super) fn check_definition(&self, kind: &Kind) -> Result<(), Status> {
        let ending = kind.custom_version.is_some()
            && self
                .definition_of(kind)
                .is_none_or(|definition| definition.metadata().get("deletionTimestamp").is_some());
        if ending {
            let message = "create not allowed while custom resource definition is terminating";
            return Err(Status::new(405, "MethodNotAllowed", message));
        }
        Ok(())
    }

    /// Deletes all objects of the resource that the definition `name` defines. Those with finalizers stay for now.
    pub(super) fn delete_resources(&mut self, name: &str) -> Result<(), Status> {
        let Some(slot) = self.resources(name) else {
            return Ok(());
        };
        let kind = Arc::clone(&self.store.collection(slot).kind);
        let mut write = Write {
            kind,
            slot,
            namespace: "",
            part: Part::Whole,
            ..self.reborrow()
        };
        write.delete_collection(&Selection::in_namespace(""))?;
        Ok(())
    }

    pub(super) fn has_resources(&self, name: &str) -> bool {
        self.resources(name)
            .is_some_and(|slot| !self.store.collection(slot).objects.is_empty())
    }

    /// Stops serving what the definition `name` defines.
    pub(super) fn retire(&mut self, name: &str) {
        if let Some(slot) = self.resources(name) {
            self.store.retire(slot);
        }
    }

    /// Finishes the deletion of a definition with its last object.
    pub(super) fn finish_definition(&mut self, kind: &Kind) {
        if kind.custom_version.is_none() || self.has_resources(&kind.qualified()) {
            return;
        }
        let Some(definition) = self.definition_of(kind) else {
            return;
        };
        if super::is_finished(&definition.metadata()) {
            let slot = self.store.definitions();
            self.store.remove(slot, &kind.qualified());
            self.retire(&kind.qualified());
        }
    }

    fn definition_of(&self, kind: &Kind) -> Option<&Arc<Stored>> {
        self.store.get(self.store.definitions(), "", &kind.qualified())
    }

    fn resources(&self, name: &str) -> Option<usize> {
        let (plural, group) = name.split_once('.')?;
        self.store.defined(group, plural)
    }
}

/// Refuses unknown and mistyped fields of a built-in kind.
fn check_field_types(kind: &Kind, object: &Value) -> Result<(), Status> {
    let found = protobuf::check_fields(&kind.api_version(), &kind.kind, object);
    if let Some((found, field, wanted)) = found.mistyped {
        return Err(Status::bad_request(format!(
            "{0} in version {1:?} cannot be handled as a {0}: json: cannot unmarshal {found} into {field} of type {wanted}",
            kind.kind, kind.version
        )));
    }
    if found.unknown.is_empty() {
        Ok(())
    } else {
        Err(definitions::unknown_fields(kind, &found.unknown))
    }
}

fn check_scope(kind: &Kind, new: &Value, old: &Value) -> Result<(), Status> {
    let scope = &new["spec"]["scope"];
    if *scope == old["spec"]["scope"] {
        return Ok(());
    }
    let name = new["metadata"]["name"].as_str().unwrap_or_default();
    let detail = format!("{scope}: field is immutable");
    Err(kind.invalid(name, "spec.scope", FieldError::Invalid, &detail))
}
