//! [`ApiError`]: why a request failed.

use std::error::Error;
use std::time::Duration;

use informant_object::frames::ListError;

use super::status::StatusBody;

/// What the service of a client returns if it did not send a request because it has no credentials. Sources do not
/// count it as a sign that the API server is down.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct LoginFailed(pub Box<dyn Error + Send + Sync>);

/// Why a request of a source, or of discovery, failed.
///
/// The text has the reason and what may help; the caller adds the informer and the resource.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The request could not be built, for example because of an invalid resource name.
    #[error("cannot build the request: {0}; check the resource's name, namespace and selectors")]
    Request(#[source] http::Error),
    /// No response: connecting, TLS or authentication failed.
    #[error("the API server cannot be reached: {}; check its address and that it is running", chain(.0))]
    Unreachable(#[source] Box<kube::Error>),
    /// The API server refused the request.
    #[error("the API server responded with {}{}", .code, message_after(.reason, .message))]
    Refused {
        /// The HTTP status.
        code: u16,
        /// The API server's reason, for example `Forbidden`; may be empty.
        reason: String,
        /// The API server's message.
        message: String,
        /// How long the API server asks to wait.
        retry_after: Option<Duration>,
        /// The cause, which decides what to do next.
        cause: ApiErrorCause,
    },
    /// The response is not JSON: a proxy, a login page, or not an API server.
    #[error(
        "the response is not JSON but {content_type} that starts with {start:?}; the address is not a Kubernetes API \
         server, or a proxy answers instead of it"
    )]
    NotJson {
        /// The answer's content type.
        content_type: String,
        /// The start of the response.
        start: String,
    },
    /// The response is compressed although it was requested uncompressed.
    #[error(
        "the response is compressed ({encoding}) despite `Accept-Encoding: identity`; a proxy in between must not compress watches"
    )]
    Compressed {
        /// The `Content-Encoding`.
        encoding: String,
    },
    /// No data for so long that the connection is considered dead.
    #[error("no data for {} s; the connection is considered dead", .0.as_secs())]
    Silent(Duration),
    /// The API server hangs: nothing was received on any connection to it for this long, and it did not answer a
    /// request for a sign of life.
    #[error(
        "nothing was received from the API server for {} s, and it does not respond to requests; check that it runs",
        .0.as_secs()
    )]
    Unresponsive(Duration),
    /// The response did not complete in time.
    #[error("the response did not complete within {} s", .0.as_secs())]
    TooSlow(Duration),
    /// The connection was lost during the response.
    #[error("the connection was lost: {}", chain(.0))]
    Broken(#[source] Box<kube::Error>),
    /// The response to a list is not a list, or an incomplete one.
    #[error("{0}")]
    List(#[from] ListError),
    /// The list exceeds a limit; with the limit and what to do.
    #[error("the list is too large: {0}")]
    TooLarge(String),
    /// The response is truncated or contradictory JSON.
    #[error("the response is malformed: {0}")]
    Damaged(String),
}

/// The cause of an [`ApiError`], which decides what to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiErrorCause {
    /// The requested version is expired (410).
    Expired,
    /// The requested version is in the future.
    VersionTooLarge,
    /// Too many requests; how long the server asks to wait.
    TooManyRequests(Option<Duration>),
    /// Not authenticated (401) or not allowed (403).
    Forbidden,
    /// The resource does not exist (404).
    NotFound,
    /// The API server does not support a field of the field selector (400).
    UnsupportedSelector,
    /// A list exceeds a limit.
    TooLarge,
    /// No response.
    Unreachable,
    /// Anything else; how long the server asks to wait.
    Other(Option<Duration>),
}

impl ApiError {
    pub(crate) fn refused(status: StatusBody) -> Self {
        let cause = status.cause();
        let retry_after = match cause {
            ApiErrorCause::TooManyRequests(wait) | ApiErrorCause::Other(wait) => wait,
            _ => None,
        };
        Self::Refused {
            code: status.code,
            reason: status.reason.unwrap_or_default(),
            message: status.message.unwrap_or_default(),
            retry_after,
            cause,
        }
    }

    /// Whether the API server, or a proxy, does not accept what was asked for, or the length of it.
    pub(crate) fn is_about_request(&self) -> bool {
        matches!(self, Self::Refused { code: 400 | 413 | 414 | 422 | 431, cause, .. } if !matches!(cause, ApiErrorCause::VersionTooLarge))
    }

    /// Whether the request was not sent because the client has no credentials.
    pub(crate) fn is_of_login(&self) -> bool {
        let Self::Unreachable(error) = self else { return false };
        // kube's client returns an error of its own login as that of any middleware: `kube::Error::Service`.
        causes(error).any(|cause| cause.is::<kube::client::AuthError>() || cause.is::<LoginFailed>())
    }

    /// The cause, which decides what to do next.
    #[must_use]
    pub fn cause(&self) -> ApiErrorCause {
        match self {
            Self::Refused { cause, .. } => *cause,
            Self::Unreachable(_)
            | Self::Silent(_)
            | Self::Unresponsive(_)
            | Self::TooSlow(_)
            | Self::Broken(_)
            | Self::List(ListError::Truncated { .. }) => ApiErrorCause::Unreachable,
            Self::TooLarge(_) => ApiErrorCause::TooLarge,
            Self::Request(_) | Self::NotJson { .. } | Self::Compressed { .. } | Self::List(_) | Self::Damaged(_) => {
                ApiErrorCause::Other(None)
            }
        }
    }
}

impl ApiErrorCause {
    /// The label in metrics.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::VersionTooLarge => "version-too-large",
            Self::TooManyRequests(_) => "too-many-requests",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not-found",
            Self::UnsupportedSelector => "unsupported-selector",
            Self::TooLarge => "too-large",
            Self::Unreachable => "unreachable",
            Self::Other(_) => "error",
        }
    }
}

/// `: reason: message`, without the missing parts.
fn message_after(reason: &str, message: &str) -> String {
    match (reason, message) {
        ("", "") => String::new(),
        (reason, "") => format!(" {reason}"),
        ("", message) => format!(": {message}"),
        (reason, message) => format!(" {reason}: {message}"),
    }
}

/// An error with its causes: the texts of kube and hyper alone lack the details. What kube writes before the error of a
/// middleware, once for each, says nothing.
fn chain(error: &kube::Error) -> String {
    let text = error.to_string();
    let mut text = text.trim_start_matches("ServiceError: ").to_owned();
    for cause in causes(error) {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
    }
    text
}

/// The causes of an error.
fn causes(error: &kube::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    const DEPTH_MAX: usize = 8;
    std::iter::successors(error.source(), |&cause| cause.source()).take(DEPTH_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_includes_the_api_servers_message() {
        let json = br#"{"kind":"Status","code":403,"reason":"Forbidden","message":"pods is forbidden: User \"x\" cannot list"}"#;
        let error = ApiError::refused(StatusBody::parse(json).unwrap());
        insta::assert_snapshot!(error, @r#"the API server responded with 403 Forbidden: pods is forbidden: User "x" cannot list"#);
    }

    #[test]
    fn an_html_response_explains_where_to_look() {
        let error = ApiError::NotJson {
            content_type: "text/html".to_owned(),
            start: "<html><h1>Login".to_owned(),
        };
        insta::assert_snapshot!(error, @r#"the response is not JSON but text/html that starts with "<html><h1>Login"; the address is not a Kubernetes API server, or a proxy answers instead of it"#);
    }
}
