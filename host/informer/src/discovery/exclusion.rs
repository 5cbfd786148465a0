//! [`check_exclusions`]: whether each entry of an `exclude` has an effect.
//!
//! An entry without effect is usually a typo, and the resource it was meant for is watched. Entries are checked against
//! everything that is served, except for groups that did not answer.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use informant_spec::{Exclude, GroupVersionResource, ResourceName, ResourcePattern};

use super::resources::ApiResource;
use super::suggestion::{candidates, version_candidates};
use super::{group_version, hint};

/// The effect of an entry of an [`Exclude`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exclusion {
    /// It excludes something, or something that could not be watched anyway.
    Effective,
    /// It excludes nothing.
    Unused(UnusedExclusion),
}

/// An entry of an [`Exclude`] that excludes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusedExclusion {
    /// Similar entries that would exclude something, best first, in the form of the configuration.
    pub candidates: Vec<String>,
}

impl fmt::Display for UnusedExclusion {
    /// `matches no served resource; did you mean …`
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "matches no served resource{}", hint(&self.candidates, &[]))
    }
}

/// One entry.
enum Entry<'e> {
    Resource(&'e GroupVersionResource),
    Versions(&'e ResourcePattern),
}

impl Entry<'_> {
    /// As written in the configuration.
    fn text(&self) -> String {
        match self {
            Self::Resource(resource) => resource.to_string(),
            Self::Versions(pattern) => pattern.to_string(),
        }
    }

    fn covers(&self, resource: &GroupVersionResource) -> bool {
        match self {
            Self::Resource(excluded) => *excluded == resource,
            Self::Versions(pattern) => pattern.covers(resource),
        }
    }

    /// Its group; `None` for `*`.
    fn group(&self) -> Option<&str> {
        match self {
            Self::Resource(resource) => Some(&resource.group),
            Self::Versions(ResourcePattern::Version { group, .. }) => Some(group),
            Self::Versions(ResourcePattern::Everything) => None,
        }
    }

    fn candidates(&self, watched: &[ApiResource]) -> Vec<String> {
        match self {
            Self::Resource(resource) => candidates(&ResourceName::Exact((*resource).clone()), watched),
            Self::Versions(ResourcePattern::Version { group, version }) => {
                version_candidates(&group_version(group, version), group, watched)
            }
            Self::Versions(ResourcePattern::Everything) => Vec::new(),
        }
    }
}

/// The effect of each entry, by its text in the configuration. `served` is in the order of preference: if a resource is
/// served in several versions, the first is watched. Entries for `unread_groups` are not checked; without any served
/// resource, none is.
pub(super) fn check_exclusions(
    exclude: &Exclude,
    served: &[ApiResource],
    unread_groups: &BTreeSet<String>,
) -> BTreeMap<String, Exclusion> {
    let resources = exclude.resources.iter().map(Entry::Resource);
    let versions = exclude.versions.iter().map(Entry::Versions);
    let is_known = |entry: &Entry<'_>| entry.group().is_none_or(|group| !unread_groups.contains(group));
    let entries: Vec<Entry<'_>> = resources.chain(versions).filter(is_known).collect();
    if entries.is_empty() || served.is_empty() {
        return BTreeMap::new();
    }
    let seen = seen(served);
    let watched: Vec<ApiResource> = seen
        .iter()
        .filter(|seen| seen.resource.is_watchable() && seen.own == seen.first && !exclude.covers(&seen.own))
        .map(|seen| seen.resource.clone())
        .collect();
    let checked = entries.iter().map(|entry| {
        let mut covered = seen.iter().filter(|seen| entry.covers(&seen.own));
        let exclusion = match covered.any(|seen| seen.is_left_out(exclude)) {
            true => Exclusion::Effective,
            false => Exclusion::Unused(UnusedExclusion {
                candidates: entry.candidates(&watched),
            }),
        };
        (entry.text(), exclusion)
    });
    checked.collect()
}

/// A served resource, and the version in which it is watched.
struct Seen<'s> {
    resource: &'s ApiResource,
    own: GroupVersionResource,
    first: GroupVersionResource,
}

impl Seen<'_> {
    /// Excluding a version that is not watched has no effect, unless the watched one is excluded too.
    fn is_left_out(&self, exclude: &Exclude) -> bool {
        !self.resource.is_watchable() || self.own == self.first || exclude.covers(&self.first)
    }
}

fn seen(served: &[ApiResource]) -> Vec<Seen<'_>> {
    let mut firsts: BTreeMap<(&str, &str), GroupVersionResource> = BTreeMap::new();
    let seen = served.iter().map(|resource| {
        let first = firsts.entry((&resource.group, &resource.plural));
        let first = first.or_insert_with(|| resource.gvr()).clone();
        let own = resource.gvr();
        Seen { resource, own, first }
    });
    seen.collect()
}

#[cfg(test)]
mod tests;
