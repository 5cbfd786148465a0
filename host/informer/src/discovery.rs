//! From what a configuration says to what an API server serves: [`discover`].
//!
//! A name is either exact (`v1/pods`, `apps/v1/deployments`: one small request) or loose (`pods`, `Pod`, `deploy`,
//! `deployments.apps`, `deployments.v1.apps`: the core group first, then the groups in the API server's order of
//! preference, as kubectl does). A name that leads nowhere is answered with what comes close. Reads only; keeps
//! nothing.

mod all_versions;
mod exclusion;
mod matching;
mod name;
mod pattern;
mod resources;
mod suggestion;

use std::sync::Arc;

use informant_cache::Environment;
use kube::Client;

use all_versions::all_versions;
pub use exclusion::{Exclusion, UnusedExclusion};
pub use matching::{ServedResources, discover_matching};
pub use name::{ResourceName, ResourceNameError};
pub use pattern::{Exclude, ResourcePattern, ResourcePatternError};
use resources::{ApiResource, resources_of};
use suggestion::candidates;

use crate::api::{ApiError, ApiErrorCause};
use crate::environment::TokioEnvironment;
use crate::resource::GroupVersionResource;

/// How long an answer of discovery may be. An aggregated one has some 300 bytes for each resource, so that a cluster of
/// thousands stays far below.
const DISCOVERY_BYTES_MAX: usize = 16 * 1024 * 1024;

/// A resource as it is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Discovered {
    /// Where it is served.
    pub gvr: GroupVersionResource,
    /// What its objects say as their kind.
    pub kind: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

/// Why a name did not lead to a resource that can be watched.
#[derive(Debug, thiserror::Error)]
pub enum DiscoveryError {
    /// The API server did not tell what it serves.
    #[error("asking what serves {resource}: {source}")]
    Api {
        /// The name that was looked for.
        resource: ResourceName,
        /// What went wrong.
        source: ApiError,
    },
    /// Nothing of that name is served.
    #[error("the API server serves no resource {resource}{}", hint(.candidates, .unread))]
    NotFound {
        /// The name that was looked for.
        resource: ResourceName,
        /// Names that come close, best first, ready to be written into the configuration.
        candidates: Vec<String>,
        /// Groups that could not be asked, with the reason.
        unread: Vec<String>,
    },
    /// It is served, but cannot be listed and watched.
    #[error(
        "{found} cannot be kept by an informer: it supports only {}; an informer needs `list` and `watch`",
        if .verbs.is_empty() { "no verbs".to_owned() } else { .verbs.join(", ") }
    )]
    NotWatchable {
        /// What was found.
        found: GroupVersionResource,
        /// What the API server can do with it.
        verbs: Vec<String>,
    },
}

impl DiscoveryError {
    /// Whether the resource may well appear later, as a custom resource does whose definition is yet to be applied.
    #[must_use]
    pub fn may_appear(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }
}

/// Finds the resource that `name` means.
///
/// # Errors
/// [`DiscoveryError`]: the API server could not be asked, knows no such resource (with candidates), or cannot list and watch it.
///
/// # Panics
/// Outside of a tokio runtime.
pub async fn discover(client: &Client, name: &ResourceName) -> Result<Discovered, DiscoveryError> {
    // Waits only for answers, with a deadline each: no randomness, so any seed serves.
    discover_in(client, Arc::new(TokioEnvironment::current(0)), name).await
}

/// As [`discover`], in an environment of the caller's.
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
        ResourceName::Loose { .. } => discovery.loose().await?,
    };
    if found.is_watchable() {
        return Ok(found.into_discovered());
    }
    Err(DiscoveryError::NotWatchable {
        found: found.gvr(),
        verbs: found.verbs,
    })
}

/// One question.
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

    async fn loose(&self) -> Result<ApiResource, DiscoveryError> {
        let (served, unread) = self.all_resources().await?;
        match served.iter().find(|served| self.name.means(served)) {
            Some(found) => Ok(found.clone()),
            None => Err(self.not_found(&served, unread)),
        }
    }

    /// Everything that is served, and the versions of groups that did not answer.
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
        [] => "; `kubectl api-resources` lists what there is".to_owned(),
        [only] => format!("; did you mean `{only}`"),
        several => format!(
            "; did you mean one of {}",
            several
                .iter()
                .map(|name| format!("`{name}`"))
                .collect::<Vec<_>>()
                .join(", ")
        ),
    };
    if !unread.is_empty() {
        hint.push_str(". Not all of it could be asked: ");
        hint.push_str(&unread.join("; "));
    }
    hint
}

#[cfg(test)]
mod tests;
