//! What a scenario file has, checked before anything runs: see docs/reference/scenarios.md.

use std::fmt;
use std::path::Path;
use std::slice;
use std::time::Duration;

use serde_json::{Value, json};

use super::config::{self, Informer, Plugin};
use super::entries::{Listed, listed};
use super::series::Series;
use super::yaml::{Node, Read};
use crate::event::fmt_key;
use crate::testing::cluster::resource_of;

// Names, with spaces between.
const MEMBERS: &str = "config http kv name objects path plugin steps";
const ACTIONS: &str = "apply delete http patch requeue swap timer trigger wait";
const ANSWER: &str = "body error headers method status times url";
const ANSWER_ERRORS: &str = "connect dns timeout";
const EXPECT: &str = "absent calls deadLetters events http indexes kv log metrics objects refused writes";

/// Objects of these kinds have no namespace.
const CLUSTER_SCOPED: &str = "ClusterRole ClusterRoleBinding CustomResourceDefinition IngressClass Namespace Node \
                              PersistentVolume PriorityClass RuntimeClass StorageClass";

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
    /// The name of a timer.
    Timer(String),
    Trigger(Reference),
}

#[derive(Debug)]
pub(super) struct Expect {
    pub(super) checks: Vec<(Node, Check)>,
    pub(super) refused: Option<Node>,
}

/// What is compared with a value of the file.
#[derive(Debug)]
pub(super) enum Check {
    List(Listed),
    Object(Object),
    Absent(Reference),
    Kv(String),
    Metric(Series),
    /// What has a value in an index.
    Index {
        informer: String,
        index: String,
        value: String,
    },
}

impl Scenario {
    /// All objects that it writes.
    pub(super) fn written(&self) -> impl Iterator<Item = &Object> {
        self.objects.iter().chain(self.steps.iter().flat_map(Step::written))
    }
}

impl Step {
    fn written(&self) -> &[Object] {
        match &self.action {
            Some((_, Action::Apply(objects))) => objects,
            Some((_, Action::Patch(object))) => slice::from_ref(object),
            _ => &[],
        }
    }
}

/// Reads and checks a file.
pub(super) fn read(file: &Path) -> Read<Scenario> {
    let root = Node::read(file)?;
    if let Some(time) = root.get("time") {
        return time.needs_informant("another time than 2026-01-01T00:00:00Z");
    }
    root.check_members(MEMBERS)?;
    let folder = file.parent().unwrap_or(Path::new("."));
    let (mut plugin, informers) = config::read(&root, folder)?;
    root.maybe("name", Node::text)?;
    root.maybe("path", Node::text)?;
    plugin.path = root.get("path").map(|path| path.value.clone()).or(plugin.path);
    if root.get("steps").is_none() {
        return root.fail("the scenario has no `steps`: write what happens");
    }
    Ok(Scenario {
        objects: root.maybe("objects", objects)?.unwrap_or_default(),
        kv: root.named("kv", |key, node| Ok((key.to_owned(), node.value.clone())))?,
        answers: root.each("http", answer)?,
        steps: root.each("steps", |node| step(node, &plugin))?,
        plugin,
        informers,
        root,
    })
}

fn step(node: &Node, plugin: &Plugin) -> Read<Step> {
    if let Some(replay) = node.get("replay") {
        return replay.needs_informant("replays");
    }
    node.check_members(&format!("{ACTIONS} expect"))?;
    let mut there = ACTIONS.split(' ').filter_map(|name| Some((name, node.get(name)?)));
    let action = match (there.next(), there.next()) {
        (Some((first, _)), Some((second, _))) => {
            return node.fail(format_args!(
                "a step has two actions, {first} and {second}: make a step of its own for {second}"
            ));
        }
        (Some((name, value)), None) => Some((value.clone(), action(name, value, plugin)?)),
        (None, _) => None,
    };
    let (node, expect) = (node.clone(), node.maybe("expect", expect)?);
    Ok(Step { node, action, expect })
}

