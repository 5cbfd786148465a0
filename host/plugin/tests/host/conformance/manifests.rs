//! The manifests of all languages are one document, without the members that the schema's defaults stand for: an older
//! Informant refuses members that it does not know.

use std::path::Path;

use informant_plugin_host::MANIFEST_SCHEMA;
use serde_json::{Value, json};

use super::{every_language, every_reconciler, table};
use crate::kube::Cluster;
use crate::world::World;

/// What every SDK writes for the plugin of the kit, besides its name and version: Rust takes those of the crate. It has
/// all roles, and receives all events, whole.
fn expected() -> Value {
    json!({
        "parallel": true,
        "indexes": { "names": ["text"], "objects": [{ "apiVersion": "*", "kind": "*" }] },
        "metrics": [
            { "name": "seen", "type": "counter", "help": "Seen texts", "labels": ["text"] },
            { "name": "bytes", "type": "gauge", "help": "Bytes of the last text" },
            { "name": "sizes", "type": "histogram", "help": "Bytes of texts", "buckets": [2.0, 4.0] },
            { "name": "last", "type": "gauge", "help": "The last object", "labels": ["name"] },
        ],
    })
}

/// The defaults of members, by the name of the member: no name has two.
fn defaults(schema: &Value, found: &mut Vec<(String, Value)>) {
    if let Value::Object(members) = schema {
        let properties = members.get("properties").and_then(Value::as_object);
        for (name, property) in properties.into_iter().flatten() {
            if let Some(default) = property.get("default") {
                found.push((name.clone(), default.clone()));
            }
        }
    }
    match schema {
        Value::Object(members) => members.values().for_each(|value| defaults(value, found)),
        Value::Array(items) => items.iter().for_each(|value| defaults(value, found)),
        _ => {}
    }
}

/// Numbers as one type: `2` and `2.0` are the same.
fn normalized(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(normalized).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name.clone(), normalized(value)))
            .collect(),
        other => other.clone(),
    }
}

/// The same of the plugin that reconciles.
fn expected_of_reconciler() -> Value {
    json!({
        "reconciler": {
            "for": { "apiVersion": "v1", "kind": "Pod", "when": ["/spec", "/metadata/annotations"] },
            "owns": [{ "apiVersion": "v1", "kind": "ConfigMap" }],
        },
        "timers": [{ "name": "poll", "every": "10s" }, { "name": "fails", "every": "1h" }],
        "needs": [{ "events": {} }],
    })
}

/// Compares the manifest of a guest. Components that export every role list those that they play.
async fn check(guest: &Path, expected: &Value, roles: &Value) {
    let world = World::for_conformance(Cluster::answering(Some(0)));
    let document = world.inspect(guest, json!({})).await.unwrap().document;
    let mut manifest: Value = serde_json::from_slice(&document).unwrap();
    for name in ["name", "version"] {
        let removed = manifest.as_object_mut().unwrap().remove(name);
        assert!(removed.is_some_and(|text| text.is_string()), "{name}");
    }
    if let Some(played) = manifest.as_object_mut().unwrap().remove("roles") {
        assert_eq!(played, *roles, "{}", guest.display());
    }
    assert_eq!(normalized(&manifest), normalized(expected), "{}", guest.display());
}

#[tokio::test(start_paused = true)]
async fn every_sdk_writes_the_same_minimal_manifest() {
    let roles = json!(["event-handler", "sync-handler", "index-funcs", "state"]);
    every_language(table::MANIFEST, async |guest| check(guest, &expected(), &roles).await).await;
    let roles = json!(["reconciler", "timer-handler"]);
    every_reconciler(table::RECONCILER_MANIFEST, async |guest| {
        check(guest, &expected_of_reconciler(), &roles).await;
    })
    .await;
}

/// Members at their default are found: here and in [`expected`], whose members have none.
#[test]
fn the_minimal_manifest_has_no_member_at_its_default() {
    let mut known = Vec::new();
    defaults(&serde_json::from_str(MANIFEST_SCHEMA).unwrap(), &mut known);
    let names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
    assert!(names.contains(&"payload") && names.contains(&"parallel"), "{names:?}");
    let text = format!("{}{}", expected(), expected_of_reconciler());
    for (name, default) in &known {
        assert!(!text.contains(&format!("\"{name}\":{default}")), "{name} is {default}");
    }
}
