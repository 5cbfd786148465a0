//! Requests about one object, which need the right to get it: what plugins did to it, its calls, its index values.

use std::collections::BTreeSet;

use axum::extract::Query;
use axum::extract::rejection::QueryRejection;
use informant_spec::{GroupVersionResource, ResourceName};
use serde::Deserialize;

use super::AdminState;
use super::access::{Caller, Right};
use super::error::{AdminError, Code, ResourceRight};
use crate::daemon::{InformerPhase, StatusRegistry};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OneObjectQuery {
    name: String,
    /// None: in any namespace, or a cluster-scoped object.
    namespace: Option<String>,
    cluster: Option<String>,
    #[serde(default)]
    pub(super) from: u64,
}

/// What a request is about.
#[derive(Debug)]
pub(super) struct OneObject {
    resource: ResourceName,
    /// What it means of what informers watch: by a short name or the informer's, too.
    known: Vec<GroupVersionResource>,
    name: String,
    namespace: Option<String>,
    cluster: Option<String>,
}

impl OneObject {
    /// Errors: the resource or the parameters are invalid.
    pub(super) fn of(
        registry: &StatusRegistry,
        resource: &str,
        query: Result<Query<OneObjectQuery>, QueryRejection>,
    ) -> Result<(OneObject, u64), AdminError> {
        let invalid = |message: String| AdminError::new(Code::Invalid, message);
        let Query(query) = query.map_err(|error| invalid(error.body_text()))?;
        let name = ResourceName::parse(resource).map_err(|error| invalid(error.to_string()))?;
        let object = OneObject {
            known: watched(registry, resource, &name),
            resource: name,
            name: query.name,
            namespace: query.namespace,
            cluster: query.cluster,
        };
        Ok((object, query.from))
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// None: in any namespace, or a cluster-scoped object.
    pub(super) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Whether it may be the object with this name of this resource: `apps/v1/deployments`.
    pub(super) fn is(&self, cluster: &str, resource: &str, namespace: &str, name: &str) -> bool {
        name == self.name && self.namespace.as_ref().is_none_or(|own| own == namespace) && self.is_in(cluster, resource)
    }

    /// Whether it may be an object of this resource in this cluster.
    pub(super) fn is_in(&self, cluster: &str, resource: &str) -> bool {
        self.cluster.as_ref().is_none_or(|own| own == cluster)
            && GroupVersionResource::parse(resource).is_some_and(|resource| self.may_mean(&resource))
    }

    fn may_mean(&self, resource: &GroupVersionResource) -> bool {
        self.known.contains(resource) || self.resource.may_mean(resource)
    }

    /// Lets a caller pass who may get the object: of each resource of a source that it may be of, and of `others`, by
    /// cluster; if there are none, of the one that its name suggests.
    pub(super) async fn authorize(
        &self,
        state: &AdminState,
        caller: &Caller,
        others: impl Iterator<Item = (String, GroupVersionResource)>,
    ) -> Result<(), AdminError> {
        let Some(reviewing) = state.reviewing_cluster() else {
            return Ok(());
        };
        let of_sources = state.registry.catalog().all().into_iter().filter_map(|source| {
            let info = source.info();
            let resource = GroupVersionResource::parse(&info.resource)?;
            let in_cluster = self.cluster.as_ref().is_none_or(|own| *own == info.cluster);
            (in_cluster && self.may_mean(&resource)).then(|| (info.cluster.clone(), resource))
        });
        let mut meant: BTreeSet<_> = of_sources.chain(others).collect();
        if meant.is_empty() {
            meant.insert((self.cluster.clone().unwrap_or_default(), self.resource.guessed()));
        }
        let namespace = self.namespace.as_deref().unwrap_or_default();
        let rights: BTreeSet<Right> = meant
            .iter()
            .flat_map(|(cluster, resource)| rights_to_get(reviewing, cluster, resource, namespace, &self.name))
            .collect();
        for right in rights {
            state.authorize(caller, &right).await?;
        }
        Ok(())
    }
}

/// The resources of informers that `text` means: an informer's own name, a plural, a kind, or a short name.
fn watched(registry: &StatusRegistry, text: &str, name: &ResourceName) -> Vec<GroupVersionResource> {
    let mut meant = Vec::new();
    for entry in registry.informers() {
        for status in entry.by_cluster().values() {
            let InformerPhase::Running(running) = &status.phase else {
                continue;
            };
            let several = running.shared.spec().resources.unwrap_or_default();
            let of_informer = running.discovered.iter().chain(several.values());
            let named = of_informer.filter(|found| entry.name == text || found.is_meant_by(name));
            meant.extend(named.map(|found| found.gvr.clone()));
        }
    }
    meant
}

/// What it takes to get an object, or with an empty name each object of a namespace, if the API server of the cluster
/// `reviewing` decides.
pub(super) fn rights_to_get(
    reviewing: &str,
    cluster: &str,
    resource: &GroupVersionResource,
    namespace: &str,
    name: &str,
) -> Vec<Right> {
    let is_elsewhere = cluster != reviewing && !cluster.is_empty();
    let elsewhere = is_elsewhere.then(|| Right::own("get", "clusters", cluster));
    let get = Right::Resource(ResourceRight {
        verb: "get".to_owned(),
        group: resource.group.clone(),
        resource: resource.plural.clone(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        ..ResourceRight::default()
    });
    elsewhere.into_iter().chain([get]).collect()
}
