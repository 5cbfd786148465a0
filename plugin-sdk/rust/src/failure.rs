//! What a call answers when it did not succeed.
//!
//! A failure is a value, not a bug: it costs a retry or a dead letter. A panic is a trap and costs the plugin its
//! memory.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::bindings::imports::informant::plugin::types as contract;
use crate::host_error::HostError;
use crate::kube;

/// The result of every call of a plugin. `Ok(())` says that the event was dealt with.
pub type Result<T = (), E = Failure> = std::result::Result<T, E>;

/// Why a call did not succeed, and what Informant should do about it.
///
/// `?` on any [`std::error::Error`] makes a [`Failure::Retryable`] with the error and its causes; except for a JSON
/// document that does not fit (trying again would not change it) and for a refused host call that will be refused again
/// ([`HostError::is_lasting`], [`kube::Error::is_lasting`]): these are [`Failure::Permanent`]. For this reason
/// `Failure` itself is no `std::error::Error`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Try again with Informant's back-off.
    Retryable(String),
    /// Try again after that time. Sent in whole milliseconds, rounded up.
    RetryAfter(String, Duration),
    /// Trying again is useless: the event becomes a dead letter.
    Permanent(String),
}

impl Failure {
    /// Try again with Informant's back-off: from 1 s, doubling to 5 min, 10 attempts.
    pub fn retryable(message: impl fmt::Display) -> Self {
        Self::Retryable(message.to_string())
    }

    /// Try again after `after`, at most 49 days.
    pub fn retry_after(message: impl fmt::Display, after: Duration) -> Self {
        Self::RetryAfter(message.to_string(), after)
    }

    /// Trying again is useless.
    pub fn permanent(message: impl fmt::Display) -> Self {
        Self::Permanent(message.to_string())
    }

    /// What went wrong, without what to do about it.
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

impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let message = chain(&error);
        let any: &dyn Any = &error;
        let of_kube = any.downcast_ref::<kube::Error>();
        if let Some(after) = of_kube.and_then(|error| error.retry_after) {
            return Self::RetryAfter(message, after);
        }
        let lasting = any.downcast_ref::<HostError>().is_some_and(HostError::is_lasting)
            || of_kube.is_some_and(kube::Error::is_lasting);
        // A document that is cut short or misshapen stays so; only reading it can fail for a passing reason.
        let misshapen = any
            .downcast_ref::<serde_json::Error>()
            .is_some_and(|error| !error.is_io());
        if lasting || misshapen {
            Self::Permanent(message)
        } else {
            Self::Retryable(message)
        }
    }
}

/// An error and its causes in one line.
fn chain(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        message.push_str(": ");
        message.push_str(&error.to_string());
        cause = error.source();
    }
    message
}

impl From<Failure> for contract::Failure {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Retryable(message) => Self::Retryable(message),
            Failure::RetryAfter(message, after) => {
                let after_ms = u32::try_from(after.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX);
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

    fn question_mark<E: Error + 'static>(error: E) -> Failure {
        fn fails<E: Error + 'static>(error: E) -> Result {
            Err(error)?
        }
        fails(error).expect_err("an error was given")
    }

    #[test]
    fn an_ordinary_error_is_worth_another_try() {
        let error = std::io::Error::other("the disk is elsewhere");
        assert_eq!(question_mark(error), Failure::retryable("the disk is elsewhere"));
    }

    #[test]
    fn a_document_that_does_not_fit_is_not_worth_another_try() {
        let error = serde_json::from_str::<Vec<u8>>("{").expect_err("not a list");
        assert!(matches!(question_mark(error), Failure::Permanent(_)));
    }

    #[test]
    fn a_host_call_is_worth_another_try_unless_it_was_refused_for_good() {
        let error = |code| HostError {
            code,
            message: "so it is".into(),
        };
        assert!(matches!(
            question_mark(error(ErrorCode::NotReady)),
            Failure::Retryable(_)
        ));
        assert!(matches!(
            question_mark(error(ErrorCode::Timeout)),
            Failure::Retryable(_)
        ));
        assert!(matches!(question_mark(error(ErrorCode::Denied)), Failure::Permanent(_)));
        assert!(matches!(
            question_mark(error(ErrorCode::UnknownIndex)),
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
