//! What a plugin must have done, and what must be the case.

use std::ops::Range;

use informant_config::{FilePosition, parse_duration, show_duration};
use serde_json::{Map, Value, json};

use super::objects::{self, Object, Reference};
use crate::cli::test::yaml::{Members, Node, Reader, Yaml};

const MEMBERS: [&str; 12] = [
    "absent",
    "calls",
    "deadLetters",
    "events",
    "http",
    "indexes",
    "kv",
    "log",
    "metrics",
    "objects",
    "refused",
    "writes",
];

/// One `expect`. What it does not have is not looked at.
#[derive(Debug)]
pub(in crate::cli::test) struct Expect {
    pub(in crate::cli::test) streams: Vec<Listed>,
    pub(in crate::cli::test) objects: Vec<Object>,
    pub(in crate::cli::test) absent: Vec<Reference>,
    /// Informer, index and value, and the keys under it.
    pub(in crate::cli::test) indexes: Vec<Indexed>,
    pub(in crate::cli::test) kv: Vec<Amount>,
    pub(in crate::cli::test) metrics: Vec<Amount>,
    pub(in crate::cli::test) refused: Option<Amount>,
    /// The members that an update may rewrite: name, the bytes of the name, and those of the value.
    pub(in crate::cli::test) members: Vec<(String, Range<usize>, Range<usize>)>,
}

/// What happens in an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli::test) enum Stream {
    Calls,
    Log,
    Writes,
    Http,
    Events,
    DeadLetters,
}

/// The expected entries of a stream.
#[derive(Debug)]
pub(in crate::cli::test) struct Listed {
    pub(in crate::cli::test) stream: Stream,
    pub(in crate::cli::test) position: FilePosition,
    /// Others may be between them.
    pub(in crate::cli::test) includes: bool,
    pub(in crate::cli::test) entries: Vec<Entry>,
}

#[derive(Debug)]
pub(in crate::cli::test) struct Entry {
    pub(in crate::cli::test) position: FilePosition,
    /// The members that are compared.
    pub(in crate::cli::test) pattern: Map<String, Value>,
}

/// A named value that is expected: a key, a metric.
#[derive(Debug)]
pub(in crate::cli::test) struct Amount {
    pub(in crate::cli::test) position: FilePosition,
    pub(in crate::cli::test) name: String,
    pub(in crate::cli::test) value: Value,
}

#[derive(Debug)]
pub(in crate::cli::test) struct Indexed {
    pub(in crate::cli::test) position: FilePosition,
    pub(in crate::cli::test) informer: String,
    pub(in crate::cli::test) index: String,
    pub(in crate::cli::test) value: String,
    pub(in crate::cli::test) keys: Vec<String>,
}

impl Stream {
    pub(in crate::cli::test) const ALL: [Stream; 6] = [
        Stream::Calls,
        Stream::Log,
        Stream::Writes,
        Stream::Http,
        Stream::Events,
        Stream::DeadLetters,
    ];

    pub(in crate::cli::test) const fn name(self) -> &'static str {
        match self {
            Stream::Calls => "calls",
            Stream::Log => "log",
            Stream::Writes => "writes",
            Stream::Http => "http",
            Stream::Events => "events",
            Stream::DeadLetters => "deadLetters",
        }
    }

    /// The members of its entries.
    const fn members(self) -> &'static [&'static str] {
        match self {
            Stream::Calls => &[
                "attempt",
                "call",
                "error",
                "missed",
                "object",
                "reason",
                "requeueAfter",
                "result",
                "timer",
            ],
            Stream::Log => &["fields", "level", "message"],
            Stream::Writes => &["document", "kind", "object", "options", "result", "subresource", "verb"],
            Stream::Http => &["body", "error", "headers", "method", "status", "url"],
            Stream::Events => &["action", "note", "reason", "regarding", "related", "type"],
            Stream::DeadLetters => &["error", "object"],
        }
    }

    /// The possible values of a member that has few.
    fn choices(self, member: &str) -> Option<&'static [&'static str]> {
        Some(match (self, member) {
            (Stream::Calls, "call") => &[
                "on-add",
                "on-update",
                "on-delete",
                "reconcile",
                "on-timer",
                "on-synced",
                "save",
                "restore",
            ],
            (Stream::Events, "type") => &["Normal", "Warning"],
            (Stream::Calls, "result") => &["ok", "retry", "permanent", "trap"],
            (Stream::Log, "level") => &["info", "warn", "error"],
            (Stream::Writes, "verb") => &["create", "update", "patch", "delete"],
            (Stream::Writes, "kind") => &["merge", "json", "strategic", "apply"],
            _ => return None,
        })
    }

    /// The entry that a text is short for.
    fn short(self, text: &str) -> Option<Value> {
        match self {
            Stream::Log => Some(json!({ "message": text })),
            Stream::DeadLetters => Some(json!({ "object": text })),
            Stream::Calls => Some(match text.split_once(' ') {
                Some((call @ "on-timer", timer)) => json!({ "call": call, "timer": timer, "result": "ok" }),
                Some((call, object)) => json!({ "call": call, "object": object, "result": "ok" }),
                None => json!({ "call": text, "result": "ok" }),
            }),
            Stream::Writes | Stream::Http | Stream::Events => None,
        }
    }
}

