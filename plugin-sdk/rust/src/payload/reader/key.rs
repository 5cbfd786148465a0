//! The name of a member, as what serde calls a key.

use serde::de::{self, Visitor};

use super::{Result, Unfit};

/// A name. Keys that are more than text (numbers, enums) are left to serde_json.
pub(super) enum Key<'de> {
    Plain(&'de str),
    Unescaped(String),
}

/// Methods that take no text.
macro_rules! refuse {
    ($($method:ident($($argument:ty),*);)+) => {
        $(
            fn $method<V: Visitor<'de>>(self, $(_: $argument,)* _: V) -> Result<V::Value> {
                Err(Unfit)
            }
        )+
    };
}

impl<'de> de::Deserializer<'de> for Key<'de> {
    type Error = Unfit;

    #[inline]
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match self {
            Key::Plain(text) => visitor.visit_borrowed_str(text),
            Key::Unescaped(text) => visitor.visit_string(text),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value> {
        if name.starts_with("$serde_json::") {
            return Err(Unfit);
        }
        visitor.visit_newtype_struct(self)
    }

    serde::forward_to_deserialize_any! { str string char identifier }

    refuse! {
        deserialize_bool();
        deserialize_u8();
        deserialize_u16();
        deserialize_u32();
        deserialize_u64();
        deserialize_u128();
        deserialize_i8();
        deserialize_i16();
        deserialize_i32();
        deserialize_i64();
        deserialize_i128();
        deserialize_f32();
        deserialize_f64();
        deserialize_bytes();
        deserialize_byte_buf();
        deserialize_option();
        deserialize_unit();
        deserialize_unit_struct(&'static str);
        deserialize_seq();
        deserialize_tuple(usize);
        deserialize_tuple_struct(&'static str, usize);
        deserialize_map();
        deserialize_struct(&'static str, &'static [&'static str]);
        deserialize_enum(&'static str, &'static [&'static str]);
    }
}
