//! [`ResourceName`]: a resource as named in a configuration.

use std::fmt;
use std::str::FromStr;

use crate::resource::GroupVersionResource;

/// A resource as people write it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceName {
    /// `v1/pods`, `apps/v1/deployments`.
    Exact(GroupVersionResource),
    /// `pods`, `Pod`, `po`, `deployments.apps`, `deployments.v1.apps`.
    Loose {
        /// Plural, singular, short name or kind, as written.
        name: String,
        /// What follows the first dot: a group, or a version and a group. Empty without a dot.
        rest: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a resource name: {problem}; write `v1/pods`, `apps/v1/deployments`, or a name such as `pods`, `Pod` or `deployments.apps`"
)]
pub struct ResourceNameError {
    text: String,
    problem: &'static str,
}

impl ResourceName {
    /// Parses a resource name.
    ///
    /// # Errors
    /// [`ResourceNameError`] if the text has empty parts, too many of them, or invalid characters. `*` is an error:
    /// several resources are a [`ResourcePattern`](crate::ResourcePattern).
    pub fn parse(text: &str) -> Result<Self, ResourceNameError> {
        let refuse = |problem| {
            Err(ResourceNameError {
                text: text.to_owned(),
                problem,
            })
        };
        if text.contains('*') {
            return refuse("`*` matches several resources");
        }
        if let Some(strange) = text
            .chars()
            .find(|c| !c.is_ascii_alphanumeric() && !matches!(c, '/' | '.' | '-' | '_'))
        {
            let problem = if strange.is_whitespace() {
                "it contains whitespace"
            } else {
                "it contains an invalid character"
            };
            return refuse(problem);
        }
        let parts: Vec<&str> = text.split('/').collect();
        if parts.iter().any(|part| part.is_empty()) {
            return refuse("a part is empty");
        }
        match parts[..] {
            [name] => {
                let (name, rest) = name.split_once('.').unwrap_or((name, ""));
                if name.is_empty() {
                    return refuse("a part is empty");
                }
                Ok(Self::Loose {
                    name: name.to_owned(),
                    rest: rest.to_owned(),
                })
            }
            [version, plural] => Ok(Self::Exact(GroupVersionResource::new("", version, plural))),
            [group, version, plural] => Ok(Self::Exact(GroupVersionResource::new(group, version, plural))),
            _ => refuse("it has more than three parts"),
        }
    }
}

impl FromStr for ResourceName {
    type Err = ResourceNameError;

    fn from_str(text: &str) -> Result<Self, ResourceNameError> {
        Self::parse(text)
    }
}

impl ResourceName {
    /// Whether it may mean `resource`, as far as that can be known without discovery: it is its plural, or a singular
    /// or kind for which that is [guessed](guessed_plural).
    #[must_use]
    pub fn may_mean(&self, resource: &GroupVersionResource) -> bool {
        let (name, rest) = match self {
            Self::Exact(exact) => return exact == resource,
            Self::Loose { name, rest } => (name, rest),
        };
        let GroupVersionResource { group, version, plural } = resource;
        let is_of_group = rest.is_empty() || rest == group || *rest == format!("{version}.{group}");
        is_of_group && (plural.eq_ignore_ascii_case(name) || *plural == guessed_plural(name))
    }

    /// The resource that it suggests, in whatever version, if it means none that is known.
    #[must_use]
    pub fn guessed(&self) -> GroupVersionResource {
        match self {
            Self::Exact(exact) => exact.clone(),
            Self::Loose { name, rest } => GroupVersionResource::new(rest.clone(), "", guessed_plural(name)),
        }
    }

    /// The name as written in a configuration.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Exact(resource) => resource.to_string(),
            Self::Loose { name, rest } if rest.is_empty() => name.clone(),
            Self::Loose { name, rest } => format!("{name}.{rest}"),
        }
    }
}

/// The plural that a kind or a singular most likely has.
///
/// Source: apimachinery `pkg/api/meta/restmapper.go`, `UnsafeGuessKindToResource`.
#[must_use]
pub fn guessed_plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    match kind.as_bytes().last() {
        _ if kind.ends_with("endpoints") => kind,
        Some(b's') => format!("{kind}es"),
        Some(b'y') => format!("{}ies", &kind[..kind.len() - 1]),
        _ => format!("{kind}s"),
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "`{}`", self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_exact_with_a_version_and_loose_without() {
        assert_eq!(
            ResourceName::parse("apps/v1/deployments"),
            Ok(ResourceName::Exact(GroupVersionResource::new(
                "apps",
                "v1",
                "deployments"
            )))
        );
        assert_eq!(
            ResourceName::parse("v1/pods"),
            Ok(ResourceName::Exact(GroupVersionResource::new("", "v1", "pods")))
        );
        assert_eq!(
            ResourceName::parse("deployments.v1.apps"),
            Ok(ResourceName::Loose {
                name: "deployments".to_owned(),
                rest: "v1.apps".to_owned()
            })
        );
    }

    #[test]
    fn an_invalid_resource_name_is_refused_with_an_example() {
        let refusals = ["", "v1/", "a/b/c/d", "apps/v1/*", "po ds", "pöds"]
            .map(|text| {
                ResourceName::parse(text)
                    .unwrap_err()
                    .to_string()
                    .split(';')
                    .next()
                    .unwrap()
                    .to_owned()
            })
            .join("\n");
        insta::assert_snapshot!(refusals, @r"
        `` is not a resource name: a part is empty
        `v1/` is not a resource name: a part is empty
        `a/b/c/d` is not a resource name: it has more than three parts
        `apps/v1/*` is not a resource name: `*` matches several resources
        `po ds` is not a resource name: it contains whitespace
        `pöds` is not a resource name: it contains an invalid character
        ");
    }
}
