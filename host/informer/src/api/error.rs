//! What can go wrong between a request and the end of its answer: [`ApiError`].

use std::time::Duration;

use informant_object::frames::ListError;

use super::status::Status;

/// Why a request of a source, or of discovery, did not bring what it was sent for.
///
/// The text says what happened and what may help; which informer and resource it was about, the caller adds.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The request could not be written, for example because of a strange resource name.
    #[error("the request could not be built: {0}; check the resource's name, namespace and selectors")]
    Request(#[source] http::Error),
    /// No answer came: connecting, TLS or logging in failed.
    #[error("the API server cannot be reached: {}; check its address and that it runs", chain(.0))]
    Unreachable(#[source] Box<kube::Error>),
    /// The API server answered, and said no.
    #[error("the API server answered {}{}", .code, message_after(.reason, .message))]
    Refused {
        /// The HTTP status.
        code: u16,
        /// Kubernetes' word for it, for example `Forbidden`; empty if it gave none.
        reason: String,
        /// The API server's own explanation.
        message: String,
        /// How long it asks to be left alone.
        retry_after: Option<Duration>,
        /// What decides about the next step.
        cause: ApiErrorCause,
    },
    /// The answer is no JSON: a proxy, a login page, or something that is no API server.
    #[error(
        "the answer is not JSON but {content_type} that begins with {start:?}; the address leads to something that is no \
         Kubernetes API server, or a proxy answers in its place"
    )]
    NotJson {
        /// The answer's content type.
        content_type: String,
        /// The answer's beginning.
        start: String,
    },
    /// The answer is compressed although it was asked to come plain.
    #[error(
        "the answer is compressed ({encoding}) although `Accept-Encoding: identity` was sent; a proxy must leave watches alone"
    )]
    Compressed {
        /// What `Content-Encoding` says.
        encoding: String,
    },
    /// Nothing came for so long that the connection must be taken for dead.
    #[error("nothing came for {} s; the connection is taken for dead", .0.as_secs())]
    Silent(Duration),
    /// What was asked for did not come whole in time.
    #[error("the state did not come whole within {} s", .0.as_secs())]
    TooSlow(Duration),
    /// The connection broke in the midst of the answer.
    #[error("the connection broke: {}", chain(.0))]
    Broken(#[source] Box<kube::Error>),
    /// The answer to a list is no list, or no whole one.
    #[error("{0}")]
    List(#[from] ListError),
    /// The answer is JSON that breaks off or contradicts itself.
    #[error("the answer is damaged: {0}")]
    Damaged(String),
}

/// What decides about the next step after an [`ApiError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiErrorCause {
    /// The version asked for is forgotten (410).
    Expired,
    /// The version asked for is not reached yet.
    VersionTooLarge,
    /// Too many requests; how long the server asks to be left alone.
    TooManyRequests(Option<Duration>),
    /// Not logged in (401) or not allowed (403).
    Forbidden,
    /// The resource does not exist (404).
    NotFound,
    /// No answer at all.
    Unreachable,
    /// Anything else; how long the server asks to be left alone.
    Other(Option<Duration>),
}

impl ApiError {
    pub(crate) fn refused(status: Status) -> Self {
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

    /// What decides about the next step.
    #[must_use]
    pub fn cause(&self) -> ApiErrorCause {
        match self {
            Self::Refused { cause, .. } => *cause,
            Self::Unreachable(_)
            | Self::Silent(_)
            | Self::TooSlow(_)
            | Self::Broken(_)
            | Self::List(ListError::Truncated { .. }) => ApiErrorCause::Unreachable,
            Self::Request(_) | Self::NotJson { .. } | Self::Compressed { .. } | Self::List(_) | Self::Damaged(_) => {
                ApiErrorCause::Other(None)
            }
        }
    }
}

impl ApiErrorCause {
    /// The word for it in metrics.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::VersionTooLarge => "version-too-large",
            Self::TooManyRequests(_) => "too-many-requests",
            Self::Forbidden => "forbidden",
            Self::NotFound => "not-found",
            Self::Unreachable => "unreachable",
            Self::Other(_) => "error",
        }
    }
}

/// `: reason: message`, as far as there is any.
fn message_after(reason: &str, message: &str) -> String {
    match (reason, message) {
        ("", "") => String::new(),
        (reason, "") => format!(" {reason}"),
        ("", message) => format!(": {message}"),
        (reason, message) => format!(" {reason}: {message}"),
    }
}

/// An error with its causes: kube's and hyper's own texts end where it gets interesting.
fn chain(error: &kube::Error) -> String {
    const DEPTH_MAX: usize = 8;
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    for _ in 0..DEPTH_MAX {
        let Some(cause) = next else { break };
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_tells_what_the_api_server_said() {
        let json = br#"{"kind":"Status","code":403,"reason":"Forbidden","message":"pods is forbidden: User \"x\" cannot list"}"#;
        let error = ApiError::refused(Status::parse(json).unwrap());
        insta::assert_snapshot!(error, @r#"the API server answered 403 Forbidden: pods is forbidden: User "x" cannot list"#);
    }

    #[test]
    fn an_answer_in_html_says_where_to_look() {
        let error = ApiError::NotJson {
            content_type: "text/html".to_owned(),
            start: "<html><h1>Login".to_owned(),
        };
        insta::assert_snapshot!(error, @r#"the answer is not JSON but text/html that begins with "<html><h1>Login"; the address leads to something that is no Kubernetes API server, or a proxy answers in its place"#);
    }
}
