//! The kinds that the server knows: the common built-in ones, and those that a test or the demo adds.
//!
//! One version per kind. What a kind allows (verbs, subresources, selectable fields) is data here and nowhere else.

use std::collections::BTreeMap;
use std::sync::Arc;

mod built_in;

/// A resource: where it is served and what it can do.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// Whether this is a custom resource. List items of custom resources carry apiVersion and kind, those of built-in kinds do not.
    pub custom: bool,
    /// What field selectors may name beside `metadata.name` and `metadata.namespace`, as dotted paths.
    pub fields: Vec<String>,
}

impl Kind {
    /// A custom resource with a status subresource and generations, as most definitions make them.
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
        }
    }

    /// `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        group_version(&self.group, &self.version)
    }

    /// `pods`, `deployments.apps`: how messages name the resource.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.clone()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// What discovery lists.
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

/// All kinds of a server, in the order of discovery: core first, then by group, version and plural.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    kinds: Vec<Arc<Kind>>,
    places: BTreeMap<(String, String, String), usize>,
}

impl Registry {
    pub(crate) fn built_in() -> Self {
        let mut registry = Self::default();
        for kind in built_in::kinds() {
            registry.add(kind);
        }
        registry
    }

    /// Adds a kind; one that is served already under the same path is kept as it is. Returns its place, which never changes.
    pub(crate) fn add(&mut self, kind: Kind) -> usize {
        let path = (kind.group.clone(), kind.version.clone(), kind.plural.clone());
        *self.places.entry(path).or_insert_with(|| {
            self.kinds.push(Arc::new(kind));
            self.kinds.len() - 1
        })
    }

    pub(crate) fn place(&self, group: &str, version: &str, plural: &str) -> Option<usize> {
        self.places
            .get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
            .copied()
    }

    /// Whether a group's version is one of Kubernetes' own.
    pub(crate) fn is_built_in(&self, group: &str, version: &str) -> bool {
        self.kinds
            .iter()
            .any(|kind| !kind.custom && kind.group == group && kind.version == version)
    }

    pub(crate) fn kind(&self, place: usize) -> &Arc<Kind> {
        &self.kinds[place]
    }

    pub(crate) fn len(&self) -> usize {
        self.kinds.len()
    }

    /// All kinds, sorted by group, version and plural.
    pub(crate) fn sorted(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.places.values().map(|place| &self.kinds[*place])
    }

    /// The groups and their versions; the core group is the empty name.
    pub(crate) fn groups(&self) -> BTreeMap<&str, Vec<&str>> {
        let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for kind in self.sorted() {
            let versions = groups.entry(&kind.group).or_default();
            if !versions.contains(&kind.version.as_str()) {
                versions.push(&kind.version);
            }
        }
        groups
    }
}
