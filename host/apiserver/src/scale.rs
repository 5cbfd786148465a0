//! The scale subresource: `spec.replicas` of workloads, or the paths of a definition, as `kubectl scale` reads and
//! writes it.

use serde_json::{Value, json};

use crate::kinds::Kind;
use crate::patch::Patch;
use crate::status::{FieldError, Status};
use crate::stored::Stored;

/// The kind of the subresource, for discovery.
pub(crate) const GROUP: &str = "autoscaling";
pub(crate) const VERSION: &str = "v1";
pub(crate) const KIND: &str = "Scale";

pub(crate) fn of(kind: &Kind, object: &Stored) -> Value {
    let value = object.value();
    let replicas = |pointer: &str| value.pointer(pointer).and_then(Value::as_i64).unwrap_or(0);
    let custom = kind.custom_version.as_ref().and_then(|version| version.scale.as_ref());
    let (wanted, present, selector) = match custom {
        Some(paths) => {
            let selector = paths.selector.as_ref().and_then(|path| value.pointer(path));
            let selector = selector.and_then(Value::as_str).unwrap_or_default().to_owned();
            (
                replicas(&paths.spec_replicas),
                replicas(&paths.status_replicas),
                selector,
            )
        }
        None => (
            replicas("/spec/replicas"),
            replicas("/status/replicas"),
            selector(&value),
        ),
    };
    json!({
        "kind": KIND,
        "apiVersion": format!("{GROUP}/{VERSION}"),
        "metadata": {
            "name": object.name,
            "namespace": object.namespace,
            "uid": object.uid,
            "resourceVersion": object.revision.to_string(),
            "creationTimestamp": object.created,
        },
        "spec": { "replicas": wanted },
        "status": { "replicas": present, "selector": selector },
    })
}

/// The selector of a built-in workload, as text.
fn selector(value: &Value) -> String {
    let selector = &value["spec"]["selector"];
    // Replication controllers have the labels directly.
    let labels = selector.get("matchLabels").unwrap_or(selector);
    let labels = labels.as_object().into_iter().flatten();
    let terms: Vec<String> = labels
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    terms.join(",")
}

/// The patch of the object for a changed scale. A resourceVersion in it is a precondition.
pub(crate) fn patch(kind: &Kind, name: &str, scale: &Value) -> Result<Patch, Status> {
    let replicas = match &scale["spec"]["replicas"] {
        Value::Null => 0,
        value => match value.as_i64() {
            Some(replicas) if replicas >= 0 => replicas,
            _ => {
                let (field, detail) = ("spec.replicas", format!("{value}: must be greater than or equal to 0"));
                return Err(Status::invalid(
                    &kind.group,
                    KIND,
                    name,
                    field,
                    FieldError::Invalid,
                    &detail,
                ));
            }
        },
    };
    let custom = kind.custom_version.as_ref().and_then(|version| version.scale.as_ref());
    let path = custom.map_or("/spec/replicas", |paths| &paths.spec_replicas);
    let mut patch = path
        .rsplit('/')
        .filter(|key| !key.is_empty())
        .fold(json!(replicas), |inner, key| json!({ key: inner }));
    if let Some(version) = scale["metadata"]["resourceVersion"].as_str() {
        patch["metadata"] = json!({ "resourceVersion": version });
    }
    Ok(Patch::Merge(patch))
}
