//! Checks whether a watch is alive, and what the source reports while that is unknown.
//!
//! An open connection proves nothing: it may be half-open, its API server may lag or be a restored older one, and a
//! proxy may end each watch after a moment, cleanly, forever. So the reflector expects signs of life: a response when
//! it opens the watch, events or bookmarks while the watch is open. If they are missing, the source is
//! [`ReflectorState::Disconnected`] (shown as stale), the watch is reopened, and the API server is asked for its newest
//! version.
//!
//! An API server that hangs is noticed earlier, by all sources of its cluster together
//! ([`ClusterLink`](crate::cluster_client::ClusterLink)).

use std::time::Duration;

use http::Response;
use informant_cache::Moment;
use informant_object::frames::ListSplitter;
use kube::client::Body;

use super::Reflector;
use super::watch::{BOOKMARK_SILENCE_MAX, FRUITLESS_WATCH, WATCH_SLACK};
use crate::api::{ANSWER_SILENCE_MAX, ApiError, Frame, Frames, ListQuery, SilenceTimeout};
use crate::metrics::EventCounts;
use crate::status::ReflectorState;

/// How long the response to a watch may take before the source is shown as stale. The reflector keeps waiting, up to
/// [`ANSWER_SILENCE_MAX`]. An API server responds at once, a busy one within a second or two.
pub(super) const WATCH_OPEN_WARNING: Duration = Duration::from_secs(10);

/// What is known about the liveness of this API server's watches.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    /// It sends bookmarks, so each watch is expected to, from its start.
    sends_bookmarks: bool,
    /// Watches ended early and without a sign of life. The next one has to show one before it counts as alive.
    suspected: bool,
}

impl Liveness {
    /// Watches that ended early did so for a reason that is gone.
    pub(super) fn trust(&mut self) {
        self.suspected = false;
    }
}

impl Reflector {
    /// Opens a watch; shows the source as stale if that takes long.
    pub(super) async fn open_watch_in_time(&self, timeout: Duration) -> Result<Response<Body>, ApiError> {
        let mut opening = std::pin::pin!(self.open_watch(timeout));
        tokio::select! {
            biased;
            opened = &mut opening => return opened,
            () = self.parts.environment.sleep(WATCH_OPEN_WARNING) => {}
        }
        self.set_reflector_state(ReflectorState::Disconnected);
        self.set_error(format!("watch: no response for {} s", WATCH_OPEN_WARNING.as_secs()));
        opening.await
    }

    /// A watch is open. After fruitless watches that is not enough to be live.
    pub(super) fn watch_is_open(&mut self) {
        self.forget_outage();
        self.recovered();
        self.log_interrupted();
        if !self.liveness.suspected {
            self.set_reflector_state(ReflectorState::Watching);
        }
    }

    /// How long a watch may be silent that was opened just now and is to last for `timeout`. Without bookmarks only its
    /// end is certain.
    pub(super) fn silence_timeout_from(&self, opened_at: Moment, timeout: Duration) -> SilenceTimeout {
        if self.liveness.sends_bookmarks {
            SilenceTimeout::after(BOOKMARK_SILENCE_MAX)
        } else {
            SilenceTimeout {
                until: opened_at + timeout + WATCH_SLACK,
                silence: WATCH_SLACK,
            }
        }
    }

    /// The next frame of a watch. A suspect watch that lasts is confirmed even if it is silent.
    pub(super) async fn next_frame(
        &mut self,
        frames: &mut Frames,
        opened_at: Moment,
    ) -> Result<Option<Frame>, ApiError> {
        if !self.liveness.suspected {
            return frames.next().await;
        }
        let lasted = self.parts.environment.now() - opened_at;
        tokio::select! {
            biased;
            frame = frames.next() => return frame,
            () = self.parts.environment.sleep(FRUITLESS_WATCH.saturating_sub(lasted)) => {}
        }
        self.confirm();
        frames.next().await
    }

    /// Records what the watch received.
    pub(super) fn record_activity(&mut self, counts: &EventCounts) {
        self.liveness.sends_bookmarks |= counts.bookmark > 0;
        if counts.sum() > counts.error {
            self.watch_lives();
            if self.liveness.suspected {
                self.confirm();
            }
        }
    }

    /// Another watch ended early without any event.
    pub(super) fn suspect(&mut self) {
        self.liveness.suspected = true;
        self.set_reflector_state(ReflectorState::Disconnected);
    }

    fn confirm(&mut self) {
        self.liveness.suspected = false;
        self.set_reflector_state(ReflectorState::Watching);
    }

    /// Whether the newest state is older than what was seen, because the cluster was rolled back while it was
    /// unreachable. False for versions that are not integers.
    ///
    /// A watch that is opened at a future version is not refused. It stays silent until the cluster passes that
    /// version, and misses everything before it. client-go waits through this with a cache of objects that no longer
    /// exist (kubernetes/kubernetes#91073). Informant asks for the newest version before it reopens the watch.
    pub(super) async fn was_rolled_back(&self) -> Result<bool, ApiError> {
        let Some(seen) = self.versions.last().and_then(|version| version.number()) else {
            return Ok(false);
        };
        Ok(self.newest_version().await?.is_some_and(|newest| newest < seen))
    }

    /// The version of a consistent list; `None` if it is not an integer.
    async fn newest_version(&self) -> Result<Option<u64>, ApiError> {
        // The smallest possible list; its head has the version.
        let request = self.parts.request.list(&ListQuery::ONE)?;
        let response = self.parts.link.open(request).await?;
        let silence_timeout = SilenceTimeout::after(ANSWER_SILENCE_MAX);
        let mut frames = Frames::of_source(response.into_body(), &self.parts.link, silence_timeout);
        let mut splitter = ListSplitter::new(self.parts.options.watch_line_bytes_max);
        while let Some(frame) = frames.next().await? {
            splitter.push(frame.bytes);
            while splitter.next_part()?.is_some() {}
        }
        Ok(splitter.finish()?.version.number())
    }
}
