//! Prints objects as they arrive. Only the rows of a table are kept, until their width is known.
//!
//! YAML is printed like kubectl does: keys sorted, lists not indented, long lines not folded.

use std::io::{self, ErrorKind, Write};

use anyhow::{Context, Result, ensure};
use informant_apiserver::printers::{self, Column};
use informant_apiserver::tree;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use serde_saphyr::SerializerOptions;

use super::format::Format;
use super::line::{Headline, Line};
use super::template::Template;
use super::wide;
use crate::admin::AbsentFields;
use crate::age;
use crate::cli::output::{self, Stdout};
use crate::cli::table::StreamedTable;
use crate::escape::{self, Form};

#[derive(Debug, Clone)]
pub(super) struct Style {
    /// The fields that the informer removes from its objects.
    pub(super) absent: AbsentFields,
    pub(super) format: Format,
    /// Whether a single object is printed without a list, as when it was requested by name.
    pub(super) one_alone: bool,
    /// Whether no object is in a list, as in a watch.
    pub(super) each_alone: bool,
    pub(super) with_cluster: bool,
    pub(super) with_namespace: bool,
    /// Whether objects have different kinds, so that each is shown with its own.
    pub(super) with_kind: bool,
    /// Whether a table has a column of labels.
    pub(super) with_labels: bool,
    pub(super) with_headings: bool,
}

pub(super) struct Printer<W: Write = Stdout> {
    out: W,
    style: Style,
    body: Body,
    printed: usize,
}

enum Body {
    /// `None` before the first object, which decides on the columns.
    Rows(Option<Rows>),
    Names,
    /// A List, and how an item is written.
    List {
        format: ListFormat,
        /// The first object, while it may be the only one.
        first: Option<Value>,
    },
    /// What the template is applied to at the end.
    Template {
        template: Template,
        objects: Vec<Value>,
    },
}

struct Rows {
    table: StreamedTable,
    with_namespace: bool,
    /// Those of `-o wide`, the name included.
    columns: &'static [Column],
}

#[derive(Clone, Copy)]
enum ListFormat {
    Json,
    Yaml,
}

impl Printer {
    pub(super) fn new(style: Style) -> Self {
        let form = match style.format {
            Format::Json | Format::Yaml => Form::Json,
            Format::Table | Format::Wide | Format::Name | Format::JsonPath(_) => Form::Text,
        };
        Self::to(output::stdout(form), style)
    }
}

impl<W: Write> Printer<W> {
    fn to(out: W, style: Style) -> Self {
        let list = |format| Body::List { format, first: None };
        let body = match &style.format {
            Format::Table | Format::Wide => Body::Rows(None),
            Format::Name => Body::Names,
            Format::Json => list(ListFormat::Json),
            Format::Yaml => list(ListFormat::Yaml),
            Format::JsonPath(template) => Body::Template {
                template: template.clone(),
                objects: Vec::new(),
            },
        };
        Self {
            out,
            style,
            body,
            printed: 0,
        }
    }

    /// Prints one object. `false` if stdout was closed.
    pub(super) fn object(&mut self, line: &[u8]) -> Result<bool> {
        let line = Line::parse(line)?;
        let number = self.printed;
        self.printed += 1;
        let (out, style) = (&mut self.out, &self.style);
        let written = match &mut self.body {
            Body::Rows(rows) => {
                let headline = line.headline()?;
                let rows = rows.get_or_insert_with(|| Rows::new(style, &headline));
                let row = rows.row(style, &line, headline)?;
                rows.table.row(out, row)
            }
            Body::Names => write_name(out, style, &line)?,
            Body::Template { template, objects } => {
                let object = shown_object(style, &line)?;
                if style.each_alone {
                    out.write_all(template.render(&object).as_bytes())
                } else {
                    objects.push(object);
                    Ok(())
                }
            }
            Body::List { format, first } => {
                let object = shown_object(style, &line)?;
                format.check(&object)?;
                if style.each_alone {
                    return ignore_broken_pipe(format.alone_of_several(out, &object, number));
                }
                if number == 0 && style.one_alone {
                    *first = Some(object);
                    return Ok(true);
                }
                let before = first.take().map_or(Ok(()), |first| format.item(out, &first, 0));
                before.and_then(|()| format.item(out, &object, number))
            }
        };
        ignore_broken_pipe(written)
    }

