//! The reflector: lists a collection, watches it from there on, and tells the informer loop what it sees.
//!
//! ```text
//! watch-list, or list ─▶ staged, judged, sent whole ─▶ watch ─▶ … reopened from the last version … ─▶ from the beginning when it cannot go on
//! ```
//!
//! Owns what is asked of the API server and when: versions, paging, back-off, deadlines. Promises that whatever the API
//! server does, the next step is one of: go on, try again after a stated wait, list anew; each visible in the source's
//! state, its last error and a counter. Everything is cancelled by dropping the future of [`Reflector::run`]. Does not
//! know the store beyond a snapshot to compare with.
//!
//! Follows client-go's `tools/cache/reflector.go`; where it departs, the item says so.

mod failure_policy;
mod list;
mod liveness;
mod paging;
mod probation;
mod rollback_check;
mod staging;
mod watch;
mod watch_lines;
mod watch_list;
mod watch_list_support;

use std::sync::Arc;
use std::time::Duration;

use informant_cache::{Environment, Source};
use informant_object::Shape;
use informant_object::frames::WATCH_LINE_BYTES_MAX;
use kube::Client;

use crate::api::{ApiError, CollectionRequest};
use crate::backoff::{Backoff, BackoffOptions};
use crate::metrics::SourceMetrics;
use crate::source_name::{SourceName, log};
use crate::status::{ReflectorState, RequestCounter, StatusTracker, WatchListUse};
use crate::update_channel::UpdateSender;
use failure_policy::{WatchDecision, after_list_failure};
use liveness::Liveness;
use paging::ListVersions;
pub(crate) use probation::Probation;
use watch::OpenWatch;
use watch_list::WatchListFailure;
use watch_list_support::WatchListSupport;

/// How many items a page of a list is asked to hold. Source: client-go's pager.
pub(crate) const LIST_PAGE_ITEMS: usize = 500;

/// How long the initial events of a WatchList may take in all. A busy API server brings a hundred thousand large
/// objects in half a minute; one that does not know what it is asked for never says that they ended.
pub(crate) const INITIAL_EVENTS_MAX: Duration = Duration::from_secs(180);

/// How a reflector departs from the usual.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReflectorOptions {
    /// How retries are paced.
    pub backoff: BackoffOptions,
    /// The least time after which the API server is asked to end a watch; the time asked for is between this and twice
    /// this, so that a thousand watches do not end together. Default 5 min.
    pub watch_timeout_min: Duration,
    /// The longest line of a watch and the longest item of a list that is taken; a longer one is skipped, its key
    /// marked outdated and counted. Default 16 MiB.
    pub watch_line_bytes_max: usize,
    /// How many items a page of a list is asked to hold. Unset, lists are paged by 500 where the API server reads its
    /// database, and come in one piece where its watch cache can serve them.
    pub page_items: Option<usize>,
    /// Whether the state is asked for by a WatchList first (a watch that begins with all there is), and by LIST only
    /// where that is refused or does not end. Default true.
    pub watch_list: bool,
    /// How long the initial events of a WatchList may take; after it LIST is used, and remembered. Default 3 min.
    pub initial_events_max: Duration,
}

impl Default for ReflectorOptions {
    fn default() -> Self {
        Self {
            backoff: BackoffOptions::default(),
            watch_timeout_min: Duration::from_secs(300),
            watch_line_bytes_max: WATCH_LINE_BYTES_MAX,
            page_items: None,
            watch_list: true,
            initial_events_max: INITIAL_EVENTS_MAX,
        }
    }
}

/// What a reflector is made of.
pub(crate) struct ReflectorParts {
    /// What errors and logs call the source, for example "informer `pods` (v1/pods)".
    pub(crate) name: Arc<SourceName>,
    pub(crate) request: CollectionRequest,
    pub(crate) shape: Shape,
    pub(crate) client: Client,
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) source: Arc<Source>,
    pub(crate) updates: UpdateSender,
    pub(crate) status: Arc<StatusTracker>,
    pub(crate) metrics: Arc<SourceMetrics>,
    pub(crate) options: ReflectorOptions,
    /// Which of the source's reflectors this is.
    pub(crate) generation: u64,
    /// Another one runs, and goes on until this one has its first list.
    pub(crate) probation: Option<Probation>,
}

/// One source's reflector.
pub(crate) struct Reflector {
    parts: ReflectorParts,
    versions: ListVersions,
    watch_list: WatchListSupport,
    backoff: Backoff,
    /// Whether some key is marked outdated, so that events have to look.
    has_outdated: bool,
    /// Watches in a row that ended soon and without an event.
    fruitless_watches: u32,
    /// The API server could not be reached, or the last watch fell silent: it may be another one, or one of the past.
    check_rollback: bool,
    liveness: Liveness,
}

/// Why a round of list and watch is over.
enum RoundEnd {
    /// The loop is gone: so is the reason to go on.
    LoopGone,
    /// Begin again with a list, after so long.
    RetryAfter(Duration),
}

/// What a list came to.
enum ListFailure {
    LoopGone,
    Failed(ApiError),
    /// A lagging replica answered: older than what is known.
    Rejected {
        list: u64,
        high_water: u64,
    },
}

impl Reflector {
    pub(crate) fn new(parts: ReflectorParts) -> Self {
        Self {
            versions: ListVersions::new(parts.options.page_items),
            watch_list: WatchListSupport::new(parts.options.watch_list),
            backoff: Backoff::new(parts.options.backoff),
            has_outdated: false,
            fruitless_watches: 0,
            check_rollback: false,
            liveness: Liveness::default(),
            parts,
        }
    }

