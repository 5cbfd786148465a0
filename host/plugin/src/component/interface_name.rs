//! Names of interfaces in components: `wasi:io/poll@0.2.6`.

use std::fmt;

/// A parsed interface name. Names of another form (`cabi_realloc`, `init`) are not interface names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InterfaceName<'a> {
    /// `wasi:io`.
    pub(crate) package: &'a str,
    /// `poll`.
    pub(crate) interface: &'a str,
    pub(crate) version: Option<InterfaceVersion<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InterfaceVersion<'a> {
    pub(crate) major: u64,
    pub(crate) minor: u64,
    pub(crate) patch: u64,
    /// `-draft`, `-rc.1`: matches only exactly.
    pub(crate) prerelease: &'a str,
}

impl<'a> InterfaceName<'a> {
    pub(crate) fn parse(name: &'a str) -> Option<InterfaceName<'a>> {
        let (path, version) = match name.split_once('@') {
            Some((path, version)) => (path, Some(InterfaceVersion::parse(version)?)),
            None => (name, None),
        };
        let (package, interface) = path.split_once('/')?;
        package.contains(':').then_some(InterfaceName {
            package,
            interface,
            version,
        })
    }
}

/// Whether `name` is the canonical name of an interface, whose version has only the numbers that decide what it is
/// compatible with: `wasi:io/poll@0.2`, `informant:plugin/store@1`. wasmtime does not link such names yet.
pub(crate) fn is_canonical(name: &str) -> bool {
    let Some((path, version)) = name.split_once('@') else {
        return false;
    };
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    path.contains(':') && path.contains('/') && version.split('.').count() < 3 && version.split('.').all(is_number)
}

impl<'a> InterfaceVersion<'a> {
    pub(crate) fn parse(text: &'a str) -> Option<InterfaceVersion<'a>> {
        let text = text.split_once('+').map_or(text, |(version, _build)| version);
        let (numbers, prerelease) = text.split_once('-').unwrap_or((text, ""));
        let mut parts = numbers.split('.').map(|part| part.parse::<u64>().ok());
        let mut part = || parts.next().flatten();
        Some(InterfaceVersion {
            major: part()?,
            minor: part()?,
            patch: part()?,
            prerelease,
        })
    }

    /// Whether a component built for this version links against `offered`, by semantic versioning as wasmtime applies
    /// it: the leftmost nonzero number must be equal, and neither may be a prerelease.
    pub(crate) fn is_compatible_with(&self, offered: &InterfaceVersion<'_>) -> bool {
        if self == offered {
            return true;
        }
        let track = |version: &InterfaceVersion<'_>| match (version.major, version.minor, version.patch) {
            (0, 0, patch) => (0, 0, patch),
            (0, minor, _) => (0, minor, 0),
            (major, ..) => (major, 0, 0),
        };
        self.prerelease.is_empty() && offered.prerelease.is_empty() && track(self) == track(offered)
    }

    pub(crate) fn is_newer_than(&self, other: &InterfaceVersion<'_>) -> bool {
        (self.major, self.minor, self.patch) > (other.major, other.minor, other.patch)
    }
}

impl fmt::Display for InterfaceVersion<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.prerelease.is_empty() {
            write!(f, "-{}", self.prerelease)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> InterfaceVersion<'_> {
        InterfaceVersion::parse(text).unwrap()
    }

    #[test]
    fn interface_names_are_parsed() {
        let name = InterfaceName::parse("wasi:io/poll@0.2.6").unwrap();
        assert_eq!((name.package, name.interface), ("wasi:io", "poll"));
        assert_eq!(name.version, Some(version("0.2.6")));
        assert_eq!(InterfaceName::parse("a:b/c").unwrap().version, None);
        for other in ["init", "exports", "a/b", "a:b", "a:b/c@x"] {
            assert_eq!(InterfaceName::parse(other), None, "{other}");
        }
    }

    #[test]
    fn canonical_names_have_fewer_numbers() {
        for (name, expected) in [
            ("informant:plugin/store@1", true),
            ("wasi:io/poll@0.2", true),
            ("wasi:io/poll@0.2.6", false),
            ("wasi:io/poll", false),
            ("wasi:io/poll@x", false),
            ("wasi:io/poll@", false),
            ("init@1", false),
        ] {
            assert_eq!(is_canonical(name), expected, "{name}");
        }
    }

    #[test]
    fn versions_match_by_semantic_versioning() {
        for (made_for, offered, fits) in [
            ("0.1.0", "0.1.3", true),
            ("0.1.3", "0.1.0", true),
            ("0.2.0", "0.1.0", false),
            ("0.0.1", "0.0.2", false),
            ("1.2.0", "1.0.0", true),
            ("2.0.0", "1.0.0", false),
            ("0.1.0-draft", "0.1.0", false),
            ("0.1.0-draft", "0.1.0-draft", true),
            ("0.2.0-rc-2023-11-10", "0.2.0", false),
        ] {
            assert_eq!(
                version(made_for).is_compatible_with(&version(offered)),
                fits,
                "{made_for} {offered}"
            );
        }
    }
}
