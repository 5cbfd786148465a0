//! What the sources of a cluster know together about its API server: [`ClusterHealth`].
//!
//! ```text
//! Available ──a request and a probe without an answer──▶ away: NotReady, NoLogin, Lost ──an answer──▶ Available
//!                                                        └ a line in the log                          └ another one
//! ```
//!
//! From one line to the other it is one outage, whatever it was in between. It reads no clock and sends nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use informant_cache::Moment;
use tokio::sync::watch;

use super::{CLUSTER_SILENCE_MAX, RECOVERIES_PER_SECOND_MAX, RETURN_MAX, unresponsive};
use crate::api::ApiError;

/// What the last requests say about the API server, from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    Available,
    /// It answers that it is not ready, as while it starts and before it ends.
    NotReady,
    /// Requests are not sent, because the login fails. Open watches continue.
    NoLogin,
    /// It does not answer.
    Lost,
}

#[derive(Debug)]
pub(super) struct ClusterHealth {
    /// Where the API server is, for logs; may be empty.
    url: String,
    /// When something was last received, in nanoseconds plus one; 0 is never. Written at most once per second and
    /// connection.
    received: AtomicU64,
    /// Held by the source that asks for a sign of life.
    pub(super) asker: tokio::sync::Mutex<()>,
    /// Held by the source that asks whether the API server is away, or back; it is not asked before then.
    pub(super) prober: tokio::sync::Mutex<Moment>,
    reach: watch::Sender<Reach>,
    /// How many outages have ended.
    ended: AtomicU64,
    outage: Mutex<Outage>,
}

/// The outage that lasts, or the last one.
#[derive(Debug, Default)]
struct Outage {
    began: Moment,
    ended: Option<Moment>,
    /// How many sources got no answer.
    sources: usize,
    /// When the next source may return.
    next_return: Moment,
}

impl ClusterHealth {
    pub(super) fn new(url: String) -> Self {
        Self {
            url,
            received: AtomicU64::new(0),
            asker: tokio::sync::Mutex::default(),
            prober: tokio::sync::Mutex::new(Moment::ZERO),
            reach: watch::Sender::new(Reach::Available),
            ended: AtomicU64::new(0),
            outage: Mutex::default(),
        }
    }

    pub(super) fn reach(&self) -> watch::Receiver<Reach> {
        self.reach.subscribe()
    }

    pub(super) fn is_available(&self) -> bool {
        *self.reach.borrow() == Reach::Available
    }

    /// Something was received at `now`, on any connection.
    pub(super) fn set_received(&self, now: Moment) {
        let stamp = now.as_nanos().saturating_add(1);
        self.received.store(stamp, Ordering::Relaxed);
    }

    /// The last sign of life if it is recent enough, or else whether the API server is known not to respond.
    pub(super) fn known_state(&self, now: Moment) -> Option<Result<Moment, ApiError>> {
        match self.received() {
            Some(received) if now - received < CLUSTER_SILENCE_MAX => Some(Ok(received)),
            _ => (*self.reach.borrow() == Reach::Lost).then(|| Err(unresponsive())),
        }
    }

    /// How long nothing has been received.
    pub(super) fn silence(&self, now: Moment) -> Duration {
        now - self.received().unwrap_or(Moment::ZERO)
    }

    fn received(&self) -> Option<Moment> {
        let stamp = self.received.load(Ordering::Relaxed);
        stamp.checked_sub(1).map(Moment::from_nanos)
    }

    /// The API server is away, at least as far as `reach`.
    pub(super) fn set_away(&self, reach: Reach, error: &str, now: Moment) {
        let mut outage = self.outage();
        let before = *self.reach.borrow();
        if reach <= before {
            return;
        }
        if before == Reach::Available {
            *outage = Outage {
                began: now,
                ..Outage::default()
            };
        }
        self.reach.send_replace(reach);
        drop(outage);
        let url = self.shown_url();
        match (before, reach) {
            (Reach::Available, Reach::NoLogin) => {
                tracing::warn!(url, error, code = "watch-not-live", "login to the API server fails");
            }
            (Reach::Available, _) => {
                tracing::warn!(url, error, code = "watch-not-live", "API server unavailable");
            }
            _ => tracing::debug!(url, error, ?reach, "API server still unavailable"),
        }
    }

    /// Requests are answered.
    pub(super) fn set_available(&self, now: Moment) {
        if self.is_available() {
            return;
        }
        let mut outage = self.outage();
        if self.is_available() {
            return;
        }
        outage.ended = Some(now);
        outage.next_return = now;
        let (lasted, sources) = (now - outage.began, outage.sources);
        // A source that is woken has to find it.
        self.ended.fetch_add(1, Ordering::Release);
        self.reach.send_replace(Reach::Available);
        drop(outage);
        tracing::info!(
            url = self.shown_url(),
            outage_seconds = lasted.as_secs_f64(),
            sources,
            "API server available again"
        );
    }

    /// How many outages have ended.
    pub(super) fn outages_ended(&self) -> u64 {
        self.ended.load(Ordering::Acquire)
    }

    /// A source got no answer in the present outage; `counted` is the number of the outage in which it was last
    /// counted.
    pub(super) fn count_source(&self, counted: &AtomicU64) {
        let mut outage = self.outage();
        let present = self.outages_ended() + 1;
        if !self.is_available() && counted.swap(present, Ordering::Relaxed) != present {
            outage.sources += 1;
        }
    }

    /// Whether an outage has ended less than [`RETURN_MAX`] ago, and no other one began.
    pub(super) fn is_returning(&self, now: Moment) -> bool {
        self.outages_ended() > 0
            && self.is_available()
            && self.outage().ended.is_some_and(|ended| now - ended < RETURN_MAX)
    }

    /// How long a source waits before it returns after an outage, so that not all of them return at once.
    pub(super) fn reserve_return(&self, now: Moment) -> Duration {
        let mut outage = self.outage();
        let own = outage.next_return.max(now);
        outage.next_return = own + Duration::from_secs(1) / RECOVERIES_PER_SECOND_MAX;
        own - now
    }

    fn shown_url(&self) -> Option<&str> {
        Some(self.url.as_str()).filter(|url| !url.is_empty())
    }

    fn outage(&self) -> MutexGuard<'_, Outage> {
        // Changed by single assignments: consistent after any panic.
        self.outage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
