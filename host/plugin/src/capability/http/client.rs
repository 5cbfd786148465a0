//! [`HttpClient`], the trait behind `wasi:http`. It has its own types, so that this crate opens no connections and its
//! users need no wasmtime.
//!
//! Requests that reach it are granted. What it must do: resolve the name once, check every address
//! ([`forbidden_address`](crate::forbidden_address)), and connect to a checked one.

use std::net::IpAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use tokio::sync::OwnedSemaphorePermit;

use crate::text::truncated;

/// The body of a request or a response.
pub type HttpBody = UnsyncBoxBody<Bytes, HttpError>;

/// The future of a request. Boxed, because it waits for the network anyway. Dropping it abandons the request.
pub type HttpFuture = Pin<Box<dyn Future<Output = Result<Response<HttpBody>, HttpError>> + Send>>;

/// Sends HTTP requests.
pub trait HttpClient: Send + Sync + 'static {
    /// Sends one request once, and follows no redirect.
    fn send(&self, call: HttpCall) -> HttpFuture;
}

pub struct HttpCall {
    pub plugin: Arc<str>,
    /// The request, with an absolute URL.
    pub request: Request<HttpBody>,
    /// The address that the URL has instead of a name. The grant names it, so it is not checked.
    pub address: Option<IpAddr>,
    /// Headers to set, each with the file that contains its value.
    pub header_files: Vec<(HeaderName, PathBuf)>,
    /// The connection is closed after this time.
    pub time_max: Duration,
    /// Kept until the connection is closed.
    pub permit: HttpPermit,
}

/// One of the plugin's concurrent requests, until the last clone is dropped.
#[derive(Clone)]
pub struct HttpPermit {
    _permit: Option<Arc<OwnedSemaphorePermit>>,
}

impl HttpPermit {
    pub(crate) fn new(permit: Option<OwnedSemaphorePermit>) -> HttpPermit {
        HttpPermit {
            _permit: permit.map(Arc::new),
        }
    }

    /// A permit that counts for nothing, for tests.
    #[must_use]
    pub fn unlimited() -> HttpPermit {
        HttpPermit::new(None)
    }
}

/// Why there is no response, or why its body ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct HttpError {
    pub code: HttpErrorCode,
    /// The message, for the plugin's log. It must not contain credentials, paths or queries.
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HttpErrorCode {
    /// config.toml does not grant it.
    Denied,
    /// The name resolves to an address that plugins must not reach.
    Address,
    /// The name cannot be resolved.
    Dns,
    /// No connection.
    Connect,
    /// No connection in time.
    ConnectTimeout,
    /// The certificate is not valid.
    Certificate,
    /// The TLS handshake failed.
    Tls,
    /// No complete response in time.
    Timeout,
    /// The request's body is too large.
    RequestTooLarge,
    /// The response's body is too large.
    ResponseTooLarge,
    /// The connection ended too early.
    Interrupted,
    /// The other side does not speak HTTP/1.1, or the request is invalid.
    Protocol,
    /// The file of a header cannot be used.
    HeaderFile,
    /// Informant is stopping, or has no network.
    Unavailable,
}

impl HttpErrorCode {
    pub const ALL: [HttpErrorCode; 14] = [
        HttpErrorCode::Denied,
        HttpErrorCode::Address,
        HttpErrorCode::Dns,
        HttpErrorCode::Connect,
        HttpErrorCode::ConnectTimeout,
        HttpErrorCode::Certificate,
        HttpErrorCode::Tls,
        HttpErrorCode::Timeout,
        HttpErrorCode::RequestTooLarge,
        HttpErrorCode::ResponseTooLarge,
        HttpErrorCode::Interrupted,
        HttpErrorCode::Protocol,
        HttpErrorCode::HeaderFile,
        HttpErrorCode::Unavailable,
    ];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            HttpErrorCode::Denied => "denied",
            HttpErrorCode::Address => "address",
            HttpErrorCode::Dns => "dns",
            HttpErrorCode::Connect => "connect",
            HttpErrorCode::ConnectTimeout => "connect-timeout",
            HttpErrorCode::Certificate => "certificate",
            HttpErrorCode::Tls => "tls",
            HttpErrorCode::Timeout => "timeout",
            HttpErrorCode::RequestTooLarge => "request-too-large",
            HttpErrorCode::ResponseTooLarge => "response-too-large",
            HttpErrorCode::Interrupted => "interrupted",
            HttpErrorCode::Protocol => "protocol",
            HttpErrorCode::HeaderFile => "header-file",
            HttpErrorCode::Unavailable => "unavailable",
        }
    }
}

impl HttpError {
    #[must_use]
    pub fn new(code: HttpErrorCode, message: impl Into<String>) -> HttpError {
        HttpError {
            code,
            message: truncated(message),
        }
    }
}