    /// How many objects were given.
    pub(super) fn printed(&self) -> usize {
        self.printed
    }

    /// Prints an empty line. `false` if stdout was closed.
    pub(super) fn blank_line(&mut self) -> Result<bool> {
        ignore_broken_pipe(writeln!(self.out))
    }

    /// Prints what was kept to find the width of columns. `false` if stdout was closed.
    pub(super) fn flush(&mut self) -> Result<bool> {
        let out = &mut self.out;
        let written = match &mut self.body {
            Body::Rows(Some(rows)) => rows.table.finish(out),
            _ => Ok(()),
        };
        ignore_broken_pipe(written.and_then(|()| self.out.flush()))
    }

    /// Prints the rest. Returns the number of objects.
    pub(super) fn finish(mut self) -> Result<usize> {
        let out = &mut self.out;
        let written = match &mut self.body {
            Body::Rows(Some(rows)) => rows.table.finish(out),
            Body::Rows(None) | Body::Names => Ok(()),
            Body::List { .. } if self.style.each_alone => Ok(()),
            Body::List { format, first } => match first.take() {
                Some(only) => format.alone(out, &only),
                None => format.end(out, self.printed),
            },
            Body::Template { .. } if self.style.each_alone => Ok(()),
            Body::Template { template, objects } => {
                let mut objects = std::mem::take(objects);
                let root = match objects.pop() {
                    Some(only) if objects.is_empty() && self.style.one_alone => only,
                    last => {
                        objects.extend(last);
                        json!({ "apiVersion": "v1", "kind": "List", "metadata": { "resourceVersion": "" }, "items": objects })
                    }
                };
                out.write_all(template.render(&root).as_bytes())
            }
        };
        ignore_broken_pipe(written.and_then(|()| self.out.flush()))?;
        Ok(self.printed)
    }
}

/// The object as it is shown: with its cluster, if there are several.
fn shown_object(style: &Style, line: &Line<'_>) -> Result<Value> {
    match style.with_cluster {
        true => line.annotated(),
        false => line.object(),
    }
}

/// `pod/web-0`; with several clusters `east/pod/web-0`.
fn write_name(out: &mut impl Write, style: &Style, line: &Line<'_>) -> Result<io::Result<()>> {
    let object = line.headline()?;
    let cluster = if style.with_cluster { line.cluster } else { "" };
    let separator = if cluster.is_empty() { "" } else { "/" };
    let (resource, name) = (object.resource(), object.metadata.name);
    let line = format!("{cluster}{separator}{resource}/{name}");
    Ok(writeln!(out, "{}", escape::line(&line)))
}

impl Rows {
    /// The columns for the first object's kind if all have the same, else those for any kind.
    fn new(style: &Style, first: &Headline) -> Self {
        // Cluster-scoped objects have no namespace column. With several kinds some are namespaced, and rows are not
        // kept to find out.
        let with_namespace = style.with_namespace && (style.with_kind || !first.metadata.namespace.is_empty());
        let columns = match style.format {
            Format::Wide if style.with_kind => wide::OF_ANY_KIND,
            Format::Wide => wide::columns(&first.api_version, &first.kind),
            _ => &[],
        };
        let mut headings = Vec::new();
        headings.extend(style.with_cluster.then(|| "CLUSTER".to_owned()));
        headings.extend(with_namespace.then(|| "NAMESPACE".to_owned()));
        match columns {
            [] => headings.extend(["NAME".to_owned(), "AGE".to_owned()]),
            columns => headings.extend(columns.iter().map(|column| column.name.to_uppercase())),
        }
        headings.extend(style.with_labels.then(|| "LABELS".to_owned()));
        Self {
            table: StreamedTable::new(headings, style.with_headings),
            with_namespace,
            columns,
        }
    }

