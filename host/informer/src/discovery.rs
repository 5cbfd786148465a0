//! [`discover`]: resolves the resource name of a configuration on an API server.
//!
//! A name is either exact (`v1/pods`, `apps/v1/deployments`: one small request) or loose (`pods`, `Pod`, `deploy`,
//! `deployments.apps`, `deployments.v1.apps`: the core group first, then the groups in the API server's order of
//! preference, like kubectl). An unknown name fails with similar names as suggestions. Reads only, and keeps no state.

mod absent;
mod all_versions;
mod exclusion;
mod matching;
mod resources;
mod suggestion;

use std::sync::Arc;

use informant_cache::Environment;
use informant_spec::{GroupVersionResource, ResourceName};
use kube::Client;

pub use absent::{ABSENT_RESPONSES_MIN, AbsentResources};
use all_versions::all_versions;
pub use exclusion::{Exclusion, UnusedExclusion};
pub use matching::{ServedResources, discover_matching};
use resources::{ApiResource, resources_of};
use suggestion::candidates;

use crate::api::{ApiError, ApiErrorCause};
use crate::environment::TokioEnvironment;

/// The largest discovery response. An aggregated one has some 300 bytes per resource, so that a cluster with thousands
/// of them stays far below.
const DISCOVERY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A served resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discovered {
    /// Its group, version and plural.
    pub gvr: GroupVersionResource,
    /// The kind of its objects.
    pub kind: String,
    /// Whether it is namespaced.
    pub namespaced: bool,
    /// Its singular and its short names.
    pub other_names: Vec<String>,
}

impl Discovered {
    /// Whether `name` means it: its plural, kind, singular or a short name, in any case, maybe with its group.
    ///
    /// Source: client-go `restmapper/shortcut.go`, apimachinery `DefaultRESTMapper.ResourcesFor`.
    #[must_use]
    pub fn is_meant_by(&self, name: &ResourceName) -> bool {
        match name {
            ResourceName::Exact(resource) => *resource == self.gvr,
            ResourceName::Loose { name, rest } => {
                let others = self.other_names.iter().map(String::as_str);
                let mut names = [self.gvr.plural.as_str(), &self.kind].into_iter().chain(others);
                names.any(|known| known.eq_ignore_ascii_case(name)) && is_in(&self.gvr, rest)
            }
        }
    }
}

/// Whether a resource matches `rest`: nothing, a group, the prefix of a group's name up to a dot, or a version and a
/// group.
fn is_in(resource: &GroupVersionResource, rest: &str) -> bool {
    let GroupVersionResource { group, version, .. } = resource;
    let group_matches =
        |wanted: &str| wanted == group || group.strip_prefix(wanted).is_some_and(|left| left.starts_with('.'));
    if rest.is_empty() || group_matches(rest) {
        return true;
    }
    let (wanted, of_group) = rest.split_once('.').unwrap_or((rest, ""));
    wanted == version && group_matches(of_group)
}

/// Why a name could not be resolved to a watchable resource.
#[derive(Debug, thiserror::Error)]
pub enum DiscoveryError {
    /// Discovery failed.
    #[error("discovery of {resource} failed: {source}")]
    Api {
        /// The name.
        resource: ResourceName,
        /// What went wrong.
        source: ApiError,
    },
    /// No such resource is served.
    #[error("the API server serves no resource {resource}{}", hint(.candidates, .unread))]
    NotFound {
        /// The name.
        resource: ResourceName,
        /// Similar names, best first, in the form of the configuration.
        candidates: Vec<String>,
        /// Groups that did not answer, with the reason.
        unread: Vec<String>,
    },
    /// It is served, but does not support list and watch.
    #[error(
        "{found} cannot be watched: it supports only {}, but an informer needs `list` and `watch`",
        if .verbs.is_empty() { "no verbs".to_owned() } else { .verbs.join(", ") }
    )]
    NotWatchable {
        /// The resource.
        found: GroupVersionResource,
        /// Its verbs.
        verbs: Vec<String>,
    },
}

