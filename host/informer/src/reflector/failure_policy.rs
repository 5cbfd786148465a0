//! What comes next after something went wrong: pure rules, one table for lists and one for watches.

use std::time::Duration;

use informant_cache::Moment;

use crate::api::{ApiError, ApiErrorCause};
use crate::backoff::{Backoff, with_jitter};
use crate::status::ReflectorState;

/// How often a source that may not be read (401, 403) is tried, plus up to a fifth: rights change by hand, and every
/// attempt is an audit entry.
pub(crate) const FORBIDDEN_RETRY_PACE: Duration = Duration::from_secs(30);

/// How often a resource that does not exist (404) is looked for, plus up to a fifth: a definition of a custom resource
/// that is applied should be picked up while its author still watches.
pub(crate) const MISSING_RESOURCE_RETRY_PACE: Duration = Duration::from_secs(10);

/// The share of a stated pace that chance may add.
const PACE_JITTER_PERCENT: u32 = 20;

/// So many watches in a row may end soon and without an event before the next one has to wait.
pub(crate) const FRUITLESS_WATCHES_FREE: u32 = 2;

/// After so many watches in a row that ended soon and without an event, the version they begin at is doubted, and a
/// list made. client-go lists after each one, which costs a server in trouble more than it tells us.
pub(crate) const FRUITLESS_WATCHES_BEFORE_LIST: u32 = 5;

/// How long to wait.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum RetryPace {
    /// As the back-off says, but at least as long as the API server asked for.
    Backoff { at_least: Option<Duration> },
    /// At a stated pace.
    Every(Duration),
}

/// What a failed list means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ListFailureDecision {
    pub(crate) reach: ReflectorState,
    pub(crate) pace: RetryPace,
}

/// What a watch that failed means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct WatchFailureDecision {
    pub(crate) reach: ReflectorState,
    pub(crate) pace: RetryPace,
    /// Why a list is needed; `None`: open the watch again where it was.
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
    pub(crate) fn pause(self, backoff: &mut Backoff, now: Moment, random: u64) -> Duration {
        match self {
            Self::Every(pace) => with_jitter(pace, PACE_JITTER_PERCENT, random),
            Self::Backoff { at_least } => backoff.after_failure(now, random).max(at_least.unwrap_or_default()),
        }
    }
}

/// After a list that failed (its second attempt without a version included).
pub(crate) fn after_list_failure(error: &ApiError) -> ListFailureDecision {
    let (reach, pace) = state_and_pace(error.cause());
    ListFailureDecision { reach, pace }
}

/// After a watch that could not be opened, or that ended with an error.
///
/// Source: client-go `handleWatch` and `watchHandler`: 429 and refused connections open the watch again, anything else
/// lists anew after the back-off. Departure: every failure of the connection counts as a refused one does. It says
/// nothing about the version, so a list would only add load to a server in trouble.
pub(crate) fn after_watch_failure(error: &ApiError) -> WatchFailureDecision {
    let cause = error.cause();
    let (reach, pace) = state_and_pace(cause);
    let relist = match cause {
        ApiErrorCause::TooManyRequests(_) | ApiErrorCause::Unreachable => None,
        other => Some(other.word()),
    };
    WatchFailureDecision { reach, pace, relist }
}

fn state_and_pace(cause: ApiErrorCause) -> (ReflectorState, RetryPace) {
    match cause {
        ApiErrorCause::Forbidden => (ReflectorState::Forbidden, RetryPace::Every(FORBIDDEN_RETRY_PACE)),
        ApiErrorCause::NotFound => (
            ReflectorState::ResourceMissing,
            RetryPace::Every(MISSING_RESOURCE_RETRY_PACE),
        ),
        ApiErrorCause::TooManyRequests(wait) | ApiErrorCause::Other(wait) => {
            (ReflectorState::Disconnected, RetryPace::Backoff { at_least: wait })
        }
        ApiErrorCause::Expired | ApiErrorCause::VersionTooLarge | ApiErrorCause::Unreachable => {
            (ReflectorState::Disconnected, RetryPace::Backoff { at_least: None })
        }
    }
}
