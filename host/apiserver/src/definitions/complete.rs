//! What the API server and its controllers add to a definition: default names and a status.
//!
//! Source: apiextensions-apiserver `pkg/apis/apiextensions/v1/defaults.go` and
//! `pkg/controller/status/naming_controller.go`.

use serde_json::{Value, json};

/// Fills in names, the conversion and the status. `conflict` is another resource that has one of the
/// names. Parts of the old status that still hold are kept.
pub(crate) fn complete(object: &mut Value, now: &str, conflict: Option<&str>) {
    let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else {
        return;
    };
    if spec["names"].is_object() {
        let kind = spec["names"]["kind"].as_str().unwrap_or_default().to_owned();
        let names = &mut spec["names"];
        default(names, "singular", json!(kind.to_lowercase()));
        default(names, "listKind", json!(format!("{kind}List")));
    }
    default(spec, "conversion", json!({ "strategy": "None" }));
    let names = spec["names"].clone();
    let storage = storage_version(spec);
    if !object["status"].is_object() {
        object["status"] = json!({});
    }
    let status = &mut object["status"];
    let accepted = match conflict {
        None => ("True", "NoConflicts", "no conflicts found".to_owned()),
        Some(conflict) => (
            "False",
            "NamesConflict",
            format!("its names are already in use by {conflict}"),
        ),
    };
    let established = match conflict {
        None => (
            "True",
            "InitialNamesAccepted",
            "the initial names have been accepted".to_owned(),
        ),
        Some(_) => ("False", "NotAccepted", "not all names are accepted".to_owned()),
    };
    if conflict.is_none() {
        status["acceptedNames"] = names;
    } else {
        default(status, "acceptedNames", json!({ "kind": "", "plural": "" }));
    }
    condition(status, "NamesAccepted", &accepted, now);
    condition(status, "Established", &established, now);
    default(status, "storedVersions", json!([]));
    if let Some(versions) = status["storedVersions"].as_array_mut()
        && !versions.contains(&storage)
    {
        versions.push(storage);
    }
}

fn default(map: &mut Value, key: &str, value: Value) {
    if map[key].as_str().is_some_and(str::is_empty) || map[key].is_null() {
        map[key] = value;
    }
}

fn storage_version(spec: &Value) -> Value {
    let versions = spec["versions"].as_array().into_iter().flatten();
    let storage = versions.into_iter().find(|version| version["storage"] == true);
    storage.map_or(Value::Null, |version| version["name"].clone())
}

/// Sets a condition; its transition time changes only with its status.
fn condition(status: &mut Value, type_: &str, (value, reason, message): &(&str, &str, String), now: &str) {
    let condition = json!({
        "lastTransitionTime": now, "message": message, "reason": reason, "status": value, "type": type_,
    });
    default(status, "conditions", json!([]));
    let Some(conditions) = status["conditions"].as_array_mut() else {
        return;
    };
    match conditions.iter_mut().find(|condition| condition["type"] == type_) {
        Some(found) if found["status"] == *value => {}
        Some(found) => *found = condition,
        None => conditions.push(condition),
    }
}
