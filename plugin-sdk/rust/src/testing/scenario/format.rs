//! What a scenario file has, checked before anything runs: see docs/reference/scenarios.md.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::config::{self, Informer, Plugin};
use super::entries::{Listed, lists};
use super::series::Series;
use super::yaml::{Node, Read};
use crate::event::fmt_key;
use crate::testing::cluster::resource_of;

const MEMBERS: [&str; 8] = ["config", "http", "kv", "name", "objects", "path", "plugin", "steps"];
const ACTIONS: [&str; 8] = ["apply", "delete", "http", "patch", "requeue", "swap", "trigger", "wait"];
const ANSWER: [&str; 7] = ["body", "error", "headers", "method", "status", "times", "url"];
const ANSWER_ERRORS: [&str; 3] = ["connect", "dns", "timeout"];
const EXPECT: [&str; 11] = [
    "absent",
    "calls",
    "deadLetters",
    "http",
    "indexes",
    "kv",
    "log",
    "metrics",
    "objects",
    "refused",
    "writes",
];

/// Objects of these kinds have no namespace.
const CLUSTER_SCOPED: [&str; 10] = [
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "IngressClass",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PriorityClass",
    "RuntimeClass",
    "StorageClass",
];

#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) root: Node,
    pub(super) plugin: Plugin,
    pub(super) informers: Vec<Informer>,
    pub(super) objects: Vec<Object>,
    pub(super) kv: Vec<(String, Value)>,
    pub(super) answers: Vec<Answer>,
    pub(super) steps: Vec<Step>,
}

/// An object with a namespace, unless its kind has none.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) node: Node,
    pub(super) value: Value,
    pub(super) at: Reference,
}

/// `v1/pods shop/web-0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) resource: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

/// An answer to HTTP requests.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) method: Option<String>,
    pub(super) url: String,
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
    pub(super) error: Option<String>,
    /// How many more requests it answers.
    pub(super) times: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Step {
    pub(super) node: Node,
    pub(super) action: Option<(Node, Action)>,
    pub(super) expect: Option<Expect>,
}

#[derive(Debug)]
pub(super) enum Action {
    Apply(Vec<Object>),
    Patch(Object),
    Delete(Reference),
    Wait(Duration),
    Http(Vec<Answer>),
    Swap,
    /// All, without one.
    Requeue(Option<Reference>),
    Trigger(Reference),
}

#[derive(Debug)]
pub(super) struct Expect {
    pub(super) lists: Vec<Listed>,
    pub(super) objects: Vec<Object>,
    pub(super) absent: Vec<(Node, Reference)>,
    pub(super) kv: Vec<(String, Node)>,
    pub(super) metrics: Vec<(Series, Node)>,
    pub(super) indexes: Vec<Indexed>,
    pub(super) refused: Option<Node>,
}

/// What has a value in an index.
#[derive(Debug)]
pub(super) struct Indexed {
    pub(super) informer: String,
    pub(super) index: String,
    pub(super) value: String,
    pub(super) keys: Node,
}

/// Reads and checks a file.
pub(super) fn read(file: &Path) -> Read<Scenario> {
    let root = Node::read(file)?;
    if let Some(time) = root.get("time") {
        return time.needs_informant("another time than 2026-01-01T00:00:00Z");
    }
    root.check_members(&MEMBERS)?;
    let folder = file.parent().unwrap_or(Path::new("."));
    let (mut plugin, informers) = config::read(&root, folder)?;
    for name in ["name", "path"] {
        root.get(name).map_or(Ok(""), Node::text)?;
    }
    plugin.path = root.get("path").map(|path| path.value.clone()).or(plugin.path);
    let Some(steps) = root.get("steps") else {
        return root.fail("the scenario has no `steps`: write what happens");
    };
    let steps = steps.list()?.map(|node| step(node, &plugin)).collect::<Read<_>>()?;
    let kv = root.get("kv").map(members).transpose()?.unwrap_or_default();
    Ok(Scenario {
        plugin,
        informers,
        objects: root.get("objects").map_or(Ok(Vec::new()), objects)?,
        kv: kv.into_iter().map(|(key, node)| (key, node.value)).collect(),
        answers: root.get("http").map_or(Ok(Vec::new()), answers)?,
        steps,
        root,
    })
}