    fn row(&self, style: &Style, line: &Line<'_>, headline: Headline) -> Result<Vec<String>> {
        let kind = style.with_kind.then(|| headline.resource() + "/");
        let metadata = headline.metadata;
        let labels = metadata.labels;
        let mut row = Vec::new();
        row.extend(style.with_cluster.then(|| line.cluster.to_owned()));
        row.extend(self.with_namespace.then_some(metadata.namespace));
        let prefix_at = row.len();
        match self.columns {
            [] => row.extend([metadata.name, age::since(metadata.creation_timestamp.as_deref())]),
            columns => {
                let (object, now) = (line.object()?, Timestamp::now().as_second());
                let cells = columns
                    .iter()
                    .map(|column| wide::show(column, &object, &style.absent, now));
                row.extend(cells);
            }
        }
        row.extend(style.with_labels.then(|| printers::labels(&labels)));
        // Several kinds together have the name first.
        if let (Some(kind), Some(name)) = (kind, row.get_mut(prefix_at)) {
            name.insert_str(0, &kind);
        }
        Ok(row)
    }
}

const JSON_BEGIN: &str = "{\n    \"apiVersion\": \"v1\",\n    \"items\": [";
const JSON_END: &str = "\n    \"kind\": \"List\",\n    \"metadata\": {\n        \"resourceVersion\": \"\"\n    }\n}";
const YAML_BEGIN: &str = "apiVersion: v1\nitems:";
const YAML_END: &str = "kind: List\nmetadata:\n  resourceVersion: \"\"";

impl ListFormat {
    /// Refuses an object that the format cannot show.
    fn check(self, object: &Value) -> Result<()> {
        let can_show = match self {
            Self::Json => true,
            Self::Yaml => !tree::holds_text(object),
        };
        let text = |field: &str| object.pointer(field).and_then(Value::as_str).unwrap_or_default();
        ensure!(
            can_show,
            "{} {} is nested deeper than {} levels, which cannot be shown as YAML; use -o json",
            text("/kind"),
            text("/metadata/name"),
            tree::DEPTH_MAX
        );
        Ok(())
    }

    /// One item of a `List`, indented.
    fn item(self, out: &mut impl Write, object: &Value, number: usize) -> io::Result<()> {
        match self {
            Self::Json => {
                out.write_all(if number == 0 { JSON_BEGIN.as_bytes() } else { b"," })?;
                for line in pretty(object)?.lines() {
                    write!(out, "\n        {line}")?;
                }
                Ok(())
            }
            Self::Yaml => {
                if number == 0 {
                    writeln!(out, "{YAML_BEGIN}")?;
                }
                yaml_item(out, object)
            }
        }
    }

    fn alone(self, out: &mut impl Write, object: &Value) -> io::Result<()> {
        match self {
            Self::Json => writeln!(out, "{}", pretty(object)?),
            Self::Yaml => yaml_document(out, object),
        }
    }

    /// One of several objects that are no list.
    fn alone_of_several(self, out: &mut impl Write, object: &Value, number: usize) -> io::Result<()> {
        if matches!(self, Self::Yaml) && number > 0 {
            writeln!(out, "---")?;
        }
        self.alone(out, object)
    }

    fn end(self, out: &mut impl Write, printed: usize) -> io::Result<()> {
        match (self, printed) {
            (Self::Json, 0) => writeln!(out, "{JSON_BEGIN}],{JSON_END}"),
            (Self::Json, _) => writeln!(out, "\n    ],{JSON_END}"),
            (Self::Yaml, 0) => writeln!(out, "{YAML_BEGIN} []\n{YAML_END}"),
            (Self::Yaml, _) => writeln!(out, "{YAML_END}"),
        }
    }
}

/// JSON like kubectl's: four spaces, keys sorted.
fn pretty(object: &Value) -> io::Result<String> {
    let mut text = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, formatter);
    tree::Written(object).serialize(&mut serializer)?;
    String::from_utf8(text).map_err(io::Error::other)
}

pub(in crate::cli) fn yaml_document(out: &mut impl Write, object: &Value) -> io::Result<()> {
    out.write_all(yaml_text(object)?.as_bytes())
}

fn yaml_item(out: &mut impl Write, object: &Value) -> io::Result<()> {
    for (number, line) in yaml_text(object)?.lines().enumerate() {
        match (number, line) {
            (0, line) => writeln!(out, "- {line}")?,
            // An empty line of a multi-line string.
            (_, "") => writeln!(out)?,
            (_, line) => writeln!(out, "  {line}")?,
        }
    }
    Ok(())
}

