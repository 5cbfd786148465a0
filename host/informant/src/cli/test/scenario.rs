//! A scenario as its file has it.

mod expect;
mod objects;
mod replay;
mod steps;

use std::path::{Path, PathBuf};

use informant_config::{FilePosition, Problem, Problems, SourceFile};
use jiff::Timestamp;
use serde_json::Value;

pub(super) use self::expect::{Amount, Entry, Expect, Indexed, Listed, Stream};
pub(super) use self::objects::{Object, Reference};
pub(super) use self::replay::{About, Replay, Reply};
pub(super) use self::steps::{Action, Answer, AnswerError, Step};
use super::yaml::{Members, Node, Reader, Yaml, documents};
use crate::config_file;
use crate::recorded::SCENARIO_SUFFIX as SUFFIX;

const MEMBERS: [&str; 9] = [
    "config", "http", "kv", "name", "objects", "path", "plugin", "steps", "time",
];

/// When the steps begin without `time`: 2026-01-01T00:00:00Z.
const STEPS_BEGIN_UNIX_SECONDS: i64 = 1_767_225_600;

/// The earliest time at which steps may begin: the start comes before.
const TIME_MIN_UNIX_SECONDS: i64 = 24 * 60 * 60;

/// One file.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) file: SourceFile,
    /// What reports show.
    pub(super) name: String,
    /// The plugin, relative to the current folder.
    pub(super) path: Option<(PathBuf, FilePosition)>,
    pub(super) config: Configured,
    /// The name of the plugin's section.
    pub(super) plugin: Option<String>,
    pub(super) objects: Vec<Object>,
    pub(super) kv: Vec<(String, Vec<u8>)>,
    pub(super) http: Vec<Answer>,
    pub(super) steps: Vec<Step>,
    /// When they begin.
    pub(super) time: Timestamp,
}

/// Where the configuration is.
#[derive(Debug)]
pub(super) enum Configured {
    /// There is none: everything is derived from the plugin.
    Derived,
    /// A config.toml, relative to the current folder.
    File(PathBuf, FilePosition),
    /// The scenario contains it.
    Inline(Value, FilePosition),
}

impl Scenario {
    /// Reads a file.
    ///
    /// # Errors
    /// All problems of the file, with their positions.
    pub(super) fn read(path: &Path) -> Result<Scenario, Problems> {
        let file = config_file::read(path);
        let file = file.map_err(|error| Problems(vec![Problem::of_file(path, error.to_string())]))?;
        Scenario::parse(file)
    }

    pub(super) fn parse(file: SourceFile) -> Result<Scenario, Problems> {
        let one = |problem| Problems(vec![problem]);
        let mut found = documents(&file).map_err(one)?;
        let root = match found.len() {
            1 => found.remove(0),
            0 => {
                let problem = Problem::of_file(file.path(), "the file is empty").help("write at least `steps: [...]`");
                return Err(one(problem));
            }
            many => {
                let problem = Problem::at(
                    file.path(),
                    file.position(found[1].span.start),
                    format!("the file has {many} documents"),
                );
                return Err(one(problem.help("put each scenario into a file of its own")));
            }
        };
        let mut reader = Reader::new(&file);
        let parts = Parts::read(&mut reader, &root);
        reader.finish()?;
        Ok(parts.into_scenario(file))
    }

    /// Whether it replays calls: then the handler is called for nothing else.
    pub(super) fn replays(&self) -> bool {
        let mut actions = self.steps.iter().filter_map(|step| step.action.as_ref());
        actions.any(|action| matches!(action, Action::Replay(_)))
    }

    /// Where the configuration is, or is named.
    pub(super) fn config_position(&self) -> FilePosition {
        match self.config {
            Configured::File(_, position) | Configured::Inline(_, position) => position,
            Configured::Derived => FilePosition { line: 1, column: 1 },
        }
    }

    /// A problem at a place of the file.
    pub(super) fn problem(&self, at: FilePosition, message: impl Into<String>, help: impl Into<String>) -> Problems {
        Problems(vec![Problem::at(self.file.path(), at, message).help(help)])
    }

    /// The folder that paths in the file are relative to.
    pub(super) fn folder(&self) -> PathBuf {
        folder_of(self.file.path())
    }
}

