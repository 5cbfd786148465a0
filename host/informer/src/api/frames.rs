//! Reads the body of a response, frame by frame, with a silence timeout.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::Body as _;
use informant_cache::seeded_bug::{SeededBug, seeded_bug};
use informant_cache::{Environment, Moment};
use kube::client::Body;

use super::error::ApiError;
use crate::cluster_client::{CLUSTER_SILENCE_MAX, ClusterLink};

/// How long a body may stay silent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SilenceTimeout {
    /// Until then, silence is allowed.
    pub(crate) until: Moment,
    /// After that, the longest time without data.
    pub(crate) silence: Duration,
}

impl SilenceTimeout {
    /// Silence is allowed for this long, from the start.
    pub(crate) fn after(silence: Duration) -> Self {
        let until = Moment::ZERO;
        Self { until, silence }
    }
}

/// A piece of a body, and when it was read.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) bytes: Bytes,
    pub(crate) received: Moment,
}

/// Reads a body. One clock read per frame, and no timer that is reset for each: a timer that fires checks whether it
/// still applies.
pub(crate) struct Frames {
    body: Body,
    environment: Arc<dyn Environment>,
    silence_timeout: SilenceTimeout,
    last: Moment,
    timer: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// How the body ended, found by [`next_ready`](Frames::next_ready) and returned by [`next`](Frames::next).
    end: Option<Result<(), ApiError>>,
    /// Asked whether the cluster is alive while nothing arrives here.
    link: Option<ClusterLink>,
    /// When the cluster last learned that something arrived here.
    reported: Moment,
}

/// At most this often a connection reports to its cluster that something arrived: the sources of a cluster share one
/// cell for it, and busy ones must not compete for it.
const REPORT_PERIOD: Duration = Duration::from_secs(1);

impl Frames {
    pub(crate) fn new(body: Body, environment: Arc<dyn Environment>, silence_timeout: SilenceTimeout) -> Self {
        let now = environment.now();
        let timer = environment.sleep(deadline(silence_timeout, now) - now);
        Self {
            body,
            environment,
            silence_timeout,
            last: now,
            timer,
            end: None,
            link: None,
            reported: now,
        }
    }

    /// Like [`new`](Self::new), and silence makes it ask the cluster for a sign of life.
    pub(crate) fn of_source(body: Body, link: &ClusterLink, silence_timeout: SilenceTimeout) -> Self {
        let mut frames = Self::new(body, Arc::clone(&link.environment), silence_timeout);
        frames.link = Some(link.clone());
        frames.set_timer(frames.last);
        frames
    }

    /// Sets another timeout, counted from the last frame.
    pub(crate) fn set_silence_timeout(&mut self, silence_timeout: SilenceTimeout) {
        if silence_timeout != self.silence_timeout {
            self.silence_timeout = silence_timeout;
            self.set_timer(self.environment.now());
        }
    }

    /// Sets the timer to the next moment at which silence means something.
    fn set_timer(&mut self, now: Moment) {
        let mut next = deadline(self.silence_timeout, self.last);
        if self.link.is_some() {
            next = next.min(self.last + CLUSTER_SILENCE_MAX);
        }
        self.timer = self.environment.sleep(next - now);
    }

    /// Restarts the silence timeout: the reader was busy elsewhere, and what it did not read does not count as silence.
    pub(crate) fn touch(&mut self, now: Moment) {
        self.last = now;
    }

    /// The next frame with data; `None` is the end of the body.
    ///
    /// # Errors
    /// [`ApiError::Silent`] after the deadline, [`ApiError::Unresponsive`] if nothing arrives from the whole cluster,
    /// [`ApiError::Broken`] if the connection breaks.
    pub(crate) async fn next(&mut self) -> Result<Option<Frame>, ApiError> {
        if let Some(end) = self.end.take() {
            return end.map(|()| None);
        }
        loop {
            tokio::select! {
                biased;
                data = poll_fn(|context| poll_data(&mut self.body, context)) => {
                    return Ok(data?.map(|bytes| self.received(bytes)));
                }
                () = &mut self.timer => {}
            }
            let now = self.environment.now();
            if now >= deadline(self.silence_timeout, self.last) {
                return Err(ApiError::Silent(now - self.last));
            }
            let Some(link) = self.link.as_ref().filter(|_| now - self.last >= CLUSTER_SILENCE_MAX) else {
                // Something arrived since the timer was set.
                self.set_timer(now);
                continue;
            };
            tokio::select! {
                biased;
                data = poll_fn(|context| poll_data(&mut self.body, context)) => {
                    return Ok(data?.map(|bytes| self.received(bytes)));
                }
                alive = link.sign_of_life() => {
                    let next = deadline(self.silence_timeout, self.last).min(alive? + CLUSTER_SILENCE_MAX);
                    self.timer = self.environment.sleep(next - self.environment.now());
                }
            }
        }
    }

