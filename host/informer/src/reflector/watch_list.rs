//! WatchList: a watch that starts with the current state. One request instead of two, objects line by line instead of
//! one document, and a consistent state without load on the database.
//!
//! ```text
//! ADDED … ADDED (staged) ─▶ BOOKMARK `k8s.io/initial-events-end: "true"` ─▶ checked, sent as a whole ─▶ watch
//! ```
//!
//! Until the bookmark none of it is visible: a stream that ends, breaks, fails or does not finish leaves no trace.
//!
//! Source: KEP-3157 and client-go `Reflector.watchList`. Departures: the initial events have a deadline; a refusal, or
//! several broken streams, are remembered ([`WatchListSupport`](super::watch_list_support::WatchListSupport)), while
//! client-go retries a WatchList forever.

use std::time::Duration;

use informant_cache::with_jitter;
use informant_object::ResourceVersion;
use informant_object::frames::{Line, LineSplitter, WatchEventType, WatchLine};

use super::Reflector;
use super::list::{FetchedList, result_label, shed_excess};
use super::paging::ListPlan;
use super::staging::Staging;
use super::watch::{BOOKMARK_SILENCE_MAX, OpenWatch};
use super::watch_lines::{FrameUpdates, read_error};
use super::watch_list_support::{WatchListFallback, after_refusal};
use super::{ListFailure, ListLimits, ReflectorParts};
use crate::api::{ApiError, Frames, SilenceTimeout};
use crate::metrics::CounterFamily;
use crate::source_name::log_unless;
use crate::status::{ReflectorState, RequestCounter, WatchListUse};

/// How long a WatchList may be silent before its initial events have ended. A server that ignores `sendInitialEvents`
/// sends what it has and waits for changes; one that supports it sends the end mark right after the last object.
pub(super) const INITIAL_EVENTS_SILENCE_MAX: Duration = Duration::from_secs(15);

/// The same if the API server has ended the initial events of another WatchList: then it is only slow, and a LIST would
/// cost it more.
pub(super) const SUPPORTED_INITIAL_EVENTS_SILENCE_MAX: Duration = Duration::from_secs(60);

/// After this many initial events other tasks get a turn, even if more are ready: about a millisecond.
const EVENTS_PER_YIELD: usize = 256;

/// Why a WatchList brought no open watch.
pub(super) enum WatchListFailure {
    /// The state is to be asked for by LIST.
    FallBackToList,
    /// Handled like a failed list.
    List(ListFailure),
}

/// Why a WatchList did not complete.
enum StreamFailure {
    /// The API server refused it, in the response or in the stream.
    Refused(ApiError),
    /// The stream ended or broke before the end mark.
    Interrupted(Option<ApiError>),
    /// The end mark did not come in time.
    TimedOut(String),
}

impl Reflector {
    /// Fetches the state by a WatchList, submits it to the loop, and returns the watch that continues on the same
    /// connection.
    pub(super) async fn watch_list(&mut self) -> Result<OpenWatch, WatchListFailure> {
        let mut plan = self.versions.stream_plan();
        loop {
            let failure = match self.stream_by(&plan).await {
                Ok((fetched, open)) => return self.submit_stream(&plan, fetched, open).await,
                Err(failure) => failure,
            };
            match self.after_stream(&failure, &plan) {
                WatchListFallback::RetryNewest => {
                    self.versions.refused();
                    plan = self.versions.stream_plan();
                }
                WatchListFallback::ListOnce => return Err(WatchListFailure::FallBackToList),
                WatchListFallback::ListForAWhile => {
                    // A refusal or a broken connection may be about this source alone.
                    if matches!(failure, StreamFailure::TimedOut(_)) {
                        self.set_supported(false);
                    }
                    let now = self.parts.environment.now();
                    self.watch_list.refused(now);
                    self.parts.status.set_watch_list(WatchListUse::Refused(failure.text()));
                    return Err(WatchListFailure::FallBackToList);
                }
                WatchListFallback::Fail => {
                    return Err(WatchListFailure::List(ListFailure::Failed(failure.into_error())));
                }
            }
        }
    }

