//! Documents that a guest might send: JSON with errors.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Bytes, which in the corpus are a text, or a list of numbers if they are not UTF-8.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Document {
    Text(String),
    Bytes(Vec<u8>),
}

/// Texts that parsers treat specially.
const FRAGMENTS: [&str; 20] = [
    "null",
    "true",
    "{}",
    "[]",
    "[\"\"]",
    "{\"\":1}",
    "\"\"",
    "\"*\"",
    "\"\\u0000\"",
    "\"\\ud800\"",
    "-1",
    "0.5",
    "1e999",
    "18446744073709551616",
    "[[[[[[[[",
    ",",
    ":",
    "}",
    "\u{feff}",
    "😀",
];

/// An edit of a text.
#[derive(Clone, Debug)]
enum Edit {
    Flip(Index, u8),
    Insert(Index, &'static str),
    Copy(Index, Index, u8),
    Delete(Index, u8),
}

impl Document {
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Document::Text(text) => text.as_bytes(),
            Document::Bytes(bytes) => bytes,
        }
    }
}

impl From<Vec<u8>> for Document {
    fn from(bytes: Vec<u8>) -> Document {
        String::from_utf8(bytes).map_or_else(|error| Document::Bytes(error.into_bytes()), Document::Text)
    }
}

/// `seeds`, which are JSON, with some values replaced or with edits of their text; and arbitrary bytes.
pub fn documents(seeds: &'static [&'static str]) -> impl Strategy<Value = Document> {
    let replaced = (select(seeds), vec((any::<Index>(), value()), 0..3)).prop_map(|(seed, changes)| {
        let mut document = parse(seed);
        for (at, value) in changes {
            replace(&mut document, &at, value);
        }
        Document::Text(document.to_string())
    });
    let edited = (select(seeds), vec(edit(), 0..4)).prop_map(|(seed, edits)| {
        let mut bytes = seed.as_bytes().to_vec();
        edits.iter().for_each(|edit| edit.apply(&mut bytes));
        Document::from(bytes)
    });
    prop_oneof![
        4 => replaced,
        3 => edited,
        1 => value().prop_map(|value| Document::Text(value.to_string())),
        1 => vec(any::<u8>(), 0..64).prop_map(Document::from),
    ]
}

/// JSON pointers to all values in a document, its root first.
#[must_use]
pub fn pointers(document: &Value) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut add = |name: &str, value: &Value| {
        let name = name.replace('~', "~0").replace('/', "~1");
        let below = pointers(value).into_iter();
        found.extend(below.map(|pointer| format!("/{name}{pointer}")));
    };
    match document {
        Value::Object(members) => members.iter().for_each(|(name, value)| add(name, value)),
        Value::Array(items) => {
            let items = items.iter().enumerate();
            items.for_each(|(position, value)| add(&position.to_string(), value));
        }
        _ => {}
    }
    found
}

fn parse(seed: &str) -> Value {
    serde_json::from_str(seed).unwrap_or_else(|error| panic!("{seed}: {error}"))
}

fn replace(document: &mut Value, at: &Index, value: Value) {
    let pointer = at.get(&pointers(document)).clone();
    if let Some(place) = document.pointer_mut(&pointer) {
        *place = value;
    }
}

/// A small JSON value.
fn value() -> impl Strategy<Value = Value> {
    let words = select(
        &[
            "",
            "a",
            "*",
            "v1",
            "metadata",
            "/spec",
            "é\"\\\n",
            "2026-11-28T00:00:00Z",
        ][..],
    );
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        words.clone().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 3, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            vec((words.clone(), inner), 0..3).prop_map(|members| members
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect::<Value>()),
        ]
    })
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        (any::<Index>(), any::<u8>()).prop_map(|(at, bits)| Edit::Flip(at, bits)),
        (any::<Index>(), select(&FRAGMENTS[..])).prop_map(|(at, text)| Edit::Insert(at, text)),
        (any::<Index>(), any::<Index>(), 0_u8..40).prop_map(|(from, to, length)| Edit::Copy(from, to, length)),
        (any::<Index>(), 0_u8..40).prop_map(|(at, length)| Edit::Delete(at, length)),
    ]
}

impl Edit {
    fn apply(&self, bytes: &mut Vec<u8>) {
        let place = |at: &Index, bytes: &[u8]| at.index(bytes.len() + 1);
        let end = |at: usize, length: u8, bytes: &[u8]| bytes.len().min(at + usize::from(length));
        match self {
            Edit::Flip(at, bits) => {
                let at = place(at, bytes);
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= bits;
                }
            }
            Edit::Insert(at, text) => {
                let at = place(at, bytes);
                bytes.splice(at..at, text.bytes());
            }
            Edit::Copy(from, to, length) => {
                let (from, to) = (place(from, bytes), place(to, bytes));
                let copied = bytes[from..end(from, *length, bytes)].to_vec();
                bytes.splice(to..to, copied);
            }
            Edit::Delete(at, length) => {
                let at = place(at, bytes);
                bytes.drain(at..end(at, *length, bytes));
            }
        }
    }
}
