//! The representations of objects in responses: whole, metadata only, or as a Table. Chosen by `Accept`.
//!
//! Source: apiserver `pkg/endpoints/handlers/negotiation` and `response.go`.

use http::Response;
use serde_json::{Value, json};

use crate::body::{self, Body};
use crate::kinds::Kind;
use crate::page::Page;
use crate::query::Query;
use crate::status::Status;
use crate::stored::Stored;
use crate::{table, tree};

const META: &str = "meta.k8s.io/v1";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Representation {
    Object,
    /// `PartialObjectMetadata` and its list.
    Metadata,
    Table(Include),
}

/// What the `object` of a table's row holds (`includeObject`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Include {
    Nothing,
    Metadata,
    Object,
}

/// One acceptable media type and its parameters.
struct Clause<'a> {
    media_type: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        Self {
            media_type,
            parameters: parts.filter_map(|part| part.split_once('=')).collect(),
        }
    }

    fn is_json(&self) -> bool {
        matches!(self.media_type, "application/json" | "application/*" | "*/*")
    }

    fn parameter(&self, key: &str) -> &str {
        self.parameters
            .iter()
            .find(|(candidate, _)| *candidate == key)
            .map_or("", |(_, value)| value)
    }
}

/// Whether `Accept` prefers JSON transformed to `kind` of `group`/`version` over everything else that is served.
pub(crate) fn accepts(accept: &str, kind: &str, group: &str, version: &str) -> bool {
    accept.split(',').map(Clause::parse).any(|clause| {
        clause.is_json()
            && clause.parameter("as") == kind
            && clause.parameter("g") == group
            && clause.parameter("v") == version
    })
}

impl Representation {
    /// Chooses the first representation in `accept` that this server supports.
    pub(crate) fn negotiate(accept: &str, query: &Query) -> Result<Self, Status> {
        if accept.trim().is_empty() {
            return Ok(Self::Object);
        }
        for clause in accept.split(',').map(Clause::parse).filter(Clause::is_json) {
            let meta = clause.parameter("g") == "meta.k8s.io" && clause.parameter("v") == "v1";
            match clause.parameter("as") {
                "" => return Ok(Self::Object),
                "Table" if meta => return Ok(Self::Table(include(query)?)),
                "PartialObjectMetadata" | "PartialObjectMetadataList" if meta => return Ok(Self::Metadata),
                _ => {}
            }
        }
        Err(Status::new(
            406,
            "NotAcceptable",
            "only the following media types are accepted: application/json",
        ))
    }

    pub(crate) fn object_response(self, code: u16, kind: &Kind, object: &Stored, now: i64) -> Response<Body> {
        let mut body = Vec::with_capacity(object.json().len() + 1);
        self.write_object(kind, object, now, true, &mut body);
        body.push(b'\n');
        body::json_bytes(code, body)
    }

    pub(crate) fn list_response(self, page: Page, now: i64) -> Response<Body> {
        let body = match self {
            Self::Object => {
                let (list_kind, api_version) = (format!("{}List", page.kind.kind), page.kind.api_version());
                page.into_body(&list_kind, &api_version, write_item)
            }
            Self::Metadata => page.into_body("PartialObjectMetadataList", META, |_, object, out| {
                write_metadata(object, out)
            }),
            Self::Table(include) => Body::whole(tree::text(&table_list(&page, include, now))),
        };
        body::with_type(200, "application/json", body)
    }

    /// Appends one object as a get or a watch event shows it. `columns`: whether a table includes its column
    /// definitions.
    pub(crate) fn write_object(self, kind: &Kind, object: &Stored, now: i64, columns: bool, out: &mut Vec<u8>) {
        match self {
            Self::Object => object.write_as(kind, out),
            Self::Metadata => write_metadata(object, out),
            Self::Table(include) => {
                let metadata = json!({ "resourceVersion": object.revision.to_string() });
                let rows = vec![row(kind, object, include, now)];
                let table = table_document(
                    &metadata,
                    if columns { table::definitions(kind) } else { Vec::new() },
                    rows,
                );
                tree::write(&table, out);
            }
        }
    }

    /// The object of a BOOKMARK event.
    pub(crate) fn bookmark(self, kind: &Kind, revision: u64, initial_events_end: bool) -> Value {
        let mut metadata = json!({ "resourceVersion": revision.to_string() });
        if initial_events_end {
            metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        match self {
            Self::Object => json!({ "kind": kind.kind, "apiVersion": kind.api_version(), "metadata": metadata }),
            Self::Metadata => json!({ "kind": "PartialObjectMetadata", "apiVersion": META, "metadata": metadata }),
            Self::Table(_) => {
                let row = json!({
                    "cells": table::definitions(kind).iter().map(|_| "").collect::<Vec<_>>(),
                    "object": { "kind": "PartialObjectMetadata", "apiVersion": META, "metadata": metadata },
                });
                table_document(
                    &json!({ "resourceVersion": revision.to_string() }),
                    Vec::new(),
                    vec![row],
                )
            }
        }
    }
}

fn include(query: &Query) -> Result<Include, Status> {
    match query.get("includeObject").unwrap_or_default() {
        "None" => Ok(Include::Nothing),
        "" | "Metadata" => Ok(Include::Metadata),
        "Object" => Ok(Include::Object),
        other => Err(Status::bad_request(format!(
            "unrecognized includeObject value: {other:?}"
        ))),
    }
}

/// Items of built-in kinds have no apiVersion and kind, those of custom resources do.
fn write_item(kind: &Kind, object: &Stored, out: &mut Vec<u8>) {
    if kind.custom {
        object.write_as(kind, out);
    } else {
        out.push(b'{');
        out.extend_from_slice(object.json_after_type_meta());
    }
}

fn write_metadata(object: &Stored, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":");
    out.extend_from_slice(object.metadata_json());
    out.push(b'}');
}

fn table_list(page: &Page, include: Include, now: i64) -> Value {
    let rows = page
        .items
        .iter()
        .map(|object| row(&page.kind, object, include, now))
        .collect();
    table_document(&page.metadata(), table::definitions(&page.kind), rows)
}

fn table_document(metadata: &Value, columns: Vec<Value>, rows: Vec<Value>) -> Value {
    json!({
        "kind": "Table",
        "apiVersion": META,
        "metadata": metadata,
        "columnDefinitions": (!columns.is_empty()).then_some(columns),
        "rows": rows,
    })
}

fn row(kind: &Kind, object: &Stored, include: Include, now: i64) -> Value {
    let mut row = json!({ "cells": table::cells(kind, object, now) });
    match include {
        Include::Nothing => {}
        Include::Metadata => {
            let mut partial = Vec::new();
            write_metadata(object, &mut partial);
            row["object"] = tree::read(&partial).expect("metadata was written from a tree of values");
        }
        Include::Object => row["object"] = object.value_as(kind),
    }
    row
}
