//! Pruning: fields that are not in the schema are not stored.
//!
//! Source: apiextensions-apiserver `pkg/apiserver/schema/pruning`.

use serde_json::Value;

use super::schema::{Additional, Schema};
use super::{child, element, is_type_or_metadata};

/// Drops the fields of an object that are not in its schema; adds their paths to `dropped`.
pub(super) fn prune(object: &mut Value, schema: &Schema, dropped: &mut Vec<String>) {
    Pruning { dropped }.prune(object, schema, "", true);
}

struct Pruning<'a> {
    dropped: &'a mut Vec<String>,
}

impl Pruning<'_> {
    /// `is_object`: whether the value is an object of its own, with a type and metadata.
    fn prune(&mut self, value: &mut Value, schema: &Schema, path: &str, is_object: bool) {
        match value {
            Value::Array(items) => {
                let Some(each) = &schema.items else { return };
                for (index, item) in items.iter_mut().enumerate() {
                    self.prune(item, each, &element(path, index), each.embedded_resource);
                }
            }
            Value::Object(fields) => fields.retain(|key, field| {
                if is_object && is_type_or_metadata(key) {
                    return true;
                }
                let path = child(path, key);
                if let Some(property) = schema.properties.get(key) {
                    self.prune(field, property, &path, property.embedded_resource);
                    return true;
                }
                match &schema.additional {
                    Additional::Each(each) => {
                        self.prune(field, each, &path, each.embedded_resource);
                        true
                    }
                    Additional::Any => true,
                    Additional::None if schema.preserve_unknown_fields => true,
                    Additional::None => {
                        self.dropped.push(path);
                        false
                    }
                }
            }),
            _ => {}
        }
    }
}