    /// The initial events are complete: the loop checks them. Then the connection is the watch.
    async fn submit_stream(
        &mut self,
        plan: &ListPlan,
        fetched: FetchedList,
        open: OpenWatch,
    ) -> Result<OpenWatch, WatchListFailure> {
        let end = self.submit_list(plan, fetched).await;
        let ReflectorParts { metrics, status, .. } = &self.parts;
        metrics.count(CounterFamily::WatchLists, result_label(&end));
        end.map_err(WatchListFailure::List)?;
        self.watch_list.record_success();
        self.set_supported(true);
        status.set_watch_list(WatchListUse::InUse);
        metrics.count(CounterFamily::Watches, "ok");
        status.count(RequestCounter::Watches);
        self.recovered();
        self.set_reflector_state(ReflectorState::Watching);
        Ok(open)
    }

    /// Whether the API server is known to support WatchList, by any source of this process.
    fn is_supported(&self) -> bool {
        let ReflectorParts { link, request, .. } = &self.parts;
        link.supports_watch_list(request.group_version())
    }

    /// How long the initial events may be silent.
    fn silence_max(&self) -> Duration {
        let probation = self.parts.probation.as_ref();
        match self.is_supported() {
            false => INITIAL_EVENTS_SILENCE_MAX,
            // A LIST has to fit into the rest.
            true => probation.map_or(SUPPORTED_INITIAL_EVENTS_SILENCE_MAX, |probation| {
                SUPPORTED_INITIAL_EVENTS_SILENCE_MAX.min(probation.hold_max / 4)
            }),
        }
    }

    fn set_supported(&self, is_supported: bool) {
        let ReflectorParts { link, request, .. } = &self.parts;
        link.set_supports_watch_list(request.group_version(), is_supported);
    }

    /// Counts and logs a failure and decides what to do next.
    fn after_stream(&mut self, failure: &StreamFailure, plan: &ListPlan) -> WatchListFallback {
        self.parts.metrics.count(CounterFamily::WatchLists, failure.label());
        let next = match failure {
            StreamFailure::Refused(error) => after_refusal(error, plan.version.is_none()),
            StreamFailure::TimedOut(_) if !self.is_supported() => WatchListFallback::ListForAWhile,
            StreamFailure::Interrupted(_) | StreamFailure::TimedOut(_) => self.watch_list.interrupted(),
        };
        let action = match next {
            WatchListFallback::RetryNewest => "retrying with the newest state",
            WatchListFallback::ListOnce => "falling back to LIST once",
            WatchListFallback::ListForAWhile => "using LIST for an hour",
            // Reported as a failed list.
            WatchListFallback::Fail => return next,
        };
        log_unless!(
            self.parts.link.is_in_outage(),
            info,
            *self.parts.name,
            error = failure.text(),
            action,
            "WatchList failed"
        );
        next
    }

    /// One WatchList, up to the end of its initial events.
    async fn stream_by(&self, plan: &ListPlan) -> Result<(FetchedList, OpenWatch), StreamFailure> {
        let ReflectorParts {
            environment,
            options,
            status,
            request,
            link,
            ..
        } = &self.parts;
        status.count(RequestCounter::Lists);
        let timeout = with_jitter(options.watch_timeout_min, 100, environment.random());
        let request = request.watch_list(plan.version.as_deref(), timeout);
        let request = request.map_err(StreamFailure::Refused)?;
        let response = link.open(request).await.map_err(StreamFailure::Refused)?;
        let opened_at = environment.now();
        let silence_timeout = SilenceTimeout::after(INITIAL_EVENTS_SILENCE_MAX);
        let mut open = OpenWatch {
            frames: Frames::of_source(response.into_body(), link, silence_timeout),
            splitter: LineSplitter::new(options.watch_line_bytes_max),
            opened_at,
            unread: FrameUpdates::default(),
            received: opened_at,
        };
        let fetched = tokio::select! {
            biased;
            fetched = self.read_initial_events(plan, &mut open) => fetched?,
            () = environment.sleep(options.initial_events_max) => {
                let seconds = options.initial_events_max.as_secs();
                return Err(StreamFailure::TimedOut(format!("the initial events did not end within {seconds} s")));
            }
        };
        // The server sends bookmarks, so their absence means something from now on.
        let silence_timeout = SilenceTimeout::after(BOOKMARK_SILENCE_MAX);
        open.frames.set_silence_timeout(silence_timeout);
        Ok((fetched, open))
    }

