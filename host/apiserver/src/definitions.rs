//! CustomResourceDefinitions: what they declare, and how objects are made to conform.
//!
//! ```text
//!  definition (an object) ──read──▶ Definition ──Store::define──▶ served kinds, one collection for all versions
//!  custom resource ──▶ prune ──▶ defaults ──▶ validate ──▶ store
//! ```
//!
//! Several versions are converted by `None`: they differ only in `apiVersion`. Objects are pruned, defaulted and
//! validated by structural schemas like in kube-apiserver, with its messages. CEL rules (`x-kubernetes-validations`)
//! and the uniqueness of `x-kubernetes-list-type` are not checked, and conversion webhooks are refused.
//!
//! Source: apiextensions-apiserver `pkg/apiserver` and `pkg/apis/apiextensions/validation`.

mod columns;
mod complete;
mod normalize;
mod read;
mod schema;
mod validate;

use serde_json::Value;

pub(crate) use self::columns::CustomColumn;
pub(crate) use self::complete::complete;
pub(crate) use self::read::Definition;
use self::schema::Schema;
use crate::kinds::Kind;
use crate::status::Status;

pub(crate) const GROUP: &str = "apiextensions.k8s.io";

/// One version of a definition's resource.
#[derive(Debug)]
pub(crate) struct CustomVersion {
    pub(crate) columns: Vec<CustomColumn>,
    pub(crate) scale: Option<ScalePaths>,
    /// As it was written, for OpenAPI.
    pub(crate) openapi: Value,
    schema: Schema,
}

/// Where the scale subresource finds its values: JSON pointers.
#[derive(Debug)]
pub(crate) struct ScalePaths {
    pub(crate) spec_replicas: String,
    pub(crate) status_replicas: String,
    pub(crate) selector: Option<String>,
}

/// How fields that are not in the schema are handled (`fieldValidation`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnknownFields {
    /// They are dropped silently.
    Drop,
    /// The write is refused.
    Refuse,
}

pub(crate) fn is_definitions(kind: &Kind) -> bool {
    kind.group == GROUP && kind.plural == "customresourcedefinitions"
}

impl CustomVersion {
    /// Drops fields that are not in the schema, fills in defaults and validates the rest.
    ///
    /// # Errors
    /// 400 for unknown fields that are to be refused, 422 with all violations of the schema.
    pub(crate) fn conform(&self, kind: &Kind, object: &mut Value, unknown: UnknownFields) -> Result<(), Status> {
        let mut dropped = Vec::new();
        normalize::prune(object, &self.schema, &mut dropped);
        if unknown == UnknownFields::Refuse && !dropped.is_empty() {
            return Err(unknown_fields(kind, &dropped));
        }
        normalize::fill_defaults(object, &self.schema);
        let issues = validate::validate(object, &self.schema);
        if issues.is_empty() {
            return Ok(());
        }
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        Err(Status::invalid_all(&kind.group, &kind.kind, name, &issues))
    }
}

pub(crate) fn unknown_fields(kind: &Kind, fields: &[String]) -> Status {
    let fields: Vec<String> = fields.iter().map(|field| format!("unknown field {field:?}")).collect();
    Status::bad_request(format!(
        "{0} in version {1:?} cannot be handled as a {0}: strict decoding error: {2}",
        kind.kind,
        kind.version,
        fields.join(", ")
    ))
}

/// A path into an object, as messages write it: `spec.ports[0].name`.
pub(crate) fn child(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

fn element(path: &str, index: usize) -> String {
    format!("{path}[{index}]")
}

/// Whether a field belongs to every object and is checked elsewhere.
fn is_type_or_metadata(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind" | "metadata")
}
