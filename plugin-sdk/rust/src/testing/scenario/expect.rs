//! Compares what an `expect` has with what happened.

use serde_json::{Map, Value};

use super::entries::Listed;
use super::yaml::{Node, member_path};

/// In these members, `*` stands for any text.
const WILD: [&str; 4] = ["error", "message", "note", "url"];

/// A value in a difference.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        value => value.to_string(),
    }
}

/// Whether a text matches a pattern, in which `*` stands for any text and `\*` for an asterisk.
pub(super) fn fits(pattern: &str, text: &str) -> bool {
    // NUL is in no YAML file.
    let pattern = pattern.replace("\\*", "\0");
    let parts: Vec<String> = pattern.split('*').map(|part| part.replace('\0', "*")).collect();
    let [first, between @ .., last] = &parts[..] else {
        return parts.iter().all(|part| part == text);
    };
    let Some(mut rest) = text.strip_prefix(first.as_str()) else {
        return false;
    };
    for part in between {
        let Some(at) = rest.find(part.as_str()) else {
            return false;
        };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last.as_str())
}

/// Whether it matches what is absent: null, and a mapping of nothing else.
pub(super) fn expects_nothing(expected: &Value) -> bool {
    match expected {
        Value::Object(members) => !members.is_empty() && members.values().all(expects_nothing),
        value => value.is_null(),
    }
}

/// The first difference, as `path: expected …, found …`.
pub(super) fn difference(expected: &Value, found: &Value) -> Option<String> {
    below(expected, found, "", false)
}

fn below(expected: &Value, found: &Value, path: &str, is_pattern: bool) -> Option<String> {
    match (expected, found) {
        (_, Value::Null) if expects_nothing(expected) => None,
        (Value::String(expected), Value::String(found)) if is_pattern && fits(expected, found) => None,
        (Value::Object(expected), Value::Object(found)) => expected.iter().find_map(|(name, expected)| {
            let found = found.get(name).unwrap_or(&Value::Null);
            let is_pattern = WILD.contains(&name.as_str());
            below(expected, found, &member_path(path, name), is_pattern)
        }),
        (Value::Array(expected), Value::Array(found)) if expected.len() == found.len() => {
            let mut pairs = expected.iter().zip(found).enumerate();
            pairs.find_map(|(at, (expected, found))| below(expected, found, &format!("{path}[{at}]"), false))
        }
        (Value::Number(expected), Value::Number(found)) if expected.as_f64() == found.as_f64() => None,
        _ if expected == found => None,
        _ => {
            let colon = if path.is_empty() { "" } else { ": " };
            let (expected, found) = (shown(expected), shown(found));
            Some(format!("{path}{colon}expected {expected}, found {found}"))
        }
    }
}

/// The first difference of an entry: the body of a request is a text, or the JSON in it.
fn entry_difference(expected: &Map<String, Value>, found: &Value) -> Option<String> {
    let mut rest = expected.clone();
    let body = rest.remove("body");
    let why = below(&Value::Object(rest), found, "", false);
    let (None, Some(expected)) = (&why, body) else {
        return why;
    };
    let sent = found["body"].as_str().unwrap_or_default();
    match expected {
        Value::Null if sent.is_empty() => None,
        Value::Null | Value::String(_) => below(&expected, &found["body"], "body", true),
        _ => match serde_json::from_str(sent) {
            Ok(document) => below(&expected, &document, "body", false),
            Err(_) => Some(format!("body: expected the JSON {expected}, found {}", found["body"])),
        },
    }
}

/// What differs in a list: complete and in order or, with `includes`, with others between.
pub(super) fn list_differences(node: &Node, listed: &Listed, found: &[Value]) -> Vec<String> {
    let mut differences = Vec::new();
    let mut rest = found;
    for (entry, expected) in &listed.entries {
        let missing = || Value::Object(expected.clone());
        if listed.includes {
            let is_it = |other| entry_difference(expected, other).is_none();
            match rest.iter().position(is_it) {
                Some(at) => rest = &rest[at + 1..],
                None => {
                    let there: Value = rest.iter().map(brief).collect();
                    return vec![entry.at(format_args!("not found: {}; there are: {there}", missing()))];
                }
            }
            continue;
        }
        let why = match rest.split_first() {
            Some((first, others)) => {
                rest = others;
                entry_difference(expected, first)
            }
            None => Some(format!("missing: {}", missing())),
        };
        differences.extend(why.map(|why| entry.at(why)));
    }
    let extra = if listed.includes { &[] } else { rest };
    let too_many = |other: &Value| node.at(format_args!("one too many: {}", brief(other)));
    differences.extend(extra.iter().map(too_many));
    differences
}

/// What happened, without members that say nothing.
fn brief(found: &Value) -> Value {
    let members = found.as_object().into_iter().flatten();
    let kept = members.filter(|(_, value)| !value.is_null());
    Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// A text is the bytes of a value, or the JSON of a text.
pub(super) fn kv_difference(expected: &Value, found: Option<&[u8]>) -> Option<String> {
    let Some(found) = found else {
        let is_expected = expects_nothing(expected);
        return (!is_expected).then(|| format!("expected {expected}, but the key is not set"));
    };
    let text = String::from_utf8_lossy(found);
    if *expected == *text {
        return None;
    }
    match serde_json::from_slice(found) {
        Ok(found) => difference(expected, &found),
        Err(_) => Some(format!("expected {}, found {}", shown(expected), shown(&text.into()))),
    }
}
