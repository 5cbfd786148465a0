//! Whether a write would leave an object as it is in the cache. When in doubt, it would not.

use informant_object::{Object, Pointer, Shape};
use serde_json::{Map, Value};

/// Maps that the API server removes when they are empty: to remove an entry of an absent one changes nothing.
const EMPTY_IS_ABSENT: [&[&str]; 2] = [&["metadata", "labels"], &["metadata", "annotations"]];

/// Whether the merge patch `patch` (RFC 7386) leaves `object` of a source with `shape` as it is. False if it touches a
/// field that the source does not keep.
pub(super) fn by_merge(patch: &[u8], object: &Object, shape: &Shape) -> bool {
    let (Ok(Value::Object(patch)), Ok(Value::Object(object))) =
        (serde_json::from_slice(patch), serde_json::from_slice(object.json()))
    else {
        return false;
    };
    let mut path = Vec::new();
    merge_keeps(&patch, Some(&object), shape, &mut path)
}

/// Whether replacing `object` of a source with `shape` by `document` leaves it as it is. False if the source does not
/// keep all fields but managedFields, which an update may leave out.
pub(super) fn by_update(document: &[u8], object: &Object, shape: &Shape) -> bool {
    if !shape.drop.is_empty() || !shape.digest.is_empty() || shape.is_metadata_only() {
        return false;
    }
    let (Ok(mut document), Ok(mut object)) = (
        serde_json::from_slice::<Value>(document),
        serde_json::from_slice::<Value>(object.json()),
    ) else {
        return false;
    };
    for value in [&mut document, &mut object] {
        let metadata = value.get_mut("metadata").and_then(Value::as_object_mut);
        metadata.map(|metadata| metadata.remove("managedFields"));
    }
    document == object
}

fn merge_keeps<'p>(
    patch: &'p Map<String, Value>,
    object: Option<&Map<String, Value>>,
    shape: &Shape,
    path: &mut Vec<&'p str>,
) -> bool {
    patch.iter().all(|(name, wanted)| {
        path.push(name);
        let present = object.and_then(|object| object.get(name));
        let keeps = match (wanted, present) {
            (Value::Object(wanted), Some(Value::Object(present))) => merge_keeps(wanted, Some(present), shape, path),
            (Value::Object(wanted), None) => {
                let only_removes = wanted.values().all(Value::is_null);
                only_removes && EMPTY_IS_ABSENT.contains(&path.as_slice()) && merge_keeps(wanted, None, shape, path)
            }
            (Value::Null, present) => present.is_none() && is_kept(path, shape),
            (wanted, present) => present == Some(wanted) && is_kept(path, shape),
        };
        path.pop();
        keeps
    })
}

/// Whether a source with `shape` keeps all of the value at `path`.
fn is_kept(path: &[&str], shape: &Shape) -> bool {
    let is_cut = shape.is_metadata_only() && !matches!(path, ["apiVersion" | "kind" | "metadata", ..]);
    let is_managed = !shape.keep_managed_fields && matches!(path, ["metadata"] | ["metadata", "managedFields", ..]);
    // One of the two is above the other, or they are the same.
    let touches = |cut: &Pointer| cut.tokens().iter().zip(path).all(|(token, name)| token.matches(name));
    !is_cut && !is_managed && !shape.drop.iter().chain(&shape.digest).any(touches)
}

#[cfg(test)]
mod tests {
    use informant_object::Shape;

    use super::*;

    const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","uid":"u","resourceVersion":"7",
        "labels":{"app":"web"}},"spec":{"nodeName":"n1","tolerations":[{"key":"x"}]}}"#;

    fn keeps(patch: &str, drop: &[&str]) -> bool {
        let drop = drop.iter().map(|text| Pointer::parse(text).unwrap()).collect();
        let shape = Shape::new("v1", "Pod", drop, false).unwrap();
        let object = Object::parse(POD.as_bytes(), &shape).unwrap();
        by_merge(patch.as_bytes(), &object, &shape)
    }

    #[test]
    fn a_merge_patch_of_present_values_changes_nothing() {
        for patch in [
            "{}",
            r#"{"metadata":{"labels":{"app":"web"}}}"#,
            r#"{"metadata":{"uid":"u","labels":{"app":"web","tier":null}}}"#,
            r#"{"metadata":{"resourceVersion":"7"},"spec":{"tolerations":[{"key":"x"}]}}"#,
            r#"{"metadata":{"annotations":{"gone":null}}}"#,
            r#"{"spec":{"hostname":null}}"#,
        ] {
            assert!(keeps(patch, &[]), "{patch}");
        }
        for patch in [
            r#"{"metadata":{"labels":{"app":"db"}}}"#,
            r#"{"metadata":{"labels":{"app":null}}}"#,
            r#"{"metadata":{"resourceVersion":"6"}}"#,
            r#"{"metadata":{"annotations":{"new":"1"}}}"#,
            r#"{"metadata":{"annotations":{}}, "spec":{"affinity":{}}}"#,
            r#"{"metadata":{"managedFields":null}}"#,
            r#"{"spec":{"tolerations":[]}}"#,
            r#"{"spec":null}"#,
            "[]",
        ] {
            assert!(!keeps(patch, &[]), "{patch}");
        }
    }

    #[test]
    fn a_merge_patch_of_a_dropped_field_is_never_unchanged() {
        for (patch, drop, is_kept) in [
            (r#"{"spec":{"hostname":null}}"#, "/spec/hostname", false),
            (r#"{"spec":{"hostname":{"a":null}}}"#, "/spec/hostname", false),
            (r#"{"spec":{"hostname":null}}"#, "/spec", false),
            (r#"{"status":null}"#, "/status/conditions", false),
            (
                r#"{"spec":{"tolerations":[{"key":"x"}]}}"#,
                "/spec/tolerations/*/value",
                false,
            ),
            (r#"{"spec":{"nodeName":"n1"}}"#, "/spec/hostname", true),
        ] {
            assert_eq!(keeps(patch, &[drop]), is_kept, "{patch} {drop}");
        }
    }

    #[test]
    fn an_update_is_unchanged_only_if_all_is_equal() {
        let shape = Shape::of("v1", "Pod");
        let object = Object::parse(POD.as_bytes(), &shape).unwrap();
        assert!(by_update(POD.as_bytes(), &object, &shape));
        let other = POD.replace("n1", "n2");
        assert!(!by_update(other.as_bytes(), &object, &shape));
        let older = POD.replace("\"7\"", "\"6\"");
        assert!(!by_update(older.as_bytes(), &object, &shape));
        let drop = vec![Pointer::parse("/status").unwrap()];
        let shape = Shape::new("v1", "Pod", drop, false).unwrap();
        assert!(!by_update(POD.as_bytes(), &object, &shape));
    }
}
