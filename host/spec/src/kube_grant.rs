//! Grants: what a plugin may do on the cluster, as verbs × resource × namespaces × names, or as verbs × informer.
//!
//! ```text
//! config.toml, allow.kube ─▶ [KubeGrant], [InformerGrant] ◀─ checked for each call, and for `needs` (unmet)
//!                                       └─▶ TOML to paste
//! ```
//!
//! There are no wildcards: only what is listed, or what a listed informer watches, is granted. A grant without
//! namespaces or names does not limit them; subresources must always be listed. Pure.

mod allow_line;
mod informer;
mod resource;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use allow_line::allow_line;
pub use informer::InformerGrant;
pub use resource::{KubeResource, KubeResourceError};

/// A verb, as in RBAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KubeVerb {
    /// Read one object.
    Get,
    /// Read the objects of one namespace, or of all.
    List,
    /// Create an object.
    Create,
    /// Replace an object.
    Update,
    /// Change an object.
    Patch,
    /// Delete an object.
    Delete,
}

/// One entry of `allow.kube` with `resource`, or of a manifest's `needs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KubeGrant {
    pub verbs: Vec<KubeVerb>,
    pub resource: KubeResource,
    /// Only in these namespaces; none: in each namespace, across all namespaces, and for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<Vec<String>>,
    /// Only objects of these names; none: any name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub names: Option<Vec<String>>,
    /// These subresources, and not the object itself; empty: the object itself, and no subresource.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subresources: Vec<String>,
}

/// The attributes of a call that grants are checked against, as in RBAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceAttributes<'a> {
    pub verb: KubeVerb,
    pub resource: &'a KubeResource,
    /// Empty: all namespaces, or cluster-scoped.
    pub namespace: &'a str,
    /// Empty: not known beforehand, or none.
    pub name: &'a str,
    /// Empty: the object itself.
    pub subresource: &'a str,
}

impl KubeVerb {
    pub const ALL: [KubeVerb; 6] = [
        KubeVerb::Get,
        KubeVerb::List,
        KubeVerb::Create,
        KubeVerb::Update,
        KubeVerb::Patch,
        KubeVerb::Delete,
    ];

    /// The name in config.toml, RBAC and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            KubeVerb::Get => "get",
            KubeVerb::List => "list",
            KubeVerb::Create => "create",
            KubeVerb::Update => "update",
            KubeVerb::Patch => "patch",
            KubeVerb::Delete => "delete",
        }
    }

    #[must_use]
    pub fn parse(name: &str) -> Option<KubeVerb> {
        KubeVerb::ALL.into_iter().find(|verb| verb.as_str() == name)
    }
}

impl fmt::Display for KubeVerb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl KubeGrant {
    /// Validates the grant by itself. The error continues a sentence that names its position.
    ///
    /// # Errors
    /// The violated rule.
    pub fn validate(&self) -> Result<(), String> {
        let empty = |field| {
            Err(format!(
                "`{field}` is empty; list at least one, or remove it to allow all"
            ))
        };
        validate_verbs(&self.verbs)?;
        if self.namespaces.as_ref().is_some_and(Vec::is_empty) {
            return empty("namespaces");
        }
        match &self.names {
            Some(names) if names.is_empty() => return empty("names"),
            Some(_) if self.verbs.contains(&KubeVerb::List) => {
                return Err(
                    "`names` cannot limit `list`, which returns all objects; grant `list` in a separate entry, or use `get`".to_owned(),
                );
            }
            _ => {}
        }
        let fields = [
            ("namespaces", self.namespaces.as_deref()),
            ("names", self.names.as_deref()),
            ("subresources", Some(&*self.subresources)),
        ];
        for (field, words) in fields {
            validate_segments(field, words.unwrap_or_default())?;
        }
        Ok(())
    }

    pub fn allows(&self, call: &ResourceAttributes<'_>) -> bool {
        let among = |words: &Option<Vec<String>>, word: &str| match words {
            Some(words) => words.iter().any(|each| each == word),
            None => true,
        };
        self.verbs.contains(&call.verb)
            && self.resource == *call.resource
            && among(&self.namespaces, call.namespace)
            && among(&self.names, call.name)
            && self.is_of(call.subresource)
    }

    fn is_of(&self, subresource: &str) -> bool {
        contains_subresource(&self.subresources, subresource)
    }

    /// Whether both have the same limits, regardless of the verbs.
    fn has_scope_of(&self, other: &KubeGrant) -> bool {
        self.resource == other.resource
            && self.namespaces == other.namespaces
            && self.names == other.names
            && self.subresources == other.subresources
    }
}

fn validate_verbs(verbs: &[KubeVerb]) -> Result<(), String> {
    match verbs {
        [] => Err("`verbs` is empty; list at least one of get, list, create, update, patch, delete".to_owned()),
        _ => Ok(()),
    }
}

