//! Defaults: values that a schema fills in where an object has none.
//!
//! Source: apiextensions-apiserver `pkg/apiserver/schema/defaulting`.

use serde_json::Value;

use super::schema::{Additional, Schema};

/// Fills in the defaults of `schema`, from the outside in: a default's own gaps are filled too.
pub(super) fn fill(value: &mut Value, schema: &Schema) {
    match value {
        Value::Array(items) => {
            for item in items {
                if let Some(each) = &schema.items {
                    fill(item, each);
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
                    fill(field, property);
                } else if let Additional::Each(each) = &schema.additional {
                    fill(field, each);
                }
            }
        }
        _ => {}
    }
}
