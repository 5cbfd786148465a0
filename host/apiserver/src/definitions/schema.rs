//! A structural schema, read once to check objects against it.
//!
//! Source: apiextensions-apiserver `pkg/apiserver/schema`.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Map, Value};

use crate::status::{FieldError, Issue};

/// How deep a schema may be nested; deeper ones are refused, to bound the stack.
const DEPTH_MAX: usize = 64;

/// The schema of one value in an object.
#[derive(Debug, Default)]
pub(super) struct Schema {
    pub(super) type_: Option<Type>,
    pub(super) nullable: bool,
    pub(super) properties: BTreeMap<String, Schema>,
    pub(super) additional: Additional,
    pub(super) items: Option<Box<Schema>>,
    pub(super) required: Vec<String>,
    pub(super) enum_: Option<Vec<Value>>,
    pub(super) pattern: Option<Regex>,
    pub(super) format: String,
    pub(super) minimum: Option<Bound>,
    pub(super) maximum: Option<Bound>,
    pub(super) multiple_of: Option<f64>,
    pub(super) length: Extent,
    pub(super) item_count: Extent,
    pub(super) property_count: Extent,
    pub(super) unique_items: bool,
    pub(super) all_of: Vec<Schema>,
    pub(super) any_of: Vec<Schema>,
    pub(super) one_of: Vec<Schema>,
    pub(super) not: Option<Box<Schema>>,
    pub(super) int_or_string: bool,
    pub(super) preserve_unknown_fields: bool,
    pub(super) embedded_resource: bool,
    pub(super) default: Option<Value>,
}

/// The schema of fields other than the named ones.
#[derive(Debug, Default)]
pub(super) enum Additional {
    #[default]
    None,
    Any,
    Each(Box<Schema>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    pub(super) value: f64,
    pub(super) exclusive: bool,
}

/// A minimum and a maximum size.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Extent {
    pub(super) min: Option<u64>,
    pub(super) max: Option<u64>,
}

impl Type {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// Reads a schema at `path` within a definition; adds its errors to `issues`.
pub(super) fn read(value: &Value, path: &str, issues: &mut Vec<Issue>) -> Schema {
    Reader { issues }.schema(value, path, 0)
}

struct Reader<'a> {
    issues: &'a mut Vec<Issue>,
}

impl Reader<'_> {
    fn refuse(&mut self, path: &str, detail: String) {
        self.issues.push(Issue::new(path, FieldError::Invalid, detail));
    }

    fn schema(&mut self, value: &Value, path: &str, depth: usize) -> Schema {
        if depth > DEPTH_MAX {
            self.refuse(
                path,
                format!("\"\": nested deeper than {DEPTH_MAX} levels, which this server does not read"),
            );
            return Schema::default();
        }
        let Some(map) = value.as_object() else {
            self.refuse(path, format!("{value}: must be a schema, a JSON object"));
            return Schema::default();
        };
        let deeper = depth + 1;
        let flag = |key: &str| map.get(key) == Some(&Value::Bool(true));
        let mut schema = Schema {
            nullable: flag("nullable"),
            unique_items: flag("uniqueItems"),
            int_or_string: flag("x-kubernetes-int-or-string"),
            preserve_unknown_fields: flag("x-kubernetes-preserve-unknown-fields"),
            embedded_resource: flag("x-kubernetes-embedded-resource"),
            type_: self.type_(map, path),
            required: strings(map.get("required")),
            enum_: map.get("enum").and_then(Value::as_array).cloned(),
            pattern: self.pattern(map, path),
            format: text(map, "format").to_owned(),
            minimum: bound(map, "minimum", "exclusiveMinimum"),
            maximum: bound(map, "maximum", "exclusiveMaximum"),
            multiple_of: map.get("multipleOf").and_then(Value::as_f64),
            length: extent(map, "minLength", "maxLength"),
            item_count: extent(map, "minItems", "maxItems"),
            property_count: extent(map, "minProperties", "maxProperties"),
            default: map.get("default").cloned(),
            ..Schema::default()
        };
        for (key, property) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let read = self.schema(property, &format!("{path}.properties[{key}]"), deeper);
            schema.properties.insert(key.clone(), read);
        }
        if let Some(items) = map.get("items") {
            schema.items = Some(Box::new(self.schema(items, &format!("{path}.items"), deeper)));
        }
        schema.additional = match map.get("additionalProperties") {
            None | Some(Value::Bool(false)) => Additional::None,
            Some(Value::Bool(true)) => Additional::Any,
            Some(each) => Additional::Each(Box::new(self.schema(
                each,
                &format!("{path}.additionalProperties"),
                deeper,
            ))),
        };
        schema.all_of = self.schemas(map, "allOf", path, deeper);
        schema.any_of = self.schemas(map, "anyOf", path, deeper);
        schema.one_of = self.schemas(map, "oneOf", path, deeper);
        if let Some(not) = map.get("not") {
            schema.not = Some(Box::new(self.schema(not, &format!("{path}.not"), deeper)));
        }
        schema
    }

    fn schemas(&mut self, map: &Map<String, Value>, key: &str, path: &str, depth: usize) -> Vec<Schema> {
        let list = map.get(key).and_then(Value::as_array).into_iter().flatten();
        list.enumerate()
            .map(|(index, value)| self.schema(value, &format!("{path}.{key}[{index}]"), depth))
            .collect()
    }

    fn type_(&mut self, map: &Map<String, Value>, path: &str) -> Option<Type> {
        match text(map, "type") {
            "" => None,
            "object" => Some(Type::Object),
            "array" => Some(Type::Array),
            "string" => Some(Type::String),
            "integer" => Some(Type::Integer),
            "number" => Some(Type::Number),
            "boolean" => Some(Type::Boolean),
            other => {
                let issue = Issue::new(
                    &format!("{path}.type"),
                    FieldError::NotSupported,
                    format!(
                        "{other:?}: supported values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\""
                    ),
                );
                self.issues.push(issue);
                None
            }
        }
    }

    fn pattern(&mut self, map: &Map<String, Value>, path: &str) -> Option<Regex> {
        let pattern = map.get("pattern").and_then(Value::as_str)?;
        Regex::new(pattern)
            .inspect_err(|_| {
                let detail = format!("{pattern:?}: must be a valid regular expression");
                self.refuse(&format!("{path}.pattern"), detail);
            })
            .ok()
    }
}

fn text<'a>(map: &'a Map<String, Value>, key: &str) -> &'a str {
    map.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn strings(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn bound(map: &Map<String, Value>, key: &str, exclusive: &str) -> Option<Bound> {
    Some(Bound {
        value: map.get(key)?.as_f64()?,
        exclusive: map.get(exclusive) == Some(&Value::Bool(true)),
    })
}

fn extent(map: &Map<String, Value>, min: &str, max: &str) -> Extent {
    let size = |key: &str| map.get(key).and_then(Value::as_u64);
    Extent {
        min: size(min),
        max: size(max),
    }
}
