//! The layout of Kubernetes' protobuf messages, from `schema.txt`, which `generate.go` writes.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// `kind API-VERSION KIND MESSAGE`, `message MESSAGE`, and for each field `NUMBER JSON-NAME WHEN TYPE`.
const TEXT: &str = include_str!("schema.txt");

/// When a field is shown in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OmitWhen {
    /// Whenever it is on the wire: pointers, whose zero means something.
    Always,
    /// Omitted from JSON if zero; Go always writes it on the wire.
    Set,
    /// Its fields are inlined into its parent.
    Inline,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum FieldType {
    String,
    Int,
    Bool,
    Double,
    Bytes,
    Message(&'static str),
    List(Box<FieldType>),
    /// From strings.
    Map(Box<FieldType>),
}

#[derive(Debug)]
pub(super) struct Field {
    pub(super) json: &'static str,
    pub(super) when: OmitWhen,
    pub(super) type_: FieldType,
}

#[derive(Debug, Default)]
pub(super) struct MessageSchema {
    kinds: BTreeMap<(&'static str, &'static str), &'static str>,
    messages: BTreeMap<&'static str, BTreeMap<u64, Field>>,
}

impl MessageSchema {
    /// The schema, read at first use.
    pub(super) fn get() -> &'static Self {
        static SCHEMA: LazyLock<MessageSchema> = LazyLock::new(|| MessageSchema::parse(TEXT));
        &SCHEMA
    }

    fn parse(text: &'static str) -> Self {
        let mut schema = Self::default();
        let mut message = "";
        for line in text.lines() {
            match line.split(' ').collect::<Vec<_>>().as_slice() {
                ["kind", api_version, kind, message] => {
                    schema.kinds.insert((api_version, kind), message);
                }
                ["message", name] => {
                    message = name;
                    schema.messages.insert(name, BTreeMap::new());
                }
                [number, json, when, type_] => {
                    let when = match *when {
                        "set" => OmitWhen::Set,
                        "inline" => OmitWhen::Inline,
                        _ => OmitWhen::Always,
                    };
                    let field = Field {
                        json,
                        when,
                        type_: FieldType::parse(type_),
                    };
                    schema
                        .messages
                        .entry(message)
                        .or_default()
                        .insert(number.parse().unwrap_or(0), field);
                }
                _ => {}
            }
        }
        schema
    }

    /// The message of a kind. Options have no particular version.
    pub(super) fn message_of(&self, api_version: &str, kind: &str) -> Option<&'static str> {
        let find = |api_version: &str| self.kinds.get(&(api_version, kind) as &(&str, &str)).copied();
        find(api_version).or_else(|| find("*"))
    }

    pub(super) fn fields(&self, message: &str) -> Option<&BTreeMap<u64, Field>> {
        self.messages.get(message)
    }
}

impl FieldType {
    fn parse(text: &'static str) -> Self {
        if let Some(element) = text.strip_prefix("[]") {
            return Self::List(Box::new(Self::parse(element)));
        }
        if let Some(element) = text.strip_prefix("map:") {
            return Self::Map(Box::new(Self::parse(element)));
        }
        match text {
            "string" => Self::String,
            "int" => Self::Int,
            "bool" => Self::Bool,
            "double" => Self::Double,
            "bytes" => Self::Bytes,
            message => Self::Message(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages<'a>(type_: &'a FieldType, found: &mut Vec<&'a str>) {
        match type_ {
            FieldType::Message(message) => found.push(message),
            FieldType::List(element) | FieldType::Map(element) => messages(element, found),
            _ => {}
        }
    }

    #[test]
    fn every_message_that_is_named_is_described() {
        let schema = MessageSchema::get();
        let mut named: Vec<&str> = schema.kinds.values().copied().collect();
        for field in schema.messages.values().flat_map(BTreeMap::values) {
            messages(&field.type_, &mut named);
        }
        assert!(named.len() > 500);
        for message in named {
            assert!(schema.fields(message).is_some(), "{message}");
        }
    }
}
