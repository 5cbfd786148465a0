//! Built-in kinds as OpenAPI: names and types of fields, for `kubectl explain`. Without descriptions, which would be
//! megabytes.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::schema::{FieldType, MessageSchema, OmitWhen};
use super::strict::is_opaque;

/// Adds the messages of a kind to `schemas` and returns the kind's properties; none for kinds without a message.
pub(crate) fn describe(
    api_version: &str,
    kind: &str,
    schemas: &mut BTreeMap<String, Value>,
) -> Option<Map<String, Value>> {
    let schema = MessageSchema::get();
    let message = schema.message_of(api_version, kind)?;
    let mut properties = type_meta();
    let mut describing = Describer { schema, schemas };
    describing.properties(message, &mut properties);
    Some(properties)
}

/// Adds `ObjectMeta` and its messages; returns its name.
pub(crate) fn describe_metadata(schemas: &mut BTreeMap<String, Value>) -> String {
    let schema = MessageSchema::get();
    Describer { schema, schemas }.message("meta.v1.ObjectMeta")
}

/// `apiVersion` and `kind`, which every object has.
pub(crate) fn type_meta() -> Map<String, Value> {
    let text = json!({ "type": "string" });
    Map::from_iter([("apiVersion".to_owned(), text.clone()), ("kind".to_owned(), text)])
}

/// A reference to a schema of the same document.
pub(crate) fn reference(name: &str) -> Value {
    json!({ "allOf": [{ "$ref": format!("#/components/schemas/{name}") }] })
}

struct Describer<'a> {
    schema: &'static MessageSchema,
    schemas: &'a mut BTreeMap<String, Value>,
}

impl Describer<'_> {
    /// Describes a message and its messages, once. Returns its name.
    fn message(&mut self, message: &str) -> String {
        let name = full_name(message);
        if self.schemas.contains_key(&name) {
            return name;
        }
        // Messages can be recursive: treat one that was started as done.
        self.schemas.insert(name.clone(), Value::Null);
        let mut properties = Map::new();
        self.properties(message, &mut properties);
        self.schemas
            .insert(name.clone(), json!({ "type": "object", "properties": properties }));
        name
    }

    fn properties(&mut self, message: &str, properties: &mut Map<String, Value>) {
        let Some(fields) = self.schema.fields(message) else {
            return;
        };
        for field in fields.values() {
            match (field.when, &field.type_) {
                (OmitWhen::Inline, FieldType::Message(inlined)) => self.properties(inlined, properties),
                (OmitWhen::Inline, _) => {}
                (_, type_) => {
                    let described = self.type_(type_);
                    properties.insert(field.json.to_owned(), described);
                }
            }
        }
    }

    fn type_(&mut self, type_: &FieldType) -> Value {
        match type_ {
            FieldType::String => json!({ "type": "string" }),
            FieldType::Int => json!({ "type": "integer" }),
            FieldType::Bool => json!({ "type": "boolean" }),
            FieldType::Double => json!({ "type": "number" }),
            FieldType::Bytes => json!({ "type": "string", "format": "byte" }),
            FieldType::List(each) => json!({ "type": "array", "items": self.type_(each) }),
            FieldType::Map(each) => json!({ "type": "object", "additionalProperties": self.type_(each) }),
            FieldType::Message(message) if is_opaque(message) => opaque(message),
            FieldType::Message(message) => reference(&self.message(message)),
        }
    }
}

fn opaque(message: &str) -> Value {
    match message {
        "meta.v1.Time" | "meta.v1.MicroTime" => json!({ "type": "string", "format": "date-time" }),
        "pkg.runtime.RawExtension" | "meta.v1.FieldsV1" => json!({ "type": "object" }),
        _ => json!({ "type": "string" }),
    }
}

/// `io.k8s.api.apps.v1.DeploymentSpec`.
fn full_name(message: &str) -> String {
    match message.strip_prefix("meta.v1.") {
        Some(message) => format!("io.k8s.apimachinery.pkg.apis.meta.v1.{message}"),
        None => format!("io.k8s.api.{message}"),
    }
}
