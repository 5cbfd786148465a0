//! The responses below `/api` and `/apis`: groups, versions, and the resources of one version.

use std::sync::Arc;

use informant_cache::Environment;
use informant_spec::{GroupVersionResource, ResourceName, group_version_path};
use kube::Client;
use serde::Deserialize;

use super::{DISCOVERY_BYTES_MAX, Discovered};
use crate::api::{ApiError, JSON, get_json};

/// A group and its versions.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiGroup {
    name: String,
    #[serde(default)]
    versions: Vec<GroupVersion>,
    preferred_version: Option<GroupVersion>,
}

#[derive(Debug, Deserialize)]
struct GroupVersion {
    version: String,
}

impl ApiGroup {
    /// (group, version), the preferred version first.
    pub(super) fn versions_by_preference(self) -> Vec<(String, String)> {
        let preferred = self.preferred_version.map(|preferred| preferred.version);
        let others = self.versions.into_iter().map(|served| served.version);
        let mut versions: Vec<String> = preferred.iter().cloned().collect();
        versions.extend(others.filter(|version| Some(version) != preferred.as_ref()));
        versions
            .into_iter()
            .map(|version| (self.name.clone(), version))
            .collect()
    }
}

/// A resource as returned by discovery, in the classic form without group and version.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ApiResource {
    #[serde(skip)]
    pub(super) group: String,
    #[serde(skip)]
    pub(super) version: String,
    #[serde(rename = "name")]
    pub(super) plural: String,
    pub(super) kind: String,
    #[serde(default)]
    pub(super) namespaced: bool,
    #[serde(default)]
    pub(super) verbs: Vec<String>,
    #[serde(default, rename = "singularName")]
    pub(super) singular: String,
    #[serde(default)]
    pub(super) short_names: Vec<String>,
}

impl ApiResource {
    pub(super) fn gvr(&self) -> GroupVersionResource {
        GroupVersionResource::new(&*self.group, &*self.version, &*self.plural)
    }

    /// Whether it supports list and watch.
    pub(super) fn is_watchable(&self) -> bool {
        ["list", "watch"]
            .iter()
            .all(|verb| self.verbs.iter().any(|known| known == verb))
    }

    pub(super) fn into_discovered(self) -> Discovered {
        Discovered {
            gvr: self.gvr(),
            kind: self.kind,
            namespaced: self.namespaced,
            other_names: std::iter::once(self.singular).chain(self.short_names).collect(),
        }
    }

    /// Whether `name` means it.
    pub(super) fn is_meant_by(&self, name: &ResourceName) -> bool {
        self.clone().into_discovered().is_meant_by(name)
    }

    /// Whether `name` is one of its names, whatever its group.
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.is_meant_by(&ResourceName::Loose {
            name: name.to_owned(),
            rest: String::new(),
        })
    }
}

/// The resources of one version of one group, without subresources.
///
/// # Errors
/// [`ApiError`], with the cause `NotFound` if that version is not served.
pub(super) async fn resources_of(
    client: &Client,
    environment: &Arc<dyn Environment>,
    group: &str,
    version: &str,
) -> Result<Vec<ApiResource>, ApiError> {
    let path = group_version_path(group, version);
    let list: ResourceList = get_json(client, environment, &path, JSON, DISCOVERY_BYTES_MAX).await?;
    let resources = list.resources.into_iter();
    let served = resources.filter(|resource| !resource.plural.contains('/'));
    let in_group = |resource| ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        ..resource
    };
    Ok(served.map(in_group).collect())
}

#[derive(Debug, Deserialize)]
struct ResourceList {
    #[serde(default)]
    resources: Vec<ApiResource>,
}
