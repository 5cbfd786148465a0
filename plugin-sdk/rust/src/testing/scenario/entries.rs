//! The lists of an `expect`, whose entries are compared in order.

use serde_json::{Map, Value, json};

use super::format::{Reference, one_of, reference};
use super::yaml::{Node, Read};

const CALLS: &str = "on-add on-delete on-synced on-timer on-update restore save";

/// A list.
#[derive(Debug)]
pub(super) struct Listed {
    /// `calls` and so on.
    pub(super) name: String,
    /// Others may be between the entries.
    pub(super) includes: bool,
    pub(super) entries: Vec<(Node, Map<String, Value>)>,
}

/// Reads the list with this name.
pub(super) fn listed(name: &str, node: &Node) -> Read<Listed> {
    let includes = node.get("includes");
    if node.value.is_object() {
        node.check_members("includes")?;
    }
    let mut entries = Vec::new();
    for entry in includes.unwrap_or(node).list()? {
        let value = match (name, entry.value.as_str()) {
            ("calls", Some(text)) => match text.split_once(' ') {
                Some(("on-timer", timer)) => json!({ "call": "on-timer", "timer": timer, "result": "ok" }),
                Some((call, object)) => json!({ "call": known_call(entry, call)?, "object": object, "result": "ok" }),
                None => json!({ "call": known_call(entry, text)?, "result": "ok" }),
            },
            ("log", Some(text)) => json!({ "message": text }),
            ("deadLetters", Some(_)) => json!({ "object": reference(entry)?.to_string() }),
            _ => checked(name, entry)?,
        };
        if let Value::Object(members) = value {
            entries.push((entry.clone(), members));
        }
    }
    let (name, includes) = (name.to_owned(), includes.is_some());
    Ok(Listed {
        name,
        includes,
        entries,
    })
}

fn known_call<'t>(entry: &Node, call: &'t str) -> Read<&'t str> {
    match CALLS.split(' ').any(|known| known == call) {
        true => Ok(call),
        false => entry.fail(format_args!(
            "there is no call {call:?}; there are {}",
            CALLS.replace(' ', ", ")
        )),
    }
}

/// An entry, in the form in which what happened is shown.
fn checked(list: &str, entry: &Node) -> Read<Value> {
    if let Some(options) = entry.get("options").filter(|_| list == "writes") {
        return options.needs_informant("options of writes");
    }
    entry.check_members(match list {
        "calls" => "attempt call error missed object reason requeueAfter result timer",
        "events" => "action note reason regarding related type",
        "log" => "fields level message",
        "writes" => "document kind object result subresource verb",
        "http" => "body error headers method status url",
        _ => "error object",
    })?;
    let mut members = Map::new();
    for (name, node) in entry.members()? {
        let value = match name {
            _ if node.value.is_null() => Value::Null,
            "body" | "document" => node.value.clone(),
            "fields" => node.members().map(|_| node.value.clone())?,
            "headers" => {
                let lower = |(name, node): (&str, &Node)| (name.to_lowercase(), node.value.clone());
                Value::Object(node.members()?.map(lower).collect())
            }
            "attempt" | "missed" | "status" => node.whole()?.into(),
            "requeueAfter" => humantime::format_duration(node.duration()?).to_string().into(),
            "method" => node.text()?.to_uppercase().into(),
            "result" if list == "calls" && node.value == "trap" => {
                return node.needs_informant("a trap, since a panic of the plugin ends the test");
            }
            "regarding" | "related" => described(node)?.into(),
            name => {
                choice(list, name, node)?;
                node.value.clone()
            }
        };
        members.insert(name.to_owned(), value);
    }
    Ok(Value::Object(members))
}

/// An object, as an Event describes it.
fn described(node: &Node) -> Read<&str> {
    let text = node.text()?;
    let key = text.split_once(' ').map_or("", |(_, key)| key);
    match key.is_empty() || key.contains(' ') {
        false => Ok(text),
        true => node.fail(format_args!(
            "{} is not an object: write KIND NAMESPACE/NAME, as in Pod shop/web-0",
            node.value
        )),
    }
}

/// A text, of which there may be only some.
fn choice(list: &str, name: &str, node: &Node) -> Read<()> {
    let choices = match (list, name) {
        ("calls", "call") => CALLS,
        ("calls", "result") => "ok permanent retry trap",
        ("events", "type") => "Normal Warning",
        ("log", "level") => "error info warn",
        ("writes", "kind") => "apply json merge strategic",
        ("writes", "verb") => "create delete patch update",
        ("calls", "object") if Reference::parse(node.text()?).is_none() && !node.text()?.contains(' ') => return Ok(()),
        (_, "object") => return reference(node).map(drop),
        _ => return node.text().map(drop),
    };
    one_of(node, choices).map(drop)
}
