//! Random JSON documents, written in random ways: white space, escapes, member order.

use std::collections::HashSet;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// A JSON value before it is written. Members keep their order and may share names.
#[derive(Clone, Debug)]
pub(crate) enum Doc {
    Literal(&'static str),
    Integer(i32),
    Text(String),
    Array(Vec<Doc>),
    Object(Vec<(String, Doc)>),
}

/// A document and the way it is written.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) text: String,
}

/// Names that pointers, heads and lists read, and names that are hard to parse.
const NAMES: [&str; 22] = [
    "metadata",
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "labels",
    "managedFields",
    "apiVersion",
    "kind",
    "spec",
    "items",
    "a",
    "b",
    "c",
    "0",
    "1",
    "10",
    "*",
    "a/b",
    "~",
    "",
    "\"\\\n\u{1F600}é",
];

const LITERALS: [&str; 9] = [
    "null",
    "true",
    "false",
    "0",
    "-1",
    "1.5",
    "1e3",
    "-0.25E-2",
    "12345678901234567890",
];

pub(crate) fn name() -> impl Strategy<Value = String> {
    prop_oneof![8 => select(&NAMES[..]).prop_map(str::to_owned), 1 => text()]
}

/// Texts that need escapes, look like JSON structure, or cross the scanner's blocks.
pub(crate) fn text() -> impl Strategy<Value = String> {
    let piece = select(
        &[
            "",
            "a",
            "\"",
            "\\",
            "\\\\\"",
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "/",
            "\n",
            "\u{1}",
            "é",
            "\u{1F600}",
            "xxxxxxxxxxxxxxx",
        ][..],
    );
    prop_oneof![
        4 => vec(piece, 0..12).prop_map(|pieces| pieces.concat()),
        2 => "[a-z0-9.-]{1,20}",
        1 => any::<String>(),
        1 => (0usize..200).prop_map(|length| "\\".repeat(length)),
    ]
}

fn leaf() -> impl Strategy<Value = Doc> {
    prop_oneof![
        select(&LITERALS[..]).prop_map(Doc::Literal),
        any::<i32>().prop_map(Doc::Integer),
        text().prop_map(Doc::Text)
    ]
}

/// Any value. Names are unique within an object.
pub(crate) fn value() -> impl Strategy<Value = Doc> {
    leaf().prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Doc::Array),
            vec((name(), inner), 0..6).prop_map(|members| Doc::Object(unique(members))),
        ]
    })
}

/// An object as an API server might send it, more or less: any part may be missing, doubled or of the wrong type.
pub(crate) fn object() -> impl Strategy<Value = Doc> {
    (
        vec((name(), value()), 0..4),
        head_member("apiVersion"),
        head_member("kind"),
        metadata(),
    )
        .prop_flat_map(|(mut members, api_version, kind, metadata)| {
            members.extend(api_version);
            members.extend(kind);
            members.extend(metadata.map(|metadata| ("metadata".to_owned(), metadata)));
            Just(unique_last(members)).prop_shuffle().prop_map(Doc::Object)
        })
}

