//! Strategic merge: a JSON merge in which lists of objects are merged by a key, with directives for what a merge cannot
//! express.
//!
//! The merge key of a list is found by field name, without schemas: enough for the built-in kinds, whose names agree.
//!
//! Source: apimachinery `util/strategicpatch/patch.go` and the `patchMergeKey` tags of `k8s.io/api`.

use serde_json::{Map, Value};

/// Lists that are merged by key. If several keys are given, the first that all patched elements have is used: `ports`
/// occurs in containers and in services.
const MERGE_KEYS: &[(&str, &[&str])] = &[
    ("addresses", &["type"]),
    ("conditions", &["type"]),
    ("containers", &["name"]),
    ("env", &["name"]),
    ("ephemeralContainers", &["name"]),
    ("hostAliases", &["ip"]),
    ("imagePullSecrets", &["name"]),
    ("initContainers", &["name"]),
    ("ownerReferences", &["uid"]),
    ("podIPs", &["ip"]),
    ("ports", &["containerPort", "port"]),
    ("resourceClaims", &["name"]),
    ("schedulingGates", &["name"]),
    ("secrets", &["name"]),
    ("topologySpreadConstraints", &["topologyKey"]),
    ("volumeDevices", &["devicePath"]),
    ("volumeMounts", &["mountPath"]),
    ("volumes", &["name"]),
];

/// Lists of scalars that are merged as sets.
const MERGED_SETS: &[&str] = &["finalizers"];

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const SET_ORDER: &str = "$setElementOrder/";
const DELETE_FROM_SET: &str = "$deleteFromPrimitiveList/";

/// Merges `patch` into `target`.
pub(super) fn merge(target: &mut Value, patch: &Value) {
    match (target.as_object_mut(), patch.as_object()) {
        (Some(target), Some(patch)) => merge_maps(target, patch),
        _ => *target = without_directives(patch),
    }
}

fn merge_maps(target: &mut Map<String, Value>, patch: &Map<String, Value>) {
    match patch.get(DIRECTIVE).and_then(Value::as_str) {
        Some("replace") => {
            target.clear();
        }
        Some("delete") => {
            target.clear();
            return;
        }
        _ => {}
    }
    if let Some(kept) = patch.get(RETAIN_KEYS).and_then(Value::as_array) {
        target.retain(|key, _| kept.iter().any(|candidate| candidate == key.as_str()));
    }
    for (key, value) in patch {
        if let Some(field) = key.strip_prefix(DELETE_FROM_SET) {
            delete_from_set(target.get_mut(field), value);
        } else if !key.starts_with('$') {
            merge_field(target, key, value);
        }
    }
    // Orders are applied last, when the lists have their elements.
    for (key, order) in patch {
        if let Some(field) = key.strip_prefix(SET_ORDER) {
            reorder(field, target.get_mut(field), order);
        }
    }
}

fn merge_field(target: &mut Map<String, Value>, key: &str, value: &Value) {
    match value {
        Value::Null => {
            target.remove(key);
        }
        Value::Object(patch) => match target.get_mut(key) {
            Some(Value::Object(found)) => merge_maps(found, patch),
            _ => {
                target.insert(key.to_owned(), without_directives(value));
            }
        },
        Value::Array(patch) => match target.get_mut(key) {
            Some(Value::Array(found)) => merge_lists(key, found, patch),
            _ => {
                target.insert(key.to_owned(), without_directives(value));
            }
        },
        _ => {
            target.insert(key.to_owned(), value.clone());
        }
    }
}

fn merge_lists(field: &str, target: &mut Vec<Value>, patch: &[Value]) {
    if MERGED_SETS.contains(&field) {
        let new: Vec<Value> = patch.iter().filter(|item| !target.contains(item)).cloned().collect();
        target.extend(new);
        return;
    }
    let replaces = patch.iter().any(|item| item[DIRECTIVE] == "replace");
    let Some(merge_key) = merge_key(field, patch).filter(|_| !replaces) else {
        *target = list_without_directives(patch);
        return;
    };
    for item in patch {
        let index = target
            .iter()
            .position(|candidate| candidate.get(merge_key) == item.get(merge_key));
        match (index, item[DIRECTIVE] == "delete") {
            (Some(index), true) => {
                target.remove(index);
            }
            (None, true) => {}
            (Some(index), false) => merge(&mut target[index], item),
            (None, false) => target.push(without_directives(item)),
        }
    }
}

