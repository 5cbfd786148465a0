//! Objects on stdout as they arrive; none is kept but a table's rows, for as long as it takes to know how wide they are.

use std::io::{self, BufWriter, ErrorKind, StdoutLock, Write};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::super::age;
use super::Format;
use super::table::Table;

/// What is read of an object to name it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Headline {
    api_version: String,
    kind: String,
    metadata: Metadata,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default)]
    namespace: String,
    name: String,
    creation_timestamp: Option<String>,
}

/// Prints objects in one format.
pub(super) struct Printer {
    out: BufWriter<StdoutLock<'static>>,
    style: Style,
    printed: usize,
}

enum Style {
    Table(Table),
    Name,
    Json {
        /// Whether one object is printed alone, as when it was asked for by name.
        one_alone: bool,
        /// The first object, while it may be the only one.
        first: Option<String>,
    },
}

impl Printer {
    pub(super) fn new(format: Format, by_name: bool, with_namespace: bool, with_headers: bool) -> Self {
        let style = match format {
            Format::Table => Style::Table(Table::new(with_namespace, with_headers)),
            Format::Name => Style::Name,
            Format::Json => Style::Json {
                one_alone: by_name,
                first: None,
            },
        };
        Self {
            out: BufWriter::new(io::stdout().lock()),
            style,
            printed: 0,
        }
    }

    /// Prints one object. `false` if nobody reads any more.
    pub(super) fn object(&mut self, json: &[u8]) -> Result<bool> {
        let number = self.printed;
        self.printed += 1;
        let written = match &mut self.style {
            Style::Table(table) => {
                let Headline { metadata, .. } = headline(json)?;
                let age = metadata
                    .creation_timestamp
                    .map_or("<unknown>".to_owned(), |created| age_of(&created));
                table.row(&mut self.out, [metadata.namespace, metadata.name, age])
            }
            Style::Name => {
                let object = headline(json)?;
                writeln!(self.out, "{}/{}", resource_of(&object), object.metadata.name)
            }
            Style::Json { one_alone: true, first } if number == 0 => {
                *first = Some(pretty(json)?);
                Ok(())
            }
            Style::Json { first, .. } => {
                let object = pretty(json)?;
                let before = first.take().map_or(Ok(()), |first| list_item(&mut self.out, &first, 0));
                before.and_then(|()| list_item(&mut self.out, &object, number))
            }
        };
        still_read(written)
    }

    /// Prints what is left. Returns how many objects there were.
    pub(super) fn finish(mut self) -> Result<usize> {
        let written = match &mut self.style {
            Style::Table(table) => table.finish(&mut self.out),
            Style::Name => Ok(()),
            Style::Json { first: Some(only), .. } => writeln!(self.out, "{only}"),
            Style::Json { .. } if self.printed == 0 => writeln!(self.out, "{LIST_BEGIN}],{LIST_END}"),
            Style::Json { .. } => writeln!(self.out, "\n    ],{LIST_END}"),
        };
        still_read(written.and_then(|()| self.out.flush()))?;
        Ok(self.printed)
    }
}

const LIST_BEGIN: &str = "{\n    \"apiVersion\": \"v1\",\n    \"items\": [";
const LIST_END: &str = "\n    \"kind\": \"List\",\n    \"metadata\": {\n        \"resourceVersion\": \"\"\n    }\n}";

/// One item of a `List`, set in by two levels.
fn list_item(out: &mut impl Write, object: &str, number: usize) -> io::Result<()> {
    out.write_all(if number == 0 { LIST_BEGIN.as_bytes() } else { b"," })?;
    for line in object.lines() {
        write!(out, "\n        {line}")?;
    }
    Ok(())
}

/// As kubectl prints an object: four spaces, keys sorted.
fn pretty(json: &[u8]) -> Result<String> {
    let object: serde_json::Value =
        serde_json::from_slice(json).context("the daemon sent an object that is not JSON")?;
    let mut text = Vec::with_capacity(json.len() * 2);
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    object.serialize(&mut serde_json::Serializer::with_formatter(&mut text, formatter))?;
    Ok(String::from_utf8(text)?)
}

fn headline(json: &[u8]) -> Result<Headline> {
    serde_json::from_slice(json).context("the daemon sent something that is not an object")
}

/// `pod`, `deployment.apps`: what kubectl calls an object.
fn resource_of(object: &Headline) -> String {
    let kind = object.kind.to_ascii_lowercase();
    match object.api_version.split_once('/') {
        Some((group, _)) => format!("{kind}.{group}"),
        None => kind,
    }
}

fn age_of(created: &str) -> String {
    match created.parse::<jiff::Timestamp>() {
        Ok(created) => age::human(jiff::Timestamp::now().as_second() - created.as_second()),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// Passes over a reader that went away.
fn still_read(written: io::Result<()>) -> Result<bool> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("failed to write to stdout"),
    }
}
