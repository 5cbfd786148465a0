//! Normalization before validation: fields that are not in the schema are pruned, and absent ones get their defaults.
//!
//! Source: apiextensions-apiserver `pkg/apiserver/schema/pruning` and `pkg/apiserver/schema/defaulting`.

use serde_json::Value;

use super::schema::{Additional, Schema};
use super::{child, element, is_type_or_metadata};

/// Drops the fields of an object that are not in its schema; adds their paths to `dropped`.
pub(super) fn prune(object: &mut Value, schema: &Schema, dropped: &mut Vec<String>) {
    prune_at(object, schema, "", true, dropped);
}

/// `is_object`: whether the value is an object of its own, with a type and metadata.
fn prune_at(value: &mut Value, schema: &Schema, path: &str, is_object: bool, dropped: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            let Some(each) = &schema.items else { return };
            for (index, item) in items.iter_mut().enumerate() {
                prune_at(item, each, &element(path, index), each.embedded_resource, dropped);
            }
        }
        Value::Object(fields) => fields.retain(|key, field| {
            if is_object && is_type_or_metadata(key) {
                return true;
            }
            let path = child(path, key);
            if let Some(property) = schema.properties.get(key) {
                prune_at(field, property, &path, property.embedded_resource, dropped);
                return true;
            }
            match &schema.additional {
                Additional::Each(each) => {
                    prune_at(field, each, &path, each.embedded_resource, dropped);
                    true
                }
                Additional::Any => true,
                Additional::None if schema.preserve_unknown_fields => true,
                Additional::None => {
                    dropped.push(path);
                    false
                }
            }
        }),
        _ => {}
    }
}

/// Fills in the defaults of `schema`, from the outside in: a default's own gaps are filled too.
pub(super) fn fill_defaults(value: &mut Value, schema: &Schema) {
    match value {
        Value::Array(items) => {
            for item in items {
                if let Some(each) = &schema.items {
                    fill_defaults(item, each);
                }
            }
        }
        Value::Object(fields) => {
            for (key, property) in &schema.properties {
                let Some(default) = &property.default else { continue };
                // A null that is not allowed counts as absent.
                let absent = match fields.get(key) {
                    None => true,
                    Some(value) => value.is_null() && !property.nullable,
                };
                if absent {
                    fields.insert(key.clone(), default.clone());
                }
            }
            for (key, field) in fields {
                if let Some(property) = schema.properties.get(key) {
                    fill_defaults(field, property);
                } else if let Additional::Each(each) = &schema.additional {
                    fill_defaults(field, each);
                }
            }
        }
        _ => {}
    }
}
