//! Objects for tests, and their paths.

use serde_json::{Value, json};

/// The label of every test object, which separates them from objects that a cluster creates itself.
pub const SELECTOR: &str = "app=test";

/// A config map in `default`.
pub fn config_map(name: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "test"}},
        "data": {"value": value},
    })
}

/// A pod in `default` with one container `app` with that image.
pub fn pod(name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "test"}},
        "spec": {"containers": [{"name": "app", "image": image}]},
    })
}

/// A status for [`pod`]: the container was OOM-killed and restarted this many times.
pub fn out_of_memory(restarts: u32) -> Value {
    json!({"status": {"phase": "Running", "containerStatuses": [{
        "name": "app", "image": "x", "imageID": "x", "ready": false, "restartCount": restarts,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}},
        "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}},
    }]}})
}

/// The path of all config maps in `default`, or of one.
pub fn config_maps(name: &str) -> String {
    path("configmaps", name)
}

/// The path of all pods in `default`, or of one.
pub fn pods(name: &str) -> String {
    path("pods", name)
}

fn path(plural: &str, name: &str) -> String {
    let separator = if name.is_empty() { "" } else { "/" };
    format!("/api/v1/namespaces/default/{plural}{separator}{name}")
}

/// `metadata.resourceVersion` of an object.
pub fn version_of(object: &Value) -> String {
    object
        .pointer("/metadata/resourceVersion")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}
