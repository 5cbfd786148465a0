//! The kinds that the server knows: the common built-in ones, and those that a test or the demo adds.
//!
//! One version per built-in kind; custom resources have as many as their definition declares, which share one
//! collection in the store and differ only in `apiVersion` (conversion `None`). The capabilities of a kind (verbs,
//! subresources, selectable fields) are defined only here.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::definitions::CustomVersion;

mod built_in;

/// A resource: where it is served and what it supports.
#[derive(Debug, Clone)]
pub struct Kind {
    /// The API group, empty for the core group.
    pub group: String,
    /// The version within the group.
    pub version: String,
    /// `Pod`.
    pub kind: String,
    /// `pods`, as in paths.
    pub plural: String,
    /// `pod`.
    pub singular: String,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// `po`, for kubectl.
    pub short_names: Vec<String>,
    /// `all`, for `kubectl get all`.
    pub categories: Vec<String>,
    /// Whether `/status` is a subresource, so that the main resource does not write `status`.
    pub has_status: bool,
    /// Whether `/scale` is a subresource that reads and writes `spec.replicas`.
    pub has_scale: bool,
    /// Whether `metadata.generation` counts changes outside of metadata and status.
    pub has_generation: bool,
    /// Whether a delete answers with the object's last state rather than with a `Status`.
    pub delete_returns_object: bool,
    /// Whether this is a custom resource. List items of custom resources carry apiVersion and kind, those of built-in
    /// kinds do not.
    pub custom: bool,
    /// Selectable fields besides `metadata.name` and `metadata.namespace`, as dotted paths.
    pub fields: Vec<String>,
    /// Further settings of its CustomResourceDefinition; none for built-in kinds and those that a test registers.
    pub(crate) custom_version: Option<Arc<CustomVersion>>,
}

impl Kind {
    /// A custom resource with a status subresource and generations, like most.
    pub fn custom(group: &str, version: &str, kind: &str, plural: &str, namespaced: bool) -> Self {
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            singular: kind.to_lowercase(),
            namespaced,
            short_names: Vec::new(),
            categories: Vec::new(),
            has_status: true,
            has_scale: false,
            has_generation: true,
            delete_returns_object: false,
            custom: true,
            fields: Vec::new(),
            custom_version: None,
        }
    }

    /// `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        group_version(&self.group, &self.version)
    }

    /// `pods`, `deployments.apps`: how messages name the resource.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.clone()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// The verbs that discovery lists.
    pub(crate) fn verbs(&self) -> &'static [&'static str] {
        match (self.group.as_str(), self.plural.as_str()) {
            ("", "bindings") => &["create"],
            ("", "namespaces") => &["create", "delete", "get", "list", "patch", "update", "watch"],
            _ => &[
                "create",
                "delete",
                "deletecollection",
                "get",
                "list",
                "patch",
                "update",
                "watch",
            ],
        }
    }

    pub(crate) fn is_namespaces(&self) -> bool {
        self.group.is_empty() && self.plural == "namespaces"
    }
}

/// `v1` for the core group, `group/version` otherwise.
pub(crate) fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

/// A served version of a kind, and where its objects are.
#[derive(Debug, Clone)]
pub(crate) struct Served {
    pub(crate) slot: usize,
    pub(crate) kind: Arc<Kind>,
}

/// The served kinds, in the order of discovery: core first, then by group, version and plural.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    served: BTreeMap<(String, String, String), Served>,
}

impl Registry {
    /// Serves a kind whose objects are in collection `slot`. Replaces a kind served under the same path.
    pub(crate) fn serve(&mut self, slot: usize, kind: Arc<Kind>) {
        self.served.insert(path(&kind), Served { slot, kind });
    }

    /// Stops serving the kinds of collection `slot`.
    pub(crate) fn withdraw(&mut self, slot: usize) {
        self.served.retain(|_, served| served.slot != slot);
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Served> {
        self.served
            .get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    /// Whether a group's version is one of Kubernetes' own.
    pub(crate) fn is_built_in(&self, group: &str, version: &str) -> bool {
        self.of_version(group, version).any(|kind| !kind.custom)
    }

    /// The kinds of a group's version, sorted by plural.
    pub(crate) fn of_version(&self, group: &str, version: &str) -> impl Iterator<Item = &Arc<Kind>> {
        self.sorted()
            .filter(move |kind| kind.group == group && kind.version == version)
    }

    /// All kinds, sorted by group, version and plural.
    pub(crate) fn sorted(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.served.values().map(|served| &served.kind)
    }

    /// The groups and their versions, the preferred one first; the core group is the empty name.
    pub(crate) fn groups(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for kind in self.sorted() {
            let versions = groups.entry(&kind.group).or_default();
            if !versions.contains(&kind.version.as_str()) {
                versions.push(&kind.version);
            }
        }
        for versions in groups.values_mut() {
            versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
        }
        groups
    }

    /// A kind of another collection that has one of the names wanted by the kinds in `slot` (`None`: new ones): within
    /// a group, a plural, a singular and a kind name one resource.
    pub(crate) fn name_conflict(&self, slot: Option<usize>, wanted: &Kind) -> Option<&Arc<Kind>> {
        self.served
            .values()
            .filter(|served| Some(served.slot) != slot && served.kind.group == wanted.group)
            .map(|served| &served.kind)
            .find(|kind| kind.plural == wanted.plural || kind.singular == wanted.singular || kind.kind == wanted.kind)
    }
}

fn path(kind: &Kind) -> (String, String, String) {
    (kind.group.clone(), kind.version.clone(), kind.plural.clone())
}

/// The kinds of Kubernetes itself.
pub fn built_in() -> impl Iterator<Item = Kind> {
    built_in::kinds()
}

/// How Kubernetes ranks versions: `v2`, `v1`, `v1beta2`, `v1beta1`, `v1alpha1`, then all others.
///
/// Source: apimachinery `pkg/version.CompareKubeAwareVersionStrings`.
fn priority(version: &str) -> (u8, u64, u64) {
    let read = || {
        let rest = version.strip_prefix('v')?;
        let digits = rest.find(|it: char| !it.is_ascii_digit()).unwrap_or(rest.len());
        let major = rest[..digits].parse().ok()?;
        let (stage, minor) = match &rest[digits..] {
            "" => return Some((3, major, 0)),
            stage if stage.starts_with("beta") => (2, &stage[4..]),
            stage if stage.starts_with("alpha") => (1, &stage[5..]),
            _ => return None,
        };
        Some((stage, major, minor.parse().ok()?))
    };
    read().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_preferred_as_kubernetes_prefers_them() {
        let mut versions = ["v1alpha1", "foo", "v1beta2", "v10", "v1", "v2", "v1beta10"];
        versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
        assert_eq!(versions, ["v10", "v2", "v1", "v1beta10", "v1beta2", "v1alpha1", "foo"]);
    }
}
