//! Why a host call failed.

use std::fmt;

use crate::bindings::imports::informant::plugin::types as contract;

pub use contract::ErrorCode;

/// A host call that failed. The message comes from Informant and says what to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostError {
    /// The kind of error.
    pub code: ErrorCode,
    /// The message for people.
    pub message: String,
}

impl HostError {
    /// Whether the same call would fail again until somebody changes the plugin or config.toml.
    pub fn is_lasting(&self) -> bool {
        match self.code {
            ErrorCode::Denied
            | ErrorCode::NotHere
            | ErrorCode::UnknownInformer
            | ErrorCode::UnknownIndex
            | ErrorCode::TooLarge
            | ErrorCode::Exhausted
            | ErrorCode::Unsupported
            | ErrorCode::Invalid => true,
            ErrorCode::NotReady
            | ErrorCode::NotFound
            | ErrorCode::Conflict
            | ErrorCode::Timeout
            | ErrorCode::Stale
            | ErrorCode::Unavailable
            | ErrorCode::Other => false,
        }
    }
}

impl From<contract::HostError> for HostError {
    fn from(error: contract::HostError) -> Self {
        Self {
            code: error.code,
            message: error.message,
        }
    }
}

impl fmt::Display for HostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for HostError {}
