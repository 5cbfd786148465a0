//! Sends HTTP requests to other services: a webhook, a ticket system, a service of the cluster.
//!
//! config.toml says where a plugin may send requests (`allow.http`); anything else fails with [`ErrorCode::Denied`].
//! Credentials belong into `header-files` there: Informant adds them, and the plugin never sees them.
//!
//! ```no_run
//! # use informant_plugin_sdk::prelude::*;
//! # fn example(event: &Event) -> Result {
//! http::post("https://hooks.example.com/pods")
//!     .header("Idempotency-Key", event.id())
//!     .json(&json!({ "text": format!("{event} is failing") }))
//!     .send()?
//!     .ensure_ok()?;
//! # Ok(())
//! # }
//! ```
//!
//! Unlike a deferred write, a request has its effect at once, even if the handler fails afterwards, and is made again
//! when the event is retried. Send a key that is the same each time ([`Event::id`](crate::Event::id)), or
//! remember with [`kv`](crate::kv) what is done.
//!
//! [`Response::ensure_ok`] turns a status into the right failure. If the handler fails with its `retry-after`,
//! Informant answers further requests of the plugin to that host itself, with status 429, until the time is over.
//!
//! Informant follows no redirects. Requests run only in event handlers and `on_synced`, one after the other; together
//! they may take nine tenths of `limits.call`.

mod error;
mod retry_after;
#[cfg(target_arch = "wasm32")]
pub(crate) mod wasi;

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use self::error::{Error, ErrorCode};
use crate::failure::{Failure, Result};
use crate::host;

/// The delay after a response with status 429 or 503 that does not say when to come back: 30 s.
pub const RETRY_AFTER_DEFAULT: Duration = Duration::from_secs(30);

/// A request of GET.
pub fn get(url: impl Into<String>) -> Request {
    Request::new("GET", url)
}

/// A request of POST.
pub fn post(url: impl Into<String>) -> Request {
    Request::new("POST", url)
}

/// A request of PUT.
pub fn put(url: impl Into<String>) -> Request {
    Request::new("PUT", url)
}

/// A request of PATCH.
pub fn patch(url: impl Into<String>) -> Request {
    Request::new("PATCH", url)
}

/// A request of DELETE.
pub fn delete(url: impl Into<String>) -> Request {
    Request::new("DELETE", url)
}

/// A request that is not sent yet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a request is sent by `send`"]
pub struct Request {
    /// The method, in capitals.
    pub method: String,
    /// The absolute URL.
    pub url: String,
    /// Names and values of the headers.
    pub headers: Vec<(String, String)>,
    /// The body; empty if there is none.
    pub body: Vec<u8>,
    /// Why the request cannot be sent.
    problem: Option<String>,
}

/// A response, with its whole body.
#[derive(Clone, PartialEq, Eq)]
pub struct Response {
    status: u16,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
    /// Scheme, host and port of the request, for messages.
    origin: String,
}

impl Request {
    /// A request with this method.
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> Self {
        Self {
            method: method.into(),
            url: url.into(),
            headers: Vec::new(),
            body: Vec::new(),
            problem: None,
        }
    }

    /// Adds a header. One that config.toml sets from a file replaces it.
    pub fn header(mut self, name: impl Into<String>, value: impl fmt::Display) -> Self {
        self.headers.push((name.into(), value.to_string()));
        self
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets the body to `value` as JSON, and the header `Content-Type`. A value that cannot be written makes
    /// [`send`](Self::send) fail.
    pub fn json<T: Serialize + ?Sized>(self, value: &T) -> Self {
        match serde_json::to_vec(value) {
            Ok(body) => self.header("content-type", "application/json").body(body),
            Err(error) => Self {
                problem: Some(format!("the body cannot be written as JSON: {error}")),
                ..self
            },
        }
    }

    /// Sends the request and reads the whole response. A response with any status is a success: see
    /// [`Response::ensure_ok`].
    ///
    /// # Errors
    /// [`Error`]. `?` makes it a failure: permanent if the same request would fail again, otherwise retryable.
    pub fn send(self) -> Result<Response, Error> {
        if let Some(problem) = self.problem {
            return Err(Error::new(ErrorCode::Invalid, problem));
        }
        host::http_send(&self)
    }

    /// Scheme, host and port. Not the path: paths of webhooks are secrets.
    pub(crate) fn origin(&self) -> &str {
        let host = self.url.find("://").map_or(0, |at| at + 3);
        let end = self.url[host..]
            .find(['/', '?', '#'])
            .map_or(self.url.len(), |at| host + at);
        &self.url[..end]
    }
}

impl Response {
    pub(crate) fn new(request: &Request, status: u16, headers: Vec<(String, Vec<u8>)>, body: Vec<u8>) -> Self {
        Self {
            status,
            headers,
            body,
            origin: request.origin().to_owned(),
        }
    }

    /// The status.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// Whether the status is one of 200 to 299.
    pub fn is_ok(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The first value of a header, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self
            .headers
            .iter()
            .find(|(other, _)| other.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(value).ok()
    }

    /// The body.
    pub fn bytes(&self) -> &[u8] {
        &self.body
    }

    /// The body as text.
    ///
    /// # Errors
    /// A body that is not UTF-8.
    pub fn text(&self) -> Result<&str> {
        Ok(std::str::from_utf8(&self.body)?)
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// A body that does not match `T`.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T> {
        Ok(serde_json::from_slice(&self.body)?)
    }

    /// How long the server asks the client to wait: the seconds in `Retry-After`, or the time until its date.
    pub fn retry_after(&self) -> Option<Duration> {
        retry_after::parse(self.header("retry-after")?.trim(), SystemTime::now())
    }

    /// This response, if its status is one of 200 to 299.
    ///
    /// # Errors
    /// Otherwise a [`Failure`]: retry-after for 429 and 503 (after [`RETRY_AFTER_DEFAULT`] if they do not say when),
    /// retryable for 408, 425 and other 5xx, and permanent for any other, which the same request would get again. Its
    /// message has the status and the host.
    pub fn ensure_ok(self) -> Result<Self> {
        let message = || format!("{} answered {}", self.origin, self.status);
        match self.status {
            200..300 => Ok(self),
            429 | 503 => {
                let after = self.retry_after().unwrap_or(RETRY_AFTER_DEFAULT);
                Err(Failure::retry_after(message(), after))
            }
            408 | 425 | 500.. => Err(Failure::retryable(message())),
            _ => Err(Failure::permanent(message())),
        }
    }
}

/// Without the values of its headers.
impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response")
            .field("origin", &self.origin)
            .field("status", &self.status)
            .field("bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
