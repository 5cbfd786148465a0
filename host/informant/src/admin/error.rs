//! What the admin API answers when it cannot answer.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};

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
    /// Too many answers are being read already.
    Busy,
}

/// An error as the admin API answers it.
#[derive(Debug, Clone, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// Why.
    pub code: Code,
    /// Why, for people.
    pub message: String,
}

impl ApiError {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

impl Code {
    fn status(self) -> StatusCode {
        match self {
            Self::Invalid => StatusCode::BAD_REQUEST,
            Self::UnknownInformer
            | Self::UnknownPlugin
            | Self::UnknownIndex
            | Self::UnknownCluster
            | Self::NotFound => StatusCode::NOT_FOUND,
            Self::Ambiguous => StatusCode::CONFLICT,
            Self::NotSynced | Self::NotReady => StatusCode::SERVICE_UNAVAILABLE,
            Self::Busy => StatusCode::TOO_MANY_REQUESTS,
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.code.status(), Json(self)).into_response()
    }
}