    /// Stages all events up to the end mark. Later events in the same frame wait in `open`.
    async fn read_initial_events(&self, plan: &ListPlan, open: &mut OpenWatch) -> Result<FetchedList, StreamFailure> {
        let known = self.parts.source.snapshot();
        let mut staging = self.staging(plan, &known);
        let mut limits = ListLimits::new(&self.parts.options, self.parts.cache.budget.max_bytes().is_some());
        let mut since_yield = 0;
        loop {
            let frame = match open.frames.next().await {
                Ok(Some(frame)) => frame,
                Ok(None) => return Err(StreamFailure::Interrupted(None)),
                Err(ApiError::Silent(silence)) if silence < self.silence_max() => {
                    let silence_timeout = SilenceTimeout::after(self.silence_max());
                    open.frames.set_silence_timeout(silence_timeout);
                    continue;
                }
                Err(ApiError::Silent(silence)) => {
                    let seconds = silence.as_secs();
                    let text = format!("no data for {seconds} s and no end mark after the initial events");
                    return Err(StreamFailure::TimedOut(text));
                }
                Err(error) => return Err(StreamFailure::Interrupted(Some(error))),
            };
            // Frames that are ready need no clock read; each event is a frame of its own.
            let mut bytes = Some(frame.bytes);
            while let Some(frame_bytes) = bytes {
                let within = limits.frame(frame_bytes.len(), staging.len());
                within.map_err(StreamFailure::Refused)?;
                let end = self.stage_frame(&frame_bytes, open, &mut staging, &mut since_yield)?;
                shed_excess(&mut staging).await;
                if let Some(version) = end {
                    open.received = frame.received;
                    return Ok(FetchedList {
                        staged: staging.finish(),
                        version,
                        pages: 1,
                    });
                }
                if since_yield >= EVENTS_PER_YIELD {
                    since_yield = 0;
                    tokio::task::yield_now().await;
                    break;
                }
                bytes = open.frames.next_ready().await;
            }
        }
    }

    /// Stages the events of one frame and counts them into `since_yield`. Returns the version of the end mark if the
    /// frame contains it; later events then wait in `open`.
    fn stage_frame(
        &self,
        frame: &[u8],
        open: &mut OpenWatch,
        staging: &mut Staging<'_>,
        since_yield: &mut usize,
    ) -> Result<Option<ResourceVersion>, StreamFailure> {
        let mut lines = open.splitter.feed(frame);
        while let Some(line) = lines.next_line() {
            let Some(version) = self.stage_line(line, staging)? else {
                *since_yield += 1;
                continue;
            };
            let unread = &mut open.unread;
            unread.counts.bookmark += 1;
            while unread.error.is_none()
                && let Some(line) = lines.next_line()
            {
                self.read_one(line, unread);
            }
            return Ok(Some(version));
        }
        Ok(None)
    }

    /// Stages one line; returns the version if it is the end mark.
    fn stage_line(&self, line: Line<'_>, staging: &mut Staging<'_>) -> Result<Option<ResourceVersion>, StreamFailure> {
        let line = match line {
            Line::Json(line) => line,
            Line::TooLong(too_long) => {
                staging.skip_too_long(too_long);
                return Ok(None);
            }
        };
        let mut updates = FrameUpdates::default();
        match WatchLine::parse(line) {
            Ok(event) => match event.event_type {
                WatchEventType::Bookmark => return Ok(self.end_mark(event.object)),
                WatchEventType::Error => read_error(event.object, &mut updates),
                _ => staging.stage_event(&event),
            },
            Err(error) => self.read_non_event(line, &error, &mut updates),
        }
        updates
            .error
            .map_or(Ok(None), |error| Err(StreamFailure::Refused(error)))
    }

    /// The version of the bookmark that ends the initial events. Other bookmarks are ignored.
    fn end_mark(&self, bookmark: &[u8]) -> Option<ResourceVersion> {
        let bookmark = self.parse_bookmark(bookmark)?;
        Some(bookmark.version).filter(|_| bookmark.initial_events_end)
    }
}

impl StreamFailure {
    /// The label in metrics.
    fn label(&self) -> &'static str {
        match self {
            Self::Refused(error) => error.cause().label(),
            Self::Interrupted(_) => "broke-off",
            Self::TimedOut(_) => "late",
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Refused(error) | Self::Interrupted(Some(error)) => error.to_string(),
            Self::Interrupted(None) => "the stream ended before its initial events did".to_owned(),
            Self::TimedOut(text) => text.clone(),
        }
    }

    fn into_error(self) -> ApiError {
        match self {
            Self::Refused(error) | Self::Interrupted(Some(error)) => error,
            other => ApiError::Damaged(other.text()),
        }
    }
}
