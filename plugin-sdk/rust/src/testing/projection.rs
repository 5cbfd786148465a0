//! Projects an object to the fields that a plugin receives, as Informant does: in the shape of the object, always with
//! apiVersion and kind.

use serde_json::{Map, Value};

use crate::manifest::PayloadKind;

/// The object projected to a payload.
pub(super) fn payload(object: &Value, payload: &PayloadKind) -> Value {
    match payload {
        PayloadKind::Whole => object.clone(),
        PayloadKind::Metadata => project(object, &["/metadata".to_owned()]),
        PayloadKind::Fields(pointers) => project(object, pointers),
        PayloadKind::None => Value::Null,
    }
}

/// As [`payload`], in the form in which a plugin receives it.
pub(super) fn document(object: &Value, kind: &PayloadKind) -> Vec<u8> {
    match kind {
        PayloadKind::None => Vec::new(),
        _ => payload(object, kind).to_string().into_bytes(),
    }
}

/// The object with only the fields at these JSON pointers.
pub(super) fn project(object: &Value, pointers: &[String]) -> Value {
    let mut paths: Vec<Vec<String>> = vec![vec!["apiVersion".to_owned()], vec!["kind".to_owned()]];
    let token = |token: &str| token.replace("~1", "/").replace("~0", "~");
    paths.extend(
        pointers
            .iter()
            .map(|pointer| pointer.split('/').skip(1).map(token).collect()),
    );
    let paths: Vec<&[String]> = paths.iter().map(Vec::as_slice).collect();
    cut(object, &paths).unwrap_or(Value::Null)
}

/// The texts, numbers and booleans at a JSON pointer, as texts: the values of an index of config.toml.
pub(super) fn values_at(object: &Value, pointer: &str) -> Vec<String> {
    let below = |value: &Value, token: &str| -> Vec<Value> {
        match value {
            Value::Object(members) if token == "*" => members.values().cloned().collect(),
            Value::Array(elements) if token == "*" => elements.clone(),
            value => value.pointer(&format!("/{token}")).cloned().into_iter().collect(),
        }
    };
    let tokens = pointer.split('/').skip(1);
    let found = tokens.fold(vec![object.clone()], |found, token| {
        found.iter().flat_map(|value| below(value, token)).collect()
    });
    let text = |value: Value| match value {
        Value::String(text) => Some(text),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    };
    found.into_iter().filter_map(text).collect()
}

/// `value` projected to `paths`. `None` if no path leads through it, or if it is a scalar and every path leads deeper.
fn cut(value: &Value, paths: &[&[String]]) -> Option<Value> {
    if paths.iter().any(|path| path.is_empty()) {
        return Some(value.clone());
    }
    let below = |name: &str| -> Vec<&[String]> {
        paths
            .iter()
            .filter_map(|path| path.split_first().filter(|(first, _)| *first == "*" || *first == name))
            .map(|(_, rest)| rest)
            .collect()
    };
    match value {
        _ if paths.is_empty() => None,
        Value::Object(members) => {
            let shown = members
                .iter()
                .filter_map(|(name, member)| Some((name.clone(), cut(member, &below(name))?)));
            Some(Value::Object(shown.collect()))
        }
        // Elements keep their positions, so that a struct for the whole list also matches this one.
        Value::Array(elements) => {
            let element = |(position, element): (usize, &Value)| {
                cut(element, &below(&position.to_string())).unwrap_or_else(|| empty(element))
            };
            Some(Value::Array(elements.iter().enumerate().map(element).collect()))
        }
        _ => None,
    }
}

/// The placeholder for an element without projected fields.
fn empty(element: &Value) -> Value {
    match element {
        Value::Object(_) => Value::Object(Map::new()),
        Value::Array(_) => Value::Array(Vec::new()),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(pointers: &[&str], expected: Value) {
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": { "name": "web-0", "annotations": { "a/b": "c", "d": "e" } },
            "spec": { "containers": [{ "name": "a", "image": "x" }, { "name": "b" }], "nodeName": "n" },
        });
        let pointers: Vec<String> = pointers.iter().map(ToString::to_string).collect();
        assert_eq!(project(&pod, &pointers), expected);
    }

    #[test]
    fn only_requested_fields_are_projected_and_absent_ones_left_out() {
        check(
            &["/spec/nodeName", "/status/phase", "/spec/volumes/*/name"],
            json!({ "apiVersion": "v1", "kind": "Pod", "spec": { "nodeName": "n" } }),
        );
    }

    #[test]
    fn a_star_matches_every_element_and_elements_keep_positions() {
        check(
            &["/spec/containers/*/image"],
            json!({ "apiVersion": "v1", "kind": "Pod", "spec": { "containers": [{ "image": "x" }, {}] } }),
        );
        check(
            &["/spec/containers/1/name"],
            json!({ "apiVersion": "v1", "kind": "Pod", "spec": { "containers": [{}, { "name": "b" }] } }),
        );
    }

    #[test]
    fn an_index_has_the_scalars_at_its_pointer() {
        let object = json!({ "a": [{ "b~/c": "x" }, { "b~/c": 1 }, { "b~/c": [] }, { "d": "y" }], "e": { "f": true } });
        assert_eq!(values_at(&object, "/a/*/b~0~1c"), ["x", "1"]);
        assert_eq!(values_at(&object, "/a/3/*"), ["y"]);
        assert_eq!(values_at(&object, "/e/f"), ["true"]);
        assert!(values_at(&object, "/e/f/g").is_empty());
    }

    #[test]
    fn a_slash_in_a_name_is_written_tilde_1() {
        check(
            &["/metadata/annotations/a~1b"],
            json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "annotations": { "a/b": "c" } } }),
        );
    }
}
