//! [`InformerGrant`]: a grant for what an informer watches, instead of one resource.

use super::{KubeGrant, KubeResource, KubeVerb, ResourceAttributes, contains_subresource, validate_segments};
use crate::resource::GroupVersionResource;
use crate::resource_pattern::Exclude;

/// One entry of `allow.kube` with `informer`.
///
/// It covers the resources that the informer watches, in the clusters and namespaces in which it does. A manifest has
/// no such entry: only the operator knows the names of informers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InformerGrant {
    pub verbs: Vec<KubeVerb>,
    /// The informer's own name, not the plugin's name for it.
    pub informer: String,
    /// What the informer watches and this does not grant, whatever the version: it is the same object in each.
    pub exclude: Exclude,
    /// These subresources, and not the object itself; empty: the object itself, and no subresource.
    pub subresources: Vec<String>,
}

impl InformerGrant {
    /// Validates the grant by itself. The error continues a sentence that names its position.
    ///
    /// # Errors
    /// The violated rule.
    pub fn validate(&self) -> Result<(), String> {
        super::validate_verbs(&self.verbs)?;
        validate_segments("subresources", &self.subresources)
    }

    /// Whether it allows `call` if the informer watches the call's resource, in its cluster and namespace. That is for
    /// the caller to find out.
    #[must_use]
    pub fn allows_if_watched(&self, call: &ResourceAttributes<'_>) -> bool {
        self.may_allow(call.verb, call.resource, call.subresource)
    }

    pub(super) fn may_allow(&self, verb: KubeVerb, resource: &KubeResource, subresource: &str) -> bool {
        self.verbs.contains(&verb)
            && contains_subresource(&self.subresources, subresource)
            && !self.exclude.covers_any_version_of(&resource.into())
    }

    /// What it grants of one resource that the informer watches in `namespaces`, in all if there are none. Nothing if
    /// the resource is excluded.
    #[must_use]
    pub fn of_resource(&self, resource: &GroupVersionResource, namespaces: &[String]) -> Option<KubeGrant> {
        (!self.exclude.covers_any_version_of(resource)).then(|| KubeGrant {
            verbs: self.verbs.clone(),
            resource: resource.into(),
            namespaces: (!namespaces.is_empty()).then(|| namespaces.to_vec()),
            names: None,
            subresources: self.subresources.clone(),
        })
    }
}
