//! Checks before an object is stored: the right kind, well-formed metadata, a valid name. Also fills in the defaults
//! that clients see.
//!
//! Specs of built-in kinds are not validated.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::kinds::Kind;
use crate::labels;
use crate::owners;
use crate::status::{FieldError, Status};
use crate::stored;

/// Longest name, in bytes (apimachinery `DNS1123SubdomainMaxLength`).
const NAME_BYTES_MAX: usize = 253;

pub(crate) const NAME_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must \
     start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

/// Checks that `object` can be read as `kind` and normalizes its type and metadata: fills in apiVersion, kind and
/// metadata, and sets the request's namespace.
pub(crate) fn shape(kind: &Kind, namespace: &str, object: &mut Value) -> Result<(), Status> {
    let Some(fields) = object.as_object_mut() else {
        return Err(unreadable(kind, "the object is not a JSON object"));
    };
    check_type_meta(kind, fields)?;
    fields.insert("apiVersion".to_owned(), json!(kind.api_version()));
    fields.insert("kind".to_owned(), json!(kind.kind));
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    if metadata.is_null() {
        *metadata = json!({});
    }
    let Some(metadata) = metadata.as_object_mut() else {
        return Err(unreadable(kind, "metadata is not a JSON object"));
    };
    check_metadata_types(kind, metadata)?;
    metadata.retain(|_, value| !stored::is_empty(value));
    place_in_namespace(kind, namespace, metadata)
}

fn check_type_meta(kind: &Kind, fields: &Map<String, Value>) -> Result<(), Status> {
    let found = |key: &str| fields.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    if let Some(found) = found("apiVersion")
        && found != kind.api_version()
    {
        return Err(Status::bad_request(format!(
            "{0} in version {found:?} cannot be handled as a {0}: no kind {0:?} is registered for version {found:?}",
            kind.kind
        )));
    }
    match found("kind") {
        Some(found) if found != kind.kind => Err(Status::bad_request(format!(
            "{found} in version {:?} cannot be handled as a {}: unknown conversion",
            kind.version, kind.kind
        ))),
        _ => Ok(()),
    }
}

fn unreadable(kind: &Kind, why: &str) -> Status {
    Status::bad_request(format!(
        "{} in version {:?} cannot be handled as a {}: {why}",
        kind.kind, kind.version, kind.kind
    ))
}

fn check_metadata_types(kind: &Kind, metadata: &Map<String, Value>) -> Result<(), Status> {
    let wrong = |field: &str, expected: &str| unreadable(kind, &format!("metadata.{field} is not {expected}"));
    for field in [
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ] {
        if metadata
            .get(field)
            .is_some_and(|value| !value.is_string() && !value.is_null())
        {
            return Err(wrong(field, "a string"));
        }
    }
    for field in ["labels", "annotations"] {
        let fits = match metadata.get(field) {
            None | Some(Value::Null) => true,
            Some(Value::Object(map)) => map.values().all(Value::is_string),
            Some(_) => false,
        };
        if !fits {
            return Err(wrong(field, "a map of strings"));
        }
    }
    for field in ["finalizers", "ownerReferences"] {
        if metadata
            .get(field)
            .is_some_and(|value| !value.is_array() && !value.is_null())
        {
            return Err(wrong(field, "a list"));
        }
    }
    Ok(())
}

fn place_in_namespace(kind: &Kind, namespace: &str, metadata: &mut Map<String, Value>) -> Result<(), Status> {
    if !kind.namespaced {
        metadata.remove("namespace");
        return Ok(());
    }
    match text(metadata, "namespace") {
        "" => {
            metadata.insert("namespace".to_owned(), json!(namespace));
            Ok(())
        }
        found if found == namespace => Ok(()),
        _ => Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )),
    }
}

/// A string field of metadata, empty if it is absent.
pub(crate) fn text<'a>(metadata: &'a Map<String, Value>, field: &str) -> &'a str {
    metadata.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// Checks the name of an object that is about to be created.
