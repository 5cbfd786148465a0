//! What happens in a scenario: steps, and answers to HTTP requests.

use std::path::PathBuf;
use std::time::Duration;

use informant_config::{FilePosition, parse_duration};
use serde_json::Value;

use super::expect::{self, Expect};
use super::objects::{self, Object, Reference};
use super::replay::{self, Replay};
use crate::cli::test::yaml::{Members, Node, Reader, Yaml};

const ACTIONS: [&str; 10] = [
    "apply", "delete", "http", "patch", "replay", "requeue", "swap", "timer", "trigger", "wait",
];

const ANSWER_MEMBERS: [&str; 8] = ["after", "body", "error", "headers", "method", "status", "times", "url"];

/// The longest `wait`: 30 days. What takes longer is not tested by waiting.
const WAIT_MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

#[derive(Debug)]
pub(in crate::cli::test) struct Step {
    pub(in crate::cli::test) position: FilePosition,
    pub(in crate::cli::test) action: Option<Action>,
    pub(in crate::cli::test) expect: Option<Expect>,
}

#[derive(Debug)]
pub(in crate::cli::test) enum Action {
    Apply(Vec<Object>),
    Patch(Object),
    Delete(Reference),
    Wait(Duration),
    Http(Vec<Answer>),
    Replay(Box<Replay>),
    /// The path of the new version, relative to the scenario.
    Swap(PathBuf),
    /// None: all dead letters.
    Requeue(Option<Reference>),
    Trigger(Reference),
    /// A run of this timer.
    Timer(String),
}

/// An answer to HTTP requests.
#[derive(Debug, Clone)]
pub(in crate::cli::test) struct Answer {
    /// None: every method.
    pub(in crate::cli::test) method: Option<String>,
    /// With `*` for any text.
    pub(in crate::cli::test) url: String,
    pub(in crate::cli::test) status: u16,
    pub(in crate::cli::test) headers: Vec<(String, String)>,
    /// A text, or JSON.
    pub(in crate::cli::test) body: Option<Value>,
    pub(in crate::cli::test) error: Option<AnswerError>,
    pub(in crate::cli::test) after: Duration,
    /// How many requests it answers; none: all.
    pub(in crate::cli::test) times: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli::test) enum AnswerError {
    Connect,
    Dns,
    Timeout,
}

impl AnswerError {
    pub(in crate::cli::test) const ALL: [(&str, AnswerError); 3] = [
        ("connect", AnswerError::Connect),
        ("dns", AnswerError::Dns),
        ("timeout", AnswerError::Timeout),
    ];

    pub(in crate::cli::test) fn as_str(self) -> &'static str {
        let found = Self::ALL.into_iter().find(|(_, error)| *error == self);
        found.map_or("connect", |(name, _)| name)
    }
}

pub(super) fn read(reader: &mut Reader<'_>, node: &Node) -> Vec<Step> {
    let steps = reader.list(node, "steps").iter();
    steps.map(|node| read_step(reader, node)).collect()
}

fn read_step(reader: &mut Reader<'_>, node: &Node) -> Step {
    let position = reader.position(node);
    let known: Vec<&str> = ACTIONS.into_iter().chain(["expect"]).collect();
    let members = reader.members(node, "a step", &known);
    let actions: Vec<&str> = ACTIONS.into_iter().filter(|name| members.get(name).is_some()).collect();
    if let [first, second, ..] = actions[..] {
        let help = format!("make a step of its own for `{second}`");
        reader.refuse(node, format!("a step has two actions: `{first}` and `{second}`"), help);
    }
    let expect = members.get("expect");
    if members.0.is_empty() && matches!(node.value, Yaml::Map(_)) {
        let help = format!("write one of {}, expect", ACTIONS.join(", "));
        reader.refuse(node, "a step has neither an action nor `expect`", help);
    }
    let action = actions
        .first()
        .and_then(|name| read_action(reader, name, members.get(name)?));
    Step {
        position,
        action,
        expect: expect.map(|node| expect::read(reader, node)),
    }
}

