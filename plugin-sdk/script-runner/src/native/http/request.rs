//! One HTTP request, from its first byte to the last one of the response.

use crate::bindings::wasi::http::outgoing_handler::handle;
use crate::bindings::wasi::http::types::{
    ErrorCode, Fields, FutureIncomingResponse, HeaderError, IncomingBody, IncomingResponse, Method, OutgoingBody,
    OutgoingRequest, Scheme, http_error_code,
};
use crate::bindings::wasi::io::poll::Pollable;
use crate::bindings::wasi::io::streams::{InputStream, OutputStream, StreamError};

/// Bytes that are read from a body at once: 64 KiB.
const READ_BYTES_MAX: u64 = 64 << 10;

/// A request in flight.
pub(super) struct Request {
    /// Until the whole body is written. Fields are dropped in order: streams before what they belong to.
    upload: Option<Upload>,
    stage: Stage,
}

/// The body that is being written.
struct Upload {
    stream: OutputStream,
    body: OutgoingBody,
    bytes: Vec<u8>,
    written: usize,
}

enum Stage {
    /// Waits for the response to begin.
    Waiting(FutureIncomingResponse),
    /// Reads the response's body.
    Reading {
        stream: InputStream,
        _body: IncomingBody,
        _response: IncomingResponse,
        read: Response,
    },
}

/// A complete response.
#[derive(Default)]
pub(super) struct Response {
    pub(super) status: u16,
    /// Names and values in turn.
    pub(super) headers: Vec<String>,
    pub(super) body: Vec<u8>,
}

/// Why there is no response.
pub(super) struct Failure {
    pub(super) code: &'static str,
    pub(super) message: String,
}

impl Request {
    /// Starts a request. See [`super::start`] for the parameters.
    pub(super) fn start(method: &str, url: &[String], headers: &[String], body: Vec<u8>) -> Result<Request, Failure> {
        let [scheme, authority, path] = url else {
            return Err(invalid("the URL is incomplete"));
        };
        let fields = Fields::new();
        for pair in headers.chunks_exact(2) {
            let appended = fields.append(&pair[0], pair[1].as_bytes());
            appended.map_err(|error| invalid(&header_refused(&pair[0], error)))?;
        }
        if !body.is_empty() {
            // Without it the body is sent in chunks, which some services refuse.
            let length = body.len().to_string().into_bytes();
            let set = fields.set("content-length", &[length]);
            set.map_err(|error| invalid(&header_refused("content-length", error)))?;
        }
        let request = OutgoingRequest::new(fields);
        let set = request
            .set_method(&method_of(method))
            .and_then(|()| request.set_scheme(Some(&scheme_of(scheme))))
            .and_then(|()| request.set_authority(Some(authority)))
            .and_then(|()| request.set_path_with_query(Some(path)));
        set.map_err(|()| invalid("its method or URL has characters that are not allowed"))?;
        let upload = match body.is_empty() {
            true => None,
            false => Some(Upload::of(&request, body).map_err(|()| invalid("its body cannot be written"))?),
        };
        let future = handle(request, None).map_err(|error| failure(&error))?;
        Ok(Request {
            upload,
            stage: Stage::Waiting(future),
        })
    }

    /// Ready when [`advance`](Self::advance) can do more.
    pub(super) fn subscribe(&self) -> Pollable {
        match (&self.upload, &self.stage) {
            (Some(upload), _) => upload.stream.subscribe(),
            (None, Stage::Waiting(future)) => future.subscribe(),
            (None, Stage::Reading { stream, .. }) => stream.subscribe(),
        }
    }

    /// Does what is possible without waiting. Returns the outcome once there is one.
    pub(super) fn advance(&mut self) -> Option<Result<Response, Failure>> {
        if let Some(upload) = &mut self.upload {
            if !upload.advance() {
                return None;
            }
            // Whatever became of the body: the response says it.
            self.upload.take().map(Upload::finish);
        }
        match &mut self.stage {
            Stage::Waiting(future) => match future.get()? {
                Ok(Ok(response)) => match reading(response) {
                    Ok(stage) => {
                        self.stage = stage;
                        None
                    }
                    Err(()) => Some(Err(interrupted())),
                },
                Ok(Err(error)) => Some(Err(failure(&error))),
                Err(()) => Some(Err(interrupted())),
            },
            Stage::Reading { stream, read, .. } => match stream.read(READ_BYTES_MAX) {
                Ok(bytes) => {
                    read.body.extend(bytes);
                    None
                }
                Err(StreamError::Closed) => Some(Ok(std::mem::take(read))),
                Err(StreamError::LastOperationFailed(error)) => Some(Err(
                    http_error_code(&error).map_or_else(interrupted, |error| failure(&error))
                )),
            },
        }
    }
}

