//! YAML as a tree whose values know where they are, and reading its mappings strictly.
//!
//! ```text
//! text ──granit-parser: events──▶ Node ──Members: known names, problems with file and line──▶ scenario
//! ```
//!
//! Positions are kept, because messages name them, and because `--update` edits a file in place.

use std::collections::BTreeMap;
use std::ops::Range;

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Span, StructureStyle};
use informant_config::{FilePosition, Problem, Problems, SourceFile};
use informant_spec::suggest::did_you_mean;
use serde_json::{Number, Value};

/// Values in one file, those of aliases included: 100,000. A file of nested aliases would otherwise fill the memory.
const NODES_MAX: usize = 100_000;

/// How deep values may be nested: 100 levels.
const DEPTH_MAX: usize = 100;

/// A value, and where it is.
#[derive(Debug, Clone)]
pub(super) struct Node {
    /// Its bytes in the text, without what follows in the line.
    pub(super) span: Range<usize>,
    pub(super) value: Yaml,
    /// It is, or is in, what has an anchor or what an alias stands for: another place may mean the same bytes.
    pub(super) is_shared: bool,
}

#[derive(Debug, Clone)]
pub(super) enum Yaml {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Member>),
}

/// A member of a mapping.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) name: String,
    /// The bytes of its name.
    pub(super) span: Range<usize>,
    pub(super) value: Node,
}

impl Node {
    fn new(span: Range<usize>, value: Yaml) -> Node {
        Node {
            span,
            value,
            is_shared: false,
        }
    }

    /// Whether its bytes can be replaced: nothing in it has an anchor or comes from an alias.
    pub(super) fn is_replaceable(&self) -> bool {
        !self.is_shared
            && match &self.value {
                Yaml::List(nodes) => nodes.iter().all(Node::is_replaceable),
                Yaml::Map(members) => members.iter().all(|member| member.value.is_replaceable()),
                _ => true,
            }
    }

    fn share(&mut self) {
        self.is_shared = true;
        match &mut self.value {
            Yaml::List(nodes) => nodes.iter_mut().for_each(Node::share),
            Yaml::Map(members) => members.iter_mut().for_each(|member| member.value.share()),
            _ => {}
        }
    }

    pub(super) fn to_json(&self) -> Value {
        match &self.value {
            Yaml::Null => Value::Null,
            Yaml::Bool(value) => Value::Bool(*value),
            Yaml::Number(number) => Value::Number(number.clone()),
            Yaml::Text(text) => Value::String(text.clone()),
            Yaml::List(nodes) => Value::Array(nodes.iter().map(Node::to_json).collect()),
            Yaml::Map(members) => {
                let members = members
                    .iter()
                    .map(|member| (member.name.clone(), member.value.to_json()));
                Value::Object(members.collect())
            }
        }
    }

    /// What it is, with an article.
    fn kind(&self) -> &'static str {
        match &self.value {
            Yaml::Null => "empty",
            Yaml::Bool(_) => "true or false",
            Yaml::Number(_) => "a number",
            Yaml::Text(_) => "a text",
            Yaml::List(_) => "a list",
            Yaml::Map(_) => "a mapping",
        }
    }
}

/// The documents of a text.
///
/// # Errors
/// The first problem, with its position.
pub(super) fn documents(file: &SourceFile) -> Result<Vec<Node>, Problem> {
    let mut builder = Builder {
        file,
        events: Parser::new_from_str(file.text()),
        anchors: BTreeMap::new(),
        nodes: 0,
    };
    let mut documents = Vec::new();
    while let Some((event, span)) = builder.next()? {
        match event {
            Event::StreamStart | Event::StreamEnd | Event::DocumentStart(..) | Event::DocumentEnd => {}
            event => documents.push(builder.node(event, span, 0)?),
        }
    }
    Ok(documents)
}

struct Builder<'t, E> {
    file: &'t SourceFile,
    events: E,
    anchors: BTreeMap<usize, Node>,
    nodes: usize,
}

