//! Everything that an API server serves: two requests with aggregated discovery, else one per version of each group.
//!
//! ```text
//! GET /api, GET /apis   Accept: APIGroupDiscoveryList v2, v2beta1, or else the classic form
//!     │ APIGroupDiscoveryList            │ APIVersions, APIGroupList
//!     ▼                                  ▼
//! groups, versions, resources        GET /api/VERSION, GET /apis/GROUP/VERSION, one after the other
//! ```
//!
//! The `kind` of a response tells its format: servers before Kubernetes 1.27 (1.26 had aggregated discovery disabled),
//! and proxies that rewrite headers, send the classic one.
//!
//! Source: KEP-3352; client-go `discovery.GroupsAndMaybeResources`.

use std::sync::Arc;

use informant_cache::Environment;
use kube::Client;
use serde::{Deserialize, Deserializer};

use super::DISCOVERY_BYTES_MAX;
use super::resources::{ApiGroup, ApiResource, resources_of};
use crate::api::{ApiError, ApiErrorCause, get_json};

/// v2 came with Kubernetes 1.30, v2beta1 with 1.26, where it is disabled by default.
const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                      application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,\
                      application/json";

/// One version of one group, and its resources.
#[derive(Debug)]
pub(super) struct ServedVersion {
    /// Empty for the core group.
    pub(super) group: String,
    pub(super) version: String,
    /// Without subresources. For a version that does not answer, the last known ones if the API server remembers them.
    pub(super) resources: Vec<ApiResource>,
    /// Why these may not be all.
    pub(super) unread: Option<String>,
}

/// All versions of all groups: the core group first, then in the API server's order, each group's preferred version
/// before its others.
///
/// # Errors
/// [`ApiError`] if the API server does not list its groups. A version that does not answer is
/// [`ServedVersion::unread`]: one broken extension server must not hide the others.
pub(super) async fn all_versions(
    client: &Client,
    environment: &Arc<dyn Environment>,
) -> Result<Vec<ServedVersion>, ApiError> {
    let roots = [
        root(client, environment, "/api").await?,
        root(client, environment, "/apis").await?,
    ];
    let mut served = Vec::new();
    for root in roots {
        served.extend(root.items.into_iter().flat_map(GroupDiscovery::versions));
        let core = root.versions.into_iter().map(|version| (String::new(), version));
        let of_groups = root.groups.into_iter().flat_map(ApiGroup::versions_by_preference);
        for (group, version) in core.chain(of_groups) {
            served.extend(fetch_version(client, environment, group, version).await);
        }
    }
    Ok(served)
}

/// The resources of one version; `None` if it was removed since its name was read.
async fn fetch_version(
    client: &Client,
    environment: &Arc<dyn Environment>,
    group: String,
    version: String,
) -> Option<ServedVersion> {
    let (resources, unread) = match resources_of(client, environment, &group, &version).await {
        Ok(resources) => (resources, None),
        Err(error) if error.cause() == ApiErrorCause::NotFound => return None,
        Err(error) => (Vec::new(), Some(error.to_string())),
    };
    Some(ServedVersion {
        group,
        version,
        resources,
        unread,
    })
}

async fn root(client: &Client, environment: &Arc<dyn Environment>, path: &str) -> Result<Root, ApiError> {
    get_json(client, environment, path, ACCEPT, DISCOVERY_BYTES_MAX).await
}

/// The response of `/api` or `/apis`, in any of its formats: only the field of its kind is filled.
#[derive(Debug, Deserialize)]
struct Root {
    /// Any other kind is an error: treating it as an empty cluster would make all resources disappear.
    #[serde(rename = "kind")]
    _kind: RootKind,
    /// Versions of the core group.
    #[serde(default, deserialize_with = "or_default")]
    versions: Vec<String>,
    /// All other groups, in order of preference.
    #[serde(default, deserialize_with = "or_default")]
    groups: Vec<ApiGroup>,
    #[serde(default, deserialize_with = "or_default")]
    items: Vec<GroupDiscovery>,
}

#[derive(Debug, Deserialize)]
enum RootKind {
    #[serde(rename = "APIVersions")]
    Versions,
    #[serde(rename = "APIGroupList")]
    Groups,
    #[serde(rename = "APIGroupDiscoveryList")]
    Aggregated,
}

#[derive(Debug, Deserialize)]
struct GroupDiscovery {
    #[serde(default)]
    metadata: Metadata,
    /// In order of preference.
    #[serde(default, deserialize_with = "or_default")]
    versions: Vec<VersionDiscovery>,
}

#[derive(Debug, Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    name: String,
}

#[derive(Debug, Deserialize)]
struct VersionDiscovery {
    version: String,
    #[serde(default, deserialize_with = "or_default")]
    resources: Vec<ResourceDiscovery>,
    /// `Stale` while the API service behind it does not answer: the listed resources are the last known ones, possibly
    /// none.
    #[serde(default)]
    freshness: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceDiscovery {
    resource: String,
    /// Missing, or without a name, for a resource that only exists through its subresources.
    response_kind: Option<ResponseKind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    singular_resource: String,
    // An empty list in Go is `null` in JSON.
    #[serde(default, deserialize_with = "or_default")]
    verbs: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    short_names: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct ResponseKind {
    #[serde(default)]
    kind: String,
}

impl GroupDiscovery {
    fn versions(self) -> impl Iterator<Item = ServedVersion> {
        let group = self.metadata.name;
        self.versions.into_iter().map(move |version| version.of(&group))
    }
}

impl VersionDiscovery {
    fn of(self, group: &str) -> ServedVersion {
        let is_stale = self.freshness == "Stale";
        let resources = self.resources.into_iter();
        ServedVersion {
            resources: resources
                .filter_map(|resource| resource.of(group, &self.version))
                .collect(),
            group: group.to_owned(),
            version: self.version,
            unread: is_stale.then(|| "its API service does not respond".to_owned()),
        }
    }
}

impl ResourceDiscovery {
    fn of(self, group: &str, version: &str) -> Option<ApiResource> {
        let kind = self.response_kind?.kind;
        (!kind.is_empty()).then(|| ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: self.resource,
            kind,
            namespaced: self.scope == "Namespaced",
            verbs: self.verbs,
            singular: self.singular_resource,
            short_names: self.short_names,
        })
    }
}

/// Reads `null` as the type's default.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(reader: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(reader)?.unwrap_or_default())
}
