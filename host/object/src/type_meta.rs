//! The type of an object: apiVersion and kind.

use std::fmt;

/// apiVersion (`v1`, `apps/v1`) and kind (`Pod`), as in every object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TypeMeta {
    /// `group/version`, or the version alone for the core group.
    pub api_version: String,
    /// The singular, capitalized name of the type.
    pub kind: String,
}

impl TypeMeta {
    /// Copies both texts.
    #[must_use]
    pub fn new(api_version: &str, kind: &str) -> TypeMeta {
        TypeMeta {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
        }
    }

    /// The group of the apiVersion; empty for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// The version of the apiVersion, without its group.
    #[must_use]
    pub fn version(&self) -> &str {
        self.api_version
            .split_once('/')
            .map_or(&self.api_version, |(_, version)| version)
    }
}

impl fmt::Display for TypeMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, Kind={}", self.api_version, self.kind)
    }
}
