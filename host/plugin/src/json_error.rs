//! JSON documents that a plugin's author writes in a language of their own, and their errors.

use std::fmt;
use std::marker::PhantomData;

use informant_spec::suggest::nearest;
use serde::de::value::MapAccessDeserializer;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A struct that is written as an object. serde would read it from a list of its values, too.
pub(crate) struct Members<T>(pub(crate) T);

impl<'d, T: Deserialize<'d>> Deserialize<'d> for Members<T> {
    fn deserialize<D: Deserializer<'d>>(deserializer: D) -> Result<Members<T>, D::Error> {
        struct Object<T>(PhantomData<T>);
        impl<'d, T: Deserialize<'d>> Visitor<'d> for Object<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'d>>(self, members: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(members))
            }
        }
        deserializer.deserialize_map(Object(PhantomData)).map(Members)
    }
}

/// For a member that is a struct.
pub(crate) fn members<'d, T: Deserialize<'d>, D: Deserializer<'d>>(deserializer: D) -> Result<T, D::Error> {
    Members::deserialize(deserializer).map(|Members(value)| value)
}

/// For a member that is a list of structs.
pub(crate) fn all_members<'d, T: Deserialize<'d>, D: Deserializer<'d>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let all = Vec::<Members<T>>::deserialize(deserializer)?;
    Ok(all.into_iter().map(|Members(value)| value).collect())
}

/// What is wrong with a document. A position is given only if it is not JSON at all, because authors do not see its
/// lines. A misspelled name comes with the one that was probably meant.
pub(crate) fn explain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    if !error.is_data() {
        return text;
    }
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
    match meant(text) {
        Some(word) => format!("{text}; did you mean `{word}`?"),
        None => text.to_owned(),
    }
}

/// Reads a document. An error of a value names the member that has it: `events[0].kind: invalid type: …`.
pub(crate) fn read<'d, T: Deserialize<'d>>(json: &'d [u8]) -> Result<T, String> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let Members(read) = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let (member, error) = (error.path().to_string(), error.into_inner());
        // serde_json calls a number in the place of a name a wrong syntax: `expected value`.
        let is_of_value = error.is_data() || serde_json::from_slice::<IgnoredAny>(json).is_ok();
        let text = match error.is_data() == is_of_value {
            true => explain(&error),
            false => "invalid type: expected a string".to_owned(),
        };
        // A member that is unknown is named by the text.
        let member = match text.starts_with("unknown field ") {
            true => member.rsplit_once('.').map_or("", |(parent, _)| parent),
            false => &member,
        };
        match is_of_value && !member.is_empty() && !member.contains('?') && member != "." {
            true => format!("{member}: {text}"),
            false => text,
        }
    })?;
    reader.end().map_err(|error| explain(&error))?;
    Ok(read)
}

/// The expected name that is nearest to the unknown one: with the same first letter, because `watch` is no typo of
/// `patch`, and at most one edit per three letters. serde's message has both.
fn meant(text: &str) -> Option<&str> {
    let (unknown, expected) = text.split_once(", expected ")?;
    let unknown = unknown
        .strip_prefix("unknown field ")
        .or_else(|| unknown.strip_prefix("unknown variant "))?;
    let unknown = unknown.trim_matches('`');
    let begins_alike = |word: &&str| {
        let begins = |word: &str| word.chars().next().map(|letter| letter.to_ascii_lowercase());
        begins(word) == begins(unknown)
    };
    nearest(unknown, expected.split('`').skip(1).step_by(2).filter(begins_alike))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_within_a_few_edits_are_suggested() {
        let text =
            |unknown: &str| format!("unknown field `{unknown}`, expected one of `events`, `changedOnly`, `patch`");
        for (unknown, expected) in [
            ("evnts", Some("events")),
            ("eventss", Some("events")),
            ("changed-only", Some("changedOnly")),
            ("watch", None),
            ("x", None),
        ] {
            assert_eq!(meant(&text(unknown)), expected, "{unknown}");
        }
        assert_eq!(meant("missing field `kind`"), None);
    }
}
