//! Validation of an object against a schema, with kube-apiserver's messages.
//!
//! Source: kube-openapi `pkg/validation/validate` and its translation in apiextensions-apiserver
//! `pkg/apiserver/validation.ValidateCustomResource`.

use serde_json::{Map, Value};

use super::schema::{Additional, Extent, Schema, Type};
use super::{child, element, is_type_or_metadata};
use crate::status::{FieldError, Issue};

/// Everything in `object` that `schema` does not allow.
pub(super) fn validate(object: &Value, schema: &Schema) -> Vec<Issue> {
    let mut issues = Vec::new();
    check(object, schema, "", true, &mut issues);
    issues
}

fn is_valid(value: &Value, schema: &Schema, path: &str) -> bool {
    let mut issues = Vec::new();
    check(value, schema, path, false, &mut issues);
    issues.is_empty()
}

/// `is_object`: whether the value is an object of its own, whose type and metadata are checked elsewhere.
fn check(value: &Value, schema: &Schema, path: &str, is_object: bool, issues: &mut Vec<Issue>) {
    if value.is_null() && schema.nullable {
        return;
    }
    if !has_type(value, schema) {
        issues.push(wrong_type(value, schema, path));
        return;
    }
    check_enum(value, schema, path, issues);
    match value {
        Value::String(text) => check_text(text, schema, path, issues),
        Value::Number(number) => check_number(number.as_f64().unwrap_or_default(), value, schema, path, issues),
        Value::Array(items) => check_items(items, schema, path, issues),
        Value::Object(fields) => check_fields(fields, schema, path, is_object, issues),
        Value::Null | Value::Bool(_) => {}
    }
    check_alternatives(value, schema, path, issues);
}

fn has_type(value: &Value, schema: &Schema) -> bool {
    if schema.int_or_string {
        return value.is_string() || is_integer(value);
    }
    match schema.type_ {
        None => true,
        Some(Type::Object) => value.is_object(),
        Some(Type::Array) => value.is_array(),
        Some(Type::String) => value.is_string(),
        Some(Type::Integer) => is_integer(value),
        Some(Type::Number) => value.is_number(),
        Some(Type::Boolean) => value.is_boolean(),
    }
}

fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|number| number.fract() == 0.0)
}

fn wrong_type(value: &Value, schema: &Schema, path: &str) -> Issue {
    let wanted = match schema.type_ {
        _ if schema.int_or_string => "integer,string",
        Some(type_) => type_.word(),
        None => "",
    };
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) if is_integer(value) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let detail = format!("{found:?}: {}must be of type {wanted}: {found:?}", subject(path));
    Issue::new(path, FieldError::TypeInvalid, detail)
}

/// `spec.size in body `, or nothing for the object itself.
fn subject(path: &str) -> String {
    if path.is_empty() {
        String::new()
    } else {
        format!("{path} in body ")
    }
}

fn invalid(value: &Value, path: &str, rule: &str) -> Issue {
    Issue::new(path, FieldError::Invalid, format!("{value}: {}{rule}", subject(path)))
}

fn check_enum(value: &Value, schema: &Schema, path: &str, issues: &mut Vec<Issue>) {
    let Some(allowed) = schema.enum_.as_ref().filter(|allowed| !allowed.contains(value)) else {
        return;
    };
    let quoted = |value: &Value| match value {
        Value::String(text) => format!("{text:?}"),
        other => format!("{:?}", other.to_string()),
    };
    let allowed: Vec<String> = allowed.iter().map(quoted).collect();
    let detail = format!("{value}: supported values: {}", allowed.join(", "));
    issues.push(Issue::new(path, FieldError::NotSupported, detail));
}

fn check_text(text: &str, schema: &Schema, path: &str, issues: &mut Vec<Issue>) {
    let value = || Value::String(text.to_owned());
    let length = text.chars().count() as u64;
    if let Some(max) = schema.length.max.filter(|max| length > *max) {
        let unit = if max == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {max} {unit}");
        issues.push(Issue::new(path, FieldError::TooLong, detail));
    }
    if let Some(min) = schema.length.min.filter(|min| length < *min) {
        issues.push(invalid(&value(), path, &format!("should be at least {min} chars long")));
    }
    if let Some(pattern) = schema.pattern.as_ref().filter(|pattern| !pattern.is_match(text)) {
        issues.push(invalid(&value(), path, &format!("should match '{pattern}'")));
    }
    let well_formed = match schema.format.as_str() {
        "date-time" => text.parse::<jiff::Timestamp>().is_ok(),
        "date" => text.parse::<jiff::civil::Date>().is_ok(),
        "ipv4" => text.parse::<std::net::Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<std::net::Ipv6Addr>().is_ok(),
        _ => true,
    };
    if !well_formed {
        let detail = format!("{text:?}: {}must be of type {}: {text:?}", subject(path), schema.format);
        issues.push(Issue::new(path, FieldError::TypeInvalid, detail));
    }
}

