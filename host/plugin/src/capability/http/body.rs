//! Bodies with limits: bytes, and the time of the request.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use informant_cache::BoxFuture;
use wasmtime_wasi_http::{Error as WasiError, WasiBody};

use super::metrics::HttpLimit;
use super::plugin::HttpPlugin;
use super::{timed_out, wasi_error};
use crate::capability::http::client::{HttpBody, HttpError, HttpErrorCode};
use crate::capture::HttpTape;

/// A request's body, which may have so many bytes.
pub(super) struct RequestBody {
    pub(super) inner: WasiBody,
    pub(super) left: usize,
    pub(super) plugin: Arc<HttpPlugin>,
    pub(super) tape: HttpTape,
}

/// A response's body, which may have so many bytes, and must end in time.
pub(super) struct ResponseBody {
    pub(super) inner: HttpBody,
    pub(super) left: usize,
    /// Completes when the request's time is over.
    pub(super) late: BoxFuture,
    /// The longest wait for more of the body that the guest accepts.
    pub(super) silence_max: Option<Duration>,
    /// Completes when the present wait has taken that long.
    pub(super) silent: Option<BoxFuture>,
    pub(super) plugin: Arc<HttpPlugin>,
    pub(super) tape: HttpTape,
}

/// Takes the bytes of a frame from `left`; none if there are more.
fn take(left: &mut usize, frame: &Frame<Bytes>) -> Option<()> {
    let bytes = frame.data_ref().map_or(0, Bytes::len);
    *left = left.checked_sub(bytes)?;
    Some(())
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let frame = match ready!(Pin::new(&mut self.inner).poll_frame(context)) {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => {
                let message = format!("the request's body ended too early: {error}");
                return Poll::Ready(Some(Err(HttpError::new(HttpErrorCode::Interrupted, message))));
            }
            None => return Poll::Ready(None),
        };
        if take(&mut self.left, &frame).is_none() {
            self.plugin.series.count_limited(HttpLimit::Request);
            let max = self.plugin.limits().http_request_bytes;
            let message = format!("the request's body exceeds {max} bytes (limits.http-request)");
            return Poll::Ready(Some(Err(HttpError::new(HttpErrorCode::RequestTooLarge, message))));
        }
        frame.data_ref().into_iter().for_each(|data| self.tape.sent(data));
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl ResponseBody {
    /// Nothing has arrived: an error if that has been so for as long as the guest accepts.
    fn poll_silence<T>(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<T, WasiError>>> {
        let Some(max) = self.silence_max else {
            return Poll::Pending;
        };
        let ResponseBody { silent, plugin, .. } = self;
        let silent = silent.get_or_insert_with(|| plugin.env.sleep(max));
        ready!(silent.as_mut().poll(context));
        // Not polled again: the stream ends with an error.
        self.silent = None;
        Poll::Ready(Some(Err(WasiError::ConnectionReadTimeout)))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = WasiError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, WasiError>>> {
        // First, so that a body that always has bytes ends, too.
        if self.late.as_mut().poll(context).is_ready() {
            // Not polled again: the stream ends with an error.
            self.late = Box::pin(std::future::ready(()));
            self.plugin.series.count_limited(HttpLimit::Time);
            return Poll::Ready(Some(Err(wasi_error(timed_out("the body of the response")))));
        }
        let Poll::Ready(polled) = Pin::new(&mut self.inner).poll_frame(context) else {
            return self.poll_silence(context);
        };
        self.silent = None;
        let frame = match polled {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Poll::Ready(Some(Err(wasi_error(error)))),
            None => return Poll::Ready(None),
        };
        if take(&mut self.left, &frame).is_none() {
            self.plugin.series.count_limited(HttpLimit::Response);
            let max = self.plugin.limits().http_response_bytes;
            return Poll::Ready(Some(Err(WasiError::HttpResponseBodySize(Some(max as u64)))));
        }
        frame.data_ref().into_iter().for_each(|data| self.tape.received(data));
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