impl DiscoveryError {
    /// Whether the resource may appear later, like a custom resource whose definition is not applied yet.
    #[must_use]
    pub fn may_appear(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }
}

/// Resolves `name`.
///
/// # Errors
/// [`DiscoveryError`]: discovery failed, there is no such resource (with suggestions), or it does not support list and
/// watch.
///
/// # Panics
/// Outside of a tokio runtime.
pub async fn discover(client: &Client, name: &ResourceName) -> Result<Discovered, DiscoveryError> {
    // Only waits for responses, with a deadline each: without randomness, so any seed will do.
    discover_in(client, Arc::new(TokioEnvironment::current(0)), name).await
}

/// Like [`discover`], in the given environment.
///
/// # Errors
/// As [`discover`].
pub async fn discover_in(
    client: &Client,
    environment: Arc<dyn Environment>,
    name: &ResourceName,
) -> Result<Discovered, DiscoveryError> {
    let discovery = Discovery {
        client,
        environment,
        name,
    };
    let found = match name {
        ResourceName::Exact(resource) => discovery.exact(resource).await?,
        ResourceName::Loose { .. } => discovery.resolve_by_name().await?,
    };
    if found.is_watchable() {
        return Ok(found.into_discovered());
    }
    Err(DiscoveryError::NotWatchable {
        found: found.gvr(),
        verbs: found.verbs,
    })
}

struct Discovery<'a> {
    client: &'a Client,
    environment: Arc<dyn Environment>,
    name: &'a ResourceName,
}

impl Discovery<'_> {
    async fn exact(&self, resource: &GroupVersionResource) -> Result<ApiResource, DiscoveryError> {
        match resources_of(self.client, &self.environment, &resource.group, &resource.version).await {
            Ok(served) => {
                if let Some(found) = served.into_iter().find(|served| served.plural == resource.plural) {
                    return Ok(found);
                }
            }
            Err(error) if error.cause() == ApiErrorCause::NotFound => {}
            Err(error) => return Err(self.failed(error)),
        }
        let (served, unread) = self.all_resources().await?;
        Err(self.not_found(&served, unread))
    }

    async fn resolve_by_name(&self) -> Result<ApiResource, DiscoveryError> {
        let (served, unread) = self.all_resources().await?;
        match served.iter().find(|served| served.is_meant_by(self.name)) {
            Some(found) => Ok(found.clone()),
            None => Err(self.not_found(&served, unread)),
        }
    }

    /// All served resources, and the versions of groups that did not answer.
    async fn all_resources(&self) -> Result<(Vec<ApiResource>, Vec<String>), DiscoveryError> {
        let versions = all_versions(self.client, &self.environment).await;
        let mut served = Vec::new();
        let mut unread = Vec::new();
        for version in versions.map_err(|error| self.failed(error))? {
            served.extend(version.resources);
            if let Some(why) = version.unread {
                unread.push(format!("{} ({why})", group_version(&version.group, &version.version)));
            }
        }
        Ok((served, unread))
    }

    fn failed(&self, source: ApiError) -> DiscoveryError {
        DiscoveryError::Api {
            resource: self.name.clone(),
            source,
        }
    }

    fn not_found(&self, served: &[ApiResource], unread: Vec<String>) -> DiscoveryError {
        DiscoveryError::NotFound {
            resource: self.name.clone(),
            candidates: candidates(self.name, served),
            unread,
        }
    }
}

fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

fn hint(candidates: &[String], unread: &[String]) -> String {
    let mut hint = match candidates {
        [] => "; `kubectl api-resources` lists the served resources".to_owned(),
        [only] => format!("; did you mean `{only}`?"),
        several => format!(
            "; did you mean one of {}?",
            several
                .iter()
                .map(|name| format!("`{name}`"))
                .collect::<Vec<_>>()
                .join(", ")
        ),
    };
    if !unread.is_empty() {
        hint.push_str(if candidates.is_empty() { "; these" } else { " These" });
        hint.push_str(" API groups did not respond: ");
        hint.push_str(&unread.join("; "));
    }
    hint
}

#[cfg(test)]
mod tests;
