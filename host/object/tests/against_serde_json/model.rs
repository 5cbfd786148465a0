//! Naive models of head, cuts, pointers and projections over a tree of values.

use informant_object::{Pointer, PointerToken};
use serde_json::{Map, Value};

/// The expected head; `None` if the object must be refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) version: String,
}

pub(crate) fn head(object: &Value) -> Option<Head> {
    let metadata = object.get("metadata")?.as_object()?;
    let field = |name: &str| match metadata.get(name) {
        None | Some(Value::Null) => Some(String::new()),
        Some(Value::String(text)) => Some(text.clone()),
        Some(_) => None,
    };
    let type_meta = ["apiVersion", "kind"].map(|name| object.get(name).unwrap_or(&Value::Null));
    let typed = type_meta.into_iter().all(|value| value.is_null() || value.is_string());
    let head = Head {
        namespace: field("namespace")?,
        name: field("name")?,
        uid: field("uid")?,
        version: field("resourceVersion")?,
    };
    (typed && !head.name.is_empty()).then_some(head)
}

/// The expected object after parsing.
pub(crate) fn shaped(
    object: &Value,
    api_version: &str,
    kind: &str,
    drop: &[Pointer],
    keep_managed_fields: bool,
) -> Value {
    let mut object = object.clone();
    for (name, value) in [("apiVersion", api_version), ("kind", kind)] {
        let absent = object.get(name).is_none_or(|own| own.is_null() || own == "");
        if absent && !value.is_empty() {
            object[name] = Value::from(value);
        }
    }
    if !keep_managed_fields {
        object["metadata"]
            .as_object_mut()
            .expect("it has a head")
            .remove("managedFields");
    }
    let tokens: Vec<&[PointerToken]> = drop.iter().map(Pointer::tokens).collect();
    cut(&object, &tokens).expect("an object is not cut whole")
}

/// Stands for any digest.
const DIGEST: &str = "a digest";

/// The object with digests for the values at `pointers`.
pub(crate) fn digested(object: &Value, pointers: &[Pointer]) -> Value {
    let tokens: Vec<&[PointerToken]> = pointers.iter().map(Pointer::tokens).collect();
    digest(object, &tokens)
}

fn digest(value: &Value, pointers: &[&[PointerToken]]) -> Value {
    if pointers.iter().any(|tokens| tokens.is_empty()) {
        return Value::from(DIGEST);
    }
    match value {
        Value::Object(members) => {
            let members = members.iter();
            let digested = members.map(|(name, value)| (name.clone(), digest(value, &below(pointers, name))));
            Value::Object(digested.collect())
        }
        Value::Array(elements) => {
            let elements = elements.iter().enumerate();
            elements
                .map(|(index, value)| digest(value, &below(pointers, &index.to_string())))
                .collect()
        }
        scalar => scalar.clone(),
    }
}

/// The value with [`DIGEST`] for each hash.
pub(crate) fn without_hashes(value: Value) -> Value {
    let is_hash = |text: &str| text.len() == 39 && text.starts_with("sha256:");
    match value {
        Value::String(text) if is_hash(&text) => Value::from(DIGEST),
        Value::Object(members) => {
            let members = members.into_iter().map(|(name, value)| (name, without_hashes(value)));
            Value::Object(members.collect())
        }
        Value::Array(elements) => elements.into_iter().map(without_hashes).collect(),
        other => other,
    }
}

/// The rest of `value` after cutting; `None` if nothing is left.
fn cut(value: &Value, pointers: &[&[PointerToken]]) -> Option<Value> {
    if pointers.iter().any(|tokens| tokens.is_empty()) {
        return None;
    }
    Some(match value {
        Value::Object(members) => {
            let kept = members
                .iter()
                .filter_map(|(name, value)| Some((name.clone(), cut(value, &below(pointers, name))?)));
            Value::Object(kept.collect())
        }
        Value::Array(elements) => {
            let kept = elements.iter().enumerate();
            kept.filter_map(|(index, value)| cut(value, &below(pointers, &index.to_string())))
                .collect()
        }
        scalar => scalar.clone(),
    })
}

/// The pointers that continue below a member or, by its index, an element.
fn below<'p>(pointers: &[&'p [PointerToken]], name: &str) -> Vec<&'p [PointerToken]> {
    let matching = pointers.iter().filter(|tokens| tokens[0].matches(name));
    matching.map(|tokens| &tokens[1..]).collect()
}

/// The scalars at a pointer.
pub(crate) fn values<'v>(value: &'v Value, tokens: &[PointerToken], found: &mut Vec<&'v Value>) {
    let Some((token, rest)) = tokens.split_first() else {
        if !value.is_null() && !value.is_object() && !value.is_array() {
            found.push(value);
        }
        return;
    };
    match value {
        Value::Object(members) => {
            members
                .iter()
                .filter(|(name, _)| token.matches(name))
                .for_each(|(_, value)| values(value, rest, found));
        }
        Value::Array(elements) => {
            let elements = elements
                .iter()
                .enumerate()
                .filter(|(index, _)| token.matches(&index.to_string()));
            elements.for_each(|(_, value)| values(value, rest, found));
        }
        _ => {}
    }
}

/// The part of an object that a projection includes.
pub(crate) fn projected(object: &Value, pointers: &[Pointer]) -> Value {
    let type_meta = ["/apiVersion", "/kind"].map(|text| Pointer::parse(text).expect("a pointer"));
    let tokens: Vec<&[PointerToken]> = pointers.iter().chain(&type_meta).map(Pointer::tokens).collect();
    show(object, &tokens).expect("an object is shown")
}

/// The included part of a value on the path of some pointers; `None` if it is a scalar before their end.
fn show(value: &Value, pointers: &[&[PointerToken]]) -> Option<Value> {
    if pointers.iter().any(|tokens| tokens.is_empty()) {
        return Some(value.clone());
    }
    match value {
        Value::Object(members) => {
            let mut shown = Map::new();
            for (name, value) in members {
                let pointers = below(pointers, name);
                if !pointers.is_empty() {
                    shown.extend(show(value, &pointers).map(|value| (name.clone(), value)));
                }
            }
            Some(Value::Object(shown))
        }
        Value::Array(elements) => Some(
            elements
                .iter()
                .enumerate()
                .map(|(index, value)| element(value, index, pointers))
                .collect(),
        ),
        _ => None,
    }
}

fn element(value: &Value, index: usize, pointers: &[&[PointerToken]]) -> Value {
    let pointers = below(pointers, &index.to_string());
    let shown = if pointers.is_empty() {
        None
    } else {
        show(value, &pointers)
    };
    shown.unwrap_or_else(|| match value {
        Value::Object(_) => Value::Object(Map::new()),
        Value::Array(_) => Value::Array(Vec::new()),
        _ => Value::Null,
    })
}
