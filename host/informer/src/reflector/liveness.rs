//! Whether a watch is alive, and what the source shows while that is in doubt.
//!
//! A connection that is open proves nothing: it may be half open, its API server may be one that lags or one of the
//! past, a proxy may end each watch after a moment, cleanly, forever. So signs of life are asked for: an answer when
//! the watch is opened, events or bookmarks while it is open. Where they are missing, the source is [`ReflectorState::Disconnected`]
//! (shown as stale), the watch is opened again, and the API server asked how new it is.

use std::time::Duration;

use http::Response;
use informant_cache::Moment;
use kube::client::Body;

use super::Reflector;
use super::watch::{BOOKMARK_SILENCE_MAX, FRUITLESS_WATCH, WATCH_SLACK};
use crate::api::{ApiError, Frame, Frames, SilenceTimeout};
use crate::metrics::EventCounts;
use crate::status::ReflectorState;

/// How long the answer to a watch may take before the source is shown as stale. It is waited for all the same, up to
/// [`ANSWER_SILENCE_MAX`](crate::api::ANSWER_SILENCE_MAX). An API server answers at once, a busy one within a second or
/// two.
pub(super) const WATCH_OPEN_WARNING: Duration = Duration::from_secs(10);

/// What was learned of how this API server's watches live.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    /// It sends bookmarks: so each watch is expected to, from its beginning.
    sends_bookmarks: bool,
    /// Watches ended soon and without a sign of life. The next one has to show one before it counts as alive.
    suspected: bool,
}

impl Reflector {
    /// Waits for a watch to be opened; says so when that takes long.
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

    /// A watch is open. After fruitless ones that is not enough.
    pub(super) fn watch_is_open(&self) {
        if !self.liveness.suspected {
            self.set_reflector_state(ReflectorState::Watching);
        }
    }

    /// How long a watch may be silent that opened_at just now and is to last for `timeout`. Without bookmarks only its end
    /// is certain.
    pub(super) fn silence_timeout_from(&self, opened_at: Moment, timeout: Duration) -> SilenceTimeout {
        if self.liveness.sends_bookmarks {
            SilenceTimeout {
                until: Moment::ZERO,
                silence: BOOKMARK_SILENCE_MAX,
            }
        } else {
            SilenceTimeout {
                until: opened_at + timeout + WATCH_SLACK,
                silence: WATCH_SLACK,
            }
        }
    }

    /// The next frame of a watch that opened_at at `opened_at`. One that lasts is believed though it is silent.
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

    /// The watch brought this.
    pub(super) fn record_activity(&mut self, counts: &EventCounts) {
        self.liveness.sends_bookmarks |= counts.bookmark > 0;
        if self.liveness.suspected && counts.sum() > counts.error {
            self.confirm();
        }
    }

    /// Another watch ended soon and without having shown anything.
    pub(super) fn suspect(&mut self) {
        self.liveness.suspected = true;
        self.set_reflector_state(ReflectorState::Disconnected);
    }

    fn confirm(&mut self) {
        self.liveness.suspected = false;
        self.set_reflector_state(ReflectorState::Watching);
    }
}