fn members(node: &Node) -> Read<Vec<(String, Node)>> {
    let owned = |(name, value): (&str, &Node)| (name.to_owned(), value.clone());
    Ok(node.members()?.map(owned).collect())
}

fn step(node: &Node, plugin: &Plugin) -> Read<Step> {
    if let Some(replay) = node.get("replay") {
        return replay.needs_informant("replays");
    }
    node.check_members(&[&ACTIONS[..], &["expect"]].concat())?;
    let mut there = ACTIONS.iter().filter_map(|name| Some((*name, node.get(name)?)));
    let action = match (there.next(), there.next()) {
        (Some((first, _)), Some((second, _))) => {
            return node.fail(format_args!(
                "a step has two actions, {first} and {second}: make a step of its own for {second}"
            ));
        }
        (Some((name, value)), None) => Some((value.clone(), action(name, value, plugin)?)),
        (None, _) => None,
    };
    let expect = node.get("expect").map(expect).transpose()?;
    let node = node.clone();
    Ok(Step { node, action, expect })
}

fn action(name: &str, node: &Node, plugin: &Plugin) -> Read<Action> {
    Ok(match name {
        "apply" => Action::Apply(objects(node)?),
        "patch" => Action::Patch(object(node, &node.value)?),
        "delete" => Action::Delete(reference(node)?),
        "wait" => Action::Wait(node.duration()?),
        "http" => Action::Http(answers(node)?),
        // The plugin of this test is the only one that there is.
        "swap" if Some(node.text()?) == plugin.path.as_ref().and_then(Value::as_str) => Action::Swap,
        "swap" => {
            return node.needs_informant("a swap by another version than the one in `path`");
        }
        "requeue" if node.value == "all" => Action::Requeue(None),
        "requeue" => Action::Requeue(Some(reference(node)?)),
        _ => Action::Trigger(reference(node)?),
    })
}

/// One object, a list of objects, or a text with documents.
fn objects(node: &Node) -> Read<Vec<Object>> {
    match &node.value {
        Value::String(_) => node.documents()?.iter().map(|value| object(node, value)).collect(),
        Value::Array(_) => node.list()?.map(|node| object(node, &node.value)).collect(),
        value => Ok(vec![object(node, value)?]),
    }
}

/// A namespace that an object leaves out is `default`, unless the kind has none.
fn object(node: &Node, value: &Value) -> Read<Object> {
    let text = |pointer: &str| {
        value
            .pointer(pointer)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
    };
    let need = |pointer: &str| {
        let lacks = || node.at(format_args!("an object lacks {}", pointer[1..].replace('/', ".")));
        text(pointer).ok_or_else(lacks)
    };
    let (api_version, kind, name) = (need("/apiVersion")?, need("/kind")?, need("/metadata/name")?);
    let default = if CLUSTER_SCOPED.contains(&kind) { "" } else { "default" };
    let at = Reference {
        resource: resource_of(api_version, kind),
        namespace: text("/metadata/namespace").unwrap_or(default).to_owned(),
        name: name.to_owned(),
    };
    let mut value = value.clone();
    if !at.namespace.is_empty() {
        value["metadata"]["namespace"] = json!(at.namespace);
    }
    let node = node.clone();
    Ok(Object { node, value, at })
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.resource)?;
        fmt_key(f, &self.namespace, &self.name)
    }
}

impl Reference {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (resource, key) = text.split_once(' ')?;
        let (namespace, name) = key.split_once('/').unwrap_or(("", key));
        let is_resource =
            matches!(resource.split('/').count(), 2 | 3) && resource.split('/').all(|part| !part.is_empty());
        let is_key = !name.is_empty() && !name.contains(['/', ' ']) && !key.starts_with('/');
        let owned = || Self {
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        (is_resource && is_key).then(owned)
    }
}

