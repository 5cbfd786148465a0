//! The values of a scenario file, which know where they are.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span};
use serde_json::{Number, Value};

/// With the place in the file.
pub(super) type Read<T> = Result<T, String>;

/// A line of the text, and what is wrong there.
type Problem = (usize, String);

/// A value of the file.
#[derive(Debug, Clone)]
pub(super) struct Node {
    file: Rc<str>,
    /// From 1. `None` in TOML.
    line: Option<usize>,
    /// `steps[1].expect.calls`.
    path: String,
    pub(super) value: Value,
    /// The members of a mapping by name, and the elements of a list.
    below: Vec<(String, Node)>,
}

impl Node {
    /// The only document of a file.
    pub(super) fn read(file: &Path) -> Read<Self> {
        let name = file.display().to_string();
        let text = fs::read_to_string(file).map_err(|error| format!("{name}: cannot be read: {error}"))?;
        let mut found = documents(&name, &text, true).map_err(|(line, why)| format!("{name}:{line}: {why}"))?;
        match (found.pop(), found.is_empty()) {
            (Some(root), true) => Ok(root),
            _ => Err(format!("{name}:1: a file has one scenario, in one YAML document")),
        }
    }

    /// The root of a TOML file that this value names.
    pub(super) fn toml(&self, file: &Path) -> Read<Self> {
        let name = file.display();
        let text =
            fs::read_to_string(file).or_else(|error| self.fail(format_args!("{name} cannot be read: {error}")))?;
        let value: Value = toml::from_str(&text).or_else(|error| self.fail(format_args!("{name}: {error}")))?;
        // JSON is YAML, but has other lines.
        let found = documents(&name.to_string(), &value.to_string(), false).map_err(|(_, why)| self.at(why))?;
        found.into_iter().next().map_or_else(|| self.fail("it is empty"), Ok)
    }

    /// A difference or an error at this value.
    pub(super) fn at(&self, message: impl Display) -> String {
        let line = self.line.map(|line| format!(":{line}")).unwrap_or_default();
        let path = if self.path.is_empty() { "" } else { ": " };
        format!("{}{line}{path}{}: {message}", self.file, self.path)
    }

    pub(super) fn fail<T>(&self, message: impl Display) -> Read<T> {
        Err(self.at(message))
    }

    /// Refuses what a driver cannot do.
    pub(super) fn needs_informant<T>(&self, what: impl Display) -> Read<T> {
        self.fail(format_args!(
            "a Driver cannot do {what}: run the scenario with `informant plugin test`"
        ))
    }

    pub(super) fn get(&self, member: &str) -> Option<&Self> {
        let of_this_name = |(name, _): &&(String, Self)| name == member && self.value.is_object();
        self.below.iter().find(of_this_name).map(|(_, value)| value)
    }

    /// The members of a mapping.
    pub(super) fn members(&self) -> Read<impl Iterator<Item = (&str, &Self)>> {
        if !self.value.is_object() {
            return self.fail(format_args!("{} is not a mapping", self.value));
        }
        Ok(self.below.iter().map(|(name, value)| (name.as_str(), value)))
    }

    /// What `read` makes of a member, if it is there.
    pub(super) fn maybe<'n, T>(&'n self, member: &str, read: impl Fn(&'n Self) -> Read<T>) -> Read<Option<T>> {
        self.get(member).map(read).transpose()
    }

    /// What `read` makes of each element of a list, which may be absent.
    pub(super) fn each<'n, T>(&'n self, list: &str, read: impl Fn(&'n Self) -> Read<T>) -> Read<Vec<T>> {
        match self.get(list) {
            Some(list) => list.list()?.map(read).collect(),
            None => Ok(Vec::new()),
        }
    }

    /// What `read` makes of each member of a mapping, which may be absent.
    pub(super) fn named<'n, T>(&'n self, mapping: &str, read: impl Fn(&str, &'n Self) -> Read<T>) -> Read<Vec<T>> {
        match self.get(mapping) {
            Some(mapping) => mapping.members()?.map(|(name, node)| read(name, node)).collect(),
            None => Ok(Vec::new()),
        }
    }

    /// Refuses members other than `known`, which have spaces between.
    pub(super) fn check_members(&self, known: &str) -> Read<()> {
        match self
            .members()?
            .find(|(name, _)| !known.split(' ').any(|known| known == *name))
        {
            Some((_, value)) => value.fail(format_args!(
                "there is no such member; there are {}",
                known.replace(' ', ", ")
            )),
            None => Ok(()),
        }
    }

    pub(super) fn list(&self) -> Read<impl Iterator<Item = &Self>> {
        if !self.value.is_array() {
            return self.fail(format_args!("{} is not a list", self.value));
        }
        Ok(self.below.iter().map(|(_, value)| value))
    }

    pub(super) fn text(&self) -> Read<&str> {
        let refused = || self.at(format_args!("{} is not a text: put it in quotes", self.value));
        self.value.as_str().ok_or_else(refused)
    }

    pub(super) fn whole(&self) -> Read<u64> {
        let wrong = || self.at(format_args!("{} is not a whole number", self.value));
        self.value.as_u64().ok_or_else(wrong)
    }

    /// The YAML documents in a text.
    pub(super) fn documents(&self) -> Read<Vec<Value>> {
        match documents(&self.file, self.text()?, true) {
            Ok(found) => Ok(found.into_iter().map(|node| node.value).collect()),
            Err((line, why)) => self.fail(format_args!("line {line} of the text: {why}")),
        }
    }

