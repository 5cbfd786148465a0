//! Bodies in protocol buffers: `kubectl create deployment` and other typed clients send them for built-in kinds.
//!
//! They are converted to the JSON that the same client would send. Responses are always JSON, which these clients
//! accept too.
//!
//! Source: apimachinery `pkg/runtime/serializer/protobuf` (the envelope) and the struct tags of `k8s.io/api`, in
//! `schema.txt`.

mod describe;
mod schema;
mod strict;
mod wire;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub(crate) use self::describe::{describe, describe_metadata, reference, type_meta};
use self::schema::{Field, FieldType, MessageSchema, OmitWhen};
pub(crate) use self::strict::check_fields;
use self::wire::{Fields, Wire};
use crate::stored::is_empty;
use crate::tree;

pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The prefix of every body.
const MAGIC: &[u8] = b"k8s\0";

/// How deep messages may be nested; pods need about ten levels.
const NESTING_MAX: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProtobufError {
    #[error("the body is not an object in protocol buffers: it does not begin with \"k8s\" and a zero")]
    NoMagic,
    #[error("the body is truncated or malformed at {0:?}")]
    Malformed(&'static str),
    #[error("{kind:?} of {api_version:?} cannot be read from protocol buffers by this server; send it as JSON")]
    UnknownKind { api_version: String, kind: String },
}

/// Reads a body into a JSON document with kind and apiVersion.
pub(crate) fn read(body: &[u8]) -> Result<Value, ProtobufError> {
    let envelope = body.strip_prefix(MAGIC).ok_or(ProtobufError::NoMagic)?;
    let (mut type_meta, mut raw) = (&[][..], &[][..]);
    for field in Fields::new(envelope) {
        match field.ok_or(ProtobufError::Malformed("envelope"))? {
            (1, Wire::Bytes(bytes)) => type_meta = bytes,
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let (api_version, kind) = (text_field(type_meta, 1)?, text_field(type_meta, 2)?);
    let schema = MessageSchema::get();
    let Some(message) = schema.message_of(&api_version, &kind) else {
        return Err(ProtobufError::UnknownKind { api_version, kind });
    };
    let mut object = decode(schema, message, raw, 0)?;
    if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion".to_owned(), json!(api_version));
        fields.insert("kind".to_owned(), json!(kind));
    }
    Ok(object)
}

fn decode(schema: &MessageSchema, message: &'static str, bytes: &[u8], depth: usize) -> Result<Value, ProtobufError> {
    if depth > NESTING_MAX {
        return Err(ProtobufError::Malformed(message));
    }
    if let Some(special) = special(message, bytes) {
        return special;
    }
    let fields = schema.fields(message).ok_or(ProtobufError::Malformed(message))?;
    let mut object = Map::new();
    for read in Fields::new(bytes) {
        let (number, wire) = read.ok_or(ProtobufError::Malformed(message))?;
        // Fields that this version does not know are left out, as in Go.
        let Some(field) = fields.get(&number) else { continue };
        let value = value(schema, &field.type_, wire, depth + 1)?.ok_or(ProtobufError::Malformed(message))?;
        insert(&mut object, field, value);
    }
    Ok(Value::Object(object))
}

/// Puts a field's value into its object, as Go's JSON encoder would.
fn insert(object: &mut Map<String, Value>, field: &Field, value: Value) {
    if field.when == OmitWhen::Inline {
        if let Value::Object(fields) = value {
            object.extend(fields);
        }
        return;
    }
    let is_zero = is_empty(&value) || value == json!(0) || value == json!(false);
    match (object.get_mut(field.json), value) {
        (Some(Value::Array(found)), Value::Array(more)) => found.extend(more),
        (Some(Value::Object(found)), Value::Object(more)) => found.extend(more),
        (_, Value::Null) => {}
        _ if is_zero && field.when == OmitWhen::Set => {}
        (_, value) => {
            object.insert(field.json.to_owned(), value);
        }
    }
}

/// A value of a type; `None` if the value on the wire does not fit.
fn value(
    schema: &MessageSchema,
    type_: &FieldType,
    wire: Wire<'_>,
    depth: usize,
) -> Result<Option<Value>, ProtobufError> {
    let value = match (type_, wire) {
        (FieldType::Int, Wire::Number(number)) => json!(number.cast_signed()),
        (FieldType::Bool, Wire::Number(number)) => json!(number != 0),
        (FieldType::Double, Wire::Fixed64(bits)) => json!(f64::from_bits(bits)),
        (FieldType::String, Wire::Bytes(bytes)) => match std::str::from_utf8(bytes) {
            Ok(text) => json!(text),
            Err(_) => return Ok(None),
        },
        (FieldType::Bytes, Wire::Bytes(bytes)) => json!(STANDARD.encode(bytes)),
        (FieldType::Message(message), Wire::Bytes(bytes)) => decode(schema, message, bytes, depth)?,
        (FieldType::List(element), wire) => match value(schema, element, wire, depth)? {
            Some(element) => json!([element]),
            None => return Ok(None),
        },
        (FieldType::Map(element), Wire::Bytes(entry)) => return map_entry(schema, element, entry, depth),
        _ => return Ok(None),
    };
    Ok(Some(value))
}

/// One entry of a map, as an object of its own: field 1 is the key, 2 the value.
fn map_entry(
    schema: &MessageSchema,
    element: &FieldType,
    entry: &[u8],
    depth: usize,
) -> Result<Option<Value>, ProtobufError> {
    let mut key = String::new();
    let mut found = None;
    for field in Fields::new(entry) {
        match field {
            Some((1, Wire::Bytes(bytes))) => key = String::from_utf8_lossy(bytes).into_owned(),
            Some((2, wire)) => match value(schema, element, wire, depth)? {
                Some(value) => found = Some(value),
                None => return Ok(None),
            },
            Some(_) => {}
            None => return Ok(None),
        }
    }
    // An empty value may be left out on the wire.
    Ok(Some(json!({ key: found.unwrap_or_else(|| json!("")) })))
}

/// Messages whose JSON is not an object of their fields.
fn special(message: &str, bytes: &[u8]) -> Option<Result<Value, ProtobufError>> {
    let value = match message {
        "api.resource.Quantity" => text_field(bytes, 1).map(Value::String),
        "util.intstr.IntOrString" => match number_field(bytes, 1) {
            1 => text_field(bytes, 3).map(Value::String),
            _ => Ok(json!(number_field(bytes, 2))),
        },
        "meta.v1.Time" | "meta.v1.MicroTime" if bytes.is_empty() => Ok(Value::Null),
        "meta.v1.Time" | "meta.v1.MicroTime" => {
            let nanoseconds = i32::try_from(number_field(bytes, 2)).unwrap_or(0);
            let time = Timestamp::new(number_field(bytes, 1), nanoseconds);
            time.map(|time| json!(time.to_string()))
                .map_err(|_| ProtobufError::Malformed("time"))
        }
        "meta.v1.FieldsV1" | "pkg.runtime.RawExtension" => bytes_field(bytes, 1).map(|raw| {
            // Invalid JSON inside is not validated here.
            tree::read(raw).unwrap_or(Value::Null)
        }),
        _ => return None,
    };
    Some(value)
}

fn bytes_field(message: &[u8], number: u64) -> Result<&[u8], ProtobufError> {
    let mut found = &[][..];
    for field in Fields::new(message) {
        if let (candidate, Wire::Bytes(bytes)) = field.ok_or(ProtobufError::Malformed("field"))?
            && candidate == number
        {
            found = bytes;
        }
    }
    Ok(found)
}

fn text_field(message: &[u8], number: u64) -> Result<String, ProtobufError> {
    Ok(String::from_utf8_lossy(bytes_field(message, number)?).into_owned())
}

fn number_field(message: &[u8], number: u64) -> i64 {
    let number_of = |field: Option<(u64, Wire<'_>)>| match field {
        Some((candidate, Wire::Number(value))) if candidate == number => Some(value.cast_signed()),
        _ => None,
    };
    Fields::new(message).filter_map(number_of).last().unwrap_or(0)
}

#[cfg(test)]
mod tests;
