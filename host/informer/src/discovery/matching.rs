//! All resources that a pattern means, and how that changes while the cluster does: [`discover_matching`], [`Served`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use informant_cache::Environment;
use kube::Client;

use super::pattern::{Exclude, ResourcePattern};
use super::resources::{ApiResource, resources_of};
use super::{Discovered, group_version, versions_served};
use crate::api::{ApiError, Cause};
use crate::resource::GroupVersionResource;

/// What an API server serves of a pattern: what can be listed and watched, each resource once, in order of its name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Served {
    /// What can be kept by an informer.
    pub resources: BTreeMap<GroupVersionResource, Discovered>,
    /// Versions of groups that did not answer, with the reason: what was known of them stays as it was.
    pub unread: BTreeMap<String, String>,
}

impl Served {
    /// What is served now, given what was known before: a group whose server does not answer has lost nothing.
    #[must_use]
    pub fn after(mut self, before: &Served) -> Served {
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
/// [`ApiError`] if the API server does not tell what it serves. A group that does not answer is in [`Served::unread`]; a version that is not
/// served (yet) has no resources.
pub async fn discover_matching(
    client: &Client,
    environment: Arc<dyn Environment>,
    pattern: &ResourcePattern,
    exclude: &Exclude,
) -> Result<Served, ApiError> {
    let versions = match pattern {
        ResourcePattern::Everything => versions_served(client, &environment).await?,
        ResourcePattern::Version { group, version } => vec![(group.clone(), version.clone())],
    };
    let only_one = versions.len() == 1;
    let mut served = Served::default();
    let mut known: BTreeSet<(String, String)> = BTreeSet::new();
    let mut unread_groups: BTreeSet<String> = BTreeSet::new();
    for (group, version) in versions {
        if unread_groups.contains(&group) {
            served
                .unread
                .entry(group_version(&group, &version))
                .or_insert_with(|| "another version of the group does not answer".to_owned());
            continue;
        }
        match resources_of(client, &environment, &group, &version).await {
            Ok(resources) => served.take_in(resources, exclude, &mut known),
            Err(error) if error.cause() == Cause::NotFound => {}
            Err(error) if only_one => return Err(error),
            Err(error) => {
                served.unread.insert(group_version(&group, &version), error.to_string());
                // Which of the group's resources it prefers in this version is not known: in another one they would be watched beside it.
                unread_groups.insert(group);
            }
        }
    }
    Ok(served)
}

impl Served {
    /// Versions come in order of preference: of a resource that was seen in an earlier one this is the same again.
    fn take_in(&mut self, resources: Vec<ApiResource>, exclude: &Exclude, known: &mut BTreeSet<(String, String)>) {
        for resource in resources {
            let is_new = known.insert((resource.group.clone(), resource.plural.clone()));
            if is_new && resource.is_watchable() && !exclude.covers(&resource.gvr()) {
                self.resources.insert(resource.gvr(), resource.into_discovered());
            }
        }
    }
}
