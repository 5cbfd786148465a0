//! Namespaces as containers: nothing is made outside of one, and what is in one goes with it.
//!
//! Stands in for the NamespaceLifecycle admission plugin and the namespace controller.

use std::sync::Arc;

use serde_json::Value;

use super::{Part, Write};
use crate::kinds::Kind;
use crate::selection::Selection;
use crate::status::Status;
use crate::store::Shelf;

/// Namespaces that cannot be deleted.
const IMMORTAL: &[&str] = &["default", "kube-public", "kube-system"];

impl Write<'_> {
    /// New objects need a namespace that is there to stay.
    pub(super) fn check_namespace(&self, kind: &Kind, object: &Value) -> Result<(), Status> {
        if !kind.namespaced {
            return Ok(());
        }
        let namespaces = self.store.namespaces();
        let shelf = self.store.shelf(namespaces);
        let Some(found) = self.store.get(namespaces, "", self.namespace) else {
            return Err(Status::not_found(&shelf.kind, self.namespace));
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

    /// A namespace that was waiting for its content goes with the last of it.
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
        let holds = |shelf: &Shelf| shelf.kind.namespaced && selection.range(&shelf.objects).next().is_some();
        self.store.shelves().iter().any(holds)
    }

    pub(super) fn delete_content(&mut self, namespace: &str) -> Result<(), Status> {
        let selection = Selection::in_namespace(namespace);
        for place in 0..self.store.shelves().len() {
            if self.store.shelf(place).kind.namespaced {
                let kind = Arc::clone(&self.store.shelf(place).kind);
                let mut write = Write {
                    kind,
                    place,
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

    /// Refuses the deletion of namespaces that a cluster cannot be without.
    pub(super) fn check_mortal(&self, kind: &Kind, name: &str) -> Result<(), Status> {
        if kind.is_namespaces() && IMMORTAL.contains(&name) {
            return Err(Status::forbidden(kind, name, "this namespace may not be deleted"));
        }
        Ok(())
    }
}