pub(super) fn read(reader: &mut Reader<'_>, node: &Node) -> Expect {
    let members = reader.members(node, "`expect`", &MEMBERS);
    let streams = Stream::ALL.into_iter().filter_map(|stream| {
        let node = members.get(stream.name())?;
        Some(read_stream(reader, node, stream))
    });
    let streams = streams.collect();
    let read_objects = |reader: &mut Reader<'_>, node| objects::read(reader, node, "objects");
    Expect {
        streams,
        objects: members
            .get("objects")
            .map(|node| read_objects(reader, node))
            .unwrap_or_default(),
        absent: read_absent(reader, members),
        indexes: members
            .get("indexes")
            .map(|node| read_indexes(reader, node))
            .unwrap_or_default(),
        kv: read_amounts(reader, members, "kv"),
        metrics: read_amounts(reader, members, "metrics"),
        refused: members.get("refused").and_then(|node| {
            Some(Amount {
                position: reader.position(node),
                name: "refused".to_owned(),
                value: reader.text(node, "refused")?.into(),
            })
        }),
        members: members
            .0
            .iter()
            .filter(|member| member.value.is_replaceable())
            .map(|member| (member.name.clone(), member.span.clone(), member.value.span.clone()))
            .collect(),
    }
}

fn read_stream(reader: &mut Reader<'_>, node: &Node, stream: Stream) -> Listed {
    let included = match &node.value {
        Yaml::Map(_) => {
            let members = reader.members(node, &format!("`{}`", stream.name()), &["includes"]);
            members.get("includes")
        }
        _ => None,
    };
    let entries = match (included, &node.value) {
        (None, Yaml::Map(_)) => {
            let name = stream.name();
            let help = format!("write `{name}: [...]`, or `{name}: {{ includes: [...] }}`");
            reader.refuse(node, format!("`{name}` is a mapping without `includes`"), help);
            Vec::new()
        }
        (included, _) => {
            let nodes = reader.list(included.unwrap_or(node), stream.name());
            nodes
                .iter()
                .filter_map(|node| read_entry(reader, node, stream))
                .collect()
        }
    };
    Listed {
        stream,
        position: reader.position(node),
        includes: included.is_some(),
        entries,
    }
}

fn read_entry(reader: &mut Reader<'_>, node: &Node, stream: Stream) -> Option<Entry> {
    let what = format!("an entry of `{}`", stream.name());
    let short = match &node.value {
        Yaml::Text(text) => stream.short(text),
        _ => None,
    };
    let value = match short {
        Some(value) => value,
        None => {
            reader.members(node, &what, stream.members());
            node.to_json()
        }
    };
    let Value::Object(mut pattern) = value else { return None };
    for (member, value) in &mut pattern {
        if let Some(choices) = stream.choices(member)
            && !value.as_str().is_some_and(|value| choices.contains(&value))
        {
            let help = format!("possible values: {}", choices.join(", "));
            reader.refuse(
                node,
                format!("`{member}` in {what} has an unknown value: {value}"),
                help,
            );
        }
        // As they are recorded.
        if let (Stream::Http, "headers", Value::Object(headers)) = (stream, &**member, &mut *value) {
            let lower = std::mem::take(headers).into_iter();
            *headers = lower.map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
        }
        if member == "requeueAfter" {
            // In one form, so that texts can be compared.
            match value.as_str().and_then(parse_duration) {
                Some(duration) => *value = show_duration(duration).into(),
                None if value.is_null() => {}
                None => reader.refuse(
                    node,
                    format!("`requeueAfter` is not a duration: {value}"),
                    "write it as 30s",
                ),
            }
        }
    }
    Some(Entry {
        position: reader.position(node),
        pattern,
    })
}

fn read_absent(reader: &mut Reader<'_>, members: Members<'_>) -> Vec<Reference> {
    let Some(node) = members.get("absent") else {
        return Vec::new();
    };
    let nodes = reader.list(node, "absent").iter();
    nodes
        .filter_map(|node| objects::read_reference(reader, node, "absent"))
        .collect()
}

fn read_amounts(reader: &mut Reader<'_>, members: Members<'_>, what: &str) -> Vec<Amount> {
    let Some(node) = members.get(what) else {
        return Vec::new();
    };
    let mut amounts = Vec::new();
    for member in reader.map(node, what) {
        if what == "metrics" && !matches!(member.value.value, Yaml::Number(_) | Yaml::Null) {
            let help = "write the value of the series, or null if there is none";
            reader.refuse(
                &member.value,
                format!("the value of `{}` is not a number", member.name),
                help,
            );
        }
        amounts.push(Amount {
            position: reader.file.position(member.span.start),
            name: member.name.clone(),
            value: member.value.to_json(),
        });
    }
    amounts
}

/// informer → index → value → keys.
fn read_indexes(reader: &mut Reader<'_>, node: &Node) -> Vec<Indexed> {
    let mut indexes = Vec::new();
    for informer in reader.map(node, "indexes") {
        for index in reader.map(&informer.value, &informer.name) {
            for value in reader.map(&index.value, &index.name) {
                let nodes = reader.list(&value.value, &value.name).iter();
                let keys = nodes.filter_map(|node| reader.text(node, &value.name).map(str::to_owned));
                let mut keys: Vec<String> = keys.collect();
                keys.sort();
                indexes.push(Indexed {
                    position: reader.file.position(value.span.start),
                    informer: informer.name.clone(),
                    index: index.name.clone(),
                    value: value.name.clone(),
                    keys,
                });
            }
        }
    }
    indexes
}
