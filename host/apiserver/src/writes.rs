//! The rules of writes: what may be created where, what a write keeps, counts and refuses, and what is deleted with a
//! namespace.
//!
//! Follows apiserver `pkg/registry/rest` (create.go, update.go, delete.go) and
//! `pkg/registry/generic/registry/store.go`.

mod definitions;
mod namespaces;

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::admit;
use crate::definitions::{UnknownFields, is_definitions};
use crate::kinds::Kind;
use crate::patch::Patch;
use crate::selection::Selection;
use crate::status::{FieldError, Status};
use crate::store::Store;
use crate::stored::Stored;

/// Which part of an object a write may touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Everything. For tests, which write directly to the store.
    Whole,
    /// All but `status`, for kinds that have it as a subresource.
    Main,
    /// `status` alone.
    Status,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Preconditions {
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
}

/// The result of a write: the stored state, and the JSON value that it was written from.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) stored: Arc<Stored>,
    pub(crate) object: Value,
}

impl Written {
    fn new(stored: Arc<Stored>, mut object: Value) -> Self {
        let version = (stored.revision > 0).then(|| json!(stored.revision.to_string()));
        set(&mut object["metadata"], "resourceVersion", version);
        Self { stored, object }
    }
}

#[derive(Debug)]
pub(crate) enum Deletion {
    /// The object is gone; this was its last state.
    Done(Arc<Stored>),
    /// Finalizers delay the deletion; this is its state now.
    Waiting(Arc<Stored>),
}

pub(crate) struct Write<'a> {
    pub(crate) store: &'a mut Store,
    /// The kind in the version that the request names.
    pub(crate) kind: Arc<Kind>,
    pub(crate) slot: usize,
    pub(crate) namespace: &'a str,
    /// The current time, RFC 3339.
    pub(crate) now: &'a str,
    pub(crate) part: Part,
    pub(crate) dry_run: bool,
    pub(crate) unknown_fields: UnknownFields,
}