    fn received(&mut self, bytes: Bytes) -> Frame {
        self.last = self.environment.now();
        if let Some(link) = &self.link
            && self.last - self.reported >= REPORT_PERIOD
        {
            self.reported = self.last;
            link.received(self.last);
        }
        Frame {
            bytes,
            received: self.last,
        }
    }

    /// The next frame with data, if it is ready. The connection is a task of its own, which holds one frame ready and
    /// reads on when that is taken: so it gets one turn before the result is `None`. The end of the body is kept for
    /// [`next`](Self::next).
    pub(crate) async fn next_ready(&mut self) -> Option<Bytes> {
        if self.end.is_some() {
            return None;
        }
        let mut yielded = false;
        poll_fn(|context| match poll_data(&mut self.body, context) {
            Poll::Ready(Ok(Some(bytes))) => Poll::Ready(Some(bytes)),
            Poll::Ready(end) => {
                self.end = Some(end.map(drop));
                Poll::Ready(None)
            }
            Poll::Pending if yielded => Poll::Ready(None),
            Poll::Pending => {
                yielded = true;
                // Runs after the tasks that are ready, and before the runtime waits: without polling sockets.
                context.waker().wake_by_ref();
                Poll::Pending
            }
        })
        .await
    }
}

/// The next data of a body; `None` at its end. Trailers are ignored.
fn poll_data(body: &mut Body, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, ApiError>> {
    loop {
        let Some(frame) = std::task::ready!(Pin::new(&mut *body).poll_frame(context)) else {
            return Poll::Ready(Ok(None));
        };
        let frame = frame.map_err(|error| ApiError::Broken(Box::new(error)))?;
        if let Ok(bytes) = frame.into_data() {
            return Poll::Ready(Ok(Some(bytes)));
        }
    }
}

fn deadline(silence_timeout: SilenceTimeout, last: Moment) -> Moment {
    if seeded_bug(SeededBug::SilentWatchStaysLive) {
        return Moment::NEVER;
    }
    silence_timeout.until.max(last + silence_timeout.silence)
}

#[cfg(test)]
mod tests {
    use futures::SinkExt as _;
    use futures::channel::mpsc;
    use http::{Request, Response};
    use http_body::Frame as BodyFrame;
    use http_body_util::{BodyExt as _, StreamBody};

    use super::*;
    use crate::TokioEnvironment;
    use crate::testing::client;

    type Sender = mpsc::Sender<Result<BodyFrame<Bytes>, std::io::Error>>;

    /// A body that holds one frame ready, like a connection.
    async fn frames() -> (Sender, Frames) {
        let (sender, receiver) = mpsc::channel(0);
        let mut body = Some(StreamBody::new(receiver).boxed_unsync());
        let client = client(move |_| Response::new(body.take().expect("one request")));
        let request = Request::get("/").body(Body::empty()).expect("a request");
        let body = client.send(request).await.expect("an answer").into_body();
        let silence_timeout = SilenceTimeout {
            until: Moment::ZERO,
            silence: Duration::from_secs(60),
        };
        let frames = Frames::new(body, Arc::new(TokioEnvironment::current(1)), silence_timeout);
        (sender, frames)
    }

    async fn send(sender: &mut Sender, texts: &[&'static str]) {
        for text in texts {
            let frame = BodyFrame::data(Bytes::from_static(text.as_bytes()));
            sender.send(Ok(frame)).await.expect("somebody reads");
        }
    }

    async fn next(frames: &mut Frames) -> Option<Bytes> {
        frames.next().await.expect("no error").map(|frame| frame.bytes)
    }

    #[tokio::test(start_paused = true)]
    async fn next_ready_returns_only_frames_that_already_arrived() {
        let (mut sender, mut frames) = frames().await;
        let connection = tokio::spawn(async move {
            send(&mut sender, &["a", "b", "c"]).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            send(&mut sender, &["d"]).await;
            sender
        });
        assert_eq!(next(&mut frames).await.unwrap(), "a");
        assert_eq!(frames.next_ready().await.unwrap(), "b");
        assert_eq!(frames.next_ready().await.unwrap(), "c");
        assert_eq!(frames.next_ready().await, None);
        assert_eq!(next(&mut frames).await.unwrap(), "d");
        assert_eq!(frames.next_ready().await, None);
        drop(connection.await.unwrap());
        assert_eq!(frames.next_ready().await, None, "the end is for `next`");
        assert_eq!(next(&mut frames).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_broken_connection_is_reported_after_the_last_frame() {
        let (mut sender, mut frames) = frames().await;
        tokio::spawn(async move {
            send(&mut sender, &["a"]).await;
            let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
            sender.send(Err(reset)).await.expect("somebody reads");
        });
        assert_eq!(next(&mut frames).await.unwrap(), "a");
        assert_eq!(frames.next_ready().await, None);
        assert!(matches!(frames.next().await, Err(ApiError::Broken(_))));
    }
}
