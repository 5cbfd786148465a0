//! Kubernetes' error response, `kind: Status`, with the reasons, codes and messages of kube-apiserver.
//!
//! Source: apimachinery `pkg/api/errors/errors.go`.

use std::fmt;

use http::{HeaderValue, Response, StatusCode, header};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::body::Body;
use crate::kinds::Kind;

/// A response that says why a request failed (or, for some deletes, that it succeeded).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The HTTP status code.
    pub code: u16,
    /// The reason that clients branch on: `NotFound`, `Conflict`, `Expired` … Empty where Kubernetes gives none.
    #[serde(default)]
    pub reason: String,
    /// For people.
    pub message: String,
    /// Details of the failure.
    #[serde(default)]
    pub details: Box<Details>,
    /// The token with which an expired list can continue, inconsistently.
    #[serde(default)]
    pub continue_token: String,
}

/// The details of a [`Status`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Details {
    /// The object's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The resource's API group.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The resource's plural; for validation errors, the kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The object's uid.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// Single causes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// When to retry, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
}

/// One cause of a [`Status`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// `FieldValueInvalid`, `ResourceVersionTooLarge` …
    pub reason: String,
    /// For people.
    pub message: String,
    /// The field at fault.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub field: String,
}

impl Status {
    /// A failure with `code`, `reason` and `message` and no details.
    pub fn new(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.to_owned(),
            message: message.into(),
            details: Box::default(),
            continue_token: String::new(),
        }
    }

    /// 404 for an object.
    pub(crate) fn not_found(kind: &Kind, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} {name:?} not found", kind.qualified())).about(kind, name)
    }

    /// 404 for a path below a served group that is not a resource.
    pub(crate) fn no_such_resource() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
    }

    /// 409 for a create.
    pub(crate) fn already_exists(kind: &Kind, name: &str) -> Self {
        Self::new(
            409,
            "AlreadyExists",
            format!("{} {name:?} already exists", kind.qualified()),
        )
        .about(kind, name)
    }

    /// 409 for a write that was not based on the stored state.
    pub(crate) fn conflict(kind: &Kind, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", kind.qualified());
        Self::new(409, "Conflict", message).about(kind, name)
    }

    /// 409 for a write with an outdated resourceVersion.
    pub(crate) fn outdated(kind: &Kind, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(kind, name, why)
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 403 for a rule that forbids.
    pub(crate) fn forbidden(kind: &Kind, name: &str, why: &str) -> Self {
        let subject = if name.is_empty() {
            kind.qualified()
        } else {
            format!("{} {name:?}", kind.qualified())
        };
        Self::new(403, "Forbidden", format!("{subject} is forbidden: {why}")).about(kind, name)
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
    }

    /// 410: the requested version is no longer known.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 410 for a watch. `oldest` is the newest version from which a watch can no longer start.
    pub(crate) fn too_old(version: u64, oldest: u64) -> Self {
        Self::expired(format!("too old resource version: {version} ({oldest})"))
    }

    /// 504 for a read at a version from the future.
    pub(crate) fn too_large(version: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {version}, current: {current}");
        let mut status = Self::new(504, "Timeout", message);
        status.details.retry_after_seconds = Some(1);
        status.details.causes.push(Cause {
            reason: "ResourceVersionTooLarge".to_owned(),
            message: "Too large resource version".to_owned(),
            field: String::new(),
        });
        status
    }

    /// 422 with one cause. `detail` begins with the bad value where there is one.
    pub(crate) fn invalid(group: &str, kind: &str, name: &str, field: &str, type_: FieldError, detail: &str) -> Self {
        Self::invalid_all(group, kind, name, &[Issue::new(field, type_, detail.to_owned())])
    }

    /// 422 with all its causes.
    pub(crate) fn invalid_all(group: &str, kind: &str, name: &str, issues: &[Issue]) -> Self {
        let qualified = if group.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind}.{group}")
        };
        let said: Vec<String> = issues
            .iter()
            .map(|issue| format!("{}: {}", issue.field, issue.body()))
            .collect();
        let said = match said.as_slice() {
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let mut status = Self::new(422, "Invalid", format!("{qualified} {name:?} is invalid: {said}"));
        status.details.name = name.to_owned();
        status.details.group = group.to_owned();
        status.details.kind = kind.to_owned();
        status.details.causes = issues
            .iter()
            .map(|issue| Cause {
                reason: issue.type_.reason().to_owned(),
                message: issue.body(),
                field: issue.field.clone(),
            })
            .collect();
        status
    }

    /// 422 for an invalid `dryRun`.
    pub(crate) fn invalid_dry_run(options: &str, found: &[&str]) -> Self {
        let detail = format!("{}: supported values: \"All\"", json!(found));
        Self::invalid("meta.k8s.io", options, "", "dryRun", FieldError::NotSupported, &detail)
    }

    /// 422 for options in a query.
    pub(crate) fn forbidden_list_option(field: &str, detail: &str) -> Self {
        Self::invalid("meta.k8s.io", "ListOptions", "", field, FieldError::Forbidden, detail)
    }

    /// 429 with `Retry-After`.
    pub fn too_many_requests(retry_after_seconds: u32) -> Self {
        let mut status = Self::new(
            429,
            "TooManyRequests",
            "The server has received too many requests and has asked us to try again later",
        );
        status.details.retry_after_seconds = Some(retry_after_seconds);
        status
    }

    /// 500.
    pub fn internal_error(message: impl fmt::Display) -> Self {
        Self::new(500, "InternalError", format!("Internal error occurred: {message}"))
    }

    fn about(mut self, kind: &Kind, name: &str) -> Self {
        self.details.name = name.to_owned();
        self.details.group = kind.group.clone();
        self.details.kind = kind.plural.clone();
        self
    }

    /// The JSON of the status, as a response or as the object of an ERROR event.
    pub fn to_json(&self) -> Value {
        let mut body = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": if self.code < 400 { "Success" } else { "Failure" },
        });
        if self.code >= 400 {
            body["code"] = json!(self.code);
        }
        if !self.message.is_empty() {
            body["message"] = json!(self.message);
        }
        if !self.continue_token.is_empty() {
            body["metadata"] = json!({ "continue": self.continue_token });
        }
        if !self.reason.is_empty() {
            body["reason"] = json!(self.reason);
        }
        if *self.details != Details::default() {
            body["details"] = json!(self.details);
        }
        body
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::whole(self.to_json().to_string()));
        *response.status_mut() = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = self.details.retry_after_seconds {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl Kind {
    /// 422 for an object of this kind, with one cause.
    pub(crate) fn invalid(&self, name: &str, field: &str, type_: FieldError, detail: &str) -> Status {
        Status::invalid(&self.group, &self.kind, name, field, type_, detail)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.code, self.reason, self.message)
    }
}

