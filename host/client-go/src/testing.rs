//! Small objects for this crate's tests.

use informant_object::{Object, ResourceVersion, Shape};

/// A pod `name` in namespace `default` at `version`.
pub(crate) fn pod(name: &str, version: u64) -> Object {
    pod_with(name, version, "{}")
}

/// As [`pod`], with `spec`.
pub(crate) fn pod_with(name: &str, version: u64, spec: &str) -> Object {
    pod_in("default", name, version, spec)
}

/// A pod in `namespace`; cluster-scoped if that is empty.
pub(crate) fn pod_in(namespace: &str, name: &str, version: u64, spec: &str) -> Object {
    let namespace = match namespace {
        "" => String::new(),
        namespace => format!(r#""namespace":"{namespace}","#),
    };
    object(&format!(
        r#"{{"metadata":{{{namespace}"name":"{name}","uid":"uid-{name}","resourceVersion":"{version}"}},"spec":{spec}}}"#
    ))
}

/// Parses `json`.
pub(crate) fn object(json: &str) -> Object {
    Object::parse(json.as_bytes(), &Shape::of("v1", "Pod")).expect("test objects are valid JSON")
}

pub(crate) fn version(number: u64) -> ResourceVersion {
    ResourceVersion::new(&number.to_string())
}