    pub(super) fn duration(&self) -> Read<Duration> {
        let text = self.value.as_str();
        let wrong = || self.at(format_args!("{} is not a duration: write it as 30s or 5m", self.value));
        text.and_then(|text| humantime::parse_duration(text).ok())
            .ok_or_else(wrong)
    }
}

pub(super) fn member_path(path: &str, member: &str) -> String {
    match path {
        "" => member.to_owned(),
        path => format!("{path}.{member}"),
    }
}

fn documents(file: &str, text: &str, has_lines: bool) -> Result<Vec<Node>, Problem> {
    let mut builder = Builder {
        file: file.into(),
        has_lines,
        events: Parser::new_from_str(text),
        anchors: BTreeMap::new(),
    };
    let mut documents = Vec::new();
    while let Some((event, line)) = builder.next()? {
        match event {
            Event::StreamStart | Event::StreamEnd | Event::DocumentStart(..) | Event::DocumentEnd => {}
            event => documents.push(builder.node(event, line, String::new())?),
        }
    }
    Ok(documents)
}

struct Builder<E> {
    file: Rc<str>,
    has_lines: bool,
    events: E,
    anchors: BTreeMap<usize, Node>,
}

impl<'t, E: Iterator<Item = Result<(Event<'t>, Span), ScanError>>> Builder<E> {
    /// The next event that is not a comment, and its line.
    fn next(&mut self) -> Result<Option<(Event<'t>, usize)>, Problem> {
        loop {
            match self.events.next() {
                None => return Ok(None),
                Some(Ok((Event::Comment(..), _))) => {}
                Some(Ok((event, span))) => return Ok(Some((event, span.start.line()))),
                Some(Err(error)) => return Err((error.marker().line(), format!("not YAML: {}", error.info()))),
            }
        }
    }

    /// The next event, which must be there.
    fn inside(&mut self, line: usize) -> Result<(Event<'t>, usize), Problem> {
        self.next()?
            .ok_or_else(|| (line, "not YAML: a value has no end".to_owned()))
    }

    fn node(&mut self, event: Event<'t>, line: usize, path: String) -> Result<Node, Problem> {
        let (anchor, value, below) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = style != ScalarStyle::Plain || tag.is_some_and(|tag| tag.suffix() == "str");
                let value = if is_text { Value::from(text) } else { plain(&text) };
                (anchor, value, Vec::new())
            }
            Event::SequenceStart(_, anchor, _) => {
                let below = self.elements(line, &path)?;
                let values = below.iter().map(|(_, node)| node.value.clone());
                (anchor, values.collect(), below)
            }
            Event::MappingStart(_, anchor, _) => {
                let below = self.members(line, &path)?;
                let values = below.iter().map(|(name, node)| (name.clone(), node.value.clone()));
                (anchor, Value::Object(values.collect()), below)
            }
            Event::Alias(anchor) => {
                let known = self.anchors.get(&anchor).cloned();
                return known.ok_or_else(|| (line, "the alias names its own value".to_owned()));
            }
            _ => return Err((line, "not YAML: a value is missing".to_owned())),
        };
        let (file, line) = (self.file.clone(), self.has_lines.then_some(line));
        let node = Node {
            file,
            line,
            path,
            value,
            below,
        };
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn elements(&mut self, line: usize, path: &str) -> Result<Vec<(String, Node)>, Problem> {
        let mut elements = Vec::new();
        loop {
            let (event, line) = self.inside(line)?;
            if matches!(event, Event::SequenceEnd) {
                return Ok(elements);
            }
            let path = format!("{path}[{}]", elements.len());
            elements.push((String::new(), self.node(event, line, path)?));
        }
    }

    fn members(&mut self, line: usize, path: &str) -> Result<Vec<(String, Node)>, Problem> {
        let mut members: Vec<(String, Node)> = Vec::new();
        loop {
            let (name, line) = match self.inside(line)? {
                (Event::MappingEnd, _) => return Ok(members),
                (Event::Scalar(name, ..), line) => (name.into_owned(), line),
                (_, line) => return Err((line, "the name of a member is not a text".to_owned())),
            };
            if members.iter().any(|(other, _)| *other == name) {
                return Err((line, format!("`{name}` is there twice")));
            }
            let (event, at) = self.inside(line)?;
            let mut value = self.node(event, at, member_path(path, &name))?;
            // An empty value has no place of its own.
            if value.value.is_null() && self.has_lines {
                value.line = Some(line);
            }
            members.push((name, value));
        }
    }
}

/// A scalar without quotes, by the core schema of YAML 1.2, without infinity and NaN, which JSON does not have.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => number(text).map_or_else(|| Value::from(text), Value::Number),
    }
}

fn number(text: &str) -> Option<Number> {
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok().map(Number::from);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return u64::from_str_radix(digits, 8).ok().map(Number::from);
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_number = unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && unsigned.chars().all(|c| c.is_ascii_digit() || ".eE+-".contains(c));
    if !is_number {
        return None;
    }
    let plain = text.strip_prefix('+').unwrap_or(text);
    let whole = plain.parse::<u64>().map(Number::from);
    let whole = whole.or_else(|_| plain.parse::<i64>().map(Number::from));
    whole.ok().or_else(|| Number::from_f64(plain.parse().ok()?))
}
