//! [`EventSelection`]: which objects a plugin receives the events of.

use informant_object::{LabelSelector, Object};

/// A selection of objects. Default: all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventSelection {
    /// Their namespaces. Empty: all. Cluster-scoped objects are in the namespace "".
    pub namespaces: Vec<String>,
    /// Their labels. None: all.
    pub label_selector: Option<LabelSelector>,
}

impl EventSelection {
    #[must_use]
    pub fn selects(&self, object: &Object) -> bool {
        let has_labels = |selector: &LabelSelector| selector.matches(object);
        self.selects_namespace(object.namespace()) && self.label_selector.as_ref().is_none_or(has_labels)
    }

    #[must_use]
    pub fn selects_namespace(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.iter().any(|selected| selected == namespace)
    }
}
