//! Checks objects of built-in kinds against their messages: unknown fields, values of the wrong type.
//!
//! `fieldValidation=Strict`, which kubectl sends, refuses these. Source: apimachinery `pkg/runtime/serializer/json`
//! (strict decoding).

use serde_json::Value;

use super::schema::{FieldType, MessageSchema, OmitWhen};
use crate::definitions::child;

/// Messages with a hand-written JSON encoding in Go: text, numbers or anything.
const OPAQUE: &[&str] = &[
    "api.resource.Quantity",
    "meta.v1.Duration",
    "meta.v1.FieldsV1",
    "meta.v1.MicroTime",
    "meta.v1.Time",
    "pkg.runtime.RawExtension",
    "util.intstr.IntOrString",
];

/// The errors in an object's fields.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldErrors {
    /// Fields that the kind does not have.
    pub(crate) unknown: Vec<String>,
    /// The first value of a wrong type: its type, its path, and the wanted type.
    pub(crate) mistyped: Option<(&'static str, String, &'static str)>,
}

/// Checks `object` against its kind; kinds without a message accept everything.
pub(crate) fn check_fields(api_version: &str, kind: &str, object: &Value) -> FieldErrors {
    let schema = MessageSchema::get();
    let mut found = FieldErrors::default();
    if let (Some(message), Some(_)) = (schema.message_of(api_version, kind), object.as_object()) {
        Walk {
            schema,
            found: &mut found,
        }
        .message(message, object, "");
    }
    found
}

pub(super) fn is_opaque(message: &str) -> bool {
    OPAQUE.contains(&message)
}

/// The type of a message's field, its own or that of an inlined message.
pub(super) fn field_type(schema: &'static MessageSchema, message: &str, key: &str) -> Option<&'static FieldType> {
    let fields = schema.fields(message)?;
    fields.values().find_map(|field| match (field.when, &field.type_) {
        (OmitWhen::Inline, FieldType::Message(inlined)) => field_type(schema, inlined, key),
        (OmitWhen::Inline, _) => None,
        _ => (field.json == key).then_some(&field.type_),
    })
}

struct Walk<'a> {
    schema: &'static MessageSchema,
    found: &'a mut FieldErrors,
}

impl Walk<'_> {
    fn message(&mut self, message: &str, value: &Value, path: &str) {
        let Some(fields) = value.as_object() else {
            self.mistyped(value, path, "object");
            return;
        };
        for (key, value) in fields {
            let path = child(path, key);
            match field_type(self.schema, message, key) {
                Some(type_) => self.value(type_, value, &path),
                // Every object has a type; it is not in the protobuf message.
                None if matches!(key.as_str(), "apiVersion" | "kind") && path == *key => {}
                None => self.found.unknown.push(path),
            }
        }
    }

    fn value(&mut self, type_: &FieldType, value: &Value, path: &str) {
        match (type_, value) {
            (_, Value::Null)
            | (FieldType::String | FieldType::Bytes, Value::String(_))
            | (FieldType::Bool, Value::Bool(_))
            | (FieldType::Double, Value::Number(_)) => {}
            (FieldType::Int, Value::Number(number)) if number.is_i64() || number.is_u64() => {}
            (FieldType::Message(message), _) if is_opaque(message) => {}
            (FieldType::Message(message), value) => self.message(message, value, path),
            (FieldType::List(each), Value::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    self.value(each, item, &format!("{path}[{index}]"));
                }
            }
            (FieldType::Map(each), Value::Object(entries)) => {
                for (key, entry) in entries {
                    self.value(each, entry, &format!("{path}.{key}"));
                }
            }
            (FieldType::String | FieldType::Bytes, value) => self.mistyped(value, path, "string"),
            (FieldType::Bool, value) => self.mistyped(value, path, "bool"),
            (FieldType::Int, value) => self.mistyped(value, path, "integer"),
            (FieldType::Double, value) => self.mistyped(value, path, "number"),
            (FieldType::List(_), value) => self.mistyped(value, path, "list"),
            (FieldType::Map(_), value) => self.mistyped(value, path, "map"),
        }
    }

    fn mistyped(&mut self, value: &Value, path: &str, wanted: &'static str) {
        let found = match value {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        if self.found.mistyped.is_none() {
            self.found.mistyped = Some((found, path.to_owned(), wanted));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_valid_manifest_has_no_field_errors() {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": "p", "labels": { "a": "b" }, "creationTimestamp": null },
            "spec": {
                "containers": [{
                    "name": "c", "resources": { "limits": { "cpu": 1, "memory": "1Gi" } },
                    "livenessProbe": { "httpGet": { "port": "http" }, "periodSeconds": 3 },
                    "ports": [{ "containerPort": 80 }],
                }],
                "volumes": [{ "name": "v", "configMap": { "name": "m" } }, { "name": "e", "emptyDir": {} }],
            },
        });
        assert_eq!(check_fields("v1", "Pod", &pod), FieldErrors::default());
    }

    #[test]
    fn unknown_and_mistyped_fields_are_found() {
        let deployment = json!({
            "spec": { "replica": 1, "replicas": "2", "template": { "spec": { "containers": [{ "img": "x" }] } } },
        });
        let found = check_fields("apps/v1", "Deployment", &deployment);
        assert_eq!(found.unknown, ["spec.replica", "spec.template.spec.containers[0].img"]);
        assert_eq!(found.mistyped, Some(("string", "spec.replicas".to_owned(), "integer")));
        assert_eq!(
            check_fields("example.com/v1", "Widget", &deployment),
            FieldErrors::default()
        );
    }
}