fn read_action(reader: &mut Reader<'_>, name: &str, node: &Node) -> Option<Action> {
    Some(match name {
        "apply" => Action::Apply(objects::read(reader, node, "apply")),
        "patch" => Action::Patch(objects::object(reader, node, "patch")?),
        "delete" => Action::Delete(objects::read_reference(reader, node, "delete")?),
        "wait" => Action::Wait(read_duration(reader, node, "wait")?),
        "http" => Action::Http(read_answers(reader, node)),
        "replay" => Action::Replay(Box::new(replay::read(reader, node)?)),
        "swap" => Action::Swap(reader.text(node, "swap")?.into()),
        "timer" => Action::Timer(reader.text(node, "timer")?.to_owned()),
        "requeue" if matches!(&node.value, Yaml::Text(text) if text == "all") => Action::Requeue(None),
        "requeue" => Action::Requeue(Some(objects::read_reference(reader, node, "requeue")?)),
        _ => Action::Trigger(objects::read_reference(reader, node, "trigger")?),
    })
}

pub(super) fn read_duration(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Duration> {
    let text = match &node.value {
        Yaml::Number(number) => {
            let help = format!("with a unit: {what}: {number}s");
            reader.refuse(node, format!("`{what}` is a number, not a duration"), help);
            return None;
        }
        _ => reader.text(node, what)?,
    };
    let duration = parse_duration(text).filter(|duration| *duration <= WAIT_MAX);
    if duration.is_none() {
        let help = "write a number and a unit, at most 30d: 500ms, 5s, 1m 30s, 2h";
        reader.refuse(node, format!("`{what}`: \"{text}\" is not a duration"), help);
    }
    duration
}

pub(super) fn read_answers(reader: &mut Reader<'_>, node: &Node) -> Vec<Answer> {
    let answers = reader.list(node, "http").iter();
    answers.filter_map(|node| read_answer(reader, node)).collect()
}

fn read_answer(reader: &mut Reader<'_>, node: &Node) -> Option<Answer> {
    let members = reader.members(node, "an answer in `http`", &ANSWER_MEMBERS);
    let Some(url) = members.get("url") else {
        if matches!(node.value, Yaml::Map(_)) {
            let help = "write the URL of the requests: url: https://hooks.example/*";
            reader.refuse(node, "an answer in `http` has no `url`", help);
        }
        return None;
    };
    let method = members.get("method").and_then(|node| reader.text(node, "method"));
    let after = members
        .get("after")
        .and_then(|node| read_duration(reader, node, "after"));
    let error = members.get("error").and_then(|node| read_error(reader, node, members));
    let headers = members.get("headers").map(|node| read_headers(reader, node));
    Some(Answer {
        method: method.map(str::to_ascii_uppercase),
        url: reader.text(url, "url")?.to_owned(),
        status: members
            .get("status")
            .and_then(|node| read_number(reader, node, "status", 100, 599))
            .and_then(|status| u16::try_from(status).ok())
            .unwrap_or(200),
        headers: headers.unwrap_or_default(),
        body: members.get("body").map(Node::to_json),
        error,
        after: after.unwrap_or_default(),
        times: members
            .get("times")
            .and_then(|node| read_number(reader, node, "times", 1, 1_000_000)),
    })
}

fn read_error(reader: &mut Reader<'_>, node: &Node, members: Members<'_>) -> Option<AnswerError> {
    let text = reader.text(node, "error")?;
    if members.get("status").is_some() || members.get("body").is_some() {
        reader.refuse(
            node,
            "`error` means that there is no response",
            "remove `status` and `body`, or `error`",
        );
    }
    let found = AnswerError::ALL.into_iter().find(|(name, _)| *name == text);
    if found.is_none() {
        reader.refuse(
            node,
            format!("`error`: \"{text}\" is unknown"),
            "possible values: connect, dns, timeout",
        );
    }
    found.map(|(_, error)| error)
}

fn read_headers(reader: &mut Reader<'_>, node: &Node) -> Vec<(String, String)> {
    let mut headers = Vec::new();
    for member in reader.map(node, "headers") {
        let Some(value) = reader.text(&member.value, &member.name) else {
            continue;
        };
        let is_header = http::HeaderName::try_from(&member.name).is_ok() && http::HeaderValue::try_from(value).is_ok();
        if !is_header {
            let message = format!("`{}: {value}` is not a header", member.name);
            reader.refuse(&member.value, message, "write names and values as they are sent");
        }
        headers.push((member.name.clone(), value.to_owned()));
    }
    headers
}

pub(super) fn read_number(reader: &mut Reader<'_>, node: &Node, what: &str, min: u64, max: u64) -> Option<u64> {
    let number = match &node.value {
        Yaml::Number(number) => number.as_u64().filter(|number| (min..=max).contains(number)),
        _ => None,
    };
    if number.is_none() {
        reader.refuse(
            node,
            format!("`{what}` is not a number from {min} to {max}"),
            format!("write `{what}: {min}`"),
        );
    }
    number
}
