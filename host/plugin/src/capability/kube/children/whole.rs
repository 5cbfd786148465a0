//! Objects of which everything is given: what an update makes of one that is there.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use informant_object::Object;
use serde_json::{Map, Value, json};

/// Kinds whose every field is data, so that nothing is lost that a server or another controller has set.
const KINDS: [&str; 6] = [
    "ConfigMap",
    "Secret",
    "Role",
    "RoleBinding",
    "ResourceQuota",
    "NetworkPolicy",
];

/// Members that an update keeps.
const KEPT: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];

const RBAC: &str = "rbac.authorization.k8s.io";

/// Brings `document` into the form in which the API server stores it, defaults included. Errors: its kind has fields of
/// others.
pub(super) fn normalize(kind: &str, document: &mut Map<String, Value>) -> Result<(), String> {
    if !KINDS.contains(&kind) {
        return Err(format!(
            "only {} can be set whole; let the fields of a {kind} be applied",
            KINDS.join(", ")
        ));
    }
    document.remove("status");
    match kind {
        "Secret" => normalize_secret(document)?,
        "RoleBinding" => normalize_role_binding(document),
        "NetworkPolicy" => normalize_network_policy(document),
        "ResourceQuota" => normalize_resource_quota(document),
        _ => {}
    }
    document.retain(|_, value| !is_empty(value));
    Ok(())
}

/// What an update of `present` sends, so that everything is as in `document`. None: it is.
pub(super) fn merged(present: &Object, document: Map<String, Value>) -> Option<Map<String, Value>> {
    let Ok(Value::Object(before)) = serde_json::from_slice(present.json()) else {
        return Some(document);
    };
    let mut after = before.clone();
    after.retain(|name, _| KEPT.contains(&&**name));
    for (name, value) in document {
        match &*name {
            "metadata" => merge_metadata(after.entry("metadata").or_insert_with(|| json!({})), value),
            _ => drop(after.insert(name, value)),
        }
    }
    let mut compared = before;
    compared.retain(|name, value| KEPT.contains(&&**name) || !is_empty(value));
    (after != compared).then_some(after)
}

/// Adds the members of metadata that are maps or lists of owners to those that are there; others' stay.
fn merge_metadata(into: &mut Value, wanted: Value) {
    let (Some(into), Value::Object(wanted)) = (into.as_object_mut(), wanted) else {
        return;
    };
    for (name, value) in wanted {
        match (into.get_mut(&name), value) {
            (Some(Value::Object(present)), Value::Object(more)) => present.extend(more),
            (Some(Value::Array(present)), Value::Array(more)) if name == "ownerReferences" => {
                for owner in more {
                    let same = present.iter_mut().find(|other| other["uid"] == owner["uid"]);
                    match same {
                        Some(same) => *same = owner,
                        None => present.push(owner),
                    }
                }
            }
            (Some(Value::Array(present)), Value::Array(more)) if name == "finalizers" => {
                let new: Vec<Value> = more.into_iter().filter(|one| !present.contains(one)).collect();
                present.extend(new);
            }
            (Some(_), _) => {}
            (_, value) => drop(into.insert(name, value)),
        }
    }
}

fn normalize_secret(document: &mut Map<String, Value>) -> Result<(), String> {
    let texts = document.remove("stringData").unwrap_or(Value::Null);
    if let Value::Object(texts) = texts {
        let data = document.entry("data").or_insert_with(|| json!({}));
        let Some(data) = data.as_object_mut() else {
            return Err("data is no object".to_owned());
        };
        for (name, text) in texts {
            let Some(text) = text.as_str() else {
                return Err(format!("stringData.{name} is no text"));
            };
            data.insert(name, STANDARD.encode(text).into());
        }
    }
    document.entry("type").or_insert_with(|| "Opaque".into());
    Ok(())
}

fn normalize_role_binding(document: &mut Map<String, Value>) {
    if let Some(role) = document.get_mut("roleRef").and_then(Value::as_object_mut) {
        role.entry("apiGroup").or_insert_with(|| RBAC.into());
    }
    let subjects = document.get_mut("subjects").and_then(Value::as_array_mut);
    for subject in subjects.into_iter().flatten().filter_map(Value::as_object_mut) {
        let is_of_group = subject.get("kind").is_some_and(|kind| kind != "ServiceAccount");
        match is_of_group {
            true => drop(subject.entry("apiGroup").or_insert_with(|| RBAC.into())),
            false if subject.get("apiGroup").is_some_and(is_empty) => drop(subject.remove("apiGroup")),
            false => {}
        }
    }
}