fn validate_segments(field: &str, words: &[String]) -> Result<(), String> {
    match words.iter().find(|word| !is_segment(word)) {
        Some(word) => Err(format!(
            "`{field}` has {word:?}, which is not a valid name; there are no wildcards"
        )),
        None => Ok(()),
    }
}

/// Whether a grant of `subresources` is one of `subresource`; empty: the object itself.
fn contains_subresource(subresources: &[String], subresource: &str) -> bool {
    match subresource {
        "" => subresources.is_empty(),
        subresource => subresources.iter().any(|each| each == subresource),
    }
}

impl ResourceAttributes<'_> {
    /// What it is about: `v1/pods/status web/a`.
    #[must_use]
    pub fn target(&self) -> String {
        let mut text = self.resource.to_string();
        for (before, word, after) in [
            ("/", self.subresource, ""),
            (" ", self.namespace, "/"),
            (if self.namespace.is_empty() { " " } else { "" }, self.name, ""),
        ] {
            if !word.is_empty() {
                text.extend([before, word, after]);
            }
        }
        text
    }
}

impl fmt::Display for ResourceAttributes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        for (before, word, after) in [
            ("/", self.subresource, ""),
            (" \"", self.name, "\""),
            (" in namespace \"", self.namespace, "\""),
        ] {
            if !word.is_empty() {
                write!(f, "{before}{word}{after}")?;
            }
        }
        Ok(())
    }
}

/// The entries of `needs` that are not granted, each with its missing verbs. If an entry has no namespaces or names,
/// the operator chooses them, and any grant is enough. So is a grant for an informer that does not exclude the
/// resource: whether it watches the resource is not known before a call.
pub fn unmet(needs: &[KubeGrant], grants: &[KubeGrant], informers: &[InformerGrant]) -> Vec<KubeGrant> {
    let missing = |need: &KubeGrant| {
        let verbs: Vec<KubeVerb> = need
            .verbs
            .iter()
            .copied()
            .filter(|verb| !is_met(need, *verb, grants, informers))
            .collect();
        (!verbs.is_empty()).then(|| KubeGrant { verbs, ..need.clone() })
    };
    needs.iter().filter_map(missing).collect()
}

fn is_met(need: &KubeGrant, verb: KubeVerb, grants: &[KubeGrant], informers: &[InformerGrant]) -> bool {
    let any_or = |words: &Option<Vec<String>>| match words {
        Some(words) => words.iter().cloned().map(Some).collect(),
        None => vec![None],
    };
    let among = |granted: &Option<Vec<String>>, needed: &Option<String>| match (granted, needed) {
        (Some(granted), Some(needed)) => granted.contains(needed),
        _ => true,
    };
    let subresources = match need.subresources.as_slice() {
        [] => vec![""],
        named => named.iter().map(String::as_str).collect(),
    };
    let of_verb: Vec<&KubeGrant> = grants
        .iter()
        .filter(|grant| grant.verbs.contains(&verb) && grant.resource == need.resource)
        .collect();
    let (namespaces, names) = (any_or(&need.namespaces), any_or(&need.names));
    let by_grants = |subresource: &str| {
        namespaces.iter().all(|namespace| {
            names.iter().all(|name| {
                of_verb.iter().any(|grant| {
                    grant.is_of(subresource) && among(&grant.namespaces, namespace) && among(&grant.names, name)
                })
            })
        })
    };
    let by_informers = |subresource: &str| {
        informers
            .iter()
            .any(|grant| grant.may_allow(verb, &need.resource, subresource))
    };
    subresources
        .iter()
        .all(|subresource| by_grants(subresource) || by_informers(subresource))
}

/// Whether an object of `resource` may have this name. Names of roles and their bindings are all that a path can hold.
///
/// Source: apimachinery `pkg/api/validation/path/name.go`, `IsValidPathSegmentName`; Kubernetes
/// `pkg/apis/rbac/validation`.
pub fn is_name(resource: &KubeResource, name: &str) -> bool {
    match resource.group.as_str() {
        "rbac.authorization.k8s.io" => !matches!(name, "" | "." | "..") && !name.contains(['/', '%']),
        _ => is_segment(name),
    }
}

/// Whether `text` is harmless as a segment of a path of the API server.
pub fn is_segment(text: &str) -> bool {
    const SEGMENT_BYTES_MAX: usize = 253;
    let strange = |c: char| matches!(c, '/' | '%' | '?' | '#' | '*' | '\\') || c.is_whitespace() || c.is_control();
    !text.is_empty() && text.len() <= SEGMENT_BYTES_MAX && text != "." && text != ".." && !text.contains(strange)
}

#[cfg(test)]
mod tests;
