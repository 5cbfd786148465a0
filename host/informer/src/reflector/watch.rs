//! WATCH: opened at a version, read frame by frame, and what to do when it ends.

use std::time::Duration;

use http::Response;
use informant_cache::seeded_bug::{SeededBug, seeded_bug};
use informant_cache::{Moment, with_jitter};
use informant_object::frames::LineSplitter;
use kube::client::Body;

use super::failure_policy::{
    FRUITLESS_WATCHES_BEFORE_LIST, FRUITLESS_WATCHES_FREE, RetryPace, WatchDecision, after_watch_failure,
};
use super::failures::is_answered;
use super::watch_lines::FrameUpdates;
use super::{Reflector, ReflectorParts};
use crate::api::{ApiError, ApiErrorCause, Frames, SilenceTimeout};
use crate::metrics::CounterFamily;
use crate::status::{ReflectorState, RequestCounter};

/// How long a watch may stay silent after the API server should have ended it: allows for clock differences and busy
/// servers.
pub(super) const WATCH_SLACK: Duration = Duration::from_secs(30);

/// How long a watch may stay silent after its first bookmark. Bookmarks come about once a minute, so three minutes
/// without any, and without events, mean a half-open connection.
pub(super) const BOOKMARK_SILENCE_MAX: Duration = Duration::from_secs(180);

/// A watch that ends sooner without any event is not reopened at once. Source: client-go `VeryShortWatchError`.
pub(super) const SHORT_WATCH: Duration = Duration::from_secs(1);

/// A watch without events that ends sooner than this, which no API server does by itself, was fruitless: some proxies
/// end every connection after a few seconds, cleanly, forever.
pub(super) const FRUITLESS_WATCH: Duration = Duration::from_secs(30);

/// Above this many bytes the events read so far go to the loop without looking for more. Enough events to amortize a
/// batch and the waking of handlers, and few enough to still be in the CPU cache when the loop processes them.
pub(super) const MESSAGE_BYTES_MAX: usize = 256 * 1024;

/// After events of objects that another process handles, nothing is read for so long: 5 ms. Each process that has a
/// part of the shards reads what all of them handle, and is woken less often so.
pub(super) const OTHER_SHARDS_PAUSE: Duration = Duration::from_millis(5);

/// An open watch and what was read of it.
pub(super) struct OpenWatch {
    pub(super) frames: Frames,
    pub(super) splitter: LineSplitter,
    pub(super) opened_at: Moment,
    /// What was read and has not been delivered yet, and when.
    pub(super) unread: FrameUpdates,
    pub(super) received: Moment,
}

#[derive(Debug)]
pub(super) enum WatchEnd {
    LoopGone,
    /// It could not be opened, or sent an ERROR event.
    Failed(ApiError),
    /// It ended: cleanly, or because the connection broke or went silent.
    Ended {
        lasted: Duration,
        events: u64,
        error: Option<ApiError>,
    },
}

impl Reflector {
    /// Opens a watch at the last seen version and reads it to its end.
    pub(super) async fn watch(&mut self) -> WatchEnd {
        let ReflectorParts {
            environment,
            options,
            metrics,
            status,
            ..
        } = &self.parts;
        let timeout = with_jitter(options.watch_timeout_min, 100, environment.random());
        let opened = self.open_watch_in_time(timeout).await;
        match opened {
            Ok(response) => {
                metrics.count(CounterFamily::Watches, "ok");
                status.count(RequestCounter::Watches);
                self.watch_is_open();
                let open = self.begin_watch(response.into_body(), timeout);
                self.read_watch(open).await
            }
            Err(error) => self.watch_failed(error),
        }
    }

    /// The watch could not be opened.
    pub(super) fn watch_failed(&self, error: ApiError) -> WatchEnd {
        self.parts.metrics.count(CounterFamily::Watches, error.cause().label());
        WatchEnd::Failed(error)
    }

    pub(super) async fn open_watch(&self, timeout: Duration) -> Result<Response<Body>, ApiError> {
        let version = self.versions.last().map(|version| version.as_str()).unwrap_or_default();
        // The next integer.
        let too_late = seeded_bug(SeededBug::WatchSkipsVersion)
            .then(|| version.parse::<u64>().map(|version| (version + 1).to_string()))
            .and_then(Result::ok);
        let version = too_late.as_deref().unwrap_or(version);
        let request = self.parts.request.watch(version, timeout)?;
        self.parts.link.open(request).await
    }

    fn begin_watch(&self, body: Body, timeout: Duration) -> OpenWatch {
        let opened_at = self.parts.environment.now();
        let silence_timeout = self.silence_timeout_from(opened_at, timeout);
        OpenWatch {
            frames: Frames::of_source(body, &self.parts.link, silence_timeout),
            splitter: LineSplitter::new(self.parts.options.watch_line_bytes_max),
            opened_at,
            unread: FrameUpdates::default(),
            received: opened_at,
        }
    }

