//! One open watch, as the stream that its body is made of.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{Request, line};
use crate::body::BodyError;
use crate::clock::Sleep;
use crate::fault::{Ending, Injection};
use crate::kinds::Kind;
use crate::options::LAST_BOOKMARK_LEAD;
use crate::replica_cache::ReplicaCache;
use crate::representation::Representation;
use crate::selection::Selection;
use crate::state::ServerState;
use crate::status::Status;
use crate::stored::Stored;
use crate::watches::{Control, WatchCommand};

/// Approximate size of the pending events in one frame.
const FRAME_BYTES: usize = 64 * 1024;

pub(super) struct Start {
    /// Shown as ADDED first.
    pub(super) initial: Vec<Arc<Stored>>,
    /// The version up to which the client has seen everything after that.
    pub(super) cursor: u64,
    /// The latest revision when the watch was opened; older events do not count towards the client's backlog.
    pub(super) opened_at: u64,
}

pub(super) struct WatchStream {
    state: Arc<ServerState>,
    cache: Arc<ReplicaCache>,
    id: u64,
    control: Arc<Control>,
    restart: CancellationToken,
    changed: Arc<Notify>,
    slot: usize,
    kind: Arc<Kind>,
    selection: Selection,
    representation: Representation,
    initial: std::vec::IntoIter<Arc<Stored>>,
    /// The bookmark that ends a WatchList's initial events is still to come.
    initial_end_due: bool,
    cursor: u64,
    opened_at: u64,
    bookmarks: bool,
    /// It was requested from a version that this replica has not reached: until then it is silent, as in
    /// kube-apiserver.
    is_ahead: bool,
    next_bookmark: Duration,
    deadline: Duration,
    timer: Option<(Duration, Sleep)>,
    /// Padding of an injected line that is still to come, in bytes.
    padding_left: Option<usize>,
    frozen: bool,
    /// How the next line breaks off.
    cut: Option<Ending>,
    columns_sent: bool,
    /// The kind is no longer served, and all of its events have been sent.
    retired: bool,
    ended: bool,
    reset_due: bool,
}

enum WatchStep {
    Frame(Bytes),
    Reset,
    End,
    /// Idle until the next event or, if set, this time.
    Wait(Option<Duration>),
}

impl WatchStream {
    pub(super) fn new(state: Arc<ServerState>, cache: Arc<ReplicaCache>, request: Request, start: Start) -> Self {
        let now = state.options.clock.now();
        let (changed, timeout) = {
            let mut store = state.store();
            let least = state.options.watch_timeout_min;
            let random = store.random.next() as f64 / u64::MAX as f64;
            let timeout = request.options.timeout.filter(|timeout| !timeout.is_zero());
            (
                Arc::clone(&store.collection(request.served.slot).changed),
                timeout.unwrap_or_else(|| least.mul_f64(1.0 + random)),
            )
        };
        let (id, control) = state.watches().add(request.attributes);
        let deadline = now.saturating_add(timeout);
        Self {
            restart: state.restart_token(),
            cache,
            id,
            control,
            changed,
            slot: request.served.slot,
            kind: request.served.kind,
            selection: request.selection,
            representation: request.representation,
            initial: start.initial.into_iter(),
            initial_end_due: request.options.send_initial_events == Some(true) && request.options.bookmarks,
            cursor: start.cursor,
            opened_at: start.opened_at,
            bookmarks: request.options.bookmarks,
            is_ahead: false,
            next_bookmark: next_bookmark(now, state.options.bookmark_interval, deadline),
            deadline,
            timer: None,
            padding_left: None,
            frozen: request.frozen,
            cut: None,
            columns_sent: false,
            retired: false,
            ended: false,
            reset_due: false,
            state,
        }
    }

