//! Definitions as writes see them: what a definition makes of its resource, and what an object of it has to be.
//!
//! Stands in for the controllers of apiextensions-apiserver: names, conditions and the clean-up of a deleted
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
    /// Brings an object into the shape that its kind's schema asks for. For a definition, returns what is to be served
    /// once it is stored.
    pub(super) fn conform(
        &self,
        kind: &Kind,
        object: &mut Value,
        old: Option<&Stored>,
    ) -> Result<Option<Definition>, Status> {
        if let Some(version) = &kind.custom_version {
            version.conform(kind, object, self.unknown_fields)?;
        } else if self.unknown_fields == UnknownFields::Refuse {
            refuse_strangers(kind, object)?;
        }
        if !definitions::is_definitions(kind) {
            return Ok(None);
        }
        if let Some(old) = old {
            check_scope(kind, object, &old.value())?;
        }
        let definition = Definition::read(object)?;
        let wanted = &definition.storage;
        let place = self.store.defined(&wanted.group, &wanted.plural);
        let rival = self
            .store
            .registry()
            .rival(place, wanted)
            .map(|rival| rival.qualified());
        definitions::complete(object, self.now, rival.as_deref());
        Ok((rival.is_none() && !self.dry_run).then_some(definition))
    }

    /// A resource whose definition is on its way out takes nothing new.
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
        let Some(place) = self.resources(name) else {
            return Ok(());
        };
        let kind = Arc::clone(&self.store.shelf(place).kind);
        let mut write = Write {
            kind,
            place,
            namespace: "",
            part: Part::Whole,
            ..self.reborrow()
        };
        write.delete_collection(&Selection::in_namespace(""))?;
        Ok(())
    }

    pub(super) fn has_resources(&self, name: &str) -> bool {
        self.resources(name)
            .is_some_and(|place| !self.store.shelf(place).objects.is_empty())
    }

    /// Stops serving what the definition `name` defines.
    pub(super) fn retire(&mut self, name: &str) {
        if let Some(place) = self.resources(name) {
            self.store.retire(place);
        }
    }

    /// A definition that was waiting for its objects goes with the last of them.
    pub(super) fn finish_definition(&mut self, kind: &Kind) {
        if kind.custom_version.is_none() || self.has_resources(&kind.qualified()) {
            return;
        }
        let Some(definition) = self.definition_of(kind) else {
            return;
        };
        if super::is_finished(&definition.metadata()) {
            let place = self.store.definitions();
            self.store.remove(place, &kind.qualified());
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

/// Refuses what a built-in kind does not have.
fn refuse_strangers(kind: &Kind, object: &Value) -> Result<(), Status> {
    let found = protobuf::strangers(&kind.api_version(), &kind.kind, object);
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
    let invalid = FieldError::Invalid;
    Err(Status::invalid(
        &kind.group,
        &kind.kind,
        name,
        "spec.scope",
        invalid,
        &detail,
    ))
}