fn check_number(number: f64, value: &Value, schema: &Schema, path: &str, issues: &mut Vec<Issue>) {
    if let Some(bound) = schema.maximum {
        if bound.exclusive && number >= bound.value {
            issues.push(invalid(value, path, &format!("should be less than {}", bound.value)));
        } else if number > bound.value {
            let rule = format!("should be less than or equal to {}", bound.value);
            issues.push(invalid(value, path, &rule));
        }
    }
    if let Some(bound) = schema.minimum {
        if bound.exclusive && number <= bound.value {
            issues.push(invalid(value, path, &format!("should be greater than {}", bound.value)));
        } else if number < bound.value {
            let rule = format!("should be greater than or equal to {}", bound.value);
            issues.push(invalid(value, path, &rule));
        }
    }
    if let Some(factor) = schema
        .multiple_of
        .filter(|factor| *factor > 0.0 && (number / factor).fract() != 0.0)
    {
        issues.push(invalid(value, path, &format!("should be a multiple of {factor}")));
    }
}

fn too_many(count: usize, extent: Extent, path: &str, issues: &mut Vec<Issue>) {
    if let Some(max) = extent.max.filter(|max| count as u64 > *max) {
        let unit = if max == 1 { "item" } else { "items" };
        let detail = format!("{count}: must have at most {max} {unit}");
        issues.push(Issue::new(path, FieldError::TooMany, detail));
    }
}

fn check_items(items: &[Value], schema: &Schema, path: &str, issues: &mut Vec<Issue>) {
    too_many(items.len(), schema.item_count, path, issues);
    if let Some(min) = schema.item_count.min.filter(|min| (items.len() as u64) < *min) {
        let count = Value::from(items.len());
        issues.push(invalid(&count, path, &format!("should have at least {min} items")));
    }
    if schema.unique_items && (1..items.len()).any(|index| items[..index].contains(&items[index])) {
        issues.push(invalid(
            &Value::String(String::new()),
            path,
            "shouldn't contain duplicates",
        ));
    }
    let Some(each) = &schema.items else { return };
    for (index, item) in items.iter().enumerate() {
        check(item, each, &element(path, index), each.embedded_resource, issues);
    }
}

fn check_fields(fields: &Map<String, Value>, schema: &Schema, path: &str, is_object: bool, issues: &mut Vec<Issue>) {
    too_many(fields.len(), schema.property_count, path, issues);
    if let Some(min) = schema.property_count.min.filter(|min| (fields.len() as u64) < *min) {
        let count = Value::from(fields.len());
        issues.push(invalid(&count, path, &format!("should have at least {min} properties")));
    }
    for key in schema.required.iter().filter(|key| !fields.contains_key(*key)) {
        issues.push(Issue::new(&child(path, key), FieldError::Required, String::new()));
    }
    for (key, field) in fields {
        if is_object && is_type_or_metadata(key) {
            continue;
        }
        if let Some(property) = schema.properties.get(key) {
            check(field, property, &child(path, key), property.embedded_resource, issues);
        } else if let Additional::Each(each) = &schema.additional {
            check(field, each, &child(path, key), each.embedded_resource, issues);
        }
    }
}

fn check_alternatives(value: &Value, schema: &Schema, path: &str, issues: &mut Vec<Issue>) {
    for one in &schema.all_of {
        check(value, one, path, false, issues);
    }
    let refuse = |rule: &str| {
        let detail = format!(
            "\"\": {}{rule}",
            if path.is_empty() {
                "\"\"".to_owned()
            } else {
                format!("{path:?}")
            }
        );
        Issue::new(path, FieldError::Invalid, detail)
    };
    if !schema.any_of.is_empty() && !schema.any_of.iter().any(|one| is_valid(value, one, path)) {
        issues.push(refuse(" must validate at least one schema (anyOf)"));
    }
    let met = schema.one_of.iter().filter(|one| is_valid(value, one, path)).count();
    if !schema.one_of.is_empty() && met != 1 {
        let found = if met == 0 {
            "Found none valid"
        } else {
            "Found several valid alternatives"
        };
        issues.push(refuse(&format!(
            " must validate one and only one schema (oneOf). {found}"
        )));
    }
    if schema.not.as_ref().is_some_and(|not| is_valid(value, not, path)) {
        issues.push(refuse(" must not validate the schema (not)"));
    }
}