/// A scenario without its file, which is borrowed while it is read.
struct Parts {
    name: Option<String>,
    path: Option<(PathBuf, FilePosition)>,
    config: Configured,
    plugin: Option<String>,
    objects: Vec<Object>,
    kv: Vec<(String, Vec<u8>)>,
    http: Vec<Answer>,
    steps: Vec<Step>,
    time: Option<Timestamp>,
}

impl Parts {
    fn read(reader: &mut Reader<'_>, root: &Node) -> Parts {
        let members = reader.members(root, "a scenario", &MEMBERS);
        let folder = folder_of(reader.file.path());
        let text = |reader: &mut Reader<'_>, name| {
            let text = reader.text(members.get(name)?, name)?;
            Some(text.to_owned())
        };
        let config = match members.get("config") {
            None => Configured::Derived,
            Some(node) => match &node.value {
                Yaml::Text(file) => Configured::File(folder.join(file), reader.position(node)),
                Yaml::Map(sections) => {
                    check_sections(reader, Members(sections));
                    Configured::Inline(node.to_json(), reader.position(node))
                }
                _ => {
                    let help = "write the name of a config.toml, or its sections: config: { informer: {...} }";
                    reader.refuse(node, "`config` is neither a text nor a mapping", help);
                    Configured::Derived
                }
            },
        };
        let steps = members.get("steps");
        if steps.is_none() && matches!(root.value, Yaml::Map(_)) {
            reader.refuse(
                root,
                "the scenario has no `steps`",
                "write what happens: steps: [{ apply: {...} }]",
            );
        }
        let objects = members.get("objects");
        Parts {
            name: text(reader, "name"),
            path: members.get("path").and_then(|node| {
                let path = folder.join(reader.text(node, "path")?);
                Some((path, reader.position(node)))
            }),
            config,
            plugin: text(reader, "plugin"),
            objects: objects
                .map(|node| objects::read(reader, node, "objects"))
                .unwrap_or_default(),
            kv: members
                .get("kv")
                .map(|node| read_keys(reader, node))
                .unwrap_or_default(),
            http: members
                .get("http")
                .map(|node| steps::read_answers(reader, node))
                .unwrap_or_default(),
            steps: steps.map(|node| steps::read(reader, node)).unwrap_or_default(),
            time: members.get("time").and_then(|node| read_time(reader, node)),
        }
    }

    fn into_scenario(self, file: SourceFile) -> Scenario {
        let file_name = file.path().file_name().unwrap_or_default().to_string_lossy();
        let of_file = file_name.strip_suffix(SUFFIX).unwrap_or(&file_name).to_owned();
        Scenario {
            name: self.name.unwrap_or(of_file),
            path: self.path,
            config: self.config,
            plugin: self.plugin,
            objects: self.objects,
            kv: self.kv,
            http: self.http,
            steps: self.steps,
            time: (self.time).unwrap_or_else(|| Timestamp::constant(STEPS_BEGIN_UNIX_SECONDS, 0)),
            file,
        }
    }
}

/// The sections that a configuration is completed in are mappings, or empty.
fn check_sections(reader: &mut Reader<'_>, config: Members<'_>) {
    for kind in ["informer", "plugin"] {
        let Some(node) = config.get(kind) else { continue };
        let sections = reader.map(node, kind).iter();
        for section in sections.filter(|section| !matches!(section.value.value, Yaml::Null)) {
            reader.map(&section.value, &format!("{kind}.{}", section.name));
        }
    }
}

fn read_time(reader: &mut Reader<'_>, node: &Node) -> Option<Timestamp> {
    let text = reader.text(node, "time")?;
    let time = text
        .parse::<Timestamp>()
        .ok()
        .filter(|time| time.as_second() >= TIME_MIN_UNIX_SECONDS);
    if time.is_none() {
        let help = "write it as in 2026-01-01T00:00:00Z, not before 1970-01-02";
        reader.refuse(node, format!("`time`: \"{text}\" is not a time"), help);
    }
    time
}

fn read_keys(reader: &mut Reader<'_>, node: &Node) -> Vec<(String, Vec<u8>)> {
    let members = reader.map(node, "kv").iter();
    members
        .map(|member| (member.name.clone(), bytes_of(&member.value.to_json())))
        .collect()
}

/// The bytes of a value: of a text, the text itself.
pub(super) fn bytes_of(value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => text.clone().into_bytes(),
        value => value.to_string().into_bytes(),
    }
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

#[cfg(test)]
mod tests;
