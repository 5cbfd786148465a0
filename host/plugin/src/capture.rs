//! The capture of one call of a handler: what it was about, every reply of the host, and how it ended.
//!
//! ```text
//! Plugin::capture ──▶ Captures ──next call of the key──▶ Recorder ◀──Tape of the instance── capabilities
//!                        ▲                                  │
//!                        └── dropped: nothing is recorded   └─end of the event─▶ Captured
//! ```
//!
//! Without a capture, a call costs one look at a flag, and so does each host function.

mod record;
mod tape;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use informant_cache::Moment;
use informant_cache::listener::Delivery;
use informant_object::{Key, SourceId};
use informant_spec::Digest;
use tokio::sync::oneshot;

pub use self::record::{Captured, HttpAnswer, HttpRecord, KubeFailure, KubeRequest, LogRecord, Record};
pub(crate) use self::tape::{HttpTape, Recorder, Tape};
use crate::sync::lock;

/// Bytes of a capture: 512 KiB of documents, headers, bodies, values and lines. A call that needs more is not captured.
pub const CAPTURE_BYTES_MAX: usize = 512 << 10;

/// Why there is no capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaptureError {
    /// One of the plugin is under way.
    #[error("another call of the plugin is being captured")]
    Busy,
    /// The call has read, sent or received more than [`CAPTURE_BYTES_MAX`].
    #[error("the call has read, sent and received more than {} KiB", CAPTURE_BYTES_MAX >> 10)]
    TooLarge,
    /// The plugin was stopped, or its time to stop was over.
    #[error("the plugin was stopped before its event ended")]
    Stopped,
}

/// A call that is to be captured. Dropping it ends that.
#[derive(Debug)]
pub struct Capture {
    captures: Arc<Captures>,
    done: oneshot::Receiver<Result<Captured, CaptureError>>,
}

/// The captures of one plugin: at most one at a time.
#[derive(Debug, Default)]
pub(crate) struct Captures {
    is_armed: AtomicBool,
    wanted: Mutex<Wanted>,
}

#[derive(Debug, Default)]
struct Wanted {
    is_busy: bool,
    /// The key whose next call is captured.
    next: Option<(SourceId, Key, Arc<Recorder>)>,
}

/// The part of a capture in one call. Without one it does nothing.
#[derive(Debug, Default)]
pub(crate) struct CallCapture(Option<Arc<Recorder>>);

impl Captures {
    /// Captures the next call about the object at `key`.
    pub(crate) fn arm(self: &Arc<Captures>, source: SourceId, key: Key) -> Result<Capture, CaptureError> {
        let mut wanted = lock(&self.wanted);
        if wanted.is_busy {
            return Err(CaptureError::Busy);
        }
        let (sender, done) = oneshot::channel();
        let next = Some((source, key, Arc::new(Recorder::new(sender))));
        *wanted = Wanted { is_busy: true, next };
        self.is_armed.store(true, Ordering::Release);
        let captures = Arc::clone(self);
        Ok(Capture { captures, done })
    }

    /// A call for `delivery` is about to begin.
    pub(crate) fn of_call(&self, delivery: &Delivery) -> CallCapture {
        if !self.is_armed.load(Ordering::Acquire) {
            return CallCapture::default();
        }
        let wanted = lock(&self.wanted);
        let is_wanted = |next: &&(SourceId, Key, Arc<Recorder>)| {
            next.0 == delivery.source && delivery.key() == Some(next.1.as_ref())
        };
        let next = wanted.next.as_ref().filter(is_wanted);
        CallCapture(next.map(|(_, _, recorder)| Arc::clone(recorder)))
    }

    /// Ends the wait for a call; with a recorder, only if it is that one's.
    fn disarm(&self, of: Option<&Arc<Recorder>>) {
        let mut wanted = lock(&self.wanted);
        let is_meant = |next: &(SourceId, Key, Arc<Recorder>)| of.is_none_or(|of| Arc::ptr_eq(of, &next.2));
        if wanted.next.as_ref().is_none_or(is_meant) {
            self.is_armed.store(false, Ordering::Release);
            wanted.next = None;
        }
    }
}

impl Capture {
    /// Waits for the end of the event.
    ///
    /// # Errors
    /// [`CaptureError::TooLarge`] and [`CaptureError::Stopped`].
    pub async fn finished(&mut self) -> Result<Captured, CaptureError> {
        (&mut self.done).await.unwrap_or(Err(CaptureError::Stopped))
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.captures.disarm(None);
        lock(&self.captures.wanted).is_busy = false;
    }
}

impl CallCapture {
    /// Records the call of a version with this digest that begins now, in an instance with this tape.
    pub(crate) fn begin(&self, tape: &Tape, now: Moment, digest: Digest) {
        if let Some(recorder) = &self.0 {
            recorder.begin(now, digest);
            tape.start(recorder);
        }
    }

    /// The call has ended. If none was made, the next one is captured.
    pub(crate) fn ended(&mut self, tape: Option<&Tape>, captures: &Captures) {
        if self.0.is_none() {
            return;
        }
        tape.into_iter().for_each(Tape::stop);
        self.0 = self.0.take().filter(|recorder| recorder.has_call());
        if let Some(recorder) = &self.0 {
            captures.disarm(Some(recorder));
        }
    }

    /// What is to be called at the end of an event that ends later.
    pub(crate) fn take_end(&mut self) -> Option<impl FnOnce() + Send + use<>> {
        let recorder = self.0.take()?;
        Some(move || recorder.finish())
    }

    /// The event has ended, unless it ends later.
    pub(crate) fn finish(&mut self) {
        if let Some(recorder) = self.0.take() {
            recorder.finish();
        }
    }
}

#[cfg(test)]
mod tests;
