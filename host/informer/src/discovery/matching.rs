//! All resources that a pattern means, and how that changes while the cluster does: [`discover_matching`], [`ServedResources`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use informant_cache::Environment;
use kube::Client;

use super::all_versions::{ServedVersion, all_versions};
use super::exclusion::{Exclusion, check_exclusions};
use super::pattern::{Exclude, ResourcePattern};
use super::resources::{ApiResource, resources_of};
use super::{Discovered, group_version};
use crate::api::{ApiError, ApiErrorCause};
use crate::resource::GroupVersionResource;

/// What an API server serves of a pattern: what can be listed and watched, each resource once, in order of its name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServedResources {
    /// What can be kept by an informer.
    pub resources: BTreeMap<GroupVersionResource, Discovered>,
    /// Versions of groups that did not answer, with the reason: what was known of them stays as it was.
    pub unread: BTreeMap<String, String>,
    /// What each entry of the `exclude` is good for, as the configuration writes it; not those about groups that did
    /// not answer.
    pub exclusions: BTreeMap<String, Exclusion>,
}

impl ServedResources {
    /// What is served now, given what was known before: a group whose server does not answer has lost nothing.
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

/// Finds everything that `pattern` means but `exclude` does not.
///
/// # Errors
/// [`ApiError`] if the API server does not tell what it serves. A group that does not answer is in [`ServedResources::unread`];
/// a version that is not served (yet) has no resources. Of a group whose API service is down the API server may
/// remember what it had: that stays in, and is waited for as any resource that cannot be read.
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
                // Which of its resources the group prefers in the version that did not answer is not known: here they
                // would be watched beside them.
                why = why.or(Some("another version of the group does not answer".to_owned()));
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

    /// Versions come in order of preference: of a resource that was seen in an earlier one this is the same again.
    fn add(&mut self, resources: Vec<ApiResource>, exclude: &Exclude, known: &mut BTreeSet<(String, String)>) {
        for resource in resources {
            let is_new = known.insert((resource.group.clone(), resource.plural.clone()));
            if is_new && resource.is_watchable() && !exclude.covers(&resource.gvr()) {
                self.resources.insert(resource.gvr(), resource.into_discovered());
            }
        }
    }
}