impl<'t, E: Iterator<Item = Result<(Event<'t>, Span), ScanError>>> Builder<'t, E> {
    /// The next event that is not a comment.
    fn next(&mut self) -> Result<Option<(Event<'t>, Span)>, Problem> {
        loop {
            match self.events.next() {
                None => return Ok(None),
                Some(Ok((Event::Comment(..), _))) => {}
                Some(Ok(event)) => return Ok(Some(event)),
                Some(Err(error)) => {
                    let offset = error.marker().byte_offset().unwrap_or(self.file.text().len());
                    return Err(self.problem(offset, format!("not YAML: {}", error.info())));
                }
            }
        }
    }

    fn problem(&self, offset: usize, message: impl Into<String>) -> Problem {
        Problem::at(self.file.path(), self.file.position(offset), message)
    }

    fn node(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Node, Problem> {
        let mut bytes = bytes_of(&span);
        self.nodes += 1;
        if depth > DEPTH_MAX {
            return Err(self.problem(bytes.start, format!("values are nested deeper than {DEPTH_MAX} levels")));
        }
        if self.nodes > NODES_MAX {
            return Err(self.problem(bytes.start, format!("the file has more than {NODES_MAX} values")));
        }
        let (anchor, mut node) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_text = style != ScalarStyle::Plain || tag.is_some_and(|tag| tag.suffix() == "str");
                let value = match is_text {
                    true => Yaml::Text(text.into_owned()),
                    false => plain(&text),
                };
                // The line break belongs to the value, and empty lines behind it look like a part of it.
                if matches!(style, ScalarStyle::Literal | ScalarStyle::Folded) {
                    bytes.end = bytes.start + self.file.text()[bytes.clone()].trim_end().len();
                }
                (anchor, Node::new(bytes, value))
            }
            Event::SequenceStart(style, anchor, _) => (anchor, self.list(style, bytes, depth)?),
            Event::MappingStart(style, anchor, _) => (anchor, self.map(style, bytes, depth)?),
            Event::Alias(anchor) => {
                let node = self.anchors.get(&anchor).cloned();
                let node = node.ok_or_else(|| self.problem(bytes.start, "the alias names its own value"))?;
                self.nodes += count(&node);
                (0, Node { span: bytes, ..node })
            }
            _ => return Err(self.problem(bytes.start, "not YAML: a value is missing")),
        };
        if anchor != 0 {
            node.share();
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn list(&mut self, style: StructureStyle, mut bytes: Range<usize>, depth: usize) -> Result<Node, Problem> {
        let mut nodes: Vec<Node> = Vec::new();
        loop {
            match self.next()? {
                None => return Err(self.problem(bytes.start, "not YAML: a list has no end")),
                Some((Event::SequenceEnd, span)) => {
                    let last = nodes.last().map(|node| node.span.end);
                    bytes.end = end_of(style, &span, last.unwrap_or(bytes.start));
                    return Ok(Node::new(bytes, Yaml::List(nodes)));
                }
                Some((event, span)) => nodes.push(self.node(event, span, depth + 1)?),
            }
        }
    }

    fn map(&mut self, style: StructureStyle, mut bytes: Range<usize>, depth: usize) -> Result<Node, Problem> {
        let mut members: Vec<Member> = Vec::new();
        loop {
            match self.next()? {
                None => return Err(self.problem(bytes.start, "not YAML: a mapping has no end")),
                Some((Event::MappingEnd, span)) => {
                    let last = members.last().map(|member| member.value.span.end);
                    bytes.end = end_of(style, &span, last.unwrap_or(bytes.start));
                    return Ok(Node::new(bytes, Yaml::Map(members)));
                }
                Some((Event::Scalar(name, ..), span)) => {
                    let key = bytes_of(&span);
                    if members.iter().any(|member| member.name == name) {
                        return Err(self.problem(key.start, format!("`{name}` is there twice")));
                    }
                    let Some((event, span)) = self.next()? else {
                        return Err(self.problem(key.start, "not YAML: a value is missing"));
                    };
                    let mut value = self.node(event, span, depth + 1)?;
                    // An empty value has no place of its own.
                    if matches!(value.value, Yaml::Null) && value.span.is_empty() {
                        value.span = key.end..key.end;
                    }
                    let (name, span) = (name.into_owned(), key);
                    members.push(Member { name, span, value });
                }
                Some((_, span)) => {
                    return Err(self.problem(bytes_of(&span).start, "the name of a member is not a text"));
                }
            }
        }
    }
}

fn count(node: &Node) -> usize {
    1 + match &node.value {
        Yaml::List(nodes) => nodes.iter().map(count).sum(),
        Yaml::Map(members) => members.iter().map(|member| count(&member.value)).sum(),
        _ => 0,
    }
}

