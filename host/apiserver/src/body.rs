//! Responses and their bodies: complete, or a stream fed by a watch, a long list or a fault.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use http::{HeaderValue, Response, StatusCode, header};
use http_body::{Frame, SizeHint};
use serde_json::Value;

pub(crate) type Frames = Pin<Box<dyn Stream<Item = Result<Bytes, BodyError>> + Send>>;

/// The body of every response.
pub struct Body(Kind);

enum Kind {
    Whole(Option<Bytes>),
    Frames(Frames),
}

impl Body {
    /// A complete body.
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self(Kind::Whole((!bytes.is_empty()).then_some(bytes)))
    }

    /// A body whose frames arrive over time.
    pub(crate) fn frames(frames: impl Stream<Item = Result<Bytes, BodyError>> + Send + 'static) -> Self {
        Self(Kind::Frames(Box::pin(frames)))
    }

    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.0, Kind::Whole(_))
    }

    pub(crate) fn into_frames(self) -> Frames {
        match self.0 {
            Kind::Whole(bytes) => Box::pin(futures::stream::iter(bytes.map(Ok))),
            Kind::Frames(frames) => frames,
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.0 {
            Kind::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Frames(frames) => frames
                .as_mut()
                .poll_next(context)
                .map(|next| next.map(|it| it.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Kind::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Kind::Frames(_) => SizeHint::new(),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Whole(bytes) => write!(f, "Body({} bytes)", bytes.as_ref().map_or(0, Bytes::len)),
            Kind::Frames(_) => f.write_str("Body(stream)"),
        }
    }
}

/// The body was reset before its end. A listener cuts the connection; a reader of the service gets this error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the embedded API server reset the connection because of a fault or a restart")]
pub struct BodyError;

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

pub(crate) fn json(code: u16, body: &Value) -> Response<Body> {
    json_bytes(code, body.to_string())
}

pub(crate) fn text(code: u16, body: &'static str) -> Response<Body> {
    with_type(code, "text/plain; charset=utf-8", Body::whole(body))
}
