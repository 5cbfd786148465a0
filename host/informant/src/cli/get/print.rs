//! Objects on stdout as they arrive; none is kept but a table's rows, for as long as it takes to know how wide they
//! are.

use std::io::{self, BufWriter, ErrorKind, StdoutLock, Write};

use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::Value;

use super::Format;
use super::line::{Headline, Line};
use super::table::Table;
use super::wide::{self, Column};
use super::yaml;
use crate::age;

/// What is printed of objects, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    pub(super) format: Format,
    /// Whether one object is printed alone, as when it was asked for by name.
    pub(super) one_alone: bool,
    pub(super) with_cluster: bool,
    pub(super) with_namespace: bool,
    /// Whether objects are of several kinds, so that each is shown with its own.
    pub(super) with_kind: bool,
    pub(super) with_headings: bool,
}

/// Prints objects in one format.
pub(super) struct Printer<W: Write = BufWriter<StdoutLock<'static>>> {
    out: W,
    style: Style,
    body: Body,
    printed: usize,
}

enum Body {
    /// None before the first object has told which columns there are.
    Rows(Option<Rows>),
    Names,
    /// A List, and how an item is written.
    List {
        format: ListFormat,
        /// The first object, while it may be the only one.
        first: Option<Value>,
    },
}

struct Rows {
    table: Table,
    with_namespace: bool,
    /// Those of `-o wide`.
    columns: &'static [Column],
}

#[derive(Clone, Copy)]
enum ListFormat {
    Json,
    Yaml,
}

impl Printer {
    pub(super) fn new(style: Style) -> Self {
        Self::to(BufWriter::new(io::stdout().lock()), style)
    }
}

impl<W: Write> Printer<W> {
    fn to(out: W, style: Style) -> Self {
        let list = |format| Body::List { format, first: None };
        let body = match style.format {
            Format::Table | Format::Wide => Body::Rows(None),
            Format::Name => Body::Names,
            Format::Json => list(ListFormat::Json),
            Format::Yaml => list(ListFormat::Yaml),
        };
        Self {
            out,
            style,
            body,
            printed: 0,
        }
    }

    /// Prints one object. `false` if nobody reads any more.
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
            Body::List { format, first } => {
                let object = if style.with_cluster {
                    line.annotated()
                } else {
                    line.object()
                }?;
                if number == 0 && style.one_alone {
                    *first = Some(object);
                    return Ok(true);
                }
                let before = first.take().map_or(Ok(()), |first| format.item(out, &first, 0));
                before.and_then(|()| format.item(out, &object, number))
            }
        };
        still_read(written)
    }

    /// Prints what is left. Returns how many objects there were.
    pub(super) fn finish(mut self) -> Result<usize> {
        let out = &mut self.out;
        let written = match &mut self.body {
            Body::Rows(Some(rows)) => rows.table.finish(out),
            Body::Rows(None) | Body::Names => Ok(()),
            Body::List { format, first } => match first.take() {
                Some(only) => format.alone(out, &only),
                None => format.end(out, self.printed),
            },
        };
        still_read(written.and_then(|()| self.out.flush()))?;
        Ok(self.printed)
    }
}

/// `pod/web-0`; beside objects of other clusters `east/pod/web-0`.
fn write_name(out: &mut impl Write, style: &Style, line: &Line<'_>) -> Result<io::Result<()>> {
    let object = line.headline()?;
    let cluster = if style.with_cluster { line.cluster } else { "" };
    let separator = if cluster.is_empty() { "" } else { "/" };
    let (resource, name) = (object.resource(), object.metadata.name);
    Ok(writeln!(out, "{cluster}{separator}{resource}/{name}"))
}

