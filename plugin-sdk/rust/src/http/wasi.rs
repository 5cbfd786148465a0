//! Requests over wasi:http.

use super::{Error, ErrorCode, Request, Response};
use crate::bindings::http::wasi::http::outgoing_handler::handle;
use crate::bindings::http::wasi::http::types::{
    ErrorCode as WasiCode, Fields, IncomingBody, IncomingResponse, Method, OutgoingBody, OutgoingRequest, Scheme,
    http_error_code,
};
use crate::bindings::http::wasi::io::streams::StreamError;

/// Bytes read at once.
const READ_BYTES: u64 = 64 << 10;

/// Bytes written at once: Informant accepts as many.
const WRITE_BYTES: usize = 4 << 10;

/// Sends a request, and reads its whole response.
pub(crate) fn send(request: &Request) -> Result<Response, Error> {
    let of = |code| error(request, code);
    let outgoing = outgoing(request)?;
    let body = match request.body.is_empty() {
        true => None,
        false => Some(outgoing.body().map_err(|()| invalid("has an invalid content-length"))?),
    };
    let pending = handle(outgoing, None).map_err(of)?;
    // If the body cannot be written, the response has the reason.
    let written = body.map(|body| write(body, &request.body));
    pending.subscribe().block();
    let answer = match pending.get() {
        Some(Ok(answer)) => answer.map_err(of)?,
        Some(Err(())) | None => return Err(of(WasiCode::InternalError(None))),
    };
    if let Some(Err(code)) = written {
        return Err(of(code));
    }
    let status = answer.status();
    let headers = answer.headers().entries();
    let body = read(answer).map_err(of)?;
    Ok(Response::new(request, status, headers, body))
}

fn outgoing(request: &Request) -> Result<OutgoingRequest, Error> {
    let headers = Fields::new();
    for (name, value) in &request.headers {
        let appended = headers.append(name, value.as_bytes());
        appended.map_err(|error| invalid(&format!("cannot have the header {name}: {error}")))?;
    }
    if !request.body.is_empty() {
        let length = request.body.len().to_string();
        // Informant checks it against the body, and needs no chunks.
        let set = headers.set("content-length", &[length.into_bytes()]);
        set.map_err(|error| invalid(&format!("cannot have a body: {error}")))?;
    }
    let (scheme, rest) = request
        .url
        .split_once("://")
        .ok_or_else(|| invalid("has no absolute URL"))?;
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "https" => Scheme::Https,
        "http" => Scheme::Http,
        other => Scheme::Other(other.to_owned()),
    };
    let rest = rest.split('#').next().unwrap_or_default();
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let path = match path {
        query if query.starts_with('?') => format!("/{query}"),
        path => path.to_owned(),
    };
    let outgoing = OutgoingRequest::new(headers);
    let set = outgoing
        .set_method(&method(&request.method))
        .and(outgoing.set_scheme(Some(&scheme)));
    set.map_err(|()| invalid("has an invalid method or scheme"))?;
    let set = outgoing
        .set_authority(Some(authority))
        .and(outgoing.set_path_with_query(Some(&path)));
    set.map_err(|()| invalid("has an invalid URL"))?;
    Ok(outgoing)
}

fn method(name: &str) -> Method {
    match name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        "OPTIONS" => Method::Options,
        "PATCH" => Method::Patch,
        other => Method::Other(other.to_owned()),
    }
}

fn write(body: OutgoingBody, bytes: &[u8]) -> Result<(), WasiCode> {
    // Only the first call succeeds, and this is it.
    if let Ok(stream) = body.write() {
        for chunk in bytes.chunks(WRITE_BYTES) {
            if stream.blocking_write_and_flush(chunk).is_err() {
                // The other side reads no further; the response has the reason.
                return Ok(());
            }
        }
    }
    OutgoingBody::finish(body, None)
}

fn read(answer: IncomingResponse) -> Result<Vec<u8>, WasiCode> {
    let Ok(body) = answer.consume() else {
        return Ok(Vec::new());
    };
    let bytes = read_body(&body);
    drop(body);
    bytes
}

fn read_body(body: &IncomingBody) -> Result<Vec<u8>, WasiCode> {
    let mut bytes = Vec::new();
    let Ok(stream) = body.stream() else {
        return Ok(bytes);
    };
    loop {
        match stream.blocking_read(READ_BYTES) {
            Ok(chunk) => bytes.extend(chunk),
            Err(StreamError::Closed) => return Ok(bytes),
            Err(StreamError::LastOperationFailed(error)) => {
                let code = http_error_code(&error);
                return Err(code.unwrap_or_else(|| WasiCode::InternalError(Some(error.to_debug_string()))));
            }
        }
    }
}

fn invalid(what: &str) -> Error {
    Error::new(ErrorCode::Invalid, format!("the request {what}"))
}

fn error(request: &Request, code: WasiCode) -> Error {
    let kind = match code {
        WasiCode::HttpRequestDenied => ErrorCode::Denied,
        WasiCode::DestinationIpProhibited => ErrorCode::AddressProhibited,
        WasiCode::DnsTimeout
        | WasiCode::DnsError(_)
        | WasiCode::DestinationNotFound
        | WasiCode::DestinationUnavailable
        | WasiCode::DestinationIpUnroutable
        | WasiCode::ConnectionRefused
        | WasiCode::ConnectionTimeout => ErrorCode::Unreachable,
        WasiCode::TlsProtocolError | WasiCode::TlsCertificateError | WasiCode::TlsAlertReceived(_) => ErrorCode::Tls,
        WasiCode::ConnectionReadTimeout | WasiCode::ConnectionWriteTimeout | WasiCode::HttpResponseTimeout => {
            ErrorCode::Timeout
        }
        WasiCode::HttpRequestBodySize(_) | WasiCode::HttpResponseBodySize(_) => ErrorCode::TooLarge,
        WasiCode::HttpResponseIncomplete | WasiCode::ConnectionTerminated => ErrorCode::Interrupted,
        WasiCode::HttpRequestMethodInvalid | WasiCode::HttpRequestUriInvalid => ErrorCode::Invalid,
        WasiCode::ConfigurationError => ErrorCode::Configuration,
        _ => ErrorCode::Other,
    };
    let origin = request.origin();
    let message = match kind {
        ErrorCode::Denied => format!("{origin} is not granted (allow.http): Informant's log has the line to add"),
        ErrorCode::Other => format!("the request to {origin} failed: {code:?}"),
        kind => format!("the request to {origin} failed: {}", describe(kind)),
    };
    Error::new(kind, message)
}

fn describe(kind: ErrorCode) -> &'static str {
    match kind {
        ErrorCode::AddressProhibited => "the host has an address that plugins must not reach",
        ErrorCode::Unreachable => "the host cannot be reached",
        ErrorCode::Tls => "TLS failed, or the certificate is not valid",
        ErrorCode::Timeout => "no complete response in time",
        ErrorCode::TooLarge => "the body is too large (limits.http-request, limits.http-response)",
        ErrorCode::Interrupted => "the connection ended too early",
        ErrorCode::Configuration => "a file of header-files cannot be used",
        _ => "the request is invalid",
    }
}
