//! Resource versions: opaque texts that can be ordered if both are decimal numbers.

use std::cmp::Ordering;
use std::fmt;

/// `metadata.resourceVersion`, owned.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct ResourceVersion(Box<str>);

/// `metadata.resourceVersion`, borrowed.
///
/// Two versions order by number when both are decimal, and are equal when their texts are; anything else is not
/// comparable, and a caller that guards against older versions must report that instead of guessing.
///
/// Source: KEP-5504 (comparable resource versions): decimal digits, no sign, no leading zero. Informant also reads `0`,
/// which requests use for "any version".
#[derive(Clone, Copy, Debug)]
pub struct VersionRef<'a> {
    text: &'a str,
}

impl ResourceVersion {
    /// Takes any text; the empty text is "no version".
    #[must_use]
    pub fn new(text: &str) -> ResourceVersion {
        ResourceVersion(text.into())
    }

    /// The text as the API server wrote it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The version as a number, if its text is decimal and fits 64 bits.
    #[must_use]
    pub fn number(&self) -> Option<u64> {
        decimal(&self.0)
    }

    /// Whether there is no version at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Borrows the version.
    #[must_use]
    pub fn as_ref(&self) -> VersionRef<'_> {
        VersionRef::new(&self.0)
    }
}

impl<'a> VersionRef<'a> {
    /// Takes any text.
    #[must_use]
    pub fn new(text: &'a str) -> VersionRef<'a> {
        VersionRef { text }
    }

    /// The text as the API server wrote it.
    #[must_use]
    pub fn as_str(self) -> &'a str {
        self.text
    }

    /// The version as a number, if its text is decimal and fits 64 bits.
    #[must_use]
    pub fn number(self) -> Option<u64> {
        decimal(self.text)
    }

    /// Whether there is no version at all.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.text.is_empty()
    }

    /// Copies the version.
    #[must_use]
    pub fn to_version(self) -> ResourceVersion {
        ResourceVersion::new(self.text)
    }
}

/// The number of a decimal version; `None` for an empty text, other characters, leading zeros, or more than 64
/// bits.
fn decimal(text: &str) -> Option<u64> {
    let (first, rest) = text.as_bytes().split_first()?;
    if *first == b'0' && !rest.is_empty() {
        return None;
    }
    text.bytes().try_fold(0_u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        let is_digit = digit < 10;
        is_digit.then_some(number.checked_mul(10)?.checked_add(digit.into())?)
    })
}

impl PartialEq for VersionRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for VersionRef<'_> {}

impl PartialOrd for VersionRef<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (self.number(), other.number()) {
            (Some(own), Some(other)) => Some(own.cmp(&other)),
            _ if self.text == other.text => Some(Ordering::Equal),
            _ => None,
        }
    }
}

impl PartialOrd for ResourceVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.as_ref().partial_cmp(&other.as_ref())
    }
}

impl fmt::Display for ResourceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for VersionRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)
    }
}

impl From<VersionRef<'_>> for ResourceVersion {
    fn from(version: VersionRef<'_>) -> ResourceVersion {
        version.to_version()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_versions_order_by_number_and_others_not_at_all() {
        let order = |a: &str, b: &str| VersionRef::new(a).partial_cmp(&VersionRef::new(b));
        assert_eq!(order("9", "10"), Some(Ordering::Less));
        assert_eq!(order("10", "10"), Some(Ordering::Equal));
        assert_eq!(order("a", "a"), Some(Ordering::Equal));
        for (a, b) in [("a", "b"), ("010", "9"), ("", "1"), ("+1", "2"), ("1", "1.0")] {
            assert_eq!(order(a, b), None, "{a} {b}");
        }
    }

    #[test]
    fn version_beyond_64_bits_keeps_its_text_without_a_number() {
        let version = ResourceVersion::new("18446744073709551616");
        assert_eq!(version.number(), None);
        assert_eq!(version.as_str(), "18446744073709551616");
        assert_eq!(
            ResourceVersion::new("18446744073709551614").number(),
            Some(u64::MAX - 1)
        );
    }
}
