//! What the tests of this room share: an API server that answers from a script, without sockets.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;

use bytes::Bytes;
use futures::channel::mpsc;
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::Client;
use kube::client::Body;

/// The body of a scripted answer.
pub(crate) type TestBody = UnsyncBoxBody<Bytes, io::Error>;

/// A client whose requests are answered by `answer`. Needs a running runtime.
pub(crate) fn client<F>(mut answer: F) -> Client
where
    F: FnMut(&Request<Body>) -> Response<TestBody> + Send + 'static,
{
    let service = tower::service_fn(move |request: Request<Body>| -> Ready<Result<_, Infallible>> {
        ready(Ok(answer(&request)))
    });
    Client::new(service, "default")
}

/// An answer with status 200 and a JSON body.
pub(crate) fn json(body: impl Into<String>) -> Response<TestBody> {
    answer(200, "application/json", body)
}

/// A `Status` as an API server refuses with.
pub(crate) fn refusal(code: u16, reason: &str, message: &str) -> Response<TestBody> {
    let body = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message,
    });
    answer(code, "application/json", body.to_string())
}

/// Any answer with a whole body.
pub(crate) fn answer(code: u16, content_type: &str, body: impl Into<String>) -> Response<TestBody> {
    let body = Full::new(Bytes::from(body.into())).map_err(|never| match never {}).boxed_unsync();
    respond(code, content_type, body)
}

/// An answer whose body is written while it is read.
pub(crate) fn streamed() -> (Writer, Response<TestBody>) {
    let (sender, receiver) = mpsc::unbounded();
    (Writer(sender), respond(200, "application/json", StreamBody::new(receiver).boxed_unsync()))
}

/// The writing end of a [`streamed`] answer. Dropping it ends the body cleanly.
pub(crate) struct Writer(mpsc::UnboundedSender<Result<Frame<Bytes>, io::Error>>);

impl Writer {
    /// Writes one frame; whether anybody still reads.
    pub(crate) fn write(&self, frame: impl Into<Bytes>) -> bool {
        self.0.unbounded_send(Ok(Frame::data(frame.into()))).is_ok()
    }

    /// Breaks the connection.
    pub(crate) fn reset(self) {
        let _ = self.0.unbounded_send(Err(io::Error::from(io::ErrorKind::ConnectionReset)));
    }

    /// Whether the reader is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }
}

fn respond(code: u16, content_type: &str, body: TestBody) -> Response<TestBody> {
    let status = StatusCode::from_u16(code).expect("a status code");
    Response::builder().status(status).header("content-type", content_type).body(body).expect("a response")
}