impl Rows {
    /// The columns that fit the first object if all are of one kind, else those that fit any.
    fn new(style: &Style, first: &Headline) -> Self {
        // What lives outside of namespaces has no such column; of several kinds some live in namespaces, and rows are
        // not kept to find out.
        let with_namespace = style.with_namespace && (style.with_kind || !first.metadata.namespace.is_empty());
        let columns = match style.format {
            Format::Wide if style.with_kind => wide::OF_ANY_KIND,
            Format::Wide => wide::columns(first.group(), &first.kind),
            _ => &[],
        };
        let mut headings = Vec::new();
        headings.extend(style.with_cluster.then_some("CLUSTER"));
        headings.extend(with_namespace.then_some("NAMESPACE"));
        headings.push("NAME");
        match columns {
            [] => headings.push("AGE"),
            columns => headings.extend(columns.iter().map(|column| column.heading)),
        }
        Self {
            table: Table::new(headings, style.with_headings),
            with_namespace,
            columns,
        }
    }

    fn row(&self, style: &Style, line: &Line<'_>, headline: Headline) -> Result<Vec<String>> {
        let kind = style.with_kind.then(|| headline.resource() + "/");
        let metadata = headline.metadata;
        let mut row = Vec::new();
        row.extend(style.with_cluster.then(|| line.cluster.to_owned()));
        row.extend(self.with_namespace.then_some(metadata.namespace));
        row.push(kind.unwrap_or_default() + &metadata.name);
        match self.columns {
            [] => row.push(age::since(metadata.creation_timestamp.as_deref())),
            columns => {
                let object = line.object()?;
                row.extend(columns.iter().map(|column| (column.cell)(&object)));
            }
        }
        Ok(row)
    }
}

const JSON_BEGIN: &str = "{\n    \"apiVersion\": \"v1\",\n    \"items\": [";
const JSON_END: &str = "\n    \"kind\": \"List\",\n    \"metadata\": {\n        \"resourceVersion\": \"\"\n    }\n}";
const YAML_BEGIN: &str = "apiVersion: v1\nitems:";
const YAML_END: &str = "kind: List\nmetadata:\n  resourceVersion: \"\"";

impl ListFormat {
    /// One item of a `List`, set in.
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
                yaml::item(out, object)
            }
        }
    }

    fn alone(self, out: &mut impl Write, object: &Value) -> io::Result<()> {
        match self {
            Self::Json => writeln!(out, "{}", pretty(object)?),
            Self::Yaml => yaml::document(out, object),
        }
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

/// As kubectl prints an object: four spaces, keys sorted.
fn pretty(object: &Value) -> io::Result<String> {
    let mut text = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    object.serialize(&mut serde_json::Serializer::with_formatter(&mut text, formatter))?;
    String::from_utf8(text).map_err(io::Error::other)
}

/// Passes over a reader that went away.
fn still_read(written: io::Result<()>) -> Result<bool> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("failed to write to stdout"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
            format,
            one_alone: false,
            with_cluster: true,
            with_namespace: true,
            with_kind: false,
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
    fn the_same_name_in_two_clusters_is_two_objects() {
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
        CLUSTER   NAMESPACE   NAME   READY   UP-TO-DATE   AVAILABLE   AGE         CONTAINERS   IMAGES
        east      web         a      2/3     3            2           <unknown>   c            nginx:1
        west      web         a      2/3     3            2           <unknown>   c            nginx:1
        ");
        let list: Value = serde_json::from_str(&printed(Format::Json, &lines, |_| ())).unwrap();
        assert_eq!(list["items"][1]["metadata"]["annotations"]["informant/cluster"], "west");
    }

    #[test]
    fn of_several_kinds_each_object_is_shown_with_its_own() {
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
    fn yaml_is_a_list_or_the_one_that_was_named() {
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

    /// Nothing of what was printed is kept: a table keeps one stretch of rows, everything else nothing.
    #[test]
    fn of_100_000_objects_none_is_kept() {
        for format in [Format::Name, Format::Table] {
            let mut out = Counted(0);
            let style = Style {
                format,
                one_alone: false,
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
                    assert!(rows.table.kept() <= 500, "{number}");
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