/// As [`object`], with names that may occur twice in the object and in its metadata, apart from apiVersion and kind.
pub(crate) fn object_with_doubles() -> impl Strategy<Value = Doc> {
    (object(), object(), any::<prop::sample::Index>()).prop_map(|(first, second, at)| {
        let (Doc::Object(mut members), Doc::Object(more)) = (first, second) else {
            unreachable!("objects are objects")
        };
        let at = at.index(members.len() + 1);
        members.splice(at..at, more);
        // Of apiVersion and kind the first value counts, which a separate test covers.
        let mut seen = HashSet::new();
        members.retain(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind") || seen.insert(name.clone()));
        for (name, value) in &mut members {
            if let ("metadata", Doc::Object(metadata)) = (name.as_str(), value) {
                let doubled: Vec<_> = metadata
                    .iter()
                    .take(2)
                    .map(|(name, _)| (name.clone(), Doc::Text("again".into())))
                    .collect();
                metadata.extend(doubled);
            }
        }
        Doc::Object(members)
    })
}

fn metadata() -> impl Strategy<Value = Option<Doc>> {
    let labels = vec((text(), leaf()), 0..4).prop_map(|labels| Doc::Object(unique(labels)));
    let fields = (
        head_member("name"),
        head_member("namespace"),
        head_member("uid"),
        prop_oneof![
            (1u32..2000).prop_map(|v| Some(("resourceVersion".to_owned(), Doc::Text(v.to_string())))),
            head_member("resourceVersion")
        ],
        prop::option::of(labels.prop_map(|labels| ("labels".to_owned(), labels))),
        prop::option::of(value().prop_map(|fields| ("managedFields".to_owned(), fields))),
        vec((name(), value()), 0..3),
    );
    let members = fields.prop_flat_map(|(name, namespace, uid, version, labels, managed, mut members)| {
        for member in [name, namespace, uid, version, labels, managed] {
            members.extend(member);
        }
        Just(unique_last(members)).prop_shuffle().prop_map(Doc::Object)
    });
    prop_oneof![12 => members.prop_map(Some), 1 => Just(None), 1 => value().prop_map(Some)]
}

/// A head field: mostly a plain text, sometimes a hard one, null, absent or wrong.
fn head_member(name: &'static str) -> impl Strategy<Value = Option<(String, Doc)>> {
    let value = prop_oneof![
        10 => "[a-z0-9.-]{1,20}".prop_map(Doc::Text),
        3 => text().prop_map(Doc::Text),
        1 => Just(Doc::Literal("null")),
    ];
    let wrong = value_for(name).prop_map(move |value| Some((name.to_owned(), value)));
    prop_oneof![14 => value.prop_map(move |value| Some((name.to_owned(), value))), 1 => Just(None), 1 => wrong]
}

fn value_for(_name: &str) -> impl Strategy<Value = Doc> + use<> {
    leaf()
}

/// Keeps the first member of each name.
fn unique(members: Vec<(String, Doc)>) -> Vec<(String, Doc)> {
    let mut seen = std::collections::BTreeSet::new();
    members
        .into_iter()
        .filter(|(name, _)| seen.insert(name.clone()))
        .collect()
}

/// Keeps the last member of each name.
fn unique_last(mut members: Vec<(String, Doc)>) -> Vec<(String, Doc)> {
    members.reverse();
    unique(members)
}

/// Writes documents in a way that `style`, bytes used in turn, decides.
pub(crate) struct Writer<'s> {
    style: std::iter::Cycle<std::slice::Iter<'s, u8>>,
    pub(crate) text: String,
}

/// The style of a [`Writer`]: all zeroes is compact.
pub(crate) fn style() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![Just(vec![0]), vec(any::<u8>(), 1..40)]
}

impl<'s> Writer<'s> {
    pub(crate) fn new(style: &'s [u8]) -> Writer<'s> {
        Writer {
            style: style.iter().cycle(),
            text: String::new(),
        }
    }

    fn choice(&mut self) -> u8 {
        *self.style.next().expect("a style is never empty")
    }

    pub(crate) fn space(&mut self) {
        let spaces = [
            "",
            "",
            "",
            "",
            " ",
            "\n",
            "\t\r\n  ",
            "                                                  ",
        ];
        let choice = usize::from(self.choice() / 32);
        self.text.push_str(spaces[choice]);
    }

    pub(crate) fn value(&mut self, doc: &Doc) {
        match doc {
            Doc::Literal(literal) => self.text.push_str(literal),
            Doc::Integer(integer) => self.text.push_str(&integer.to_string()),
            Doc::Text(text) => self.string(text),
            Doc::Array(elements) => {
                self.list('[', elements, ']', |writer, element| writer.value(element));
            }
            Doc::Object(members) => self.list('{', members, '}', |writer, (name, value)| {
                writer.string(name);
                writer.space();
                writer.text.push(':');
                writer.space();
                writer.value(value);
            }),
        }
    }

    pub(crate) fn list<T>(&mut self, open: char, items: &[T], close: char, write: impl Fn(&mut Self, &T)) {
        self.text.push(open);
        self.space();
        for (number, item) in items.iter().enumerate() {
            if number > 0 {
                self.text.push(',');
                self.space();
            }
            write(self, item);
            self.space();
        }
        self.text.push(close);
    }

    fn string(&mut self, text: &str) {
        self.text.push('"');
        for c in text.chars() {
            match c {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                c if c < ' ' || self.choice() > 235 => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        self.text.push_str(&format_args!("\\u{unit:04x}").to_string());
                    }
                }
                c => self.text.push(c),
            }
        }
        self.text.push('"');
    }
}

/// Writes `doc`, with space around it.
pub(crate) fn written(doc: impl Strategy<Value = Doc>) -> impl Strategy<Value = Written> {
    (doc, style()).prop_map(|(doc, style)| {
        let mut writer = Writer::new(&style);
        writer.space();
        writer.value(&doc);
        writer.space();
        Written { text: writer.text }
    })
}