impl Upload {
    fn of(request: &OutgoingRequest, bytes: Vec<u8>) -> Result<Upload, ()> {
        let body = request.body()?;
        Ok(Upload {
            stream: body.write()?,
            body,
            bytes,
            written: 0,
        })
    }

    /// Writes what is possible without waiting. Returns whether it has ended, complete or not.
    fn advance(&mut self) -> bool {
        let Ok(possible) = self.stream.check_write() else {
            return true;
        };
        let left = &self.bytes[self.written..];
        let now = left.len().min(usize::try_from(possible).unwrap_or(usize::MAX));
        if now > 0 && self.stream.write(&left[..now]).is_err() {
            return true;
        }
        self.written += now;
        self.written == self.bytes.len()
    }

    fn finish(self) {
        drop(self.stream);
        // An incomplete body is an error of the request, which its response reports.
        let _ = OutgoingBody::finish(self.body, None);
    }
}

/// The stage after a response has begun.
fn reading(response: IncomingResponse) -> Result<Stage, ()> {
    let headers = response.headers().entries();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let read = Response {
        status: response.status(),
        headers: headers
            .into_iter()
            .flat_map(|(name, value)| [name, text(&value)])
            .collect(),
        body: Vec::new(),
    };
    let body = response.consume()?;
    Ok(Stage::Reading {
        stream: body.stream()?,
        _body: body,
        _response: response,
        read,
    })
}

fn method_of(name: &str) -> Method {
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

fn scheme_of(name: &str) -> Scheme {
    match name {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        other => Scheme::Other(other.to_owned()),
    }
}

fn invalid(message: &str) -> Failure {
    Failure {
        code: "invalid",
        message: message.to_owned(),
    }
}

fn interrupted() -> Failure {
    Failure {
        code: "interrupted",
        message: "the connection ended before the response did".to_owned(),
    }
}

fn header_refused(name: &str, error: HeaderError) -> String {
    match error {
        HeaderError::Forbidden => format!("scripts cannot set the header {name}"),
        _ => format!("the header {name} or its value is invalid"),
    }
}

/// The codes are those in the metrics of the host.
fn failure(error: &ErrorCode) -> Failure {
    let (code, message) = match error {
        ErrorCode::HttpRequestDenied => (
            "denied",
            "not granted; the log names the line for config.toml, or the reason",
        ),
        ErrorCode::DestinationIpProhibited => {
            ("address", "its name resolves to an address that plugins must not reach")
        }
        ErrorCode::DnsError(_) | ErrorCode::DnsTimeout | ErrorCode::DestinationNotFound => {
            ("dns", "its name cannot be resolved")
        }
        ErrorCode::ConnectionRefused => ("connect", "no connection"),
        ErrorCode::ConnectionTimeout => ("connect-timeout", "no connection in time"),
        ErrorCode::TlsCertificateError => ("certificate", "its certificate is not valid"),
        ErrorCode::TlsProtocolError | ErrorCode::TlsAlertReceived(_) => ("tls", "the TLS handshake failed"),
        ErrorCode::HttpResponseTimeout | ErrorCode::ConnectionReadTimeout | ErrorCode::ConnectionWriteTimeout => (
            "timeout",
            "no complete response in time (limits.http-time, or nine tenths of limits.call)",
        ),
        ErrorCode::HttpRequestBodySize(_) => (
            "request-too-large",
            "the body of the request exceeds limits.http-request",
        ),
        ErrorCode::HttpResponseBodySize(_) => (
            "response-too-large",
            "the body of the response exceeds limits.http-response",
        ),
        ErrorCode::HttpResponseIncomplete | ErrorCode::ConnectionTerminated => return interrupted(),
        ErrorCode::ConfigurationError => ("header-file", "the file of a header cannot be used; the log names it"),
        ErrorCode::DestinationUnavailable => ("unavailable", "Informant is stopping, or has no network"),
        other => {
            return Failure {
                code: "protocol",
                message: format!("the request or the response is invalid ({other:?})"),
            };
        }
    };
    Failure {
        code,
        message: message.to_owned(),
    }
}