fn yaml_text(object: &Value) -> io::Result<String> {
    let options: SerializerOptions = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    serde_saphyr::to_string_with_options(object, options).map_err(io::Error::other)
}

/// `false` if stdout was closed, which is not an error.
fn ignore_broken_pipe(written: io::Result<()>) -> Result<bool> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("failed to write to stdout"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(cluster: &str, name: &str) -> Vec<u8> {
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "namespace": "web", "name": name, "labels": { "app": "a" } },
            "spec": { "replicas": 3, "template": { "spec": { "containers": [{ "name": "c", "image": "nginx:1" }] } } },
            "status": { "readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 2 },
        });
        json!({ "cluster": cluster, "source": 1, "object": object })
            .to_string()
            .into_bytes()
    }

    fn printed(format: Format, lines: &[Vec<u8>], change: impl FnOnce(&mut Style)) -> String {
        let mut style = Style {
            absent: AbsentFields::default(),
            format,
            one_alone: false,
            each_alone: false,
            with_cluster: true,
            with_namespace: true,
            with_kind: false,
            with_labels: false,
            with_headings: true,
        };
        change(&mut style);
        let mut out = Vec::new();
        let mut printer = Printer::to(&mut out, style);
        for line in lines {
            printer.object(line).unwrap();
        }
        assert_eq!(printer.finish().unwrap(), lines.len());
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn same_name_in_two_clusters_prints_two_objects() {
        let lines = [line("east", "a"), line("west", "a")];
        insta::assert_snapshot!(printed(Format::Table, &lines, |_| ()), @"
        CLUSTER   NAMESPACE   NAME   AGE
        east      web         a      <unknown>
        west      web         a      <unknown>
        ");
        insta::assert_snapshot!(printed(Format::Name, &lines, |_| ()), @"
        east/deployment.apps/a
        west/deployment.apps/a
        ");
        insta::assert_snapshot!(printed(Format::Wide, &lines, |_| ()), @"
        CLUSTER   NAMESPACE   NAME   READY   UP-TO-DATE   AVAILABLE   AGE         CONTAINERS   IMAGES    SELECTOR
        east      web         a      2/3     3            2           <unknown>   c            nginx:1   <none>
        west      web         a      2/3     3            2           <unknown>   c            nginx:1   <none>
        ");
        let list: Value = serde_json::from_str(&printed(Format::Json, &lines, |_| ())).unwrap();
        assert_eq!(list["items"][1]["metadata"]["annotations"]["informant/cluster"], "west");
    }

    #[test]
    fn objects_of_any_depth_are_shown_but_not_as_yaml() {
        let deep = "[".repeat(5_000) + &"]".repeat(5_000);
        let object =
            format!(r#"{{"apiVersion":"v1","kind":"Gadget","metadata":{{"name":"deep"}},"spec":{{"deep":{deep}}}}}"#);
        let line = format!(r#"{{"cluster":"","source":1,"object":{object}}}"#).into_bytes();
        let text = printed(Format::Json, std::slice::from_ref(&line), |style| {
            style.one_alone = true
        });
        let without_space: String = text.split_whitespace().collect();
        assert!(without_space.contains(&deep), "{text}");
        for format in [Format::Table, Format::Wide, Format::Name] {
            assert!(printed(format, std::slice::from_ref(&line), |_| ()).contains("deep"));
        }
        let object = Line::parse(&line).unwrap().object().unwrap();
        insta::assert_snapshot!(
            ListFormat::Yaml.check(&object).unwrap_err(),
            @"Gadget deep is nested deeper than 100 levels, which cannot be shown as YAML; use -o json"
        );
    }

    #[test]
    fn objects_of_several_kinds_are_shown_with_their_kind() {
        let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "a", "resourceVersion": "7" } });
        let node = json!({ "cluster": "", "source": 2, "object": node }).to_string();
        let lines = [node.into_bytes(), line("", "a")];
        let several = |style: &mut Style| (style.with_kind, style.with_cluster) = (true, false);
        insta::assert_snapshot!(printed(Format::Table, &lines, several), @"
        NAMESPACE   NAME                AGE
                    node/a              <unknown>
        web         deployment.apps/a   <unknown>
        ");
        insta::assert_snapshot!(printed(Format::Wide, &lines, several), @"
        NAMESPACE   NAME                VERSION   AGE         LABELS
                    node/a              7         <unknown>   <none>
        web         deployment.apps/a   <none>    <unknown>   app=a
        ");
        let in_one_namespace = printed(Format::Table, &lines, |style| {
            several(style);
            style.with_namespace = false;
        });
        insta::assert_snapshot!(in_one_namespace, @"
        NAME                AGE
        node/a              <unknown>
        deployment.apps/a   <unknown>
        ");
    }

    #[test]
    fn yaml_prints_a_list_or_the_named_object() {
        let lines = [line("", "a"), line("", "b")];
        let alone = printed(Format::Yaml, &lines[..1], |style| {
            (style.one_alone, style.with_cluster) = (true, false);
        });
        insta::assert_snapshot!(alone, @"
        apiVersion: apps/v1
        kind: Deployment
        metadata:
          labels:
            app: a
          name: a
          namespace: web
        spec:
          replicas: 3
          template:
            spec:
              containers:
              - image: nginx:1
                name: c
        status:
          availableReplicas: 2
          readyReplicas: 2
          updatedReplicas: 3
        ");
        let list = printed(Format::Yaml, &lines, |style| style.with_cluster = false);
        assert!(
            list.starts_with("apiVersion: v1\nitems:\n- apiVersion: apps/v1\n  kind: Deployment\n"),
            "{list}"
        );
        assert_eq!(list.matches("\n- ").count(), 2, "{list}");
        let read: Value = serde_saphyr::from_str(&list).unwrap();
        assert_eq!(read["items"][1]["metadata"]["name"], "b");
        assert_eq!(read["kind"], "List");
        insta::assert_snapshot!(printed(Format::Yaml, &[], |_| ()), @r#"
        apiVersion: v1
        items: []
        kind: List
        metadata:
          resourceVersion: ""
        "#);
    }

    #[test]
    fn yaml_reads_back_unchanged() {
        let object = json!({
            "data": {
                "bool": "yes", "number": "1e3", "nothing": "null", "empty": "", "colon": "a: b", "dash": "- a", "hash": "a # b",
                "script": "#!/bin/sh\n  indented\n\nlast\n", "tab": "\ta", "trailing": "a \n", "long": "word ".repeat(60), "ü": "ß",
                "leading": "  a\n b\n", "star": "*a", "and": "&a", "at": "@a", "date": "2026-01-01", "octal": "0777", "blank": " ",
            },
            "list": [[], {}, null, 1.5, -3, true, ["a", ["b"]], { "a": [{ "b": 1, "c": [2] }] }],
        });
        let mut printed = b"items:\n".to_vec();
        yaml_item(&mut printed, &object).unwrap();
        yaml_item(&mut printed, &json!({ "a": 1 })).unwrap();
        let read: Value = serde_saphyr::from_str(std::str::from_utf8(&printed).unwrap()).unwrap();
        assert_eq!(
            read,
            json!({ "items": [object, { "a": 1 }] }),
            "{}",
            String::from_utf8_lossy(&printed)
        );
    }

    /// A table keeps one chunk of rows, every other format nothing.
    #[test]
    fn memory_is_bounded_for_100_000_objects() {
        for format in [Format::Name, Format::Table] {
            let mut out = Counted(0);
            let style = Style {
                absent: AbsentFields::default(),
                format,
                one_alone: false,
                each_alone: false,
                with_labels: false,
                with_cluster: false,
                with_namespace: true,
                with_kind: false,
                with_headings: true,
            };
            let mut printer = Printer::to(&mut out, style);
            let line = line("", "some-name-that-is-not-short");
            for number in 1..=100_000 {
                printer.object(&line).unwrap();
                if let Body::Rows(Some(rows)) = &printer.body {
                    assert!(rows.table.rows_kept() <= 500, "{number}");
                }
            }
            assert_eq!(printer.finish().unwrap(), 100_000);
            assert!(out.0 > 2_000_000);
        }
    }

    struct Counted(usize);

    impl Write for Counted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
}