fn merge_key(field: &str, elements: &[Value]) -> Option<&'static str> {
    let (_, keys) = MERGE_KEYS.iter().find(|(name, _)| *name == field)?;
    keys.iter()
        .copied()
        .find(|key| elements.iter().all(|element| element.get(key).is_some()))
}

fn delete_from_set(target: Option<&mut Value>, deleted: &Value) {
    if let (Some(Value::Array(target)), Some(deleted)) = (target, deleted.as_array()) {
        target.retain(|item| !deleted.contains(item));
    }
}

/// Sorts the elements that `order` names into its order; the others follow.
fn reorder(field: &str, target: Option<&mut Value>, order: &Value) {
    let (Some(Value::Array(target)), Some(order)) = (target, order.as_array()) else {
        return;
    };
    let index = |element: &Value| match merge_key(field, order) {
        Some(key) => order
            .iter()
            .position(|candidate| candidate.get(key) == element.get(key)),
        None => order.iter().position(|candidate| candidate == element),
    };
    target.sort_by_key(|element| index(element).unwrap_or(order.len()));
}

/// The value of a patch where there is nothing to merge it with.
fn without_directives(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .filter(|(key, value)| !key.starts_with('$') && !value.is_null())
                .map(|(key, value)| (key.clone(), without_directives(value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(list_without_directives(items)),
        scalar => scalar.clone(),
    }
}

fn list_without_directives(items: &[Value]) -> Vec<Value> {
    let is_directive = |item: &&Value| {
        item[DIRECTIVE] == "delete"
            || (item[DIRECTIVE] == "replace" && item.as_object().is_some_and(|it| it.len() == 1))
    };
    items
        .iter()
        .filter(|item| !is_directive(item))
        .map(without_directives)
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(mut target: Value, patch: &Value, expected: &Value) {
        merge(&mut target, patch);
        assert_eq!(&target, expected);
    }

    #[test]
    fn containers_merge_by_name_and_keep_unpatched_fields() {
        check(
            json!({ "spec": { "containers": [{ "name": "a", "image": "x:1", "args": ["1", "2"] }, { "name": "b" }] } }),
            &json!({ "spec": {
                "$setElementOrder/containers": [{ "name": "c" }, { "name": "a" }],
                "containers": [{ "name": "a", "image": "x:2" }, { "name": "c" }, { "name": "b", "$patch": "delete" }],
            } }),
            &json!({ "spec": { "containers": [{ "name": "c" }, { "name": "a", "image": "x:2", "args": ["1", "2"] }] } }),
        );
    }

    #[test]
    fn other_lists_are_replaced_and_null_removes() {
        check(
            json!({ "spec": { "args": ["1", "2"], "gone": 1 } }),
            &json!({ "spec": { "args": ["3"], "gone": null, "never-there": { "deeper": null } } }),
            &json!({ "spec": { "args": ["3"], "never-there": {} } }),
        );
    }

    #[test]
    fn sets_grow_and_shrink_by_directive() {
        check(
            json!({ "metadata": { "finalizers": ["a", "b"] } }),
            &json!({ "metadata": { "finalizers": ["b", "c"], "$deleteFromPrimitiveList/finalizers": ["a"] } }),
            &json!({ "metadata": { "finalizers": ["b", "c"] } }),
        );
    }

    #[test]
    fn replace_and_retain_keys_drop_what_they_do_not_name() {
        check(
            json!({ "strategy": { "type": "RollingUpdate", "rollingUpdate": {} }, "ports": [{ "port": 1 }] }),
            &json!({
                "strategy": { "$retainKeys": ["type"], "type": "Recreate" },
                "ports": [{ "$patch": "replace" }, { "port": 2 }],
            }),
            &json!({ "strategy": { "type": "Recreate" }, "ports": [{ "port": 2 }] }),
        );
    }
}
