//! Why there is no response to a request.

use std::fmt;

/// An error of a request that has no response, or none that is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The kind of error.
    pub code: ErrorCode,
    /// The message for people. Informant's log has the details.
    pub message: String,
}

/// The kind of an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorCode {
    /// config.toml does not grant the request. Informant logs the line that would.
    Denied,
    /// The host resolves to an address that plugins must not reach.
    AddressProhibited,
    /// The host cannot be resolved or reached.
    Unreachable,
    /// TLS failed, or the certificate is not valid.
    Tls,
    /// There was no complete response in time.
    Timeout,
    /// The body of the request or of the response is too large.
    TooLarge,
    /// The connection ended before the response was complete.
    Interrupted,
    /// The request is invalid.
    Invalid,
    /// A file of `header-files` in config.toml cannot be used.
    Configuration,
    /// Another error.
    Other,
}

impl Error {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    /// config.toml does not grant the request.
    pub fn is_denied(&self) -> bool {
        self.code == ErrorCode::Denied
    }

    /// Whether the request may have been handled although no response arrived.
    pub fn may_be_done(&self) -> bool {
        matches!(
            self.code,
            ErrorCode::Timeout | ErrorCode::TooLarge | ErrorCode::Interrupted | ErrorCode::Other
        )
    }

    /// Whether the same request would fail again until somebody changes the plugin or config.toml.
    pub fn is_lasting(&self) -> bool {
        matches!(
            self.code,
            ErrorCode::Denied | ErrorCode::AddressProhibited | ErrorCode::TooLarge | ErrorCode::Invalid
        )
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
