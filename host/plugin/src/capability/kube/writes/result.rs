//! What the response to a write means for its event.

use std::time::Duration;

use informant_cache::listener::DeliveryOutcome;

use crate::capability::kube::api::{KubeAction, KubeError, KubeErrorCode};
use crate::capability::kube::document::has_uid;
use crate::text::truncated;

/// What the API server says of a patch with the UID of another object. Source: apimachinery `pkg/api/validation`,
/// `ValidateObjectMetaAccessorUpdate`.
const CHANGES_UID: &str = "metadata.uid: Invalid value";

/// What a conflict says of an object with another uid than the delete expects. Sources: apiserver
/// `pkg/registry/rest/delete.go`, `pkg/storage/interfaces.go`.
const OTHER_UID: [&str; 2] = ["UID in the precondition", "UID in precondition"];

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WriteResult {
    /// The API server accepted it.
    Ok,
    /// It was not sent, because it would change nothing.
    Unchanged,
    /// The object to delete is gone, or its name has another object.
    Gone,
    /// Another replica acts: it was not sent, or had no response.
    Refused,
    /// The API server asks to come back after this time.
    Throttled(Duration),
    /// The event failed with this outcome.
    Failed(DeliveryOutcome),
}

impl WriteResult {
    /// The result of `action`, which `what` describes.
    pub(crate) fn of(action: &KubeAction, what: &str, answer: Result<Vec<u8>, KubeError>) -> WriteResult {
        let Err(error) = answer else { return WriteResult::Ok };
        if matches!(action, KubeAction::Delete(_)) && is_gone(&error) {
            return WriteResult::Gone;
        }
        if let (429 | 503, Some(pause)) = (error.status, error.retry_after) {
            return WriteResult::Throttled(pause);
        }
        let message = truncated(format!("deferred {what}: {}", error.message));
        WriteResult::Failed(match error.status {
            // A conflict: the name has another object. A UID that the plugin wrote stays wrong.
            422 if error.message.contains(CHANGES_UID) && !has_uid(action.document()).unwrap_or(false) => {
                DeliveryOutcome::Retryable(message)
            }
            400 | 405 | 413 | 415 | 422 => DeliveryOutcome::Permanent(message),
            _ => DeliveryOutcome::Retryable(message),
        })
    }

    pub(crate) const fn as_str(&self) -> &'static str {
        match self {
            WriteResult::Ok => "ok",
            WriteResult::Unchanged => "unchanged",
            WriteResult::Gone => "gone",
            WriteResult::Refused => "refused",
            WriteResult::Throttled(_) => "throttled",
            WriteResult::Failed(outcome) => outcome.as_str(),
        }
    }
}

fn is_gone(error: &KubeError) -> bool {
    match error.code {
        KubeErrorCode::NotFound => error.is_from_kubernetes,
        KubeErrorCode::Conflict => OTHER_UID.iter().any(|text| error.message.contains(text)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capability::kube::api::KubeDelete;

    fn error(status: u16, code: KubeErrorCode, retry_after: Option<u64>) -> KubeError {
        KubeError {
            status,
            is_from_kubernetes: true,
            retry_after: retry_after.map(Duration::from_secs),
            ..KubeError::new(code, "no")
        }
    }

    fn result(error: KubeError) -> &'static str {
        WriteResult::of(&KubeAction::Get, "get", Err(error)).as_str()
    }

    #[test]
    fn invalid_writes_fail_permanently_and_others_are_retryable() {
        use KubeErrorCode::{AlreadyExists, Conflict, Denied, Forbidden, Invalid, NotFound, Timeout, Unavailable};
        for status in [400, 405, 413, 415, 422] {
            assert_eq!(result(error(status, Invalid, None)), "permanent", "{status}");
        }
        for (status, code) in [
            (0, Denied),
            (0, Invalid),
            (0, Timeout),
            (0, Unavailable),
            (403, Forbidden),
            (404, NotFound),
            (409, AlreadyExists),
            (409, Conflict),
            (500, Unavailable),
        ] {
            assert_eq!(result(error(status, code, None)), "retryable", "{status}");
        }
    }

    #[test]
    fn a_patch_with_the_uid_of_another_object_conflicts() {
        let refused = KubeError {
            message: format!("ConfigMap \"a\" is invalid: {CHANGES_UID}: \"u\": field is immutable"),
            ..error(422, KubeErrorCode::Invalid, None)
        };
        assert_eq!(result(refused), "retryable");
    }

    #[test]
    fn throttled_responses_pause_only_if_they_say_how_long() {
        for (status, code) in [(429, KubeErrorCode::TooManyRequests), (503, KubeErrorCode::Unavailable)] {
            assert_eq!(result(error(status, code, Some(7))), "throttled");
            // An eviction that a disruption budget forbids must not hold up other writes.
            assert_eq!(result(error(status, code, None)), "retryable");
        }
        assert_eq!(
            result(error(500, KubeErrorCode::Unavailable, Some(7))),
            "retryable",
            "only these two promise that nothing was done"
        );
    }

    #[test]
    fn deleting_what_is_gone_or_replaced_succeeds() {
        let delete = KubeAction::Delete(KubeDelete::default());
        let of = |error| WriteResult::of(&delete, "delete", Err(error)).as_str();
        assert_eq!(of(error(404, KubeErrorCode::NotFound, None)), "gone");
        for text in OTHER_UID {
            let other_uid = KubeError {
                message: format!("Operation cannot be fulfilled: the {text} (a) does not match"),
                ..error(409, KubeErrorCode::Conflict, None)
            };
            assert_eq!(of(other_uid), "gone");
        }
        let other_version = error(409, KubeErrorCode::Conflict, None);
        assert_eq!(of(other_version), "retryable");
        let page_of_a_proxy = KubeError {
            is_from_kubernetes: false,
            ..error(404, KubeErrorCode::NotFound, None)
        };
        assert_eq!(of(page_of_a_proxy), "retryable");
    }
}
