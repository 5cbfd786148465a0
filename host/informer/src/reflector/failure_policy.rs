//! What to do after a failure: pure rules, one table for lists and one for watches.

use std::time::Duration;

use informant_cache::with_jitter;

use crate::api::{ApiError, ApiErrorCause};
use crate::status::ReflectorState;

/// How often to retry a source that must not be read (401, 403), plus up to a fifth: permissions change by hand, and
/// each attempt is an audit entry.
pub(crate) const FORBIDDEN_RETRY_PACE: Duration = Duration::from_secs(30);

/// How often to look for a resource that does not exist (404), plus up to a fifth: a custom resource definition that is
/// applied should be picked up while its author still watches.
pub(crate) const MISSING_RESOURCE_RETRY_PACE: Duration = Duration::from_secs(10);

/// How often to retry a request that the API server cannot serve as it is, plus up to a fifth: a field selector that it
/// does not support, or a list above the limits. A new section is used at once.
pub(crate) const REFUSED_RETRY_PACE: Duration = Duration::from_secs(300);

/// Jitter of a fixed pace, in percent.
const PACE_JITTER_PERCENT: u32 = 20;

/// How many watches in a row may end early and without an event before the next one has to wait.
pub(crate) const FRUITLESS_WATCHES_FREE: u32 = 2;

/// After this many watches in a row that ended early and without an event, their start version is suspect and the
/// source is relisted. client-go relists after each one, which costs a struggling server more than it is worth.
pub(crate) const FRUITLESS_WATCHES_BEFORE_LIST: u32 = 5;

/// How long to wait.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum RetryPace {
    /// At once.
    Now,
    /// By the back-off, but at least as long as the API server asked for.
    Backoff { at_least: Option<Duration> },
    /// At a fixed pace.
    Every(Duration),
}

/// What to do after a failed watch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct WatchFailureDecision {
    pub(crate) state: ReflectorState,
    pub(crate) pace: RetryPace,
    /// Why to relist; `None`: reopen the watch where it was.
    pub(crate) relist: Option<&'static str>,
}

/// What the reflector does once a watch has ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum WatchDecision {
    LoopGone,
    Reopen,
    ReopenAfter(Duration),
    RelistAfter(Duration, &'static str),
}

impl RetryPace {
    /// How long to wait; `backoff` draws the next delay of the back-off.
    pub(crate) fn pause(self, backoff: impl FnOnce() -> Duration, random: u64) -> Duration {
        match self {
            Self::Now => Duration::ZERO,
            Self::Every(pace) => with_jitter(pace, PACE_JITTER_PERCENT, random),
            Self::Backoff { at_least } => backoff().max(at_least.unwrap_or_default()),
        }
    }
}

impl ApiError {
    /// How long a source would wait until it repeats a list that failed with this error. `backoff` is the jittered
    /// delay of the caller's back-off, and `random` a new random number.
    #[must_use]
    pub fn retry_pause(&self, backoff: Duration, random: u64) -> Duration {
        let (_, pace) = state_and_pace(self.cause());
        pace.pause(|| backoff, random)
    }
}

/// After a watch that could not be opened or ended with an error.
///
/// `expired_before`: how many watches ended with 410 since one lived. The first one says nothing about the API server,
/// and is followed by a list at once; further ones in a row by the back-off.
///
/// Source: client-go `handleWatch` and `watchHandler`: after 429 and refused connections the watch is reopened, after
/// anything else the source is relisted with back-off. Departure: every connection failure counts like a refused one.
/// It says nothing about the version, so a list would only add load to a struggling server.
pub(crate) fn after_watch_failure(error: &ApiError, expired_before: u32) -> WatchFailureDecision {
    let cause = error.cause();
    let (state, mut pace) = state_and_pace(cause);
    if cause == ApiErrorCause::Expired && expired_before == 0 {
        pace = RetryPace::Now;
    }
    let relist = match cause {
        ApiErrorCause::TooManyRequests(_) | ApiErrorCause::Unreachable => None,
        other => Some(other.label()),
    };
    WatchFailureDecision { state, pace, relist }
}

/// What a failed list leads to; also after its second attempt without a version.
pub(crate) fn state_and_pace(cause: ApiErrorCause) -> (ReflectorState, RetryPace) {
    match cause {
        ApiErrorCause::Forbidden => (ReflectorState::Forbidden, RetryPace::Every(FORBIDDEN_RETRY_PACE)),
        ApiErrorCause::NotFound => (
            ReflectorState::ResourceMissing,
            RetryPace::Every(MISSING_RESOURCE_RETRY_PACE),
        ),
        ApiErrorCause::UnsupportedSelector => (ReflectorState::Refused, RetryPace::Every(REFUSED_RETRY_PACE)),
        ApiErrorCause::TooLarge => (ReflectorState::Disconnected, RetryPace::Every(REFUSED_RETRY_PACE)),
        ApiErrorCause::TooManyRequests(wait) | ApiErrorCause::Other(wait) => {
            (ReflectorState::Disconnected, RetryPace::Backoff { at_least: wait })
        }
        ApiErrorCause::Expired | ApiErrorCause::VersionTooLarge | ApiErrorCause::Unreachable => {
            (ReflectorState::Disconnected, RetryPace::Backoff { at_least: None })
        }
    }
}

impl ReflectorState {
    /// Whether to warn of a failure that leads to this state, after one that led to `last`. A source that must not be
    /// read, or whose resource does not exist, stays like that until somebody changes it, and is visible in the status:
    /// one warning is enough. Other failures are rare, thanks to the back-off.
    pub(super) fn is_news_after(self, last: Option<ReflectorState>) -> bool {
        use ReflectorState::{Forbidden, Refused, ResourceMissing};
        last != Some(self) || !matches!(self, ResourceMissing | Forbidden | Refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::StatusBody;

    #[test]
    fn retry_pause_follows_the_cause() {
        let pause = |status: &str, backoff: u64| {
            let error = ApiError::refused(StatusBody::parse(status.as_bytes()).unwrap());
            error.retry_pause(Duration::from_secs(backoff), 0).as_secs()
        };
        assert_eq!(pause(r#"{"kind":"Status","code":403,"reason":"Forbidden"}"#, 1), 30);
        assert_eq!(pause(r#"{"kind":"Status","code":500}"#, 7), 7);
        let busy = r#"{"kind":"Status","code":429,"reason":"TooManyRequests","details":{"retryAfterSeconds":60}}"#;
        assert_eq!((pause(busy, 1), pause(busy, 70)), (60, 70));
    }

    #[test]
    fn a_lasting_failure_is_warned_of_once() {
        use ReflectorState::{Disconnected, Forbidden, ResourceMissing};
        assert!(ResourceMissing.is_news_after(None));
        assert!(!ResourceMissing.is_news_after(Some(ResourceMissing)));
        assert!(Forbidden.is_news_after(Some(ResourceMissing)));
        assert!(Disconnected.is_news_after(Some(Disconnected)));
    }
}