fn action(name: &str, node: &Node, plugin: &Plugin) -> Read<Action> {
    Ok(match name {
        "apply" => Action::Apply(objects(node)?),
        "patch" => Action::Patch(object(node, &node.value)?),
        "delete" => Action::Delete(reference(node)?),
        "wait" => Action::Wait(node.duration()?),
        "http" => Action::Http(node.list()?.map(answer).collect::<Read<_>>()?),
        // The plugin of this test is the only one that there is.
        "swap" if Some(node.text()?) == plugin.path.as_ref().and_then(Value::as_str) => Action::Swap,
        "swap" => node.needs_informant("a swap by another version than the one in `path`")?,
        "timer" => Action::Timer(node.text()?.to_owned()),
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
    let any_text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str);
    let text = |pointer: &str| any_text(pointer).filter(|text| !text.is_empty());
    let need = |pointer: &str| {
        let lacks = || node.at(format_args!("an object lacks {}", pointer[1..].replace('/', ".")));
        text(pointer).ok_or_else(lacks)
    };
    let (api_version, kind, name) = (need("/apiVersion")?, need("/kind")?, need("/metadata/name")?);
    let default = if CLUSTER_SCOPED.split(' ').any(|scoped| scoped == kind) {
        ""
    } else {
        "default"
    };
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
    let remedy = "write RESOURCE NAMESPACE/NAME, as in v1/pods shop/web-0";
    let wrong = || node.at(format_args!("{} is not a reference: {remedy}", node.value));
    Reference::parse(node.text()?).ok_or_else(wrong)
}

fn answer(node: &Node) -> Read<Answer> {
    if let Some(after) = node.get("after") {
        return after.needs_informant("answers that take time");
    }
    node.check_members(ANSWER)?;
    let Some(url) = node.maybe("url", Node::text)? else {
        return node.fail("an answer has no `url`; `*` stands for any text");
    };
    let status = node.maybe("status", Node::whole)?.unwrap_or(200);
    Ok(Answer {
        method: node.maybe("method", Node::text)?.map(str::to_uppercase),
        url: url.to_owned(),
        status: u16::try_from(status).or_else(|_| node.fail(format_args!("{status} is not a status")))?,
        headers: node.named("headers", |name, value| Ok((name.to_owned(), value.text()?.to_owned())))?,
        body: node.get("body").map(|body| bytes_of(&body.value)).unwrap_or_default(),
        error: node.maybe("error", |node| Ok(one_of(node, ANSWER_ERRORS)?.to_owned()))?,
        times: node.maybe("times", Node::whole)?,
    })
}

/// A text as it is, anything else as JSON.
pub(super) fn bytes_of(value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => text.clone().into_bytes(),
        value => value.to_string().into_bytes(),
    }
}

/// A text that is among `choices`, which have spaces between.
pub(super) fn one_of<'n>(node: &'n Node, choices: &str) -> Read<&'n str> {
    match node.text()? {
        text if choices.split(' ').any(|choice| choice == text) => Ok(text),
        _ => node.fail(format_args!("{} is none of {}", node.value, choices.replace(' ', ", "))),
    }
}

fn expect(node: &Node) -> Read<Expect> {
    node.check_members(EXPECT)?;
    let mut checks = Vec::new();
    let mut add = |node: &Node, check| checks.push((node.clone(), check));
    for (name, below) in node.members()? {
        match name {
            "absent" => {
                for node in below.list()? {
                    add(node, Check::Absent(reference(node)?));
                }
            }
            "indexes" => {
                for (informer, below) in below.members()? {
                    for (index, below) in below.members()? {
                        for (value, keys) in below.members()? {
                            keys.list()?.try_for_each(|key| key.text().map(drop))?;
                            let (informer, index, value) = (informer.to_owned(), index.to_owned(), value.to_owned());
                            add(keys, Check::Index { informer, index, value });
                        }
                    }
                }
            }
            "kv" => below
                .members()?
                .for_each(|(key, node)| add(node, Check::Kv(key.to_owned()))),
            "metrics" => {
                for (series, node) in below.members()? {
                    add(node, Check::Metric(Series::parse(series, node)?));
                }
            }
            "objects" => {
                for node in below.list()? {
                    add(node, Check::Object(object(node, &node.value)?));
                }
            }
            "refused" => drop(below.text()?),
            name => add(below, Check::List(listed(name, below)?)),
        }
    }
    let refused = node.get("refused").cloned();
    Ok(Expect { checks, refused })
}
