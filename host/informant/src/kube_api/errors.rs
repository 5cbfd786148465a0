//! Errors of Kubernetes calls as plugins receive them.

use std::time::Duration;

use http::header;
use http::response::Parts;
use informant_plugin_host::{KubeError, KubeErrorCode, NotActing};
use serde::Deserialize;

/// The longest `Retry-After` that is passed on: 5 min. A wrong value must not silence a plugin for a day.
const RETRY_AFTER_SECONDS_MAX: u64 = 300;

/// How much is shown of a response that is not a `Status`.
const START_SHOWN_BYTES_MAX: usize = 120;

/// The longest message that is passed on. A `Status` may repeat the request.
const MESSAGE_BYTES_MAX: usize = 4_096;

/// The longest `reason` that is passed on: those of Kubernetes have at most 30.
const REASON_BYTES_MAX: usize = 128;

/// The fields of Kubernetes' `Status` that classify and explain an error.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Status {
    kind: String,
    reason: Option<String>,
    message: Option<String>,
    details: Option<Details>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Details {
    retry_after_seconds: Option<u64>,
}

/// The error of an unsuccessful response.
pub(super) fn of_answer(head: &Parts, body: &[u8]) -> KubeError {
    let code = head.status.as_u16();
    let status = serde_json::from_slice(body).ok();
    let status: Option<Status> = status.filter(|status: &Status| status.kind == "Status");
    let of_head = head
        .headers
        .get(header::RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.parse().ok());
    let of_body = status
        .as_ref()
        .and_then(|status| status.details.as_ref()?.retry_after_seconds);
    let retry_after = of_head.or(of_body).filter(|seconds| *seconds > 0);
    let reason = status
        .as_ref()
        .and_then(|status| status.reason.as_deref())
        .unwrap_or_default();
    let message = match status.as_ref().and_then(|status| status.message.as_deref()) {
        Some(message) => cut(message, MESSAGE_BYTES_MAX),
        None => status_only_message(code, body),
    };
    KubeError {
        code: classify(code, reason),
        status: code,
        reason: cut(reason, REASON_BYTES_MAX),
        is_from_kubernetes: status.is_some(),
        message,
        retry_after: retry_after.map(|seconds| Duration::from_secs(seconds.min(RETRY_AFTER_SECONDS_MAX))),
    }
}

/// Whether the API server has no such path, or not for this verb. Other errors are about an object.
pub(super) fn is_of_path(error: &KubeError) -> bool {
    let is_unknown = !error.is_from_kubernetes || error.message.contains("could not find the requested resource");
    error.status == 405 || (error.status == 404 && is_unknown)
}

/// Classifies an error: by the reason where one status code has two meanings, else by the status code.
///
/// Source: apimachinery `pkg/apis/meta/v1/types.go`, `StatusReason`.
fn classify(code: u16, reason: &str) -> KubeErrorCode {
    match (code, reason) {
        (_, "AlreadyExists") => KubeErrorCode::AlreadyExists,
        (_, "Expired" | "Gone") | (410, _) => KubeErrorCode::Expired,
        // The API server gave up; the operation may have been carried out.
        (_, "Timeout" | "ServerTimeout") | (504, _) => KubeErrorCode::Timeout,
        (401, _) => KubeErrorCode::Unauthorized,
        (403, _) => KubeErrorCode::Forbidden,
        (404, _) => KubeErrorCode::NotFound,
        (409 | 412, _) => KubeErrorCode::Conflict,
        (413, _) => KubeErrorCode::TooLarge,
        (429, _) => KubeErrorCode::TooManyRequests,
        (405 | 406 | 415 | 501, _) => KubeErrorCode::Unsupported,
        (400..=499, _) => KubeErrorCode::Invalid,
        _ => KubeErrorCode::Unavailable,
    }
}

/// A response without a `Status`: the API server's for an unknown path, or a proxy's.
fn status_only_message(code: u16, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let start = cut(text.trim(), START_SHOWN_BYTES_MAX);
    let hint = match code {
        404 => "; check that this version serves the resource, and whether the resource is namespaced",
        _ => "",
    };
    format!("the API server responded with {code}: {start}{hint}")
}

fn cut(text: &str, bytes_max: usize) -> String {
    let end = text.floor_char_boundary(bytes_max);
    match end < text.len() {
        true => format!("{}…", &text[..end]),
        false => text.to_owned(),
    }
}

/// The error of a request without a response. A failed login passes nothing on: an exec plugin may have printed a
/// token.
pub(super) fn of_client(error: &kube::Error) -> KubeError {
    let (code, message) = match error {
        kube::Error::Auth(_) => (
            KubeErrorCode::Unauthorized,
            "Informant cannot authenticate to the cluster".to_owned(),
        ),
        error if let Some(refused) = refusal(error) => (KubeErrorCode::Unavailable, refused.to_string()),
        error => {
            let cause = std::error::Error::source(error).map_or_else(String::new, |cause| format!(": {cause}"));
            (
                KubeErrorCode::Unavailable,
                cut(
                    &format!("the API server cannot be reached: {error}{cause}"),
                    MESSAGE_BYTES_MAX,
                ),
            )
        }
    };
    KubeError::new(code, message)
}

/// That the connection refused the request: it is in an [`std::io::Error`], whose own source would be that of what it
/// contains.
fn refusal(error: &kube::Error) -> Option<&NotActing> {
    let first: &(dyn std::error::Error + 'static) = error;
    let causes = std::iter::successors(Some(first), |error| error.source());
    let mut errors = causes.filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    errors.find_map(refusal_in)
}

/// That of a TLS handshake is in another one.
fn refusal_in(error: &std::io::Error) -> Option<&NotActing> {
    let inner = error.get_ref()?;
    inner.downcast_ref().or_else(|| refusal_in(inner.downcast_ref()?))
}
