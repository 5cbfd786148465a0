//! Error responses of the admin API.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::header::WWW_AUTHENTICATE;
use http::{HeaderValue, StatusCode};
use serde::{Deserialize, Serialize};

use super::freshness::FreshAsOf;
use crate::escape;

/// The longest message of an error response.
const MESSAGE_BYTES_MAX: usize = 4 * 1024;

/// Why a request failed; programs may rely on the word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Code {
    Invalid,
    Unauthenticated,
    /// The caller lacks a right; or the request is for another host, or from a web page of another origin.
    Forbidden,
    /// The route has other methods.
    MethodNotAllowed,
    /// The API server did not tell who the caller is, or what the caller may do.
    Unavailable,
    UnknownInformer,
    UnknownPlugin,
    Ambiguous,
    UnknownIndex,
    /// No cluster has that name, or the informer does not watch it.
    UnknownCluster,
    /// The informer's first list is not in the cache yet.
    NotSynced,
    /// The index is not attached, or the plugin not loaded.
    NotReady,
    NotFound,
    /// Too many responses are being read, or too many requests are waiting for a version.
    Busy,
    UnknownSource,
    /// Another replica acts.
    Standby,
    Timeout,
    /// The version is from another epoch: the cluster has gone back in time since.
    Stale,
    /// Only versions that are decimal integers can be waited for.
    Unsupported,
}

#[derive(Debug, Clone, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "camelCase")]
#[error("{message}")]
pub(crate) struct AdminError {
    pub code: Code,
    /// Why, for people.
    pub message: String,
    /// For a version that was not seen: what was seen instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fresh_as_of: Option<Box<FreshAsOf>>,
    /// For a caller who is known: the right that the caller lacks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing_right: Option<Box<ResourceRight>>,
}

/// A right on a resource, as in a `ResourceAttributes` of a SubjectAccessReview. Empty texts are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ResourceRight {
    /// What to do.
    pub verb: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    pub resource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub subresource: String,
    /// The namespace; empty for all, or for a cluster-scoped resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The object; empty for all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
}

impl AdminError {
    /// A message that echoes a long argument is cut at [`MESSAGE_BYTES_MAX`].
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: escape::cut(&message.into(), MESSAGE_BYTES_MAX).into_owned(),
            fresh_as_of: None,
            missing_right: None,
        }
    }

    pub(super) fn missing(self, right: ResourceRight) -> Self {
        Self {
            missing_right: Some(Box::new(right)),
            ..self
        }
    }

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
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            Self::UnknownInformer
            | Self::UnknownPlugin
            | Self::UnknownIndex
            | Self::UnknownCluster
            | Self::UnknownSource
            | Self::NotFound => StatusCode::NOT_FOUND,
            Self::Ambiguous | Self::Stale | Self::Standby => StatusCode::CONFLICT,
            Self::NotSynced | Self::NotReady | Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Busy => StatusCode::TOO_MANY_REQUESTS,
            Self::Timeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }
}

impl IntoResponse for AdminError {
    fn into_response(self) -> Response {
        let status = self.code.status();
        let mut response = (status, Json(self)).into_response();
        if status == StatusCode::UNAUTHORIZED {
            response
                .headers_mut()
                .insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