pub(super) fn reference(node: &Node) -> Read<Reference> {
    let wrong = || {
        node.at(format_args!(
            "{} is not a reference: write RESOURCE NAMESPACE/NAME, as in v1/pods shop/web-0",
            node.value
        ))
    };
    Reference::parse(node.text()?).ok_or_else(wrong)
}

fn answers(node: &Node) -> Read<Vec<Answer>> {
    node.list()?.map(answer).collect()
}

fn answer(node: &Node) -> Read<Answer> {
    if let Some(after) = node.get("after") {
        return after.needs_informant("answers that take time");
    }
    node.check_members(&ANSWER)?;
    let text = |name: &str| node.get(name).map(Node::text).transpose();
    let number = |name: &str| {
        let whole = |node: &Node| {
            let wrong = || node.at(format_args!("{} is not a whole number", node.value));
            node.value.as_u64().ok_or_else(wrong)
        };
        node.get(name).map(whole).transpose()
    };
    let Some(url) = text("url")? else {
        return node.fail("an answer has no `url`; `*` stands for any text");
    };
    let error = node.get("error").map(|node| one_of(node, &ANSWER_ERRORS)).transpose()?;
    let status = number("status")?.unwrap_or(200);
    let mut headers = Vec::new();
    for (name, value) in node.get("headers").map(members).transpose()?.unwrap_or_default() {
        headers.push((name, value.text()?.to_owned()));
    }
    Ok(Answer {
        method: text("method")?.map(str::to_uppercase),
        url: url.to_owned(),
        status: u16::try_from(status).or_else(|_| node.fail(format_args!("{status} is not a status")))?,
        headers,
        body: node.get("body").map(|body| bytes_of(&body.value)).unwrap_or_default(),
        error: error.map(str::to_owned),
        times: number("times")?,
    })
}

/// A text as it is, anything else as JSON.
pub(super) fn bytes_of(value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => text.clone().into_bytes(),
        value => value.to_string().into_bytes(),
    }
}

/// A text that is among `choices`.
pub(super) fn one_of<'n>(node: &'n Node, choices: &[&str]) -> Read<&'n str> {
    match node.text()? {
        text if choices.contains(&text) => Ok(text),
        _ => node.fail(format_args!("{} is none of {}", node.value, choices.join(", "))),
    }
}

fn expect(node: &Node) -> Read<Expect> {
    node.check_members(&EXPECT)?;
    let listed = |name: &str| -> Read<Vec<&Node>> {
        Ok(node
            .get(name)
            .map(Node::list)
            .transpose()?
            .into_iter()
            .flatten()
            .collect())
    };
    let named = |name: &str| node.get(name).map_or(Ok(Vec::new()), members);
    let absent = listed("absent")?
        .into_iter()
        .map(|node| Ok((node.clone(), reference(node)?)));
    let metrics = named("metrics")?
        .into_iter()
        .map(|(name, node)| Ok((Series::parse(&name, &node)?, node)));
    let mut indexes = Vec::new();
    for (informer, below) in named("indexes")? {
        for (index, below) in below.members()? {
            for (value, keys) in members(below)? {
                keys.list()?.try_for_each(|key| key.text().map(drop))?;
                let (informer, index) = (informer.clone(), index.to_owned());
                indexes.push(Indexed {
                    informer,
                    index,
                    value,
                    keys,
                });
            }
        }
    }
    let refused = node.get("refused");
    refused.map(Node::text).transpose()?;
    Ok(Expect {
        lists: lists(node)?,
        objects: listed("objects")?
            .into_iter()
            .map(|node| object(node, &node.value))
            .collect::<Read<_>>()?,
        absent: absent.collect::<Read<_>>()?,
        kv: named("kv")?,
        metrics: metrics.collect::<Read<_>>()?,
        indexes,
        refused: refused.cloned(),
    })
}