    /// Reads an open watch to its end.
    pub(super) async fn read_watch(&mut self, open: OpenWatch) -> WatchEnd {
        let OpenWatch {
            mut frames,
            mut splitter,
            opened_at,
            unread,
            received,
        } = open;
        let mut events = unread.counts.sum();
        match self.deliver(unread, received).await {
            Ok(true) => frames.touch(self.parts.environment.now()),
            Ok(false) => {}
            Err(end) => return end,
        }
        let error = loop {
            let frame = match self.next_frame(&mut frames, opened_at).await {
                Ok(Some(frame)) => frame,
                Ok(None) => break None,
                Err(error) => break Some(error),
            };
            let mut updates = FrameUpdates::default();
            self.read_lines(&mut splitter, &frame.bytes, &mut updates);
            // An API server sends each event as a frame of its own. All frames that are ready become one message, one
            // batch, one root.
            let mut read = frame.bytes.len();
            while updates.error.is_none()
                && read < MESSAGE_BYTES_MAX
                && let Some(bytes) = frames.next_ready().await
            {
                read += bytes.len();
                self.read_lines(&mut splitter, &bytes, &mut updates);
            }
            events += updates.counts.sum();
            if updates.counts.bookmark > 0 {
                frames.set_silence_timeout(SilenceTimeout::after(BOOKMARK_SILENCE_MAX));
            }
            let has_others = updates.counts.other_shard > 0;
            match self.deliver(updates, frame.received).await {
                Ok(true) => frames.touch(self.parts.environment.now()),
                Ok(false) => {}
                Err(end) => {
                    if frame.received - opened_at >= FRUITLESS_WATCH {
                        self.watch_lasted();
                    }
                    return end;
                }
            }
            // A full message shows that more is waiting.
            if has_others && read < MESSAGE_BYTES_MAX {
                self.parts.environment.sleep(OTHER_SHARDS_PAUSE).await;
            }
        };
        let mut updates = FrameUpdates::default();
        self.read_unfinished(&mut splitter, &mut updates);
        events += updates.counts.sum();
        let now = self.parts.environment.now();
        match self.deliver(updates, now).await {
            Ok(_) => WatchEnd::Ended {
                lasted: now - opened_at,
                events,
                error,
            },
            Err(end) => end,
        }
    }

    /// Sends the updates of a frame to the loop; returns whether that had to wait. An ERROR event ends the watch.
    async fn deliver(&mut self, updates: FrameUpdates, received: Moment) -> Result<bool, WatchEnd> {
        let FrameUpdates {
            items,
            bytes,
            counts,
            outdated,
            error,
        } = updates;
        self.has_outdated |= outdated;
        self.parts.metrics.count_events(&counts);
        if counts.sum() > 0 {
            self.parts.status.record_frame(received, counts.bookmark > 0);
            self.record_activity(&counts);
        }
        let mut waited = false;
        if !items.is_empty() {
            self.record_seen(&items);
            waited = self
                .parts
                .updates
                .send(items, bytes, received)
                .await
                .map_err(|_| WatchEnd::LoopGone)?;
        }
        error.map_or(Ok(waited), |error| Err(WatchEnd::Failed(error)))
    }

    pub(super) fn after_watch(&mut self, end: WatchEnd) -> WatchDecision {
        self.forget_outage();
        match end {
            WatchEnd::LoopGone => WatchDecision::LoopGone,
            WatchEnd::Failed(error) => {
                self.interrupted = None;
                let decision = after_watch_failure(&error, self.expired_watches);
                self.expired_watches += u32::from(error.cause() == ApiErrorCause::Expired);
                self.set_reflector_state(decision.state);
                let pause = self.watch_pause(decision.pace);
                self.report("watch", error.to_string(), pause, decision.state, is_answered(&error));
                self.check_rollback |= !is_answered(&error);
                match decision.relist {
                    Some(reason) => WatchDecision::RelistAfter(pause, reason),
                    None => WatchDecision::ReopenAfter(pause),
                }
            }
            WatchEnd::Ended { lasted, events, error } => self.after_ended_watch(lasted, events, error),
        }
    }

    /// A watch that ended is reopened at once, unless watches keep ending early.
    fn after_ended_watch(&mut self, lasted: Duration, events: u64, error: Option<ApiError>) -> WatchDecision {
        if let Some(ApiError::Silent(_) | ApiError::Unresponsive(_)) = error {
            self.set_reflector_state(ReflectorState::Disconnected);
        }
        // A restored API server is silent until it passes the version that was already seen. After a lost connection
        // the next watch may reach one; a watch that lasted without an event may have been open to one.
        self.check_rollback |= error.is_some() || (events == 0 && lasted >= FRUITLESS_WATCH);
        if events > 0 || lasted >= FRUITLESS_WATCH {
            self.fruitless_watches = 0;
            self.watch_lives();
            if lasted >= FRUITLESS_WATCH {
                self.watch_lasted();
            }
            if let Some(error) = error {
                self.set_error(format!("watch: {error}"));
                self.interrupted = Some(error);
            }
            return WatchDecision::Reopen;
        }
        self.fruitless_watches += 1;
        if lasted >= SHORT_WATCH && self.fruitless_watches <= FRUITLESS_WATCHES_FREE {
            return WatchDecision::Reopen;
        }
        self.suspect();
        let pause = self.watch_pause(RetryPace::Backoff { at_least: None });
        let text = match &error {
            Some(error) => error.to_string(),
            None => format!("the watch ended after {} ms without any event", lasted.as_millis()),
        };
        self.report("watch", text, pause, ReflectorState::Disconnected, error.is_none());
        if self.fruitless_watches < FRUITLESS_WATCHES_BEFORE_LIST {
            return WatchDecision::ReopenAfter(pause);
        }
        self.fruitless_watches = 0;
        WatchDecision::RelistAfter(pause, "short-watch")
    }
}