fn bytes_of(span: &Span) -> Range<usize> {
    // Parsers of a text know the bytes.
    let byte = |marker: granit_parser::Marker| marker.byte_offset().unwrap_or_default();
    byte(span.start)..byte(span.end)
}

/// Where a collection ends: one in block style with its last value, not with the lines behind it.
fn end_of(style: StructureStyle, end: &Span, last: usize) -> usize {
    match style {
        StructureStyle::Flow => bytes_of(end).end.max(last),
        StructureStyle::Block => last,
    }
}

/// A scalar without quotes, by the core schema of YAML 1.2.
pub(super) fn plain(text: &str) -> Yaml {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Yaml::Null,
        "true" | "True" | "TRUE" => return Yaml::Bool(true),
        "false" | "False" | "FALSE" => return Yaml::Bool(false),
        _ => {}
    }
    number(text).map_or_else(|| Yaml::Text(text.to_owned()), Yaml::Number)
}

fn number(text: &str) -> Option<Number> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok().map(Number::from);
    }
    if let Some(digits) = text.strip_prefix("0o") {
        return u64::from_str_radix(digits, 8).ok().map(Number::from);
    }
    let begins_so = |first: char| first.is_ascii_digit() || first == '.';
    let is_number =
        unsigned.starts_with(begins_so) && unsigned.chars().all(|c| c.is_ascii_digit() || ".eE+-".contains(c));
    if !is_number {
        return None;
    }
    let plain = text.strip_prefix('+').unwrap_or(text);
    let whole = plain.parse::<u64>().map(Number::from);
    let whole = whole.or_else(|_| plain.parse::<i64>().map(Number::from));
    whole.ok().or_else(|| Number::from_f64(plain.parse().ok()?))
}

/// Reads one file: collects what is wrong in it.
pub(super) struct Reader<'t> {
    pub(super) file: &'t SourceFile,
    problems: Vec<Problem>,
}

impl<'t> Reader<'t> {
    pub(super) fn new(file: &'t SourceFile) -> Self {
        Self {
            file,
            problems: Vec::new(),
        }
    }

    pub(super) fn position(&self, node: &Node) -> FilePosition {
        self.file.position(node.span.start)
    }

    pub(super) fn refuse(&mut self, node: &Node, message: impl Into<String>, help: impl Into<String>) {
        self.refuse_at(self.position(node), message, help);
    }

    pub(super) fn refuse_at(&mut self, at: FilePosition, message: impl Into<String>, help: impl Into<String>) {
        let problem = Problem::at(self.file.path(), at, message).help(help);
        self.problems.push(problem);
    }

    /// # Errors
    /// All problems, if there are any.
    pub(super) fn finish(self) -> Result<(), Problems> {
        let mut problems = Problems(self.problems);
        problems.sort();
        match problems.has_errors() {
            true => Err(problems),
            false => Ok(()),
        }
    }

    /// The members of a mapping `what`, which are all among `known`.
    pub(super) fn members<'n>(&mut self, node: &'n Node, what: &str, known: &[&str]) -> Members<'n> {
        let Yaml::Map(members) = &node.value else {
            let help = format!("members of {what}: {}", known.join(", "));
            self.refuse(node, format!("{what} is {}, not a mapping", node.kind()), help);
            return Members(&[]);
        };
        for member in members.iter().filter(|member| !known.contains(&&*member.name)) {
            let (name, at) = (&member.name, self.file.position(member.span.start));
            let message = format!("unknown member `{name}` in {what}");
            self.refuse_at(at, message, did_you_mean(name, known, "members"));
        }
        Members(members)
    }

    pub(super) fn text<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n str> {
        match &node.value {
            Yaml::Text(text) => Some(text),
            _ => {
                self.refuse(
                    node,
                    format!("`{what}` is {}, not a text", node.kind()),
                    "put it into quotes",
                );
                None
            }
        }
    }

    pub(super) fn list<'n>(&mut self, node: &'n Node, what: &str) -> &'n [Node] {
        match &node.value {
            Yaml::List(nodes) => nodes,
            _ => {
                self.refuse(
                    node,
                    format!("`{what}` is {}, not a list", node.kind()),
                    format!("write `{what}: [...]`"),
                );
                &[]
            }
        }
    }

    pub(super) fn map<'n>(&mut self, node: &'n Node, what: &str) -> &'n [Member] {
        match &node.value {
            Yaml::Map(members) => members,
            _ => {
                let help = format!("write `{what}: {{ NAME: VALUE }}`");
                self.refuse(node, format!("`{what}` is {}, not a mapping", node.kind()), help);
                &[]
            }
        }
    }
}