impl Write<'_> {
    fn kind(&self) -> Arc<Kind> {
        Arc::clone(&self.kind)
    }

    /// The same write, for a nested write.
    fn reborrow(&mut self) -> Write<'_> {
        Write {
            store: self.store,
            kind: Arc::clone(&self.kind),
            slot: self.slot,
            namespace: self.namespace,
            now: self.now,
            part: self.part,
            dry_run: self.dry_run,
            unknown_fields: self.unknown_fields,
        }
    }

    /// The state as it is stored, which may be in another version than the request's.
    fn serialize(&self, object: &Value, revision: u64) -> Stored {
        Stored::new(&self.store.collection(self.slot).kind, object, revision)
    }

    fn existing(&self, name: &str) -> Result<Arc<Stored>, Status> {
        let found = self.store.get(self.slot, self.namespace, name).cloned();
        found.ok_or_else(|| Status::not_found(&self.kind(), name))
    }

    pub(crate) fn create(&mut self, mut object: Value) -> Result<Written, Status> {
        let kind = self.kind();
        admit::shape(&kind, self.namespace, &mut object)?;
        self.check_namespace(&kind, &object)?;
        self.check_definition(&kind)?;
        let suffix = self.store.random.name_suffix();
        let uid = self.store.random.uid();
        let metadata = metadata(&mut object);
        if metadata
            .get("resourceVersion")
            .and_then(Value::as_str)
            .is_some_and(|version| !version.is_empty())
        {
            return Err(Status::new(
                500,
                "",
                "resourceVersion should not be set on objects to be created",
            ));
        }
        if admit::text(metadata, "name").is_empty() && !admit::text(metadata, "generateName").is_empty() {
            let name = format!("{}{suffix}", admit::text(metadata, "generateName"));
            metadata.insert("name".to_owned(), json!(name));
        }
        let name = admit::text(metadata, "name").to_owned();
        admit::name(&kind, &name)?;
        admit::metadata(&kind, metadata)?;
        // Objects of tests and scenarios name each other by uid.
        if self.part != Part::Whole || admit::text(metadata, "uid").is_empty() {
            metadata.insert("uid".to_owned(), json!(uid));
        }
        metadata.insert("creationTimestamp".to_owned(), json!(self.now));
        for system in [
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generation",
            "resourceVersion",
        ] {
            metadata.remove(system);
        }
        if kind.has_generation {
            metadata.insert("generation".to_owned(), json!(1));
        }
        // A kubelet registers its node with a status.
        if self.part != Part::Whole && kind.has_status && kind.kind != "Node" {
            set(&mut object, "status", None);
        }
        admit::defaults(&kind, &mut object);
        let definition = self.conform(&kind, &mut object, None)?;
        if self.store.get(self.slot, self.namespace, &name).is_some() {
            return Err(Status::already_exists(&kind, &name));
        }
        let stored = if self.dry_run {
            Arc::new(self.serialize(&object, 0))
        } else {
            let next = self.store.revision() + 1;
            let object = self.serialize(&object, next);
            self.store.put(self.slot, object)
        };
        if let Some(definition) = definition {
            self.store.define(definition);
        }
        Ok(Written::new(stored, object))
    }

    pub(crate) fn update(&mut self, name: &str, mut object: Value) -> Result<Written, Status> {
        let kind = self.kind();
        admit::shape(&kind, self.namespace, &mut object)?;
        check_name(name, &object)?;
        let old = self.existing(name)?;
        check_basis(&kind, &old, &object["metadata"])?;
        self.replace(&kind, &old, object)
    }

    /// Patches an object. Returns whether this created it.
    pub(crate) fn patch(&mut self, name: &str, patch: &Patch) -> Result<(Written, bool), Status> {
        let kind = self.kind();
        let old = match self.existing(name) {
            Ok(old) => old,
            Err(status) => {
                let Some(configuration) = patch.creates().filter(|_| self.part != Part::Status) else {
                    return Err(status);
                };
                let mut object = configuration.clone();
                if let Some(uid) = object["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty()) {
                    let why = format!(
                        "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                    );
                    return Err(Status::conflict(&kind, name, &why));
                }
                admit::shape(&kind, self.namespace, &mut object)?;
                metadata(&mut object).insert("name".to_owned(), json!(name));
                return Ok((self.create(object)?, true));
            }
        };
        let mut object = old.value_as(&kind);
        patch.apply(&mut object)?;
        admit::shape(&kind, self.namespace, &mut object).map_err(|status| refused_patch(&status))?;
        check_name(name, &object)?;
        if kind.custom && self.part == Part::Status {
            // apiextensions' status strategy puts the stored metadata in place before anything compares it.
            object["metadata"]["uid"] = json!(&*old.uid);
        }
        check_uid(&kind, &old, &object["metadata"])?;
        check_basis(&kind, &old, &object["metadata"])?;
        Ok((self.replace(&kind, &old, object)?, false))
    }

    /// Stores the new state of `old`: keeps the parts that this write may not change, counts the generation, and skips
    /// writes without changes.
    fn replace(&mut self, kind: &Kind, old: &Arc<Stored>, mut object: Value) -> Result<Written, Status> {
        match self.part {
            Part::Main if kind.has_status => set(&mut object, "status", old.status()),
            Part::Whole | Part::Main => {}
            Part::Status => {
                let status = object
                    .get_mut("status")
                    .map(Value::take)
                    .filter(|status| !status.is_null());
                object = old.value_as(kind);
                set(&mut object, "status", status);
            }
        }
        let mut before = old.metadata();
        for system in [
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "generation",
        ] {
            set(&mut object["metadata"], system, before.get_mut(system).map(Value::take));
        }
        let has_changed = |member: &str| object["metadata"][member] != before[member];
        if has_changed("labels") || has_changed("ownerReferences") {
            admit::metadata(kind, metadata(&mut object))?;
        }
        let definition = self.conform(kind, &mut object, Some(old))?;
        // Written once and compared as bytes: a tree of the old state is not needed.
        let mut new = self.serialize(&object, old.revision);
        let annotated = is_deployment(kind) && object["metadata"]["annotations"] != before["annotations"];
        if kind.has_generation && (annotated || new.content() != old.content()) {
            let generation = bump_generation(&mut object);
            new = new.with_generation(generation);
        }
        if self.dry_run || new.json() == old.json() {
            let stored = if self.dry_run { Arc::new(new) } else { Arc::clone(old) };
            return Ok(Written::new(stored, object));
        }
        let stored = self.store.put(self.slot, new);
        if let Some(definition) = definition {
            self.store.define(definition);
        }
        if is_finished(&object["metadata"]) {
            let last = self.remove(&stored).unwrap_or(stored);
            return Ok(Written::new(last, object));
        }
        Ok(Written::new(stored, object))
    }

    /// Deletes an object; one with finalizers is marked instead and deleted when they are gone.
    pub(crate) fn delete(&mut self, name: &str, preconditions: &Preconditions) -> Result<Deletion, Status> {
        let kind = self.kind();
        let old = self.existing(name)?;
        check_preconditions(&kind, &old, preconditions)?;
        self.check_deletable(&kind, name)?;
        let mut object = old.value();
        if self.dry_run {
            return Ok(Deletion::Done(old));
        }
        if kind.is_namespaces() {
            self.delete_content(name)?;
        }
        if is_definitions(&kind) {
            self.delete_resources(name)?;
        }
        let holds_content =
            (kind.is_namespaces() && self.has_content(name)) || (is_definitions(&kind) && self.has_resources(name));
        if finalizers(&object["metadata"]) == 0 && !holds_content {
            let last = self.remove(&old).ok_or_else(|| Status::not_found(&kind, name))?;
            return Ok(Deletion::Done(last));
        }
        if object["metadata"].get("deletionTimestamp").is_some() {
            return Ok(Deletion::Waiting(old));
        }
        object["metadata"]["deletionTimestamp"] = json!(self.now);
        object["metadata"]["deletionGracePeriodSeconds"] = json!(0);
        if kind.is_namespaces() {
            object["status"]["phase"] = json!("Terminating");
        }
        if kind.has_generation {
            bump_generation(&mut object);
        }
        let marked = self.serialize(&object, old.revision);
        Ok(Deletion::Waiting(self.store.put(self.slot, marked)))
    }

    /// Deletes everything that `selection` selects in the namespace (or, without one, everywhere). Returns the last
    /// states.
    pub(crate) fn delete_collection(&mut self, selection: &Selection) -> Result<Vec<Arc<Stored>>, Status> {
        let collection = self.store.collection(self.slot);
        let chosen: Vec<Arc<Stored>> = collection
            .objects
            .values()
            .filter(|object| selection.matches(&self.kind, object))
            .cloned()
            .collect();
        let mut deleted = Vec::with_capacity(chosen.len());
        for object in chosen {
            let mut write = Write {
                namespace: &object.namespace,
                ..self.reborrow()
            };
            match write.delete(&object.name, &Preconditions::default())? {
                Deletion::Done(last) | Deletion::Waiting(last) => deleted.push(last),
            }
        }
        Ok(deleted)
    }

    fn remove(&mut self, object: &Stored) -> Option<Arc<Stored>> {
        let last = self.store.remove(self.slot, &object.key());
        if is_definitions(&self.kind()) {
            self.retire(&object.name);
        }
        self.finish_definition(&self.kind());
        self.finish_namespace(&object.namespace);
        last
    }
}

