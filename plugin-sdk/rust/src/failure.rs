//! What a call returns when it does not succeed.
//!
//! A failure is a result: it leads to a retry or a dead letter. A panic is a trap: the plugin loses its memory.

use std::fmt;
use std::time::Duration;

use crate::action::whole_ms;
use crate::bindings::imports::informant::plugin::types as contract;
use crate::host_error::HostError;
use crate::{http, kube};

/// The result of every call to a plugin. Handlers return `Result<Action>`: `Ok(Action::done())` acknowledges the event.
pub type Result<T = (), E = Failure> = std::result::Result<T, E>;

/// Why a call failed, and how Informant handles it.
///
/// `?` converts any error that anyhow takes, `anyhow::Error` included, into a [`Failure::Retryable`] with the error and
/// its causes. Two kinds of errors become [`Failure::Permanent`], because a retry cannot succeed: a JSON document that
/// does not match its type, and a host call that would be rejected again ([`HostError::is_lasting`],
/// [`kube::Error::is_lasting`], [`http::Error::is_lasting`]). A [`kube::Error`] with a `retry_after` becomes
/// [`Failure::RetryAfter`]. The same holds for an error with such a cause.
///
/// This conversion is the reason why `Failure` does not implement `std::error::Error`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Retry with Informant's back-off.
    Retryable(String),
    /// Retry after this delay. Rounded up to whole milliseconds.
    RetryAfter(String, Duration),
    /// Do not retry: the event becomes a dead letter.
    Permanent(String),
}

impl Failure {
    /// Retry with Informant's back-off: from 1 s, doubling up to 5 min, without end unless
    /// `retry.attempts` in the plugin's section limits it.
    pub fn retryable(message: impl fmt::Display) -> Self {
        Self::Retryable(message.to_string())
    }

    /// Retry after `after`, which is at most 49 days.
    pub fn retry_after(message: impl fmt::Display, after: Duration) -> Self {
        Self::RetryAfter(message.to_string(), after)
    }

    /// Do not retry: the event becomes a dead letter.
    pub fn permanent(message: impl fmt::Display) -> Self {
        Self::Permanent(message.to_string())
    }

    /// What went wrong, without how Informant handles it.
    pub fn message(&self) -> &str {
        match self {
            Self::Retryable(message) | Self::RetryAfter(message, _) | Self::Permanent(message) => message,
        }
    }

    /// The same failure with `context: ` before its message.
    #[must_use]
    pub fn context(self, context: impl fmt::Display) -> Self {
        match self {
            Self::Retryable(message) => Self::Retryable(format!("{context}: {message}")),
            Self::RetryAfter(message, after) => Self::RetryAfter(format!("{context}: {message}"), after),
            Self::Permanent(message) => Self::Permanent(format!("{context}: {message}")),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retryable(message) => write!(f, "{message} (retryable)"),
            Self::RetryAfter(message, after) => write!(f, "{message} (retry after {after:?})"),
            Self::Permanent(message) => write!(f, "{message} (permanent)"),
        }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = error.into();
        // The error and its causes in one line.
        let message = format!("{error:#}");
        let kube_error = cause::<kube::Error>(&error);
        if let Some(after) = kube_error.and_then(|error| error.retry_after) {
            return Self::RetryAfter(message, after);
        }
        let lasting = cause::<HostError>(&error).is_some_and(HostError::is_lasting)
            || kube_error.is_some_and(kube::Error::is_lasting)
            || cause::<http::Error>(&error).is_some_and(http::Error::is_lasting);
        // A truncated or malformed document stays so; only an I/O error can be temporary.
        let malformed = cause::<serde_json::Error>(&error).is_some_and(|error| !error.is_io());
        if lasting || malformed {
            Self::Permanent(message)
        } else {
            Self::Retryable(message)
        }
    }
}

/// The first of an error and its causes that is an `E`.
fn cause<E: std::error::Error + 'static>(error: &anyhow::Error) -> Option<&E> {
    error.chain().find_map(|cause| cause.downcast_ref())
}

impl From<Failure> for contract::Failure {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Retryable(message) => Self::Retryable(message),
            Failure::RetryAfter(message, after) => {
                let after_ms = whole_ms(after);
                Self::RetryAfter(contract::RetryLater { message, after_ms })
            }
            Failure::Permanent(message) => Self::Permanent(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_error::ErrorCode;

    fn failure_from<E: Into<anyhow::Error>>(error: E) -> Failure {
        fn fails<E: Into<anyhow::Error>>(error: E) -> Result {
            Err(error)?
        }
        fails(error).expect_err("an error was given")
    }

    #[test]
    fn an_ordinary_error_is_retryable() {
        let error = std::io::Error::other("the disk is elsewhere");
        assert_eq!(failure_from(error), Failure::retryable("the disk is elsewhere"));
    }

    #[test]
    fn an_error_with_context_is_classified_by_its_cause() {
        use anyhow::Context;
        let denied = HostError {
            code: ErrorCode::Denied,
            message: "not granted".into(),
        };
        let failure = failure_from(
            Err::<(), _>(denied)
                .context("reading nodes")
                .expect_err("an error was given"),
        );
        assert_eq!(failure, Failure::permanent("reading nodes: not granted"));
        let failure = failure_from(anyhow::anyhow!("the disk is elsewhere").context("writing"));
        assert_eq!(failure, Failure::retryable("writing: the disk is elsewhere"));
        let busy = kube::Error {
            code: kube::ErrorCode::TooManyRequests,
            status: Some(429),
            reason: "TooManyRequests".into(),
            message: "busy".into(),
            retry_after: Some(Duration::from_secs(3)),
        };
        let failure = failure_from(anyhow::Error::from(busy).context("labeling"));
        assert_eq!(failure, Failure::retry_after("labeling: busy", Duration::from_secs(3)));
    }

    #[test]
    fn a_malformed_document_is_permanent() {
        let error = serde_json::from_str::<Vec<u8>>("{").expect_err("not a list");
        assert!(matches!(failure_from(error), Failure::Permanent(_)));
    }

    #[test]
    fn a_host_error_is_retryable_unless_it_is_lasting() {
        let error = |code| HostError {
            code,
            message: "a message".into(),
        };
        assert!(matches!(
            failure_from(error(ErrorCode::NotReady)),
            Failure::Retryable(_)
        ));
        assert!(matches!(failure_from(error(ErrorCode::Timeout)), Failure::Retryable(_)));
        assert!(matches!(failure_from(error(ErrorCode::Denied)), Failure::Permanent(_)));
        assert!(matches!(
            failure_from(error(ErrorCode::UnknownIndex)),
            Failure::Permanent(_)
        ));
    }

    #[test]
    fn a_delay_is_rounded_up_to_milliseconds() {
        let sent = contract::Failure::from(Failure::retry_after("later", Duration::from_micros(1_001)));
        let contract::Failure::RetryAfter(later) = sent else {
            panic!("{sent:?}")
        };
        assert_eq!(later.after_ms, 2);
    }
}