    pub(super) fn into_frames(self) -> impl Stream<Item = Result<Bytes, BodyError>> + Send + 'static {
        futures::stream::unfold(self, |mut watch| async move {
            let frame = watch.next_frame().await?;
            Some((frame, watch))
        })
    }

    async fn next_frame(&mut self) -> Option<Result<Bytes, BodyError>> {
        let (changed, control, restart) = (
            Arc::clone(&self.changed),
            Arc::clone(&self.control),
            self.restart.clone(),
        );
        loop {
            // Subscribe before checking, so that nothing in between is missed.
            let mut written = std::pin::pin!(changed.notified());
            written.as_mut().enable();
            let poked = control.poked.notified();
            let until = match self.step() {
                WatchStep::Frame(frame) => return Some(Ok(frame)),
                WatchStep::End => return None,
                WatchStep::Reset => {
                    self.ended = true;
                    // Lets a listener flush what came before: hyper drops unsent bytes on an error.
                    tokio::task::yield_now().await;
                    return Some(Err(BodyError));
                }
                WatchStep::Wait(until) => until,
            };
            let timer = self.timer(until);
            tokio::select! {
                biased;
                () = restart.cancelled() => {}
                () = poked => {}
                () = written => {}
                () = timer => {}
            }
        }
    }

    /// Sleeps until a time; the sleep is kept between waits as long as the time stays the same.
    async fn timer(&mut self, until: Option<Duration>) {
        let Some(until) = until else {
            return std::future::pending().await;
        };
        if self.timer.as_ref().is_none_or(|(moment, _)| *moment != until) {
            let clock = &self.state.options.clock;
            self.timer = Some((until, clock.sleep(until.saturating_sub(clock.now()))));
        }
        if let Some((_, sleep)) = &mut self.timer {
            sleep.as_mut().await;
        }
        self.timer = None;
    }

    fn step(&mut self) -> WatchStep {
        if self.ended {
            return WatchStep::End;
        }
        if self.reset_due || self.restart.is_cancelled() {
            return WatchStep::Reset;
        }
        if let Some(left) = self.padding_left {
            return WatchStep::Frame(self.padding(left));
        }
        if let Some(step) = self.run_commands() {
            return step;
        }
        if self.frozen {
            return WatchStep::Wait(None);
        }
        self.advance()
    }

    fn run_commands(&mut self) -> Option<WatchStep> {
        loop {
            let command = self.control.commands().pop_front()?;
            match command {
                WatchCommand::Freeze => self.frozen = true,
                WatchCommand::Thaw => self.frozen = false,
                WatchCommand::Inject(Injection::RawAfterInitialEvents(_)) if self.has_initial_events_left() => {}
                WatchCommand::Inject(injection) => return Some(WatchStep::Frame(self.inject(injection))),
                WatchCommand::End(Ending::Clean) => {
                    self.ended = true;
                    return Some(WatchStep::End);
                }
                WatchCommand::End(Ending::Reset) => return Some(WatchStep::Reset),
                WatchCommand::End(Ending::Expired) => {
                    self.ended = true;
                    let status = Status::too_old(self.cursor, self.state.store().revision());
                    return Some(WatchStep::Frame(line::error(&status)));
                }
                WatchCommand::End(ending @ (Ending::MidLine | Ending::MidLineClean)) => self.cut = Some(ending),
            }
        }
    }

    fn has_initial_events_left(&self) -> bool {
        self.initial_end_due || self.initial.len() > 0
    }

    /// Sends new events, and handles bookmarks and the deadline.
    fn advance(&mut self) -> WatchStep {
        let bytes_max = if self.cut.is_some() { 1 } else { FRAME_BYTES };
        let Ok(mut frame) = self.fill(bytes_max) else {
            // Silently, as in kube-apiserver. The client notices with its next watch.
            self.ended = true;
            self.state.watches().closed_slow_total += 1;
            return WatchStep::End;
        };
        if !frame.is_empty() {
            if let Some(ending) = self.cut {
                frame.truncate(frame.len() / 2);
                self.ended = ending == Ending::MidLineClean;
                self.reset_due = ending == Ending::MidLine;
            }
            return WatchStep::Frame(Bytes::from(frame));
        }
        let now = self.state.options.clock.now();
        if self.retired || now >= self.deadline {
            self.ended = true;
            return WatchStep::End;
        }
        if !self.bookmarks {
            return WatchStep::Wait(Some(self.deadline));
        }
        if now >= self.next_bookmark {
            self.next_bookmark = next_bookmark(now, self.state.options.bookmark_interval, self.deadline);
            if !self.is_ahead {
                return WatchStep::Frame(self.bookmark(false));
            }
        }
        WatchStep::Wait(Some(self.next_bookmark.min(self.deadline)))
    }

    /// Lines to be sent: initial events, their end, or events after the cursor. Empty if there are none.
    fn fill(&mut self, bytes_max: usize) -> Result<Vec<u8>, FellBehind> {
        let mut frame = Vec::new();
        while frame.len() < bytes_max
            && let Some(object) = self.initial.next()
        {
            self.write("ADDED", &object, &mut frame);
        }
        if frame.is_empty() && self.initial_end_due {
            self.initial_end_due = false;
            return Ok(self.bookmark(true).into());
        }
        while frame.is_empty() {
            let (shown, exhausted) = self.read(bytes_max)?;
            for (type_, object) in shown {
                self.write(type_, &object, &mut frame);
            }
            if exhausted {
                break;
            }
        }
        Ok(frame)
    }

    /// Reads about `bytes_max` bytes of history from the cursor on. Returns whether that was all.
    fn read(&mut self, bytes_max: usize) -> Result<(Vec<line::ShownEvent>, bool), FellBehind> {
        let state = Arc::clone(&self.state);
        let store = state.store();
        let history = &store.collection(self.slot).history;
        let backlog = history.count_after(self.cursor.max(self.opened_at));
        if history.has_lost(self.cursor) || backlog > self.state.options.watch_backlog_events_max {
            return Err(FellBehind);
        }
        let newest = self.cache.revision(&store);
        self.is_ahead = self.cursor > newest;
        let mut shown = Vec::new();
        let mut bytes = 0;
        for event in history
            .after(self.cursor)
            .take_while(|event| event.revision() <= newest)
        {
            if bytes >= bytes_max {
                return Ok((shown, false));
            }
            self.cursor = event.revision();
            if let Some((type_, object)) = line::event_for_client(&self.kind, &self.selection, event) {
                bytes += object.json().len();
                shown.push((type_, object));
            }
        }
        self.retired = store.collection(self.slot).retired;
        // Everything of this kind up to here was sent, and nothing between the last event and here was of this kind.
        self.cursor = self.cursor.max(newest);
        Ok((shown, true))
    }

    fn write(&mut self, type_: &str, object: &Stored, frame: &mut Vec<u8>) {
        let columns = !std::mem::replace(&mut self.columns_sent, true);
        let now = self.state.now_unix_seconds();
        line::event(type_, frame, |out| {
            self.representation.write_object(&self.kind, object, now, columns, out)
        });
    }

    fn bookmark(&self, initial_events_end: bool) -> Bytes {
        line::document(
            "BOOKMARK",
            &self
                .representation
                .bookmark(&self.kind, self.cursor, initial_events_end),
        )
    }

    /// The line, or its beginning, that a fault injects.
    fn inject(&mut self, injection: Injection) -> Bytes {
        match injection {
            Injection::Garbage => line::document("ADDED", &line::garbage()),
            Injection::UnknownType => line::document("RENAMED", &line::garbage()),
            Injection::NotJson => Bytes::from_static(b"this line is not JSON\n"),
            Injection::Raw(text) | Injection::RawAfterInitialEvents(text) => Bytes::from(text + "\n"),
            Injection::HugeLineBytes(bytes) => self.begin_huge_line(bytes),
        }
    }

    /// The beginning of a line that continues with padding, frame by frame, so that 100 MB are never held at once.
    fn begin_huge_line(&mut self, bytes: usize) -> Bytes {
        let existing = {
            let store = self.state.store();
            let mut objects = self.selection.range(&store.collection(self.slot).objects);
            objects
                .find(|object| self.selection.matches(&self.kind, object))
                .cloned()
        };
        let object = existing.map_or_else(
            || {
                let metadata = serde_json::json!({ "name": "huge", "namespace": "default", "uid": "huge" });
                Stored::new(&self.kind, &serde_json::json!({ "metadata": metadata }), self.cursor)
            },
            |object| (*object).clone(),
        );
        let mut line = b"{\"type\":\"MODIFIED\",\"object\":".to_vec();
        line.extend_from_slice(&object.json()[..object.json().len() - 1]);
        line.extend_from_slice(b",\"padding\":\"");
        self.padding_left = Some(bytes.saturating_sub(line.len()));
        Bytes::from(line)
    }

    fn padding(&mut self, left: usize) -> Bytes {
        let mut frame = vec![b'x'; left.min(FRAME_BYTES)];
        self.padding_left = Some(left - frame.len()).filter(|left| *left > 0);
        if self.padding_left.is_none() {
            frame.extend_from_slice(b"\"}}\n");
        }
        Bytes::from(frame)
    }
}

impl Drop for WatchStream {
    fn drop(&mut self) {
        self.state.watches().remove(self.id);
    }
}

/// The client fell too far behind; events that it has not read are gone.
struct FellBehind;

/// Regular bookmarks, and one shortly before the end.
fn next_bookmark(now: Duration, interval: Duration, deadline: Duration) -> Duration {
    let last = deadline.saturating_sub(LAST_BOOKMARK_LEAD);
    let regular = now.saturating_add(interval);
    if now < last { regular.min(last) } else { regular }
}
