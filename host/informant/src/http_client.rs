//! HTTP requests of plugins: [`HttpClient`] over hyper.
//!
//! ```text
//! HttpCall ─▶ headers from files ─▶ connect: look up once, check each address ─▶ TLS ─▶ HTTP/1.1 ─▶ response
//! ```
//! Sends each request once: no retry, no redirect, no connection that is used twice. Grants are checked before, and the
//! limits of bodies are enforced there, too. Requests run on the informers' runtime, because a guest that spins must
//! not delay a handshake. Errors never contain a path, a query or a header.

mod connect;
mod proxy;
mod tls;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, Uri, header};
use http_body_util::BodyExt as _;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use informant_cache::Environment;
use informant_config::HttpSection;
use informant_plugin_host::{HttpBody, HttpCall, HttpClient, HttpError, HttpErrorCode, HttpFuture, HttpPermit};
use tokio::sync::oneshot;
use tokio::time::timeout;

pub(crate) use self::connect::Resolver;
pub use self::connect::SystemResolver;
use self::connect::{Connection, Connector};
pub(crate) use self::tls::check_ca_file;
use crate::files::{Turn, read_regular_file};
use crate::kube_api::unless_abandoned;

/// Time to look up a name, connect, and shake hands: 5 s, or what remains of the request's time.
pub(crate) const HTTP_CONNECT_MAX: Duration = Duration::from_secs(5);

/// How long after the end of a request's time its connection is closed: 100 ms. The plugin host ends the request, so
/// that its error is that of the time and not that of a closed connection.
pub(crate) const HTTP_CLOSE_AFTER: Duration = Duration::from_millis(100);

/// Bytes of the head of a response: 64 KiB. A larger one is an error.
pub(crate) const HTTP_HEAD_BYTES_MAX: usize = 64 << 10;

/// Headers of a response: 100. More are an error.
pub(crate) const HTTP_HEADERS_MAX: usize = 100;

/// Bytes of a file with the value of a header: 16 KiB. A larger one is an error.
pub(crate) const HTTP_HEADER_FILE_BYTES_MAX: usize = 16 << 10;

/// Sends requests to the network.
pub struct HttpSender {
    connector: Arc<Connector>,
    environment: Arc<dyn Environment>,
}

impl HttpSender {
    /// Sends requests as `[http]` says, to addresses that `resolver` finds.
    pub fn new(section: &HttpSection, resolver: impl Resolver, environment: Arc<dyn Environment>) -> HttpSender {
        HttpSender {
            connector: Arc::new(Connector::new(section, Box::new(resolver))),
            environment,
        }
    }
}

impl HttpClient for HttpSender {
    fn send(&self, call: HttpCall) -> HttpFuture {
        let (answer, answered) = oneshot::channel();
        let (connector, environment) = (Arc::clone(&self.connector), Arc::clone(&self.environment));
        let sent = async move { exchange(&connector, &*environment, call).await };
        self.environment
            .spawn("plugin-http", Box::pin(unless_abandoned(answer, sent)));
        Box::pin(async move {
            let stopping = |_| Err(HttpError::new(HttpErrorCode::Unavailable, "Informant is stopping"));
            answered.await.unwrap_or_else(stopping)
        })
    }
}