/// The members of a mapping.
#[derive(Clone, Copy)]
pub(super) struct Members<'n>(pub(super) &'n [Member]);

impl<'n> Members<'n> {
    pub(super) fn get(self, name: &str) -> Option<&'n Node> {
        let found = self.0.iter().find(|member| member.name == name);
        found.map(|member| &member.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<Node>, Problem> {
        documents(&SourceFile::new("a.yaml", text))
    }

    #[test]
    fn scalars_follow_the_core_schema() {
        let text = "[1, -2, 0x10, 1.5, 1e3, yes, 'true', true, ~, 10s, 1.2.3, !!str 7, \"\", 2026-01-01]";
        let read = parse(text).unwrap()[0].to_json();
        let expected = serde_json::json!([
            1,
            -2,
            16,
            1.5,
            1000.0,
            "yes",
            "true",
            true,
            null,
            "10s",
            "1.2.3",
            "7",
            "",
            "2026-01-01"
        ]);
        assert_eq!(read, expected);
    }

    #[test]
    fn spans_end_with_the_last_value() {
        let text = "a:\n  - b: 1 # one\n  - {c: 2}\n# behind\nd: [3]\n";
        let documents = parse(text).unwrap();
        let Yaml::Map(members) = &documents[0].value else {
            panic!()
        };
        let spans: Vec<&str> = members.iter().map(|member| &text[member.value.span.clone()]).collect();
        assert_eq!(spans, ["- b: 1 # one\n  - {c: 2}", "[3]"]);
    }

    #[test]
    fn spans_of_block_scalars_end_before_the_next_line() {
        let text = "a:\n  - |\n    one\n    two\n\n# behind\nb: >-\n  three\n\nc: |+\n  four\n\n";
        let documents = parse(text).unwrap();
        let Yaml::Map(members) = &documents[0].value else {
            panic!()
        };
        let spans: Vec<&str> = members.iter().map(|member| &text[member.value.span.clone()]).collect();
        assert_eq!(spans, ["- |\n    one\n    two", "three", "four"]);
    }

    #[test]
    fn what_anchors_and_aliases_share_is_not_replaceable() {
        let text = "a: &x { b: [1] }\nc: *x\nd: [*x]\ne: [&y 1, 2]\nf: [3]\n";
        let documents = parse(text).unwrap();
        let Yaml::Map(members) = &documents[0].value else {
            panic!()
        };
        let replaceable = members.iter().filter(|member| member.value.is_replaceable());
        assert_eq!(replaceable.map(|member| &*member.name).collect::<Vec<_>>(), ["f"]);
        let Yaml::Map(inner) = &members[1].value.value else {
            panic!()
        };
        assert!(!inner[0].value.is_replaceable());
    }

    #[test]
    fn broken_yaml_is_refused_with_its_position() {
        let refused = |text: &str| parse(text).unwrap_err().to_string();
        for (text, expected) in [
            ("a: [1", "error: a.yaml:"),
            ("a: 1\na: 2", "error: a.yaml:2:1: `a` is there twice"),
            ("? [b]\n: 1", "error: a.yaml:1:3: the name of a member is not a text"),
            ("a: &x [*x]", "error: a.yaml:1:"),
        ] {
            assert!(refused(text).starts_with(expected), "{text}: {}", refused(text));
        }
        let deep = "[".repeat(200) + &"]".repeat(200);
        assert!(
            refused(&deep).contains("nested deeper than 100 levels"),
            "{}",
            refused(&deep)
        );
    }

    #[test]
    fn nested_aliases_cannot_fill_the_memory() {
        let mut lines = vec!["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]".to_owned()];
        for level in 1..8 {
            let below = format!("*a{}", level - 1);
            let list = vec![below; 10].join(", ");
            lines.push(format!("a{level}: &a{level} [{list}]"));
        }
        let text = lines.join("\n");
        assert!(
            parse(&text)
                .unwrap_err()
                .to_string()
                .contains("more than 100000 values")
        );
    }
}
