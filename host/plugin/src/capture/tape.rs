//! What records one call: the tape of its instance, and the recorder, which outlives the call until its event ends.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use informant_cache::Moment;
use informant_cache::listener::Notification;
use informant_object::Object;
use informant_spec::Digest;
use tokio::sync::oneshot;

use super::record::{Captured, HttpAnswer, HttpRecord, Record, headers_bytes};
use super::{CAPTURE_BYTES_MAX, CaptureError};
use crate::observed::ObservedCall;
use crate::sync::lock;

/// Bytes that a record takes besides its content.
const OVERHEAD_BYTES: usize = 64;

/// Where the parts of one instance record. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tape(Arc<TapeParts>);

#[derive(Debug, Default)]
struct TapeParts {
    runs: AtomicBool,
    recorder: Mutex<Option<Arc<Recorder>>>,
}

/// Records one call.
pub(crate) struct Recorder(Mutex<Recording>);

struct Recording {
    /// When the call began, and the digest of what was called.
    begun: Option<(Moment, Digest)>,
    /// What the guest first read from its clock.
    clock: Option<Duration>,
    call: Option<ObservedCall>,
    /// The state that the event is about, that before, and whether a delete was not observed.
    event: (Option<Object>, Option<Object>, bool),
    records: Vec<Record>,
    bytes: usize,
    done: Option<oneshot::Sender<Result<Captured, CaptureError>>>,
}

/// Where the bodies of one request are recorded. Without a recorder it does nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct HttpTape(Option<(Arc<Recorder>, usize)>);

impl Tape {
    pub(super) fn start(&self, recorder: &Arc<Recorder>) {
        *lock(&self.0.recorder) = Some(Arc::clone(recorder));
        self.0.runs.store(true, Ordering::Release);
    }

    pub(super) fn stop(&self) {
        self.0.runs.store(false, Ordering::Release);
        *lock(&self.0.recorder) = None;
    }

    pub(crate) fn runs(&self) -> bool {
        self.0.runs.load(Ordering::Acquire)
    }

    /// The recorder of the present call, if it is captured.
    pub(crate) fn recorder(&self) -> Option<Arc<Recorder>> {
        match self.runs() {
            true => lock(&self.0.recorder).clone(),
            false => None,
        }
    }

    pub(crate) fn record(&self, record: impl FnOnce() -> Record) {
        if let Some(recorder) = self.recorder() {
            recorder.record(record());
        }
    }

    /// The present call is about this event.
    pub(crate) fn event(&self, notification: &Notification) {
        let Some(recorder) = self.recorder() else { return };
        lock(&recorder.0).event = match notification {
            Notification::Add(object) => (Some(object.clone()), None, false),
            Notification::Update { old, new } => (Some(new.clone()), old.clone(), false),
            Notification::Delete {
                last,
                final_state_unknown,
                ..
            } => (last.clone(), None, *final_state_unknown),
            Notification::Synced | Notification::Tick(_) => (None, None, false),
        };
    }

    /// The guest reads its clock.
    pub(crate) fn read_clock(&self, now: Duration) {
        if let Some(recorder) = self.recorder() {
            lock(&recorder.0).clock.get_or_insert(now);
        }
    }

    /// The present call sends a request.
    pub(crate) fn http<B>(&self, request: &Request<B>) -> HttpTape {
        let begun = self.recorder().map(|recorder| {
            let number = recorder.record(Record::Http(Box::new(HttpRecord {
                method: request.method().to_string(),
                url: request.uri().to_string(),
                headers: request.headers().clone(),
                body: Vec::new(),
                answer: None,
            })));
            (recorder, number)
        });
        HttpTape(begun)
    }
}

impl Recorder {
    pub(super) fn new(done: oneshot::Sender<Result<Captured, CaptureError>>) -> Recorder {
        Recorder(Mutex::new(Recording {
            begun: None,
            clock: None,
            call: None,
            event: (None, None, false),
            records: Vec::new(),
            bytes: 0,
            done: Some(done),
        }))
    }

    pub(super) fn begin(&self, now: Moment, digest: Digest) {
        lock(&self.0).begun = Some((now, digest));
    }

    /// The guest has answered.
    pub(crate) fn called(&self, call: ObservedCall) {
        lock(&self.0).call = Some(call);
    }

    pub(super) fn has_call(&self) -> bool {
        lock(&self.0).call.is_some()
    }

    /// Returns the position of the record.
    pub(crate) fn record(&self, record: Record) -> usize {
        let mut recording = lock(&self.0);
        recording.bytes += record.size_bytes() + OVERHEAD_BYTES;
        // Above the limit nothing is kept: it is lost anyway.
        if !recording.is_too_large() {
            recording.records.push(record);
        }
        recording.records.len().saturating_sub(1)
    }

    /// The event has ended.
    pub(super) fn finish(&self) {
        let mut recording = lock(&self.0);
        let captured = recording.captured();
        if let (Some(done), Some(captured)) = (recording.done.take(), captured) {
            // The request may have ended.
            let _ = done.send(captured);
        }
    }
}

impl Recording {
    fn is_too_large(&self) -> bool {
        let (object, old, _) = &self.event;
        let of_event = [object, old].into_iter().flatten();
        let of_event: usize = of_event.map(|object| object.json().len()).sum();
        self.bytes + of_event > CAPTURE_BYTES_MAX
    }

    fn captured(&mut self) -> Option<Result<Captured, CaptureError>> {
        let (call, (began, digest)) = (self.call.take()?, self.begun?);
        if self.is_too_large() {
            return Some(Err(CaptureError::TooLarge));
        }
        let (object, old, final_state_unknown) = std::mem::take(&mut self.event);
        // An object that no longer matches was deleted for the handler.
        let (object, old) = match (call.function, old) {
            ("on-delete", Some(old)) => (Some(old), None),
            (_, old) => (object, old),
        };
        Some(Ok(Captured {
            began,
            digest,
            clock: self.clock,
            call,
            object,
            old,
            final_state_unknown,
            records: std::mem::take(&mut self.records),
        }))
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its content may be secret.
        f.write_str("Recorder")
    }
}

impl PartialEq for Recorder {
    fn eq(&self, other: &Recorder) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Recorder {}

impl HttpTape {
    fn change(&self, bytes: usize, change: impl FnOnce(&mut HttpRecord)) {
        let Some((recorder, number)) = &self.0 else { return };
        let mut recording = lock(&recorder.0);
        recording.bytes += bytes;
        if recording.is_too_large() {
            return;
        }
        if let Some(Record::Http(http)) = recording.records.get_mut(*number) {
            change(http);
        }
    }

    /// A part of the request's body was sent.
    pub(crate) fn sent(&self, bytes: &[u8]) {
        self.change(bytes.len(), |http| http.body.extend_from_slice(bytes));
    }

    /// A response begins.
    pub(crate) fn response<B>(&self, response: &Response<B>) {
        if self.0.is_none() {
            return;
        }
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        self.change(headers_bytes(&headers), |http| {
            let body = Vec::new();
            http.answer = Some(HttpAnswer::Response { status, headers, body });
        });
    }

    /// A part of its body was received.
    pub(crate) fn received(&self, bytes: &[u8]) {
        self.change(bytes.len(), |http| {
            if let Some(HttpAnswer::Response { body, .. }) = &mut http.answer {
                body.extend_from_slice(bytes);
            }
        });
    }

    /// There is no response.
    pub(crate) fn failed(&self, code: &'static str) {
        self.change(0, |http| http.answer = Some(HttpAnswer::Failed(code)));
    }
}
