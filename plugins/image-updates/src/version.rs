//! Versions in tags: `1.25.3`, `v1.25`, `1.25-alpine`.

/// Numbers of a version at most; a tag with more is none.
const NUMBERS_MAX: usize = 4;

/// The version in a tag. Only versions of the same form are compared.
#[derive(Debug, PartialEq, Eq)]
struct Version<'a> {
    /// Whether it starts with `v`.
    has_prefix: bool,
    numbers: Vec<u64>,
    /// `-alpine`.
    suffix: &'a str,
}

impl<'a> Version<'a> {
    fn parse(tag: &'a str) -> Option<Self> {
        let rest = tag.strip_prefix('v');
        let (has_prefix, rest) = (rest.is_some(), rest.unwrap_or(tag));
        let end = rest.find(|char: char| !char.is_ascii_digit() && char != '.');
        let (numbers, suffix) = rest.split_at(end.unwrap_or(rest.len()));
        let numbers: Option<Vec<u64>> = numbers.split('.').map(|number| number.parse().ok()).collect();
        let numbers = numbers.filter(|numbers| numbers.len() <= NUMBERS_MAX)?;
        (suffix.is_empty() || suffix.starts_with('-')).then_some(Self {
            has_prefix,
            numbers,
            suffix,
        })
    }

    fn is_of_the_form_of(&self, other: &Self) -> bool {
        let form = |version: &Self| (version.has_prefix, version.numbers.len());
        form(self) == form(other) && self.suffix == other.suffix
    }
}

/// The tag of the newest version that has the form of `current` and is newer.
pub(crate) fn newest<'a>(current: &str, tags: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let current = Version::parse(current)?;
    let versions = tags.into_iter().filter_map(|tag| Some((Version::parse(tag)?, tag)));
    let alike = versions.filter(|(version, _)| version.is_of_the_form_of(&current));
    let newest = alike.max_by(|(one, _), (other, _)| one.numbers.cmp(&other.numbers))?;
    (newest.0.numbers > current.numbers).then_some(newest.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_newer_versions_of_the_same_form_count() {
        let tags = [
            "latest",
            "1.9.0",
            "1.27.1",
            "1.27",
            "v2.0.0",
            "1.28.0-alpine",
            "1.29.0-rc.1",
            "9",
            "1.2.3.4.5",
            "stable",
        ];
        for (current, expected) in [
            ("1.25.3", Some("1.27.1")),
            ("1.27.1", None),
            ("1.25", Some("1.27")),
            ("v1.0.0", Some("v2.0.0")),
            ("1.25.3-alpine", Some("1.28.0-alpine")),
            ("8", Some("9")),
            ("latest", None),
            ("1.25.3-perl", None),
        ] {
            assert_eq!(newest(current, tags), expected, "{current}");
        }
    }
}
