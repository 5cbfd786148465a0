//! All that an API server serves: in two answers where it can say it so (aggregated discovery), else in one for each
//! version of each group.
//!
//! ```text
//! GET /api, GET /apis   Accept: APIGroupDiscoveryList v2, v2beta1, or else the classic form
//!     │ APIGroupDiscoveryList            │ APIVersions, APIGroupList
//!     ▼                                  ▼
//! groups, versions, resources        GET /api/VERSION, GET /apis/GROUP/VERSION, one after the other
//! ```
//!
//! Which form an answer has, its `kind` says: servers before Kubernetes 1.27 (1.26 had it switched off), and proxies
//! that rewrite headers, give the classic one.
//!
//! Source: KEP-3352; client-go `discovery.GroupsAndMaybeResources`.

use std::sync::Arc;

use informant_cache::Environment;
use kube::Client;
use serde::{Deserialize, Deserializer};

use super::DISCOVERY_BYTES_MAX;
use super::resources::{ApiGroup, ApiResource, resources_of};
use crate::api::{ApiError, ApiErrorCause, get_json_as};

/// v2 came with Kubernetes 1.30, v2beta1 with 1.26, in which nobody serves it unless told to.
const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                      application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,\
                      application/json";

/// One version of one group, and what is served of it.
#[derive(Debug)]
pub(super) struct ServedVersion {
    /// Empty for the core group.
    pub(super) group: String,
    pub(super) version: String,
    /// Without subresources. What was known last of one that does not answer, if the API server remembers it.
    pub(super) resources: Vec<ApiResource>,
    /// Why it is not known whether this is all.
    pub(super) unread: Option<String>,
}

/// All versions of all groups, the core group first, then in the API server's order, each group's preferred version
/// before its others.
///
/// # Errors
/// [`ApiError`] if the API server does not say which groups there are. A version that does not answer is
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

/// What one version has; none if it went since its name was read.
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
    get_json_as(client, environment, path, ACCEPT, DISCOVERY_BYTES_MAX).await
}

/// What `/api` or `/apis` answers, in any of its forms: the field that its kind has is filled.
#[derive(Debug, Deserialize)]
struct Root {
    /// Anything else is refused: to take it for an empty cluster would have every kind vanish.
    #[serde(rename = "kind")]
    _kind: RootKind,
    /// Of the core group.
    #[serde(default, deserialize_with = "or_default")]
    versions: Vec<String>,
    /// All others, in order of preference.
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
    /// `Stale` while the API service behind it does not answer: what is listed is what was known last, which may be
    /// nothing.
    #[serde(default)]
    freshness: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceDiscovery {
    resource: String,
    /// None, or one without a name, of a resource that exists through its subresources alone.
    response_kind: Option<ResponseKind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    singular_resource: String,
    // A list that is empty in Go is `null` in JSON.
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
            unread: is_stale.then(|| "the API service behind it does not answer".to_owned()),
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

/// Takes `null` for what the type is when it is empty.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(reader: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(reader)?.unwrap_or_default())
}
