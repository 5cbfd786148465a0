//! Why a call to the cluster did not come to what was wanted.

use std::fmt;
use std::time::Duration;

use super::{ErrorCode, contract};

/// What the API server or Informant answered instead.
///
/// `?` makes a [`Failure`](crate::Failure) of it: permanent if the same call would be refused again until a person
/// changes something ([`is_lasting`](Self::is_lasting)), retryable after the time the API server asked for, or
/// retryable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// What kind of trouble it is.
    pub code: ErrorCode,
    /// The HTTP status of the API server's answer; none if it gave none.
    pub status: Option<u16>,
    /// What to read.
    pub message: String,
    /// How long the API server asks to be left alone.
    pub retry_after: Option<Duration>,
}

impl Error {
    /// config.toml does not grant it; the message holds the line that would.
    pub fn is_denied(&self) -> bool {
        self.code == ErrorCode::Denied
    }

    /// The API server does not allow it to Informant.
    pub fn is_forbidden(&self) -> bool {
        self.code == ErrorCode::Forbidden
    }

    /// There is no such object, or no such resource.
    pub fn is_not_found(&self) -> bool {
        self.code == ErrorCode::NotFound
    }

    /// There is such an object already.
    pub fn is_already_exists(&self) -> bool {
        self.code == ErrorCode::AlreadyExists
    }

    /// The object is not what the call was based on.
    pub fn is_conflict(&self) -> bool {
        self.code == ErrorCode::Conflict
    }

    /// A write may have been made although the answer is not there.
    pub fn may_be_done(&self) -> bool {
        matches!(self.code, ErrorCode::Timeout | ErrorCode::Unavailable)
    }

    /// Whether the same call would be refused again until a person changes the plugin or config.toml.
    pub fn is_lasting(&self) -> bool {
        match self.code {
            ErrorCode::Denied | ErrorCode::Invalid | ErrorCode::TooLarge | ErrorCode::Unsupported => true,
            // Rights are given in the cluster while this runs, and objects come and go.
            ErrorCode::Forbidden
            | ErrorCode::Unauthorized
            | ErrorCode::NotFound
            | ErrorCode::AlreadyExists
            | ErrorCode::Conflict
            | ErrorCode::Expired
            | ErrorCode::TooManyRequests
            | ErrorCode::Timeout
            | ErrorCode::Unavailable => false,
        }
    }
}

impl From<contract::ApiError> for Error {
    fn from(error: contract::ApiError) -> Self {
        let after = |ms: u32| (ms > 0).then(|| Duration::from_millis(ms.into()));
        Self {
            code: error.code,
            status: Some(error.status).filter(|status| *status > 0),
            message: error.message,
            retry_after: after(error.retry_after_ms),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
