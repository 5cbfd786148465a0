//! The four kinds of patch.
//!
//! Server-side apply is a strategic merge with create: nothing is tracked per manager, so fields that are removed from
//! an applied configuration stay in the object (documented in docs/reference/embedded-apiserver.md).

mod strategic;

use bytes::Bytes;
use serde_json::Value;

use crate::document;
use crate::kinds::Kind;
use crate::query::Query;
use crate::status::{FieldError, Status};
use crate::tree;

/// A parsed patch of a type that the resource accepts.
#[derive(Debug)]
pub(crate) enum Patch {
    /// RFC 7386.
    Merge(Value),
    /// Lists are merged by key; see [`strategic`].
    Strategic(Value),
    /// RFC 6902.
    Json(json_patch::Patch),
    /// Server-side apply.
    Apply {
        /// The applied configuration.
        configuration: Value,
        /// Whether lists are merged by key. Those of custom resources are replaced: Kubernetes treats them as atomic
        /// unless a schema says otherwise.
        strategic: bool,
    },
}

impl Patch {
    /// Reads a patch of the type given by `content_type`.
    pub(crate) fn read(kind: &Kind, content_type: &str, query: &Query, body: &Bytes) -> Result<Self, Status> {
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        match media_type {
            "application/merge-patch+json" => Ok(Self::Merge(json(body)?)),
            "application/strategic-merge-patch+json" if !kind.custom => Ok(Self::Strategic(json(body)?)),
            "application/json-patch+json" => serde_json::from_slice(body)
                .map(Self::Json)
                .map_err(|error| undecodable(&error)),
            "application/apply-patch+yaml" => {
                if query.get("fieldManager").is_none_or(str::is_empty) {
                    let (field, detail) = ("fieldManager", "is required for apply patch");
                    let (options, required) = ("PatchOptions", FieldError::Required);
                    return Err(Status::invalid("meta.k8s.io", options, "", field, required, detail));
                }
                let configuration = document::yaml(body).map_err(|error| undecodable(&error))?;
                Ok(Self::Apply {
                    configuration: object(configuration)?,
                    strategic: !kind.custom,
                })
            }
            _ => Err(unsupported(kind)),
        }
    }

    /// The configuration to create the object from if it does not exist.
    pub(crate) fn creates(&self) -> Option<&Value> {
        match self {
            Self::Apply { configuration, .. } => Some(configuration),
            Self::Merge(_) | Self::Strategic(_) | Self::Json(_) => None,
        }
    }

    pub(crate) fn apply(&self, object: &mut Value) -> Result<(), Status> {
        match self {
            Self::Merge(patch)
            | Self::Apply {
                configuration: patch,
                strategic: false,
            } => json_patch::merge(object, patch),
            Self::Strategic(patch)
            | Self::Apply {
                configuration: patch,
                strategic: true,
            } => strategic::merge(object, patch),
            Self::Json(patch) => {
                json_patch::patch(object, patch).map_err(|error| rejected(&error))?;
                document::check_depth(object).map_err(|error| rejected(&error))?;
            }
        }
        Ok(())
    }
}

fn rejected(error: &dyn std::fmt::Display) -> Status {
    let message = format!("the server rejected our request due to an error in our request: {error}");
    Status::new(422, "Invalid", message)
}

fn json(body: &Bytes) -> Result<Value, Status> {
    object(tree::read(body).map_err(|error| undecodable(&error))?)
}

fn undecodable(error: &dyn std::fmt::Display) -> Status {
    Status::bad_request(format!("error decoding patch: {error}"))
}

fn object(document: Value) -> Result<Value, Status> {
    if document.is_object() {
        Ok(document)
    } else {
        Err(Status::bad_request("error decoding patch: not a JSON object"))
    }
}

fn unsupported(kind: &Kind) -> Status {
    let strategic = if kind.custom {
        ""
    } else {
        "application/strategic-merge-patch+json, "
    };
    Status::new(
        415,
        "UnsupportedMediaType",
        format!(
            "the body of the request was in an unknown format - accepted media types include: \
             application/json-patch+json, application/merge-patch+json, {strategic}application/apply-patch+yaml"
        ),
    )
}
