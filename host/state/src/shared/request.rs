//! What a shared journal asks of the API server, and what it hears.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The key within the data of a Secret.
pub const SECRET_DATA_KEY: &str = "state";

/// The label of each Secret; its value is the group. One `kubectl get secrets -l` is a consistent backup.
pub const SECRET_GROUP_LABEL: &str = "informant.dev/state";

/// A part of shared state, in a Secret of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SharedPart {
    /// What has changed since the last checkpoint.
    Journal,
    /// Rows as of a checkpoint.
    Chunk(u32),
}

/// A request to the API server. Each has exactly one answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretRequest {
    /// The name of the Secret.
    pub name: String,
    /// What to do.
    pub verb: SecretVerb,
}

/// What to do with a Secret.
#[derive(Clone, PartialEq, Eq)]
pub enum SecretVerb {
    /// Reads it with a quorum: `resourceVersion` is not set.
    Get,
    /// Creates it, with [`SECRET_GROUP_LABEL`], and with this value of [`SECRET_DATA_KEY`].
    Create(Arc<[u8]>),
    /// Replaces it in whole, if it still has this version.
    Update(Arc<[u8]>, String),
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretAnswer {
    /// It was read. Empty data: it lacks [`SECRET_DATA_KEY`].
    Found {
        /// Its `resourceVersion`.
        version: String,
        /// The value of [`SECRET_DATA_KEY`].
        data: Vec<u8>,
    },
    /// It does not exist (404).
    Missing,
    /// It was created or replaced.
    Written {
        /// Its new `resourceVersion`.
        version: String,
    },
    /// It exists already, or has another version (409).
    Conflict,
    /// Anything else. A write may have taken effect.
    Failed(SecretFailure),
}

/// Why a request has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretFailure {
    /// What the API server or the connection said.
    pub message: String,
    /// Whether rights are missing (401, 403).
    pub is_denied: bool,
    /// `Retry-After` (429, 503).
    pub retry_after: Option<Duration>,
}

impl SharedPart {
    /// The name of its Secret.
    #[must_use]
    pub fn secret_name(self, group: &str) -> String {
        match self {
            SharedPart::Journal => format!("{group}-state-journal"),
            SharedPart::Chunk(number) => format!("{group}-state-chunk-{number}"),
        }
    }
}

impl SecretVerb {
    /// The verb of Kubernetes.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            SecretVerb::Get => "get",
            SecretVerb::Create(_) => "create",
            SecretVerb::Update(..) => "update",
        }
    }
}

/// Without the data, which is secret.
impl fmt::Debug for SecretVerb {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SecretVerb::Get => out.write_str("Get"),
            SecretVerb::Create(data) => write!(out, "Create({} bytes)", data.len()),
            SecretVerb::Update(data, version) => write!(out, "Update({} bytes, {version})", data.len()),
        }
    }
}