/// Sends one request, and waits for its response to begin.
async fn exchange(
    connector: &Connector,
    environment: &dyn Environment,
    call: HttpCall,
) -> Result<Response<HttpBody>, HttpError> {
    let HttpCall {
        mut request,
        address,
        header_files,
        time_max,
        permit,
        ..
    } = call;
    let late = environment.sleep(time_max + HTTP_CLOSE_AFTER);
    set_headers_from_files(request.headers_mut(), header_files, &permit).await?;
    let connected = timeout(HTTP_CONNECT_MAX, connector.connect(request.uri(), address, &permit)).await;
    let connection = connected.map_err(|_| {
        let message = format!("no connection within {HTTP_CONNECT_MAX:?}");
        HttpError::new(HttpErrorCode::ConnectTimeout, message)
    })??;
    address_request(&mut request, &connection)?;
    let (mut sender, driver) = http1::Builder::new()
        .max_buf_size(HTTP_HEAD_BYTES_MAX)
        .max_headers(HTTP_HEADERS_MAX)
        .handshake(TokioIo::new(connection.stream))
        .await
        .map_err(|error| of_hyper(&error))?;
    let driven = async move {
        // The end of the connection is reported to who waits for its response.
        tokio::select! {
            _ended = driver => {}
            () = late => {}
        }
        release(permit);
    };
    environment.spawn("plugin-http-connection", Box::pin(driven));
    let response = sender.send_request(request).await.map_err(|error| of_hyper(&error))?;
    Ok(response.map(|body| body.map_err(|error| of_hyper(&error)).boxed_unsync()))
}

/// The request no longer counts.
fn release(permit: HttpPermit) {
    drop(permit);
}

/// Sets each header to the content of its file, whatever the guest has set. Reads the files each time, so that a new
/// content is used at once.
async fn set_headers_from_files(
    headers: &mut HeaderMap,
    files: Vec<(HeaderName, PathBuf)>,
    permit: &HttpPermit,
) -> Result<(), HttpError> {
    for (name, path) in files {
        let unusable = |problem: String| {
            let message = format!("cannot use the file of the header {name}: {problem}");
            HttpError::new(HttpErrorCode::HeaderFile, message)
        };
        // Until it is read, which may take longer than the request, the request counts.
        let permit = permit.clone();
        let turn = Turn::of(&path);
        let read = turn.run(move || {
            let read = header_value(&path);
            drop(permit);
            read
        });
        let value = match read.await {
            Ok(read) => read.map_err(unusable)?,
            Err(_) => return Err(HttpError::new(HttpErrorCode::Unavailable, "Informant is stopping")),
        };
        headers.insert(name, value);
    }
    Ok(())
}

/// The value of a header in its file.
fn header_value(path: &Path) -> Result<HeaderValue, String> {
    let bytes = read_regular_file(path, HTTP_HEADER_FILE_BYTES_MAX).map_err(|error| error.to_string())?;
    let value = bytes.trim_ascii();
    if value.is_empty() {
        return Err("it is empty".to_owned());
    }
    let value = HeaderValue::from_bytes(value);
    let mut value = value.map_err(|_| "it is not one line of text".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

/// Whether a file of `header-files` can be used.
pub(crate) fn check_header_file(path: &Path) -> Result<(), String> {
    header_value(path).map(drop)
}

/// Sets the URL and the headers that say where the request goes.
fn address_request(request: &mut Request<HttpBody>, connection: &Connection) -> Result<(), HttpError> {
    let invalid = |_| HttpError::new(HttpErrorCode::Protocol, "the URL cannot be sent");
    let host = HeaderValue::from_str(&connection.host_header).map_err(|_| invalid(()))?;
    request.headers_mut().insert(header::HOST, host);
    match &connection.absolute_form_with {
        // The proxy reads the whole URL.
        Some(authorization) => {
            if let Some(value) = authorization {
                request.headers_mut().insert(header::PROXY_AUTHORIZATION, value.clone());
            }
        }
        None => {
            let path = request.uri().path_and_query().cloned();
            let path = path.unwrap_or_else(|| PathAndQuery::from_static("/"));
            *request.uri_mut() = Uri::from(path);
        }
    }
    Ok(())
}

fn of_hyper(error: &hyper::Error) -> HttpError {
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        if let Some(own) = inner.downcast_ref::<HttpError>() {
            return own.clone();
        }
        cause = inner.source();
    }
    let code = match error.is_parse() || error.is_parse_status() || error.is_user() {
        true => HttpErrorCode::Protocol,
        false => HttpErrorCode::Interrupted,
    };
    HttpError::new(code, error.to_string())
}

#[cfg(test)]
mod tests;
