//! Validation of owner references.
//!
//! Source: apimachinery `ValidateOwnerReferences` (pkg/api/validation/objectmeta.go of Kubernetes 1.36), whose messages
//! these are.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::status::{FieldError, Issue};

const FIELD: &str = "metadata.ownerReferences";

/// In the order of Kubernetes' JSON, which a message contains.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OwnerReference<'m> {
    api_version: &'m str,
    kind: &'m str,
    name: &'m str,
    uid: &'m str,
    #[serde(skip_serializing_if = "Option::is_none")]
    controller: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block_owner_deletion: Option<bool>,
}

/// The errors in the owner references of `metadata`.
pub(crate) fn issues(metadata: &Map<String, Value>) -> Vec<Issue> {
    let Some(Value::Array(references)) = metadata.get("ownerReferences") else {
        return Vec::new();
    };
    let references: Vec<OwnerReference<'_>> = references.iter().map(OwnerReference::of).collect();
    let mut issues = Vec::new();
    let mut first_controller: Option<String> = None;
    for reference in &references {
        issues.extend(reference.issues());
        if reference.controller != Some(true) {
            continue;
        }
        let controller = format!("{}/{}", reference.kind, reference.name);
        if let Some(first) = &first_controller {
            let problem = format!(
                "Only one reference can have Controller set to true. Found \"true\" in references for {first} and \
                 {controller}"
            );
            issues.push(invalid(FIELD, &to_json(&references), &problem));
        } else {
            first_controller = Some(controller);
        }
    }
    issues
}

impl<'m> OwnerReference<'m> {
    fn of(reference: &'m Value) -> Self {
        let text = |member: &str| reference[member].as_str().unwrap_or_default();
        Self {
            api_version: text("apiVersion"),
            kind: text("kind"),
            name: text("name"),
            uid: text("uid"),
            controller: reference["controller"].as_bool(),
            block_owner_deletion: reference["blockOwnerDeletion"].as_bool(),
        }
    }

    fn issues(&self) -> Vec<Issue> {
        let mut issues = Vec::new();
        let mut wrong = |member: &str, bad: &str, problem: &str| {
            issues.push(invalid(&format!("{FIELD}.{member}"), &json!(bad).to_string(), problem));
        };
        if version(self.api_version).is_empty() {
            wrong("apiVersion", self.api_version, "version must not be empty");
        }
        for (member, value) in [("kind", self.kind), ("name", self.name), ("uid", self.uid)] {
            if value.is_empty() {
                wrong(member, value, "must not be empty");
            }
        }
        if (self.api_version, self.kind) == ("v1", "Event") {
            let problem = "/v1, Kind=Event is disallowed from being an owner";
            issues.push(invalid(FIELD, &to_json(self), problem));
        }
        issues
    }
}

/// The version of `group/version`, empty if there is none.
fn version(api_version: &str) -> &str {
    match api_version.split_once('/') {
        None => api_version,
        Some((_, version)) if version.contains('/') => "",
        Some((_, version)) => version,
    }
}

fn invalid(field: &str, bad: &str, problem: &str) -> Issue {
    Issue::new(field, FieldError::Invalid, format!("{bad}: {problem}"))
}

fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
