//! `shardSelector`: ranges of the hash of an object's uid or namespace (KEP-5866, alpha in Kubernetes 1.36).
//!
//! `shardRange(object.metadata.namespace, '0x0000000000000000', '0x8000000000000000') || shardRange(…)`: all ranges of
//! one selector are about one field; the hash is FNV-1a with 64 bits.

use crate::status::Status;
use crate::stored::Stored;

/// Longest selector in characters. 64 ranges have 6 KB.
const SELECTOR_CHARS_MAX: usize = 16 * 1024;

/// The exclusive end of all hashes.
const HASHES_END: u128 = 1 << 64;

#[derive(Debug, Clone)]
pub(crate) struct ShardSelector {
    /// As it was sent.
    text: String,
    field: Field,
    /// First, and the one after the last.
    ranges: Vec<(u128, u128)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Uid,
    Namespace,
}

impl ShardSelector {
    pub(crate) fn parse(text: &str) -> Result<Self, Status> {
        let refused = |why: String| Status::bad_request(format!("unable to parse shardSelector: {why}"));
        if text.chars().count() > SELECTOR_CHARS_MAX {
            return Err(refused(format!("longer than {SELECTOR_CHARS_MAX} characters")));
        }
        let mut field = None;
        let mut ranges = Vec::new();
        for part in text.split("||") {
            let (of, begin, end) = range(part.trim()).ok_or_else(|| refused(format!("invalid range {part:?}")))?;
            if *field.get_or_insert(of) != of {
                return Err(refused("all shardRange() calls must use the same field".to_owned()));
            }
            if begin >= end || end > HASHES_END {
                return Err(refused(format!("{part:?} contains no hash")));
            }
            ranges.push((begin, end));
        }
        Ok(Self {
            text: text.to_owned(),
            field: field.unwrap_or(Field::Uid),
            ranges,
        })
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn matches(&self, object: &Stored) -> bool {
        let hash = u128::from(fnv1a(match self.field {
            Field::Uid => &object.uid,
            Field::Namespace => &object.namespace,
        }));
        self.ranges.iter().any(|(begin, end)| (*begin..*end).contains(&hash))
    }
}

/// `shardRange(FIELD, 'BEGIN', 'END')`
fn range(text: &str) -> Option<(Field, u128, u128)> {
    let arguments = text.strip_prefix("shardRange(")?.strip_suffix(')')?;
    let mut arguments = arguments.split(',').map(str::trim);
    let field = match arguments.next()? {
        "object.metadata.uid" => Field::Uid,
        "object.metadata.namespace" => Field::Namespace,
        _ => return None,
    };
    let mut number = || {
        let digits = arguments.next()?.strip_prefix("'0x")?.strip_suffix('\'')?;
        let is_hex = digits.chars().all(|digit| digit.is_ascii_hexdigit());
        u128::from_str_radix(digits, 16).ok().filter(|_| is_hex)
    };
    let (begin, end) = (number()?, number()?);
    arguments.next().is_none().then_some((field, begin, end))
}

fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_has_the_published_values() {
        for (text, hash) in [
            ("", 0xcbf2_9ce4_8422_2325),
            ("a", 0xaf63_dc4c_8601_ec8c),
            ("default", 0xebad_a516_8620_c5fe),
        ] {
            assert_eq!(fnv1a(text), hash, "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "x",
            "shardRange(metadata.uid, '0x0', '0x1')",
            "shardRange(object.metadata.uid, 0x0, 0x1)",
            "shardRange(object.metadata.uid, '0x0')",
            "shardRange(object.metadata.uid, '0x0', '0x1', '0x2')",
            "shardRange(object.metadata.uid, '0x1', '0x1')",
            "shardRange(object.metadata.uid, '0x0', '0x10000000000000001')",
            "shardRange(object.metadata.uid, '0x+1', '0x2')",
            "shardRange(object.metadata.uid, '0x0', '0x1') ||",
            "shardRange(object.metadata.uid, '0x0', '0x1') || shardRange(object.metadata.namespace, '0x1', '0x2')",
        ] {
            assert_eq!(ShardSelector::parse(text).map(|_| ()).unwrap_err().code, 400, "{text}");
        }
    }
}
