//! What the admin API answers when it cannot answer.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};

use super::freshness::FreshAsOf;

/// Why there is no answer; a word that programs may rely on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// The question is malformed.
    Invalid,
    /// No informer is called that or watches that.
    UnknownInformer,
    /// No plugin is called that.
    UnknownPlugin,
    /// Several informers watch that.
    Ambiguous,
    /// The informer has no index of that name.
    UnknownIndex,
    /// No cluster is called that, or the informer does not watch it.
    UnknownCluster,
    /// The informer's first list is not in the cache.
    NotSynced,
    /// The index is not attached, or the plugin not loaded.
    NotReady,
    /// There is no such object.
    NotFound,
    /// Too many answers are being read, or waited for, already.
    Busy,
    /// No source has that number.
    UnknownSource,
    /// The version was not seen in time.
    Timeout,
    /// The version is of another epoch: the cluster went back in time in between.
    Stale,
    /// Versions that are no decimal numbers cannot be waited for.
    Unsupported,
}

/// An error as the admin API answers it.
#[derive(Debug, Clone, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{message}")]
pub struct ApiError {
    /// Why.
    pub code: Code,
    /// Why, for people.
    pub message: String,
    /// Of a version that was waited for in vain: what was seen instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fresh_as_of: Option<Box<FreshAsOf>>,
}

impl ApiError {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            fresh_as_of: None,
        }
    }

    /// With what was seen in place of what was waited for.
    pub(super) fn at(self, seen: FreshAsOf) -> Self {
        Self {
            fresh_as_of: Some(Box::new(seen)),
            ..self
        }
    }
}

impl Code {
    fn status(self) -> StatusCode {
        match self {
            Self::Invalid | Self::Unsupported => StatusCode::BAD_REQUEST,
            Self::UnknownInformer
            | Self::UnknownPlugin
            | Self::UnknownIndex
            | Self::UnknownCluster
            | Self::UnknownSource
            | Self::NotFound => StatusCode::NOT_FOUND,
            Self::Ambiguous | Self::Stale => StatusCode::CONFLICT,
            Self::NotSynced | Self::NotReady => StatusCode::SERVICE_UNAVAILABLE,
            Self::Busy => StatusCode::TOO_MANY_REQUESTS,
            Self::Timeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.code.status(), Json(self)).into_response()
    }
}
