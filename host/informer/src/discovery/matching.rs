//! All resources that match a pattern, and how they change with the cluster: [`discover_matching`],
//! [`ServedResources`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use informant_cache::Environment;
use informant_spec::{Exclude, GroupVersionResource, ResourcePattern};
use kube::Client;

use super::all_versions::{ServedVersion, all_versions};
use super::exclusion::{Exclusion, check_exclusions};
use super::resources::{ApiResource, resources_of};
use super::{Discovered, group_version};
use crate::api::{ApiError, ApiErrorCause};

/// The served resources that match a pattern and support list and watch, each once, sorted by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServedResources {
    /// The watchable resources.
    pub resources: BTreeMap<GroupVersionResource, Discovered>,
    /// Versions of groups that did not answer, with the reason: their known resources are kept.
    pub unread: BTreeMap<String, String>,
    /// The effect of each entry of the `exclude`, by its text in the configuration; without those of groups that did
    /// not answer.
    pub exclusions: BTreeMap<String, Exclusion>,
}

impl ServedResources {
    /// Adds the known resources of groups that did not answer: those have lost nothing.
    #[must_use]
    pub fn after(mut self, before: &ServedResources) -> ServedResources {
        for (resource, known) in &before.resources {
            let version = group_version(&resource.group, &resource.version);
            if self.unread.contains_key(&version) {
                self.resources.entry(resource.clone()).or_insert_with(|| known.clone());
            }
        }
        self
    }
}

/// Finds all resources that match `pattern` but not `exclude`.
///
/// # Errors
/// [`ApiError`] if discovery fails. A group that does not answer is in [`ServedResources::unread`]; a version that is
/// not served (yet) has no resources. If an API service is down, the API server may remember its resources: they are
/// included, and their sources wait like those of any resource that cannot be read.
pub async fn discover_matching(
    client: &Client,
    environment: Arc<dyn Environment>,
    pattern: &ResourcePattern,
    exclude: &Exclude,
) -> Result<ServedResources, ApiError> {
    match pattern {
        ResourcePattern::Everything => {
            let versions = all_versions(client, &environment).await?;
            Ok(ServedResources::of(versions, exclude))
        }
        ResourcePattern::Version { group, version } => {
            let resources = match resources_of(client, &environment, group, version).await {
                Err(error) if error.cause() == ApiErrorCause::NotFound => Vec::new(),
                answered => answered?,
            };
            let mut served = ServedResources {
                exclusions: check_exclusions(exclude, &resources, &BTreeSet::new()),
                ..ServedResources::default()
            };
            served.add(resources, exclude, &mut BTreeSet::new());
            Ok(served)
        }
    }
}

impl ServedResources {
    fn of(versions: Vec<ServedVersion>, exclude: &Exclude) -> Self {
        let mut served = Self::default();
        let mut known: BTreeSet<(String, String)> = BTreeSet::new();
        let mut unread_groups: BTreeSet<String> = BTreeSet::new();
        let mut all: Vec<ApiResource> = Vec::new();
        for found in versions {
            if !exclude.is_empty() {
                all.extend(found.resources.iter().cloned());
            }
            let version = group_version(&found.group, &found.version);
            let mut why = found.unread;
            if unread_groups.contains(&found.group) {
                // Which resources the group prefers in the version that did not answer is unknown: they could be
                // watched twice.
                why = why.or(Some("another version of the group does not respond".to_owned()));
            } else {
                served.add(found.resources, exclude, &mut known);
            }
            if let Some(why) = why {
                served.unread.insert(version, why);
                unread_groups.insert(found.group);
            }
        }
        served.exclusions = check_exclusions(exclude, &all, &unread_groups);
        served
    }

    /// Versions come in order of preference: a resource that was in an earlier one is the same.
    fn add(&mut self, resources: Vec<ApiResource>, exclude: &Exclude, known: &mut BTreeSet<(String, String)>) {
        for resource in resources {
            let is_new = known.insert((resource.group.clone(), resource.plural.clone()));
            if is_new && resource.is_watchable() && !exclude.covers(&resource.gvr()) {
                self.resources.insert(resource.gvr(), resource.into_discovered());
            }
        }
    }
}
