//! [`ResourcePattern`]: several resources in one entry of a configuration.

use std::fmt;

use crate::resource::GroupVersionResource;

/// All resources of an API server, or of one version of one group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourcePattern {
    /// `*`: each resource once, in the API server's preferred version.
    Everything,
    /// `v1/*`, `apps/v1/*`.
    Version {
        /// Empty for the core group.
        group: String,
        /// As in `apps/v1`.
        version: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a resource pattern: write `*` for all resources, or one version of a group, such as `apps/v1/*` or `v1/*`"
)]
pub struct ResourcePatternError {
    text: String,
}

impl ResourcePattern {
    /// Whether `text` is meant as a pattern rather than as a single resource.
    #[must_use]
    pub fn looks_like_pattern(text: &str) -> bool {
        text.contains('*')
    }

    /// Parses a pattern.
    ///
    /// # Errors
    /// [`ResourcePatternError`] for anything but `*`, `VERSION/*` and `GROUP/VERSION/*`.
    pub fn parse(text: &str) -> Result<Self, ResourcePatternError> {
        let refused = || ResourcePatternError { text: text.to_owned() };
        if text == "*" {
            return Ok(Self::Everything);
        }
        let version = text.strip_suffix("/*").ok_or_else(refused)?;
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let is_plain = |part: &str| {
            part.chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'))
        };
        if version.is_empty() || !is_plain(group) || !is_plain(version) || text.starts_with('/') {
            return Err(refused());
        }
        Ok(Self::Version {
            group: group.to_owned(),
            version: version.to_owned(),
        })
    }

    #[must_use]
    pub fn covers(&self, resource: &GroupVersionResource) -> bool {
        match self {
            Self::Everything => true,
            Self::Version { group, version } => *group == resource.group && *version == resource.version,
        }
    }
}

impl fmt::Display for ResourcePattern {
    /// As written in the configuration.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everything => out.write_str("*"),
            Self::Version { group, version } if group.is_empty() => write!(out, "{version}/*"),
            Self::Version { group, version } => write!(out, "{group}/{version}/*"),
        }
    }
}

/// The exceptions of a pattern: exact resources (`v1/secrets`) and whole versions (`metrics.k8s.io/v1beta1/*`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exclude {
    /// Single resources.
    pub resources: Vec<GroupVersionResource>,
    /// Whole versions.
    pub versions: Vec<ResourcePattern>,
}

impl Exclude {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.versions.is_empty()
    }

    #[must_use]
    pub fn covers(&self, resource: &GroupVersionResource) -> bool {
        self.resources.contains(resource) || self.versions.iter().any(|pattern| pattern.covers(resource))
    }

    /// As [`covers`](Self::covers), but whatever the version: an object is the same one in each.
    #[must_use]
    pub fn covers_any_version_of(&self, resource: &GroupVersionResource) -> bool {
        let is_of = |pattern: &ResourcePattern| match pattern {
            ResourcePattern::Everything => true,
            ResourcePattern::Version { group, .. } => *group == resource.group,
        };
        let is_same = |each: &GroupVersionResource| each.group == resource.group && each.plural == resource.plural;
        self.resources.iter().any(is_same) || self.versions.iter().any(is_of)
    }

    /// Each entry alone, with its text.
    pub fn entries(&self) -> impl Iterator<Item = (String, Exclude)> {
        let resources = self.resources.iter().map(|resource| {
            let entry = Exclude {
                resources: vec![resource.clone()],
                versions: Vec::new(),
            };
            (resource.to_string(), entry)
        });
        let versions = self.versions.iter().map(|pattern| {
            let entry = Exclude {
                resources: Vec::new(),
                versions: vec![pattern.clone()],
            };
            (pattern.to_string(), entry)
        });
        resources.chain(versions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_round_trips_through_its_text() {
        for text in ["*", "v1/*", "apps/v1/*", "shop.example.com/v1alpha1/*"] {
            assert_eq!(ResourcePattern::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_invalid_pattern_is_refused_with_an_example() {
        for text in [
            "**",
            "pods*",
            "apps/*/deployments",
            "/*",
            "/v1/*",
            "a/b/c/*",
            "apps/v1/",
            "*/v1",
        ] {
            assert!(ResourcePattern::parse(text).is_err(), "{text}");
        }
        insta::assert_snapshot!(ResourcePattern::parse("apps/*/x").unwrap_err(), @"`apps/*/x` is not a resource pattern: write `*` for all resources, or one version of a group, such as `apps/v1/*` or `v1/*`");
    }
}
