//! Reads JSON text into whatever serde can make of it: the quick way for what objects are made of.
//!
//! Promises: what it makes of a text is what serde_json makes of it. Where it does not know (the text is malformed or does not fit the
//! type, or it is something rare), it says [`Unfit`] and no more: then [`Payload`](super::Payload) asks serde_json, which says what
//! is wrong. (A visitor that goes on after an error, as with `unwrap_or_default`, may get by where serde_json's reader has lost its place.) Numbers that are no plain integers, strings with escapes, enums and the like are handed to serde_json one by one.
//!
//! It is quicker because most names and values of an object are shorter than a line: eight bytes are looked at at once, and nothing is
//! kept for the sake of error messages.

mod access;
mod key;
mod text;

use std::fmt;

use serde::de::{self, DeserializeOwned, Visitor};

use access::Items;

/// Most objects and arrays within each other: serde_json's limit.
const DEPTH_MAX: u8 = 127;

/// Not for this reader.
#[derive(Debug)]
pub(crate) struct Unfit;

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not for the quick reader")
    }
}

impl std::error::Error for Unfit {}

impl de::Error for Unfit {
    fn custom<T: fmt::Display>(_: T) -> Unfit {
        Unfit
    }
}

type Result<T> = std::result::Result<T, Unfit>;

/// Reads the one value that `text` holds.
pub(crate) fn from_str<T: DeserializeOwned>(text: &str) -> Result<T> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    let value = T::deserialize(&mut reader)?;
    match reader.next_token() {
        None => Ok(value),
        Some(_) => Err(Unfit),
    }
}

/// A position in JSON text.
struct Reader<'de> {
    text: &'de str,
    at: usize,
    /// Objects and arrays that are open.
    depth: u8,
}

impl<'de> Reader<'de> {
    /// Visits the object or array whose opening bracket is next.
    fn container<V: Visitor<'de>>(&mut self, bracket: u8, visitor: V) -> Result<V::Value> {
        self.open()?;
        let value = if bracket == b'{' {
            visitor.visit_map(Items::new(self))
        } else {
            visitor.visit_seq(Items::new(self))
        };
        let value = value?;
        // Brackets and braces close two behind the sign that opens them.
        self.expect(bracket + 2)?;
        self.depth -= 1;
        Ok(value)
    }

    fn open(&mut self) -> Result<()> {
        self.at += 1;
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(Unfit) } else { Ok(()) }
    }

    fn visit_string<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value> {
        let string = self.string()?;
        match string.plain(self.text) {
            Some(text) => visitor.visit_borrowed_str(text),
            None => visitor.visit_string(string.unescaped(self.text)?),
        }
    }

    fn visit_number<V: Visitor<'de>>(&mut self, visitor: V) -> Result<V::Value> {
        match self.integer() {
            Some((false, number)) => visitor.visit_u64(number),
            Some((true, number)) => visitor.visit_i64(-number.cast_signed()),
            None => self.by_serde_json(|reader| de::Deserializer::deserialize_any(reader, visitor)),
        }
    }

    /// Hands the value that is next to serde_json.
    fn by_serde_json<T>(
        &mut self,
        read: impl FnOnce(&mut serde_json::Deserializer<serde_json::de::StrRead<'de>>) -> serde_json::Result<T>,
    ) -> Result<T> {
        self.next_token();
        let begin = self.at;
        self.ignore()?;
        let mut reader = serde_json::Deserializer::from_str(&self.text[begin..self.at]);
        let value = read(&mut reader).map_err(|_| Unfit)?;
        reader.end().map_err(|_| Unfit)?;
        Ok(value)
    }
}

/// Methods that take one kind of value, told by its first byte.
macro_rules! take {
    ($($first:pat => $by:ident: $($method:ident)+;)+) => {
        $($(
            fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
                match self.next_token() {
                    Some($first) => self.$by(visitor),
                    _ => Err(Unfit),
                }
            }
        )+)+
    };
}

/// Methods that are left to serde_json.
macro_rules! leave {
    ($($method:ident)+) => {
        $(
            fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
                self.by_serde_json(|reader| de::Deserializer::$method(reader, visitor))
            }
        )+
    };
}

impl<'de> de::Deserializer<'de> for &mut Reader<'de> {
    type Error = Unfit;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self.next_token() {
            Some(b'"') => self.visit_string(visitor),
            Some(bracket @ (b'{' | b'[')) => self.container(bracket, visitor),
            Some(b'-' | b'0'..=b'9') => self.visit_number(visitor),
            Some(b't') => self.word("true").and_then(|()| visitor.visit_bool(true)),
            Some(b'f') => self.word("false").and_then(|()| visitor.visit_bool(false)),
            Some(b'n') => self.word("null").and_then(|()| visitor.visit_unit()),
            _ => Err(Unfit),
        }
    }

    take! {
        b'"' => visit_string: deserialize_str deserialize_string deserialize_char deserialize_identifier;
        b'-' | b'0'..=b'9' => visit_number: deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64
            deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_f64;
        b't' | b'f' => deserialize_any: deserialize_bool;
        b'n' => deserialize_any: deserialize_unit;
        b'[' => deserialize_any: deserialize_seq;
        b'{' => deserialize_any: deserialize_map;
    }

    leave! { deserialize_f32 deserialize_i128 deserialize_u128 deserialize_bytes deserialize_byte_buf }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        if self.next_token() == Some(b'n') {
            return self.word("null").and_then(|()| visitor.visit_none());
        }
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value> {
        // What serde_json keeps as text is told to it by such a name.
        if name.starts_with("$serde_json::") {
            return self.by_serde_json(|reader| reader.deserialize_newtype_struct(name, visitor));
        }
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        self.by_serde_json(|reader| reader.deserialize_enum(name, variants, visitor))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        match self.next_token() {
            Some(bracket @ (b'{' | b'[')) => self.container(bracket, visitor),
            _ => Err(Unfit),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(self, _: &'static str, _: usize, visitor: V) -> Result<V::Value> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.ignore()?;
        visitor.visit_unit()
    }
}

#[cfg(test)]
mod tests;
