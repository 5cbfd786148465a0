//! Failures of a source: how long to wait after one, what to log, and what an outage of the API server changes about
//! that.
//!
//! In an outage all sources of the cluster fail. The cluster logs its begin and its end; the failures of its sources
//! are at level debug, also those of the first moments after it, when an API server refuses the versions of before. Its
//! end is also the end of every back-off: what failed in it says nothing about the API server that is back.

use std::time::Duration;

use super::Reflector;
use super::failure_policy::{REFUSED_RETRY_PACE, RetryPace, state_and_pace};
use crate::api::{ApiError, ApiErrorCause};
use crate::source_name::{SourceName, log_unless};
use crate::status::ReflectorState;

/// A failure that is worth a warning.
pub(super) struct Failure {
    /// `list` or `watch`.
    request: &'static str,
    error: String,
    retry_in_seconds: f64,
    on_probation: bool,
}

impl Failure {
    fn log(&self, quiet: bool, name: &SourceName) {
        let Self {
            request,
            error,
            retry_in_seconds,
            on_probation,
        } = self;
        match *request {
            _ if *on_probation => log_unless!(
                quiet,
                warn,
                *name,
                request,
                error,
                retry_in_seconds,
                "reconfiguration not applied yet; keeping the previous request"
            ),
            "list" => log_unless!(
                quiet,
                warn,
                *name,
                error,
                retry_in_seconds,
                code = "watch-not-live",
                "list failed"
            ),
            _ => log_unless!(
                quiet,
                warn,
                *name,
                error,
                retry_in_seconds,
                code = "watch-not-live",
                "watch failed"
            ),
        }
    }
}

impl Reflector {
    /// Reports a failed list and returns how long to wait.
    pub(super) fn list_failed(&mut self, error: &ApiError) -> Duration {
        self.forget_outage();
        let (state, pace) = state_and_pace(error.cause());
        self.set_reflector_state(state);
        let pause = self.list_pause(pace);
        self.report("list", error.to_string(), pause, state, is_answered(error));
        pause
    }

    pub(super) fn list_rejected(&mut self, list: u64, high_water: u64) -> Duration {
        self.forget_outage();
        let pause = self.list_pause(RetryPace::Backoff { at_least: None });
        let text = format!(
            "the API server returned version {list}, older than {high_water} which was already seen: its replica lags \
             behind; keeping the newer state"
        );
        self.report("list", text, pause, ReflectorState::Disconnected, true);
        pause
    }

    /// Makes an error the source's last error, and logs it; while the source waits for something that only people can
    /// change, once. A failure without an answer is logged when it is known whether others get one.
    pub(super) fn report(
        &mut self,
        request: &'static str,
        error: String,
        pause: Duration,
        state: ReflectorState,
        is_answered: bool,
    ) {
        let failure = Failure {
            request,
            error,
            retry_in_seconds: pause.as_secs_f64(),
            on_probation: self.parts.probation.is_some(),
        };
        let text = format!("{request}: {}", failure.error);
        let is_news = if failure.on_probation {
            self.parts.status.set_reconfigure_error(self.parts.generation, text);
            true
        } else {
            self.set_error(text);
            state.is_news_after(self.last_failure.replace(state))
        };
        let quiet = !is_news || !is_answered || self.parts.link.is_in_outage();
        failure.log(quiet, &self.parts.name);
        self.has_warned |= !quiet && !failure.on_probation;
        if !is_answered {
            self.unanswered = Some(failure);
        }
    }

    /// Waits before the next attempt; not longer than an outage of the API server lasts.
    pub(super) async fn sleep(&mut self, pause: Duration) {
        let (unanswered, link) = (self.unanswered.take(), &self.parts.link);
        match unanswered {
            Some(failure) => {
                let alone = || {
                    failure.log(false, &self.parts.name);
                    self.has_warned |= !failure.on_probation;
                };
                link.sleep_unanswered(pause, alone).await;
            }
            None => link.sleep(pause).await,
        }
        self.forget_outage();
    }

    /// If an outage of the API server has ended: every back-off begins from scratch, and a watch that opens is alive.
    pub(super) fn forget_outage(&mut self) {
        let ended = self.parts.link.outages_ended();
        if std::mem::replace(&mut self.outages_ended, ended) != ended {
            self.list_backoff.reset();
            self.watch_backoff.reset();
            self.expired_watches = 0;
            self.fruitless_watches = 0;
            self.liveness.trust();
        }
    }

    fn list_pause(&mut self, pace: RetryPace) -> Duration {
        if let Some(pause) = self.return_pause(pace) {
            return pause;
        }
        let (now, random) = (self.parts.environment.now(), self.parts.environment.random());
        pace.pause(|| self.list_backoff.after_failure(now, random), random)
    }

    pub(super) fn watch_pause(&mut self, pace: RetryPace) -> Duration {
        if let Some(pause) = self.return_pause(pace) {
            return pause;
        }
        let (now, random) = (self.parts.environment.now(), self.parts.environment.random());
        pace.pause(|| self.watch_backoff.after_failure(now, random), random)
    }

    /// How long to wait after a failure that an outage may have left behind. It lets no back-off grow.
    fn return_pause(&self, pace: RetryPace) -> Option<Duration> {
        let at_least = match pace {
            RetryPace::Backoff { at_least } => at_least.unwrap_or_default(),
            // Users and resources are unknown until the API server's caches are filled. What was never read before is
            // more likely forbidden or missing.
            RetryPace::Every(pace) if pace != REFUSED_RETRY_PACE && self.parts.status.is_synced() => Duration::ZERO,
            RetryPace::Every(_) | RetryPace::Now => return None,
        };
        self.parts.link.return_pause().map(|pause| pause.max(at_least))
    }

    /// The source works. Logs that after a failure that was logged.
    pub(super) fn recovered(&mut self) {
        self.last_failure = None;
        if std::mem::take(&mut self.has_warned) {
            log_unless!(false, info, *self.parts.name, "source recovered");
        }
    }

    /// A watch is open after one that was interrupted. In an outage that is no news.
    pub(super) fn log_interrupted(&mut self) {
        if let Some(error) = self.interrupted.take() {
            let quiet = self.parts.link.is_in_outage();
            log_unless!(quiet, info, *self.parts.name, %error, "watch interrupted; reopened");
        }
    }
}

/// Whether the API server has answered the request.
pub(super) fn is_answered(error: &ApiError) -> bool {
    error.cause() != ApiErrorCause::Unreachable
}
