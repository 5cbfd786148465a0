//! Complete responses.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::Value;

use crate::body::Body;

/// A response with a body of this type.
pub(crate) fn with_type(code: u16, content_type: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// A JSON response that is already serialized.
pub(crate) fn json_bytes(code: u16, body: impl Into<Bytes>) -> Response<Body> {
    with_type(code, "application/json", Body::whole(body))
}

/// A JSON response.
pub(crate) fn json(code: u16, body: &Value) -> Response<Body> {
    json_bytes(code, body.to_string())
}

/// A line of text.
pub(crate) fn text(code: u16, body: &'static str) -> Response<Body> {
    with_type(code, "text/plain; charset=utf-8", Body::whole(body))
}