fn normalize_network_policy(document: &mut Map<String, Value>) {
    let Some(spec) = document.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    let has_egress = spec.get("egress").is_some_and(|egress| !is_empty(egress));
    let types = if has_egress {
        json!(["Ingress", "Egress"])
    } else {
        json!(["Ingress"])
    };
    spec.entry("policyTypes").or_insert(types);
    let rules = ["ingress", "egress"].map(|name| spec.get(name).and_then(Value::as_array).cloned());
    for (name, rules) in ["ingress", "egress"].into_iter().zip(rules) {
        let Some(mut rules) = rules else { continue };
        let ports = rules
            .iter_mut()
            .filter_map(|rule| rule.get_mut("ports")?.as_array_mut())
            .flatten();
        for port in ports.filter_map(Value::as_object_mut) {
            port.entry("protocol").or_insert_with(|| "TCP".into());
        }
        spec.insert(name.to_owned(), rules.into());
    }
}

/// Quantities are texts.
fn normalize_resource_quota(document: &mut Map<String, Value>) {
    let hard = document
        .get_mut("spec")
        .and_then(|spec| spec.get_mut("hard")?.as_object_mut());
    for quantity in hard.into_iter().flat_map(|hard| hard.values_mut()) {
        if let Value::Number(number) = quantity {
            *quantity = number.to_string().into();
        }
    }
}

/// What the API server leaves out.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use informant_object::Shape;

    use super::*;

    fn object(document: Value) -> Object {
        let (version, kind) = (
            document["apiVersion"].as_str().unwrap(),
            document["kind"].as_str().unwrap(),
        );
        Object::parse(document.to_string().as_bytes(), &Shape::of(version, kind)).unwrap()
    }

    fn members(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    /// What an update sends to make a present object as it is wanted, if it is not.
    fn update(present: Value, wanted: Value) -> Option<Value> {
        let kind = wanted["kind"].as_str().unwrap().to_owned();
        let mut wanted = members(wanted);
        normalize(&kind, &mut wanted).unwrap();
        merged(&object(present), wanted).map(Value::Object)
    }

    #[test]
    fn what_others_have_added_is_removed_but_their_metadata_stays() {
        let present = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "a", "namespace": "web", "uid": "u", "resourceVersion": "7",
                "labels": { "theirs": "1", "ours": "old" } },
            "data": { "ours": "1", "theirs": "2" }, "binaryData": { "x": "eA==" },
        });
        let wanted = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "a", "namespace": "web", "labels": { "ours": "new" } },
            "data": { "ours": "1" },
        });
        let sent = update(present, wanted.clone()).unwrap();
        assert_eq!(sent["data"], json!({ "ours": "1" }));
        assert!(sent.get("binaryData").is_none());
        assert_eq!(sent["metadata"]["labels"], json!({ "theirs": "1", "ours": "new" }));
        assert_eq!(sent["metadata"]["resourceVersion"], "7");
        assert_eq!(update(sent, wanted), None);
    }

    #[test]
    fn defaults_of_the_server_are_no_difference() {
        let name = json!({ "name": "a", "namespace": "web" });
        for (wanted, stored) in [
            (
                json!({ "apiVersion": "v1", "kind": "Secret", "metadata": name, "stringData": { "a": "b" } }),
                json!({ "apiVersion": "v1", "kind": "Secret", "metadata": name, "type": "Opaque", "data": { "a": "Yg==" } }),
            ),
            (
                json!({ "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": name,
                    "spec": { "podSelector": {} } }),
                json!({ "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": name,
                    "spec": { "podSelector": {}, "policyTypes": ["Ingress"] } }),
            ),
            (
                json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": name,
                    "roleRef": { "kind": "ClusterRole", "name": "edit" },
                    "subjects": [{ "kind": "Group", "name": "team" }, { "kind": "ServiceAccount", "name": "x", "namespace": "web" }] }),
                json!({ "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": name,
                    "roleRef": { "apiGroup": RBAC, "kind": "ClusterRole", "name": "edit" },
                    "subjects": [{ "apiGroup": RBAC, "kind": "Group", "name": "team" },
                        { "kind": "ServiceAccount", "name": "x", "namespace": "web" }] }),
            ),
        ] {
            assert_eq!(update(stored, wanted.clone()), None, "{wanted}");
        }
    }

    #[test]
    fn kinds_with_fields_of_others_are_not_set_whole() {
        let refused = normalize("Deployment", &mut Map::new()).unwrap_err();
        insta::assert_snapshot!(refused, @"only ConfigMap, Secret, Role, RoleBinding, ResourceQuota, NetworkPolicy can be set whole; let the fields of a Deployment be applied");
    }
}
