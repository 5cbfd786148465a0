//! Whether to try a WatchList, given how earlier ones ended.

use std::time::Duration;

use informant_cache::Moment;

use crate::api::{ApiError, ApiErrorCause};

/// How long no WatchList is tried after the API server refused one or did not end its initial events. Only an upgrade
/// changes that, and each attempt costs a request per relist.
pub(crate) const WATCH_LIST_RETRY_PACE: Duration = Duration::from_secs(3_600);

/// After this many interrupted WatchLists in a row, LIST is used for a while: a proxy in between may end every long
/// response.
pub(crate) const BROKEN_STREAMS_BEFORE_LIST: u32 = 3;

/// What to do after an incomplete WatchList.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WatchListFallback {
    /// Retry at once, for the newest state.
    RetryNewest,
    /// Use LIST this time.
    ListOnce,
    /// Use LIST for a while.
    ListForAWhile,
    /// Handle it like a failed list.
    Fail,
}

/// Whether this source's API server supports WatchList. client-go falls back for one attempt and tries again with the
/// next.
#[derive(Debug)]
pub(super) struct WatchListSupport {
    wanted: bool,
    not_before: Option<Moment>,
    broken_in_a_row: u32,
}

impl WatchListSupport {
    pub(super) fn new(wanted: bool) -> Self {
        Self {
            wanted,
            not_before: None,
            broken_in_a_row: 0,
        }
    }

    pub(super) fn should_try(&self, now: Moment) -> bool {
        self.wanted && self.not_before.is_none_or(|moment| now >= moment)
    }

    pub(super) fn record_success(&mut self) {
        self.not_before = None;
        self.broken_in_a_row = 0;
    }

    /// It was refused or did not end: do not try again for a while.
    pub(super) fn refused(&mut self, now: Moment) {
        self.not_before = Some(now + WATCH_LIST_RETRY_PACE);
        self.broken_in_a_row = 0;
    }

    /// A LIST was refused for the same reason, so the refusal was not about WatchList. Returns whether that makes
    /// WatchList worth trying again.
    pub(super) fn listing_failed(&mut self, error: &ApiError) -> bool {
        let forgotten = is_unsupported(error) && self.not_before.is_some();
        if forgotten {
            self.not_before = None;
        }
        forgotten
    }

    /// It was interrupted before its end.
    pub(super) fn interrupted(&mut self) -> WatchListFallback {
        self.broken_in_a_row += 1;
        if self.broken_in_a_row < BROKEN_STREAMS_BEFORE_LIST {
            WatchListFallback::ListOnce
        } else {
            WatchListFallback::ListForAWhile
        }
    }
}

/// What to do after the API server refused a WatchList, in the response or in the stream. `any_version`: it already
/// requested the newest state.
///
/// Source: client-go `watchList`: an expired version is retried, everything that cannot be retried falls back.
pub(super) fn after_refusal(error: &ApiError, any_version: bool) -> WatchListFallback {
    if error.cause() == ApiErrorCause::UnsupportedSelector {
        return WatchListFallback::Fail;
    }
    if is_unsupported(error) {
        return WatchListFallback::ListForAWhile;
    }
    match error.cause() {
        ApiErrorCause::Expired | ApiErrorCause::VersionTooLarge if !any_version => WatchListFallback::RetryNewest,
        // A list of the newest state does not need a cache that has caught up, and some users may list but not watch.
        ApiErrorCause::Expired
        | ApiErrorCause::VersionTooLarge
        | ApiErrorCause::Forbidden
        | ApiErrorCause::Other(_) => WatchListFallback::ListOnce,
        ApiErrorCause::TooManyRequests(_)
        | ApiErrorCause::NotFound
        | ApiErrorCause::UnsupportedSelector
        | ApiErrorCause::TooLarge
        | ApiErrorCause::Unreachable => WatchListFallback::Fail,
    }
}

/// Whether the API server does not support `sendInitialEvents`: an invalid request or option (400, 422), or a method or
/// format that it does not have (405, 406, 501).
fn is_unsupported(error: &ApiError) -> bool {
    match error {
        ApiError::Refused { code, message, .. } => {
            matches!(code, 400 | 405 | 406 | 422 | 501) || message.contains("sendInitialEvents")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::StatusBody;

    fn refused(code: u16, message: &str) -> ApiError {
        ApiError::refused(StatusBody {
            message: Some(message.to_owned()),
            ..StatusBody::of_code(code)
        })
    }

    #[test]
    fn an_unsupported_watch_list_is_not_retried_soon() {
        for code in [400, 405, 406, 422, 501] {
            assert_eq!(
                after_refusal(&refused(code, ""), true),
                WatchListFallback::ListForAWhile,
                "{code}"
            );
        }
        let worded = refused(
            403,
            "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled",
        );
        assert_eq!(after_refusal(&worded, true), WatchListFallback::ListForAWhile);
    }

    #[test]
    fn an_expired_version_is_retried_once() {
        assert_eq!(after_refusal(&refused(410, ""), false), WatchListFallback::RetryNewest);
        assert_eq!(after_refusal(&refused(410, ""), true), WatchListFallback::ListOnce);
    }

    #[test]
    fn errors_that_would_also_fail_a_list_back_off() {
        assert_eq!(after_refusal(&refused(429, ""), true), WatchListFallback::Fail);
        assert_eq!(after_refusal(&refused(404, ""), true), WatchListFallback::Fail);
        assert_eq!(after_refusal(&refused(500, ""), true), WatchListFallback::ListOnce);
        assert_eq!(
            after_refusal(&refused(403, "pods is forbidden"), true),
            WatchListFallback::ListOnce
        );
    }

    #[test]
    fn a_refusal_is_remembered_until_success_or_timeout() {
        let mut support = WatchListSupport::new(true);
        assert!(support.should_try(Moment::ZERO));
        support.refused(Moment::ZERO);
        assert!(!support.should_try(Moment::ZERO + (WATCH_LIST_RETRY_PACE - Duration::from_nanos(1))));
        assert!(support.should_try(Moment::ZERO + WATCH_LIST_RETRY_PACE));
        support.record_success();
        assert!(support.should_try(Moment::ZERO));
        assert!(!WatchListSupport::new(false).should_try(Moment::ZERO));
    }

    #[test]
    fn repeated_interruptions_disable_watch_list() {
        let mut support = WatchListSupport::new(true);
        assert_eq!(support.interrupted(), WatchListFallback::ListOnce);
        assert_eq!(support.interrupted(), WatchListFallback::ListOnce);
        assert_eq!(support.interrupted(), WatchListFallback::ListForAWhile);
        support.record_success();
        assert_eq!(support.interrupted(), WatchListFallback::ListOnce);
    }
}