    pub(crate) fn name(&self) -> Arc<SourceName> {
        Arc::clone(&self.parts.name)
    }

    /// Lists and watches until the loop is gone. Dropping the future stops it wherever it is.
    pub(crate) async fn run(mut self) {
        while let RoundEnd::RetryAfter(pause) = self.list_and_watch().await {
            self.parts.environment.sleep(pause).await;
        }
    }

    async fn list_and_watch(&mut self) -> RoundEnd {
        let obtained = match self.parts.probation.clone() {
            Some(probation) => self.list_on_probation(&probation).await,
            None => self.fetch_state().await,
        };
        match obtained {
            Ok(open) => self.watch_until_relist(open).await,
            Err(ListFailure::LoopGone) => RoundEnd::LoopGone,
            Err(ListFailure::Failed(error)) => RoundEnd::RetryAfter(self.list_failed(&error)),
            Err(ListFailure::Rejected { list, high_water }) => {
                RoundEnd::RetryAfter(self.list_rejected(list, high_water))
            }
        }
    }

    /// Brings all there is to the loop. By a WatchList there is an open watch afterwards.
    async fn fetch_state(&mut self) -> Result<Option<OpenWatch>, ListFailure> {
        if self.watch_list.should_try(self.parts.environment.now()) {
            match self.watch_list().await {
                Ok(open) => return Ok(Some(open)),
                Err(WatchListFailure::List(end)) => return Err(end),
                Err(WatchListFailure::FallBackToList) => {}
            }
        }
        let end = self.list().await;
        if let Err(ListFailure::Failed(error)) = &end
            && self.watch_list.listing_failed(error)
        {
            self.parts.status.set_watch_list(WatchListUse::Untried);
        }
        end.map(|()| None)
    }

    async fn watch_until_relist(&mut self, mut open: Option<OpenWatch>) -> RoundEnd {
        loop {
            let end = match open.take() {
                Some(open) => self.read_watch(open).await,
                None => match self.cluster_was_rolled_back().await {
                    Ok(true) => return self.relist_after_rollback(),
                    Ok(false) => self.watch().await,
                    Err(error) => self.watch_failed(error),
                },
            };
            match self.after_watch(end) {
                WatchDecision::LoopGone => return RoundEnd::LoopGone,
                WatchDecision::Reopen => {}
                WatchDecision::ReopenAfter(pause) => self.parts.environment.sleep(pause).await,
                WatchDecision::RelistAfter(pause, reason) => {
                    self.parts.metrics.count_relist(reason);
                    self.parts.status.count(RequestCounter::Relists);
                    return RoundEnd::RetryAfter(pause);
                }
            }
        }
    }

    /// Whether the API server was away and is back with less than what was seen.
    async fn cluster_was_rolled_back(&mut self) -> Result<bool, ApiError> {
        Ok(std::mem::take(&mut self.check_rollback) && self.was_rolled_back().await?)
    }

    /// Lists anew, consistently: only that opens another epoch.
    fn relist_after_rollback(&mut self) -> RoundEnd {
        self.versions.refused();
        self.parts.metrics.count_relist("went-back");
        self.parts.status.count(RequestCounter::Relists);
        RoundEnd::RetryAfter(Duration::ZERO)
    }

    /// Notes a list that failed, and says how long to wait.
    fn list_failed(&mut self, error: &ApiError) -> Duration {
        let decision = after_list_failure(error);
        self.set_reflector_state(decision.reach);
        let pause = self.pause(decision.pace);
        self.report("list", &error.to_string(), pause);
        pause
    }

    fn list_rejected(&mut self, list: u64, high_water: u64) -> Duration {
        let pause = self.pause(failure_policy::RetryPace::Backoff { at_least: None });
        let text = format!(
            "the API server returned version {list}, older than {high_water} which was already seen: its replica lags \
             behind; keeping the newer state"
        );
        self.report("list", &text, pause);
        pause
    }

    /// The error of the moment: for people who look, and in the log. Paced as the attempts are, so it cannot flood.
    fn report(&self, request: &'static str, error: &str, pause: Duration) {
        let retry_in_seconds = pause.as_secs_f64();
        let name = &self.parts.name;
        if self.parts.probation.is_some() {
            log!(
                warn,
                *name,
                request,
                error,
                retry_in_seconds,
                "reconfiguration not applied yet; keeping the previous request"
            );
            return self.parts.status.set_reconfigure_error(format!("{request}: {error}"));
        }
        match request {
            "list" => log!(warn, *name, error, retry_in_seconds, "list failed"),
            _ => log!(warn, *name, error, retry_in_seconds, "watch failed"),
        }
        self.set_error(format!("{request}: {error}"));
    }

    /// Says whether the source can be reached, if this reflector is the one that speaks for it.
    fn set_reflector_state(&self, reach: ReflectorState) {
        if self.parts.status.is_current(self.parts.generation) {
            self.parts.status.set_reflector_state(reach);
        }
    }

    fn set_error(&self, text: String) {
        if self.parts.status.is_current(self.parts.generation) {
            self.parts.status.set_error(text);
        }
    }

    fn pause(&mut self, pace: failure_policy::RetryPace) -> Duration {
        let environment = &self.parts.environment;
        pace.pause(&mut self.backoff, environment.now(), environment.random())
    }
}

#[cfg(test)]
mod tests;
