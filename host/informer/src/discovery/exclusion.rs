//! What each entry of an `exclude` is good for: [`check_exclusions`].
//!
//! An entry that leaves nothing out is most often a typing error, and what it was meant for is watched. It is checked
//! against all that is served, less groups of which that is not known.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::name::ResourceName;
use super::pattern::{Exclude, ResourcePattern};
use super::resources::ApiResource;
use super::suggestion::{candidates, version_candidates};
use super::{group_version, hint};
use crate::resource::GroupVersionResource;

/// What an entry of an [`Exclude`] is good for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exclusion {
    /// It leaves something out, or what it names could not be watched anyway.
    Effective,
    /// Without it the same would be watched.
    Unused(UnusedExclusion),
}

/// An entry of an [`Exclude`] that leaves nothing out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusedExclusion {
    /// Entries that come close and would leave something out, best first, ready to be written into the configuration.
    pub candidates: Vec<String>,
}

impl fmt::Display for UnusedExclusion {
    /// `leaves out nothing that is served; did you mean …`
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "leaves out nothing that is served{}", hint(&self.candidates, &[]))
    }
}

/// One entry.
enum Entry<'e> {
    Resource(&'e GroupVersionResource),
    Versions(&'e ResourcePattern),
}

impl Entry<'_> {
    /// As the configuration writes it.
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

    /// The group that it is about; none of `*`.
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

/// What each entry, as the configuration writes it, is good for. `served` is in the order of preference: of a resource
/// that comes twice, the first is watched. Entries about one of `unread_groups` are not checked; none is if nothing is
/// served.
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

/// A resource that is served, and the version in which it is watched.
struct Seen<'s> {
    resource: &'s ApiResource,
    own: GroupVersionResource,
    first: GroupVersionResource,
}

impl Seen<'_> {
    /// To leave out a version in which it is not watched leaves nothing out, unless it is not watched in the other one
    /// either.
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