fn metadata(object: &mut Value) -> &mut serde_json::Map<String, Value> {
    object["metadata"]
        .as_object_mut()
        .expect("an object that was shaped has metadata")
}

fn check_name(name: &str, object: &Value) -> Result<(), Status> {
    let found = object["metadata"]["name"].as_str().unwrap_or_default();
    if found == name {
        return Ok(());
    }
    let message = format!("the name of the object ({found}) does not match the name on the URL ({name})");
    Err(Status::bad_request(message))
}

/// An object that a patch makes unreadable is the patch's error.
fn refused_patch(status: &Status) -> Status {
    match status.code {
        400 => Status::invalid("", "", "", "patch", FieldError::Invalid, &status.message),
        _ => status.clone(),
    }
}

/// Checks that a patch leaves the UID as it is. Source: apimachinery `ValidateObjectMetaAccessorUpdate`.
fn check_uid(kind: &Kind, old: &Stored, new: &Value) -> Result<(), Status> {
    match new.get("uid").and_then(Value::as_str) {
        Some(uid) if !uid.is_empty() && uid != &*old.uid => {
            let detail = format!("{uid:?}: field is immutable");
            Err(kind.invalid(&old.name, "metadata.uid", FieldError::Invalid, &detail))
        }
        _ => Ok(()),
    }
}

/// Checks that a write is based on the stored state.
fn check_basis(kind: &Kind, old: &Stored, new: &Value) -> Result<(), Status> {
    let said = |field: &str| new.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    if let Some(uid) = said("uid").filter(|uid| *uid != &*old.uid) {
        let why = format!(
            "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
            old.uid
        );
        return Err(Status::conflict(kind, &old.name, &why));
    }
    match said("resourceVersion") {
        Some(version) if version != old.revision.to_string() => Err(Status::outdated(kind, &old.name)),
        _ => Ok(()),
    }
}

/// Checks that a delete refers to the stored state. Source: apiserver `pkg/registry/rest.BeforeDelete`.
fn check_preconditions(kind: &Kind, old: &Stored, preconditions: &Preconditions) -> Result<(), Status> {
    if let Some(uid) = preconditions.uid.as_deref().filter(|uid| *uid != &*old.uid) {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then \
             recreated",
            old.uid
        );
        return Err(Status::conflict(kind, &old.name, &why));
    }
    let revision = old.revision.to_string();
    if let Some(version) = preconditions
        .resource_version
        .as_deref()
        .filter(|version| *version != revision)
    {
        let why = format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({revision}). The object \
             might have been modified"
        );
        return Err(Status::conflict(kind, &old.name, &why));
    }
    Ok(())
}

/// Sets a field of an object, or removes it.
fn set(object: &mut Value, field: &str, value: Option<Value>) {
    match value {
        Some(value) => object[field] = value,
        None => {
            if let Some(fields) = object.as_object_mut() {
                fields.remove(field);
            }
        }
    }
}

/// The only kind whose annotations count for its generation. Source: kubernetes
/// `pkg/registry/apps/deployment/strategy.go`.
fn is_deployment(kind: &Kind) -> bool {
    kind.group == "apps" && kind.kind == "Deployment"
}

fn bump_generation(object: &mut Value) -> u64 {
    let generation = object["metadata"]["generation"].as_u64().unwrap_or(0) + 1;
    object["metadata"]["generation"] = json!(generation);
    generation
}

fn finalizers(metadata: &Value) -> usize {
    metadata.get("finalizers").and_then(Value::as_array).map_or(0, Vec::len)
}

/// Whether an object is marked for deletion and has no finalizers.
fn is_finished(metadata: &Value) -> bool {
    metadata.get("deletionTimestamp").is_some() && finalizers(metadata) == 0
}
