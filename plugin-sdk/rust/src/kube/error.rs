//! Why a call to the Kubernetes API server failed.

use std::fmt;
use std::time::Duration;

use super::{ErrorCode, contract};
use crate::host_error::{self, HostError};

/// An error from the API server, or from Informant before it sent the request.
///
/// `?` converts it into a [`Failure`](crate::Failure): with `retry_after` if the API server asked for a delay,
/// permanent if the same call would fail again until somebody changes something ([`is_lasting`](Self::is_lasting)),
/// otherwise retryable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The kind of error.
    pub code: ErrorCode,
    /// The HTTP status of the API server's response, if there was one.
    pub status: Option<u16>,
    /// The `reason` of the API server's Status: `AlreadyExists`, `Expired` and so on. Empty if there is none.
    pub reason: String,
    /// The message for people.
    pub message: String,
    /// How long the API server asks the client to wait before it retries.
    pub retry_after: Option<Duration>,
}

impl Error {
    /// config.toml does not grant the call. The message contains the line that would.
    pub fn is_denied(&self) -> bool {
        self.code == ErrorCode::Denied
    }

    /// The API server does not authorize Informant's identity to make this request.
    pub fn is_forbidden(&self) -> bool {
        self.code == ErrorCode::Forbidden
    }

    /// The object or the resource does not exist.
    pub fn is_not_found(&self) -> bool {
        self.code == ErrorCode::NotFound
    }

    /// An object with this name already exists.
    pub fn is_already_exists(&self) -> bool {
        self.code == ErrorCode::AlreadyExists
    }

    /// The object has another resource version or uid than the call expects, or another manager owns the field.
    pub fn is_conflict(&self) -> bool {
        self.code == ErrorCode::Conflict
    }

    /// Whether a write may have succeeded although no response arrived.
    pub fn may_be_done(&self) -> bool {
        matches!(self.code, ErrorCode::Timeout | ErrorCode::Unavailable)
    }

    /// Whether the same call would fail again until somebody changes the plugin or config.toml.
    pub fn is_lasting(&self) -> bool {
        match self.code {
            ErrorCode::Denied
            | ErrorCode::NotHere
            | ErrorCode::Invalid
            | ErrorCode::TooLarge
            | ErrorCode::Unsupported => true,
            // RBAC and objects can change while the plugin runs.
            ErrorCode::Forbidden
            | ErrorCode::Unauthorized
            | ErrorCode::NotFound
            | ErrorCode::AlreadyExists
            | ErrorCode::Conflict
            | ErrorCode::Expired
            | ErrorCode::TooManyRequests
            | ErrorCode::Timeout
            | ErrorCode::Unavailable
            | ErrorCode::Other => false,
        }
    }
}

impl From<contract::ApiError> for Error {
    fn from(error: contract::ApiError) -> Self {
        let after = |ms: u32| (ms > 0).then(|| Duration::from_millis(ms.into()));
        Self {
            code: error.code,
            status: Some(error.status).filter(|status| *status > 0),
            reason: error.reason,
            message: error.message,
            retry_after: after(error.retry_after_ms),
        }
    }
}

/// Informant could not say where the object is.
impl From<HostError> for Error {
    fn from(error: HostError) -> Self {
        let code = match error.code {
            host_error::ErrorCode::Denied => ErrorCode::Denied,
            host_error::ErrorCode::NotHere => ErrorCode::NotHere,
            // The source is gone, about the object this says nothing.
            _ => ErrorCode::Unavailable,
        };
        Self {
            code,
            status: None,
            reason: String::new(),
            message: error.message,
            retry_after: None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
