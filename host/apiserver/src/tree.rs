//! JSON as trees of values, in which text stays text where it is nested too deep.
//!
//! Trees are built, compared and dropped by recursion, and clients may write objects of any depth. So an array or
//! object below [`DEPTH_MAX`] levels becomes a string that begins with a mark and is written as the text that it was.
//! It is kept and shown, but nothing looks into it.

use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// How many levels of an object are a tree. Pods need about ten.
pub const DEPTH_MAX: usize = 100;

/// What a string begins with that stands for the JSON text after it. A client's string that begins so is kept as text,
/// too, so that none is taken for another.
const RAW: &str = "\u{10ffff}\u{10fffe}json:";

/// Reads a tree.
///
/// # Errors
/// If `json` is not JSON.
pub fn read(json: &[u8]) -> serde_json::Result<Value> {
    let mut reader = serde_json::Deserializer::from_slice(json);
    let value = deserialize(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// As [`read`], for a field of a type that is read.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(reader: D) -> Result<Value, D::Error> {
    Levels(DEPTH_MAX).deserialize(reader)
}

/// Whether a part of a tree is text.
#[must_use]
pub fn holds_text(value: &Value) -> bool {
    match value {
        Value::String(text) => text.starts_with(RAW),
        Value::Array(items) => items.iter().any(holds_text),
        Value::Object(members) => members.values().any(holds_text),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Appends the text of a tree.
pub(crate) fn write(value: &Value, out: &mut Vec<u8>) {
    serde_json::to_writer(out, &Written(value)).expect("writing a tree of values into memory cannot fail");
}

/// The text of a tree.
pub(crate) fn text(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    write(value, &mut out);
    out
}

/// Reads a value, of which this many levels become a tree.
struct Levels(usize);

impl Levels {
    fn below(&self) -> Levels {
        Levels(self.0 - 1)
    }
}

fn string(text: String) -> Value {
    match text.starts_with(RAW) {
        true => kept(&Value::String(text).to_string()),
        false => Value::String(text),
    }
}

fn kept(json: &str) -> Value {
    Value::String(format!("{RAW}{json}"))
}

impl<'de> DeserializeSeed<'de> for Levels {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        if self.0 > 0 {
            return reader.deserialize_any(self);
        }
        let raw = Box::<RawValue>::deserialize(reader)?;
        match raw.get().as_bytes() {
            [b'{' | b'[', ..] => Ok(kept(raw.get())),
            [b'"', ..] => serde_json::from_str(raw.get()).map(string).map_err(D::Error::custom),
            _ => serde_json::from_str(raw.get()).map_err(D::Error::custom),
        }
    }
}

impl<'de> Visitor<'de> for Levels {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(string(value.to_owned()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(string(value))
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = items.next_element_seed(self.below())? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut values = Map::new();
        while let Some(name) = members.next_key()? {
            let value = members.next_value_seed(self.below())?;
            values.insert(name, value);
        }
        Ok(Value::Object(values))
    }
}

/// A tree as it is written: by serde, with its text in place.
#[derive(Debug)]
pub struct Written<'a>(pub &'a Value);

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::String(text) => {
                let kept = text.strip_prefix(RAW).map(serde_json::from_str::<&RawValue>);
                match kept {
                    Some(Ok(json)) => json.serialize(serializer),
                    // Something other than this reader made the string.
                    Some(Err(_)) | None => serializer.serialize_str(text),
                }
            }
            Value::Array(items) => serializer.collect_seq(items.iter().map(Written)),
            Value::Object(members) => {
                serializer.collect_map(members.iter().map(|(name, value)| (name, Written(value))))
            }
            scalar => scalar.serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_any_depth_is_kept_as_it_is() {
        for depth in [1, 99, 100, 101, 127, 128, 129, 5_000, 1_000_000] {
            let json = "[{\"a\":".repeat(depth / 2) + "[1,\"x\",null,1.5,-1]" + &"}]".repeat(depth / 2);
            let tree = read(json.as_bytes()).expect("JSON");
            assert_eq!(text(&tree), json.as_bytes(), "{depth} levels");
            assert_eq!(holds_text(&tree), depth > 99, "{depth} levels");
            assert!(read(&json.as_bytes()[..json.len() - 1]).is_err());
        }
    }

    #[test]
    fn shallow_text_is_read_as_by_serde_json() {
        let json = r#" {"b":[1,-2,3.5,1e3,true,null,"x\u00e9\n"],"a":{"b":{}},"a":7} "#;
        let expected: Value = serde_json::from_str(json).expect("JSON");
        assert_eq!(read(json.as_bytes()).expect("JSON"), expected);
        assert_eq!(text(&expected), expected.to_string().into_bytes());
        for broken in ["", "{", "{} {}", "[1,]", "nul"] {
            let error = serde_json::from_str::<Value>(broken).expect_err("broken").to_string();
            assert_eq!(read(broken.as_bytes()).expect_err("broken").to_string(), error);
        }
    }

    #[test]
    fn a_string_that_looks_like_kept_text_stays_a_string() {
        for hostile in [format!("{RAW}}}, broken"), format!("{RAW}[1]"), RAW.to_owned()] {
            let hostile = Value::String(hostile);
            for json in [
                hostile.to_string(),
                format!("{}{hostile}{}", "[".repeat(100), "]".repeat(100)),
            ] {
                let tree = read(json.as_bytes()).expect("JSON");
                assert_eq!(text(&tree), json.as_bytes());
            }
        }
        // Not made by the reader, as by a patch.
        let made = Value::String(format!("{RAW}broken"));
        assert_eq!(text(&made), made.to_string().into_bytes());
    }
}
