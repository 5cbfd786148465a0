//! The body of an answer, frame by frame, with a deadline on silence.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use informant_cache::{Environment, Moment};
use kube::client::Body;

use super::error::ApiError;

/// How long a body may stay silent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Patience {
    /// Until then, silence is no fault.
    pub(crate) until: Moment,
    /// After that, how long nothing may come.
    pub(crate) silence: Duration,
}

/// A piece of a body, and when it was read.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) bytes: Bytes,
    pub(crate) received: Moment,
}

/// Reads a body. One clock read per frame and no timer that is set anew for each: a timer that fires finds out whether it still matters.
pub(crate) struct Frames {
    body: Body,
    environment: Arc<dyn Environment>,
    patience: Patience,
    last: Moment,
    timer: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Frames {
    pub(crate) fn new(body: Body, environment: Arc<dyn Environment>, patience: Patience) -> Self {
        let now = environment.now();
        let timer = environment.sleep(deadline(patience, now) - now);
        Self {
            body,
            environment,
            patience,
            last: now,
            timer,
        }
    }

    /// Sets another patience, counted from the last frame on.
    pub(crate) fn set_patience(&mut self, patience: Patience) {
        if patience != self.patience {
            self.patience = patience;
            self.timer = self
                .environment
                .sleep(deadline(patience, self.last) - self.environment.now());
        }
    }

    /// Begins silence anew: the reader was busy elsewhere, and what it did not read cannot count as silence.
    pub(crate) fn touch(&mut self, now: Moment) {
        self.last = now;
    }

    /// The next frame with data; `None` is the end of the body.
    ///
    /// # Errors
    /// [`ApiError::Silent`] after the deadline, [`ApiError::Broken`] if the connection breaks.
    pub(crate) async fn next(&mut self) -> Result<Option<Frame>, ApiError> {
        loop {
            tokio::select! {
                biased;
                frame = self.body.frame() => {
                    let Some(frame) = frame else { return Ok(None) };
                    let frame = frame.map_err(|error| ApiError::Broken(Box::new(error)))?;
                    self.last = self.environment.now();
                    // Trailers say nothing that is needed.
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(Frame { bytes, received: self.last }));
                    }
                }
                () = &mut self.timer => {
                    let now = self.environment.now();
                    let deadline = deadline(self.patience, self.last);
                    if now >= deadline {
                        return Err(ApiError::Silent(now - self.last));
                    }
                    self.timer = self.environment.sleep(deadline - now);
                }
            }
        }
    }
}

fn deadline(patience: Patience, last: Moment) -> Moment {
    patience.until.max(last + patience.silence)
}
