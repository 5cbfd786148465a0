//! `Status`, the object with which an API server reports an error, as a response or as an ERROR event of a watch.

use std::time::Duration;

use serde::Deserialize;

use super::error::ApiErrorCause;

/// The longest wait that an API server may ask for: a wrong value must not silence a source for a day.
pub(crate) const RETRY_AFTER_SECONDS_MAX: u64 = 300;

/// The used fields of a `Status`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct StatusBody {
    pub(crate) code: u16,
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) details: Option<StatusDetails>,
}

/// The machine-readable part of a [`StatusBody`].
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct StatusDetails {
    pub(crate) retry_after_seconds: Option<u64>,
    pub(crate) causes: Option<Vec<StatusCause>>,
}

/// One of its causes.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct StatusCause {
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
}

impl StatusBody {
    /// The status in `json`, if it is one.
    pub(crate) fn parse(json: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Kind {
            kind: String,
        }
        let Kind { kind } = serde_json::from_slice(json).ok()?;
        (kind == "Status").then(|| serde_json::from_slice(json).ok())?
    }

    /// A status with only a code.
    pub(crate) fn of_code(code: u16) -> Self {
        Self {
            code,
            ..Self::default()
        }
    }

    pub(crate) fn cause(&self) -> ApiErrorCause {
        let reason = self.reason.as_deref().unwrap_or_default();
        if self.is_too_large_version() {
            ApiErrorCause::VersionTooLarge
        } else if self.code == 410 || matches!(reason, "Expired" | "Gone") {
            ApiErrorCause::Expired
        } else if self.code == 429 || reason == "TooManyRequests" {
            ApiErrorCause::TooManyRequests(self.retry_after())
        } else if matches!(self.code, 401 | 403) || matches!(reason, "Unauthorized" | "Forbidden") {
            ApiErrorCause::Forbidden
        } else if self.code == 404 || reason == "NotFound" {
            ApiErrorCause::NotFound
        } else if self.code == 400 && self.is_about_field_selector() {
            ApiErrorCause::UnsupportedSelector
        } else {
            ApiErrorCause::Other(self.retry_after())
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        let seconds = self
            .details
            .as_ref()?
            .retry_after_seconds
            .filter(|seconds| *seconds > 0)?;
        Some(Duration::from_secs(seconds.min(RETRY_AFTER_SECONDS_MAX)))
    }

    /// Whether a field of the field selector is not supported. Only the message tells: built-in kinds and custom
    /// resources with selectable fields word it in one way, kinds without any such field in another
    /// (`DefaultMetaV1FieldSelectorConversion`).
    fn is_about_field_selector(&self) -> bool {
        self.message.as_deref().is_some_and(|message| {
            (message.contains("field label") && message.contains("not supported"))
                || message.contains("is not a known field selector")
        })
    }

    /// Whether the server has not reached the requested version. Three generations of servers report it in three ways
    /// (client-go `isTooLargeResourceVersionError`).
    fn is_too_large_version(&self) -> bool {
        const TEXT: &str = "Too large resource version";
        let causes = self
            .details
            .as_ref()
            .and_then(|details| details.causes.as_deref())
            .unwrap_or_default();
        causes
            .iter()
            .any(|cause| cause.reason.as_deref() == Some("ResourceVersionTooLarge"))
            || (self.reason.as_deref() == Some("Timeout")
                && causes.iter().any(|cause| cause.message.as_deref() == Some(TEXT)))
            || self.message.as_deref().is_some_and(|message| message.contains(TEXT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause_of(json: &str) -> ApiErrorCause {
        StatusBody::parse(json.as_bytes()).unwrap().cause()
    }

    #[test]
    fn a_too_large_version_is_recognized_in_three_forms() {
        for json in [
            r#"{"kind":"Status","code":504,"reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge","message":"x"}]}}"#,
            r#"{"kind":"Status","code":504,"reason":"Timeout","details":{"causes":[{"message":"Too large resource version"}]}}"#,
            r#"{"kind":"Status","code":500,"message":"Timeout: Too large resource version: 9, current: 1"}"#,
        ] {
            assert_eq!(cause_of(json), ApiErrorCause::VersionTooLarge, "{json}");
        }
    }

    #[test]
    fn an_unsupported_field_selector_is_recognized_by_its_message() {
        for message in [
            "field label not supported: spec.x",
            "Unable to find \\\"/v1, Resource=pods\\\" that match label selector \\\"\\\", \
             field selector \\\"spec.x=1\\\": field label not supported: spec.x",
            "field label \\\"spec.x\\\" not supported for Job",
            "\\\"spec.x\\\" is not a known field selector: only \\\"metadata.name\\\", \\\"metadata.namespace\\\"",
        ] {
            let json = format!(r#"{{"kind":"Status","code":400,"reason":"BadRequest","message":"{message}"}}"#);
            assert_eq!(cause_of(&json), ApiErrorCause::UnsupportedSelector, "{json}");
        }
        let other = r#"{"kind":"Status","code":400,"message":"continue key is not valid"}"#;
        assert_eq!(cause_of(other), ApiErrorCause::Other(None));
    }

    #[test]
    fn an_expired_version_is_recognized_by_code_or_reason() {
        for json in [
            r#"{"kind":"Status","code":410}"#,
            r#"{"kind":"Status","reason":"Expired"}"#,
            r#"{"kind":"Status","reason":"Gone"}"#,
        ] {
            assert_eq!(cause_of(json), ApiErrorCause::Expired, "{json}");
        }
    }

    #[test]
    fn the_retry_after_of_a_server_is_bounded() {
        let json = r#"{"kind":"Status","code":429,"details":{"retryAfterSeconds":86400}}"#;
        assert_eq!(
            cause_of(json),
            ApiErrorCause::TooManyRequests(Some(Duration::from_secs(RETRY_AFTER_SECONDS_MAX)))
        );
    }

    #[test]
    fn only_a_status_is_parsed_as_one() {
        assert_eq!(StatusBody::parse(b"<html>"), None);
        assert_eq!(StatusBody::parse(br#"{"kind":"Pod"}"#), None);
    }
}