impl std::error::Error for Status {}

/// The kinds of validation error, as in apimachinery's `field.ErrorType`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FieldError {
    Required,
    Invalid,
    Forbidden,
    NotSupported,
    TypeInvalid,
    TooLong,
    TooMany,
}

/// One error in a field.
#[derive(Debug, Clone)]
pub(crate) struct Issue {
    /// `spec.ports[0].name`; the object itself is `<nil>`.
    field: String,
    type_: FieldError,
    detail: String,
}

impl Issue {
    /// `detail` begins with the bad value where there is one; it may be empty.
    pub(crate) fn new(field: &str, type_: FieldError, detail: String) -> Self {
        Self {
            field: if field.is_empty() {
                "<nil>".to_owned()
            } else {
                field.to_owned()
            },
            type_,
            detail,
        }
    }

    fn body(&self) -> String {
        match self.detail.as_str() {
            "" => self.type_.words().to_owned(),
            detail => format!("{}: {detail}", self.type_.words()),
        }
    }
}

impl FieldError {
    fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::Forbidden => "FieldValueForbidden",
            Self::NotSupported => "FieldValueNotSupported",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid => "Invalid value",
            Self::Forbidden => "Forbidden",
            Self::NotSupported => "Unsupported value",
            Self::TypeInvalid => "Invalid value",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
        }
    }
}
