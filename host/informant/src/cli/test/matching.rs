//! Compares what was expected with what happened.
//!
//! A mapping matches if its members match; a list inside a document matches element by element; `*` stands for any text
//! in messages, errors and URLs. The entries of a stream are matched in order.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::flow::flow;
use super::scenario::{Entry, Listed, Stream};
use crate::recorded::{self, literal};

/// The texts of an entry in which `*` stands for any text.
const WILD: [&str; 3] = ["error", "message", "url"];

/// Whether `actual` has everything that `pattern` has.
pub(super) fn matches(pattern: &Value, actual: &Value) -> bool {
    match (pattern, actual) {
        (Value::Object(pattern), Value::Object(actual)) => pattern
            .iter()
            .all(|(name, pattern)| matches(pattern, actual.get(name).unwrap_or(&Value::Null))),
        (Value::Array(pattern), Value::Array(actual)) => {
            pattern.len() == actual.len()
                && pattern
                    .iter()
                    .zip(actual)
                    .all(|(pattern, actual)| matches(pattern, actual))
        }
        // What is absent has none of the members that must be absent.
        (Value::Object(pattern), Value::Null) => !pattern.is_empty() && pattern.values().all(|of| matches(of, actual)),
        (Value::Number(pattern), Value::Number(actual)) => pattern == actual || pattern.as_f64() == actual.as_f64(),
        (pattern, actual) => pattern == actual,
    }
}

