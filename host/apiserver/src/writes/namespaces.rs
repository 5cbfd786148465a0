//! Namespaces as containers: objects are created only in existing ones and are deleted with them.
//!
//! Replaces the NamespaceLifecycle admission plugin and the namespace controller.

use std::sync::Arc;

use serde_json::Value;

use super::{Part, Write};
use crate::kinds::Kind;
use crate::selection::Selection;
use crate::status::Status;
use crate::store::Collection;

/// Namespaces that cannot be deleted.
const PROTECTED: &[&str] = &["default", "kube-public", "kube-system"];

impl Write<'_> {
    /// New objects need a namespace that exists and is not being deleted.
    pub(super) fn check_namespace(&self, kind: &Kind, object: &Value) -> Result<(), Status> {
        if !kind.namespaced {
            return Ok(());
        }
        let namespaces = self.store.namespaces();
        let collection = self.store.collection(namespaces);
        let Some(found) = self.store.get(namespaces, "", self.namespace) else {
            return Err(Status::not_found(&collection.kind, self.namespace));
        };
        if found.metadata().get("deletionTimestamp").is_some() {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let why = format!(
                "unable to create new content in namespace {} because it is being terminated",
                self.namespace
            );
            return Err(Status::forbidden(kind, name, &why));
        }
        Ok(())
    }

    /// Finishes the deletion of a namespace with its last object.
    pub(super) fn finish_namespace(&mut self, namespace: &str) {
        let namespaces = self.store.namespaces();
        let Some(found) = self.store.get(namespaces, "", namespace) else {
            return;
        };
        let metadata = &found.metadata();
        if metadata.get("deletionTimestamp").is_some()
            && super::finalizers(metadata) == 0
            && !self.has_content(namespace)
        {
            self.store.remove(namespaces, namespace);
        }
    }

    pub(super) fn has_content(&self, namespace: &str) -> bool {
        let selection = Selection::in_namespace(namespace);
        let holds = |collection: &Collection| {
            collection.kind.namespaced && selection.range(&collection.objects).next().is_some()
        };
        self.store.collections().iter().any(holds)
    }

    pub(super) fn delete_content(&mut self, namespace: &str) -> Result<(), Status> {
        let selection = Selection::in_namespace(namespace);
        for slot in 0..self.store.collections().len() {
            if self.store.collection(slot).kind.namespaced {
                let kind = Arc::clone(&self.store.collection(slot).kind);
                let mut write = Write {
                    kind,
                    slot,
                    namespace,
                    part: Part::Whole,
                    dry_run: false,
                    ..self.reborrow()
                };
                write.delete_collection(&selection)?;
            }
        }
        Ok(())
    }

    /// Refuses the deletion of namespaces that every cluster needs.
    pub(super) fn check_deletable(&self, kind: &Kind, name: &str) -> Result<(), Status> {
        if kind.is_namespaces() && PROTECTED.contains(&name) {
            return Err(Status::forbidden(kind, name, "this namespace may not be deleted"));
        }
        Ok(())
    }
}
