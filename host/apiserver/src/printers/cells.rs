//! Cell values and their formats.

use std::borrow::Borrow;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::duration;

pub(super) const NONE: &str = "<none>";
pub(super) const UNSET: &str = "<unset>";
pub(super) const UNKNOWN: &str = "<unknown>";

/// How wide the addresses of a load balancer may be (`loadBalancerWidth`).
const ADDRESSES_CHARS_MAX: usize = 16;

/// How long ago an RFC 3339 time was, in kubectl's format.
pub(crate) fn since(time: &str, now_unix_seconds: i64) -> String {
    match time.parse::<Timestamp>() {
        Ok(time) => duration::human(now_unix_seconds.saturating_sub(time.as_second())),
        Err(_) => UNKNOWN.to_owned(),
    }
}

/// The duration from one time to another, or until now.
pub(super) fn between(from: &Value, to: &Value, now_unix_seconds: i64) -> String {
    let second = |value: &Value| value.as_str()?.parse::<Timestamp>().ok().map(Timestamp::as_second);
    match second(from) {
        Some(from) => duration::human(second(to).unwrap_or(now_unix_seconds).saturating_sub(from)),
        None => String::new(),
    }
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(super) fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn entries(value: &Value) -> usize {
    value.as_object().map_or(0, serde_json::Map::len)
}

/// A number; zero if absent.
pub(super) fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

pub(super) fn or<'a>(value: &'a Value, otherwise: &'a str) -> &'a str {
    value.as_str().filter(|text| !text.is_empty()).unwrap_or(otherwise)
}

/// A text; empty if absent.
pub(super) fn plain(value: &Value) -> Value {
    json!(text(value))
}

/// A number; zero if absent.
pub(super) fn count(value: &Value) -> Value {
    json!(number(value))
}

/// A label selector.
pub(super) fn selecting(value: &Value) -> Value {
    json!(selector(value))
}

/// Labels.
pub(super) fn labelled(value: &Value) -> Value {
    json!(labels(value))
}

pub(super) fn or_none(value: &Value) -> Value {
    json!(or(value, NONE))
}

pub(super) fn name(object: &Value, _: i64) -> Value {
    json!(text(&object["metadata"]["name"]))
}

/// A name, marked if an annotation makes it the default.
pub(super) fn name_or_default(object: &Value, annotation: &str) -> Value {
    let name = text(&object["metadata"]["name"]);
    if object["metadata"]["annotations"][annotation] == "true" {
        json!(format!("{name} (default)"))
    } else {
        json!(name)
    }
}

pub(super) fn age(object: &Value, now: i64) -> Value {
    json!(since(text(&object["metadata"]["creationTimestamp"]), now))
}

pub(super) fn is_deleted(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// The status of a condition, if there is one.
pub(super) fn condition<'a>(conditions: &'a Value, type_: &str) -> Option<&'a str> {
    let found = items(conditions).iter().find(|condition| condition["type"] == type_)?;
    found["status"].as_str()
}

/// A field of each element, joined by commas.
pub(super) fn each(list: &Value, field: &str) -> String {
    let fields: Vec<&str> = items(list).iter().map(|item| text(&item[field])).collect();
    fields.join(",")
}

/// Labels as `a=b,c=d`; `<none>` without any.
pub fn labels(labels: &Value) -> String {
    let labels = labels.as_object().into_iter().flatten();
    let terms: Vec<String> = labels.map(|(key, value)| format!("{key}={}", text(value))).collect();
    joined(&terms)
}

/// The terms with commas; `<none>` without any.
pub(super) fn joined<T: Borrow<str>>(terms: &[T]) -> String {
    match terms {
        [] => NONE.to_owned(),
        terms => terms.join(","),
    }
}

/// A label selector as text. Source: apimachinery `meta/v1.FormatLabelSelector`.
pub(super) fn selector(selector: &Value) -> String {
    let mut terms: Vec<(String, String)> = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        terms.push((key.clone(), format!("{key}={}", text(value))));
    }
    for expression in items(&selector["matchExpressions"]) {
        let key = text(&expression["key"]);
        let mut values: Vec<&str> = items(&expression["values"]).iter().map(text).collect();
        values.sort_unstable();
        let values = values.join(",");
        let term = match text(&expression["operator"]) {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        terms.push((key.to_owned(), term));
    }
    terms.sort();
    let terms: Vec<String> = terms.into_iter().map(|(_, term)| term).collect();
    joined(&terms)
}

/// The addresses in a load balancer's status, sorted, truncated if too wide.
pub(super) fn addresses(status: &Value) -> String {
    let address = |ingress: &Value| or(&ingress["ip"], text(&ingress["hostname"])).to_owned();
    let mut addresses: Vec<String> = items(&status["loadBalancer"]["ingress"]).iter().map(address).collect();
    addresses.sort();
    addresses.dedup();
    let joined = addresses.join(",");
    if joined.len() > ADDRESSES_CHARS_MAX {
        let kept: String = joined.chars().take(ADDRESSES_CHARS_MAX - 3).collect();
        format!("{kept}...")
    } else {
        joined
    }
}