/// Whether a text matches a pattern, in which `*` stands for any text and `\*` for an asterisk.
pub(super) fn matches_text(pattern: &str, actual: &str) -> bool {
    let mut parts = vec![String::new()];
    let mut rest = pattern.chars().peekable();
    while let Some(next) = rest.next() {
        match next {
            '\\' if rest.peek() == Some(&'*') => parts.last_mut().into_iter().for_each(|part| part.extend(rest.next())),
            '*' => parts.push(String::new()),
            other => parts.last_mut().into_iter().for_each(|part| part.push(other)),
        }
    }
    let [first, between @ .., last] = &parts[..] else {
        return parts[0] == actual;
    };
    let Some(mut left) = actual.strip_prefix(first.as_str()) else {
        return false;
    };
    for part in between {
        match left.find(part.as_str()) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.ends_with(last.as_str())
}

fn matches_entry(pattern: &Map<String, Value>, actual: &Value) -> bool {
    pattern.iter().all(|(name, pattern)| {
        let actual = actual.get(name).unwrap_or(&Value::Null);
        match (pattern, actual) {
            (Value::String(pattern), Value::String(actual)) if name == "body" || WILD.contains(&&**name) => {
                matches_text(pattern, actual)
            }
            // What is no text is compared with the JSON that was sent.
            (pattern, Value::String(actual)) if name == "body" => {
                serde_json::from_str(actual).is_ok_and(|actual| matches(pattern, &actual))
            }
            _ => matches(pattern, actual),
        }
    })
}

/// The difference between the expected entries and those that happened; none if they match.
pub(super) fn compare_stream(expected: &Listed, happened: &[Value]) -> Option<Vec<String>> {
    let pairs = match expected.includes {
        true => in_order(&expected.entries, happened),
        false => aligned(&expected.entries, happened),
    };
    let is_complete = expected.includes || pairs.len() == happened.len();
    if pairs.len() == expected.entries.len() && is_complete {
        return None;
    }
    let mentioned = mentioned(&expected.entries);
    let (mut lines, mut next, mut next_happened) = (Vec::new(), 0, 0);
    let ends = (expected.entries.len(), happened.len());
    for (entry, other) in pairs.into_iter().chain([ends]) {
        let missing = &expected.entries[next..entry];
        lines.extend(
            missing
                .iter()
                .map(|entry| format!("- {}", shown_pattern(expected.stream, entry))),
        );
        let mark = if expected.includes { ' ' } else { '+' };
        let extra = &happened[next_happened..other];
        lines.extend(
            extra
                .iter()
                .map(|extra| format!("{mark} {}", flow(&brief(expected.stream, extra, &mentioned)))),
        );
        if let Some(both) = happened.get(other).filter(|_| entry < ends.0) {
            lines.push(format!("  {}", flow(&brief(expected.stream, both, &mentioned))));
        }
        (next, next_happened) = (entry + 1, other + 1);
    }
    Some(lines)
}

/// Pairs each expected entry with the next one that matches.
fn in_order(expected: &[Entry], happened: &[Value]) -> Vec<(usize, usize)> {
    let (mut pairs, mut from) = (Vec::new(), 0);
    for (number, entry) in expected.iter().enumerate() {
        let found = happened[from..]
            .iter()
            .position(|other| matches_entry(&entry.pattern, other));
        if let Some(found) = found {
            pairs.push((number, from + found));
            from += found + 1;
        }
    }
    pairs
}

/// The longest common subsequence of both.
fn aligned(expected: &[Entry], happened: &[Value]) -> Vec<(usize, usize)> {
    let (rows, columns) = (expected.len(), happened.len());
    let fits = |row: usize, column: usize| matches_entry(&expected[row].pattern, &happened[column]);
    let mut longest = vec![vec![0_usize; columns + 1]; rows + 1];
    for row in (0..rows).rev() {
        for column in (0..columns).rev() {
            longest[row][column] = match fits(row, column) {
                true => longest[row + 1][column + 1] + 1,
                false => longest[row + 1][column].max(longest[row][column + 1]),
            };
        }
    }
    let (mut pairs, mut row, mut column) = (Vec::new(), 0, 0);
    while row < rows && column < columns {
        if fits(row, column) && longest[row][column] == longest[row + 1][column + 1] + 1 {
            pairs.push((row, column));
            (row, column) = (row + 1, column + 1);
        } else if longest[row + 1][column] >= longest[row][column + 1] {
            row += 1;
        } else {
            column += 1;
        }
    }
    pairs
}

/// The members that expected entries have.
fn mentioned(entries: &[Entry]) -> BTreeSet<String> {
    entries.iter().flat_map(|entry| entry.pattern.keys().cloned()).collect()
}

/// What happened, as an expectation: with the members that are worth reading, and those of `mentioned`.
pub(super) fn brief(stream: Stream, happened: &Value, mentioned: &BTreeSet<String>) -> Value {
    let Value::Object(members) = happened else {
        return happened.clone();
    };
    let is_worth_it = |name: &str, value: &Value| match (stream, name) {
        (Stream::Calls, "attempt" | "missed") => value != 0,
        (Stream::Calls, "result") | (Stream::Writes, "result") => value != "ok",
        (Stream::Log, "level") => value != "info",
        (Stream::Calls, "reason") | (Stream::Http, "headers") | (Stream::Writes, "kind" | "options") => false,
        _ => !value.is_null(),
    };
    let kept = members
        .iter()
        .filter(|(name, value)| mentioned.contains(*name) || is_worth_it(name, value))
        .map(|(name, value)| (name.clone(), escaped(name, value)));
    let kept: Map<String, Value> = kept.collect();
    // A text also says that the call succeeded.
    let is_ok = members.get("result").is_some_and(|result| result == "ok");
    let described = kept.keys().filter(|name| *name != "result").count();
    let is_call =
        |names: &[&str]| is_ok && described == names.len() && names.iter().all(|name| kept.contains_key(*name));
    let only = |names: &[&str]| kept.len() == names.len() && names.iter().all(|name| kept.contains_key(*name));
    let text = |name: &str| kept.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    match stream {
        Stream::Calls if is_call(&["call", "object"]) => format!("{} {}", text("call"), text("object")).into(),
        Stream::Calls if is_call(&["call", "timer"]) => format!("{} {}", text("call"), text("timer")).into(),
        Stream::Calls if is_call(&["call"]) => text("call").into(),
        Stream::Log if only(&["message"]) => text("message").into(),
        _ => Value::Object(kept),
    }
}

fn escaped(name: &str, value: &Value) -> Value {
    match value {
        Value::String(text) if name == "body" => match recorded::body(text.as_bytes()) {
            Value::String(text) => literal(&text).into(),
            document => document,
        },
        Value::String(text) if WILD.contains(&name) => literal(text).into(),
        value => value.clone(),
    }
}

/// An expected entry, as people would write it.
fn shown_pattern(stream: Stream, entry: &Entry) -> String {
    let all = entry.pattern.keys().cloned().collect();
    // It is a pattern already.
    let shown = match brief(stream, &Value::Object(entry.pattern.clone()), &all) {
        Value::String(text) => Value::String(text.replace("\\*", "*")),
        _ => Value::Object(entry.pattern.clone()),
    };
    flow(&shown)
}

/// The entries that happened, as expectations with the members that are there now.
pub(super) fn expectation_of(expected: &Listed, happened: &[Value]) -> Value {
    let pairs = aligned(&expected.entries, happened);
    let all = mentioned(&expected.entries);
    let entries = happened.iter().enumerate().map(|(number, other)| {
        match pairs.iter().find(|(_, column)| *column == number) {
            // It matches as it is, wildcards included.
            Some((row, _)) => {
                let entry = &expected.entries[*row];
                let keys = entry.pattern.keys().cloned().collect();
                match brief(expected.stream, &Value::Object(entry.pattern.clone()), &keys) {
                    Value::String(text) => Value::String(text.replace("\\*", "*")),
                    _ => Value::Object(entry.pattern.clone()),
                }
            }
            None => brief(expected.stream, other, &all),
        }
    });
    Value::Array(entries.collect())
}

/// Where `actual` differs from `pattern`, by path.
pub(super) fn differences(pattern: &Value, actual: &Value, path: &str, lines: &mut Vec<String>) {
    match (pattern, actual) {
        (Value::Object(pattern), Value::Object(actual)) => {
            for (name, pattern) in pattern {
                let path = match path {
                    "" => name.clone(),
                    path => format!("{path}.{name}"),
                };
                differences(pattern, actual.get(name).unwrap_or(&Value::Null), &path, lines);
            }
        }
        (Value::Array(pattern), Value::Array(actual)) if pattern.len() == actual.len() => {
            for (number, (pattern, actual)) in pattern.iter().zip(actual).enumerate() {
                differences(pattern, actual, &format!("{path}[{number}]"), lines);
            }
        }
        _ if matches(pattern, actual) => {}
        _ => {
            lines.push(format!("- {path}: {}", flow(pattern)));
            lines.push(format!("+ {path}: {}", flow(actual)));
        }
    }
}

/// `pattern` with the values that `actual` has.
pub(super) fn fitted(pattern: &Value, actual: &Value) -> Value {
    match (pattern, actual) {
        (Value::Object(pattern), Value::Object(actual)) => {
            let members = pattern.iter().map(|(name, pattern)| {
                let actual = actual.get(name).unwrap_or(&Value::Null);
                (name.clone(), fitted(pattern, actual))
            });
            Value::Object(members.collect())
        }
        (Value::Array(pattern), Value::Array(actual)) if pattern.len() == actual.len() => {
            let fit = pattern
                .iter()
                .zip(actual)
                .map(|(pattern, actual)| fitted(pattern, actual));
            Value::Array(fit.collect())
        }
        _ if matches(pattern, actual) => pattern.clone(),
        _ => actual.clone(),
    }
}

#[cfg(test)]
mod tests {
    use informant_config::FilePosition;
    use serde_json::json;

    use super::*;

    #[test]
    fn asterisks_stand_for_any_text() {
        for (pattern, text, expected) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "ab", true),
            ("*b", "ab", true),
            ("*", "", true),
            ("a*c*e", "abcde", true),
            ("a*a", "a", false),
            ("a\\*", "a*", true),
            ("a\\*", "ab", false),
            ("*answered 503", "hooks.example answered 503", true),
        ] {
            assert_eq!(matches_text(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn mappings_match_in_part_and_lists_as_a_whole() {
        let actual = json!({ "a": { "b": 1, "c": [{ "d": 2, "e": 3 }] } });
        for (pattern, expected) in [
            (json!({ "a": { "b": 1.0 } }), true),
            (json!({ "a": { "x": null } }), true),
            (json!({ "a": { "b": null } }), false),
            (json!({ "x": { "y": null, "z": { "y": null } } }), true),
            (json!({ "x": { "y": null, "z": 1 } }), false),
            (json!({ "x": {} }), false),
            (json!({ "a": { "c": [{ "d": 2 }] } }), true),
            (json!({ "a": { "c": [] } }), false),
        ] {
            assert_eq!(matches(&pattern, &actual), expected, "{pattern}");
        }
    }

    #[test]
    fn a_body_is_compared_as_a_text_or_as_json() {
        let sent = "{\"b\": 1,\n \"a\": [5]}";
        for (pattern, body, expected) in [
            (json!(sent), sent, true),
            (json!("{\"b\": 1,*}"), sent, true),
            (json!("{\"a\":[5],\"b\":1}"), sent, false),
            (json!({ "a": [5] }), sent, true),
            (json!({ "a": [] }), sent, false),
            (json!(5), "5", true),
            (json!("5"), "5", true),
            (json!(true), "true", true),
            (json!({}), "no JSON", false),
            (json!(null), "text", false),
        ] {
            let entry = json!({ "body": pattern });
            let is_same = matches_entry(entry.as_object().unwrap(), &json!({ "body": body }));
            assert_eq!(is_same, expected, "{pattern} {body}");
        }
        let nothing = json!({ "body": null });
        assert!(matches_entry(nothing.as_object().unwrap(), &json!({ "url": "a" })));
        for (body, expected) in [
            (sent, json!({ "b": 1, "a": [5] })),
            ("5 * 5", json!("5 \\* 5")),
            ("5", json!("5")),
        ] {
            let shown = brief(Stream::Http, &json!({ "body": body }), &BTreeSet::new());
            assert_eq!(shown, json!({ "body": expected }));
        }
    }

    fn listed(includes: bool, entries: &[Value]) -> Listed {
        let position = FilePosition { line: 1, column: 1 };
        let entry = |value: &Value| Entry {
            position,
            pattern: value.as_object().unwrap().clone(),
        };
        Listed {
            stream: Stream::Calls,
            position,
            includes,
            entries: entries.iter().map(entry).collect(),
        }
    }

    fn call(name: &str, object: &str) -> Value {
        json!({ "call": name, "object": object, "reason": "watch", "attempt": 0, "result": "ok" })
    }

    #[test]
    fn a_list_is_complete_and_in_order_unless_it_includes() {
        let happened = [
            call("on-add", "v1/pods a/1"),
            call("on-update", "v1/pods a/1"),
            call("on-add", "v1/pods a/2"),
        ];
        let expected = [
            json!({ "call": "on-add", "object": "v1/pods a/1" }),
            json!({ "object": "v1/pods a/2" }),
        ];
        assert_eq!(compare_stream(&listed(true, &expected), &happened), None);
        let difference = compare_stream(&listed(false, &expected), &happened).unwrap();
        insta::assert_snapshot!(difference.join("\n"), @r"
          on-add v1/pods a/1
        + on-update v1/pods a/1
          on-add v1/pods a/2
        ");
        let turned = [expected[1].clone(), expected[0].clone()];
        let difference = compare_stream(&listed(true, &turned), &happened).unwrap();
        assert_eq!(
            difference,
            [
                "  on-add v1/pods a/1",
                "  on-update v1/pods a/1",
                "  on-add v1/pods a/2",
                "- { call: on-add, object: v1/pods a/1 }"
            ]
        );
        assert_eq!(compare_stream(&listed(false, &[]), &[]), None);
    }
}