pub(crate) fn name(kind: &Kind, name: &str) -> Result<(), Status> {
    let invalid = |error, detail: &str| Err(kind.invalid(name, "metadata.name", error, detail));
    if name.is_empty() {
        return invalid(FieldError::Required, "name or generateName is required");
    }
    // Names of RBAC objects are path segments: `system:node` is one.
    if kind.group == "rbac.authorization.k8s.io" {
        if matches!(name, "." | "..") || name.contains(['/', '%']) {
            return invalid(
                FieldError::Invalid,
                &format!("{name:?}: may not be '.' or '..' or contain '/' or '%'"),
            );
        }
        return Ok(());
    }
    if name.len() > NAME_BYTES_MAX {
        return invalid(
            FieldError::Invalid,
            &format!("{name:?}: must be no more than {NAME_BYTES_MAX} characters"),
        );
    }
    if !is_dns_subdomain(name) {
        return invalid(FieldError::Invalid, &format!("{name:?}: {NAME_RULE}"));
    }
    Ok(())
}

/// Whether it consists of DNS labels.
pub(crate) fn is_dns_subdomain(name: &str) -> bool {
    name.split('.').all(is_dns_label)
}

fn is_dns_label(label: &str) -> bool {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = label.as_bytes();
    bytes.first().is_some_and(alphanumeric)
        && bytes.last().is_some_and(alphanumeric)
        && bytes.iter().all(|byte| alphanumeric(byte) || *byte == b'-')
}

/// Checks the labels and owner references of an object that is about to be stored.
pub(crate) fn metadata(kind: &Kind, metadata: &Map<String, Value>) -> Result<(), Status> {
    let issues = [labels::issues(metadata), owners::issues(metadata)].concat();
    if issues.is_empty() {
        return Ok(());
    }
    let name = text(metadata, "name");
    Err(Status::invalid_all(&kind.group, &kind.kind, name, &issues))
}

/// Fills in what a real server or the most basic controllers set, as far as clients read it.
pub(crate) fn defaults(kind: &Kind, object: &mut Value) {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => default_at(object, "/status/phase", json!("Pending")),
        ("", "Namespace") => {
            let name = object["metadata"]["name"].clone();
            object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
            default_at(object, "/spec/finalizers", json!(["kubernetes"]));
            default_at(object, "/status/phase", json!("Active"));
        }
        ("", "PersistentVolume" | "PersistentVolumeClaim") => {
            default_at(object, "/status/phase", json!("Pending"));
        }
        ("", "Secret") => {
            encode_string_data(object);
            default_at(object, "/type", json!("Opaque"));
        }
        ("", "Service") => default_at(object, "/spec/type", json!("ClusterIP")),
        ("batch", "CronJob") => default_at(object, "/spec/suspend", json!(false)),
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet") => default_at(object, "/spec/replicas", json!(1)),
        _ => {}
    }
}

/// Sets a missing value at a pointer and creates the objects on the way. Does nothing if one of them is not an object.
fn default_at(object: &mut Value, pointer: &str, default: Value) {
    let mut target = object;
    for key in pointer.split('/').skip(1) {
        if target.is_null() {
            *target = json!({});
        }
        let Some(map) = target.as_object_mut() else { return };
        target = map.entry(key).or_insert(Value::Null);
    }
    if target.is_null() {
        *target = default;
    }
}

/// `stringData` is write-only: it ends up in `data`.
fn encode_string_data(secret: &mut Value) {
    let Some(fields) = secret.as_object_mut() else { return };
    let Some(Value::Object(texts)) = fields.remove("stringData") else {
        return;
    };
    let data = fields.entry("data").or_insert_with(|| json!({}));
    for (key, text) in texts {
        if let (Some(data), Value::String(text)) = (data.as_object_mut(), text) {
            data.insert(key, json!(STANDARD.encode(text)));
        }
    }
}
