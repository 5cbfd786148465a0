//! The reflector: lists a collection, watches it, and sends what it sees to the informer loop.
//!
//! ```text
//! WatchList or LIST ─▶ staged, checked, sent as a whole ─▶ watch ─▶ … reopened at the last version … ─▶ relist
//! ```
//!
//! Decides when to send which request: resource versions, paging, back-off, deadlines. Whatever the API server does,
//! the next step is one of: continue, retry after a stated wait, relist. Each shows in the source's state, its last
//! error and a counter. Dropping the future of [`Reflector::run`] cancels everything. Of the store it only knows a
//! snapshot to compare with.
//!
//! Follows client-go's `tools/cache/reflector.go`; departures are noted where they occur.

mod failure_policy;
mod failures;
mod list;
mod list_limits;
mod liveness;
mod other_namespaces;
mod paging;
mod probation;
mod staged_heads;
mod staging;
mod watch;
mod watch_lines;
mod watch_list;
mod watch_list_support;

use std::sync::Arc;
use std::time::Duration;

use informant_cache::{Backoff, BackoffOptions};

use crate::api::{ApiError, CollectionRequest};
use crate::cache_share::CacheShare;
use crate::cluster_client::ClusterLink;
use crate::metrics::SourceMetrics;
use crate::source_name::SourceName;
use crate::source_name::log;
use crate::status::{ReflectorState, StatusTracker, WatchListUse};
use crate::update_channel::UpdateSender;
use failure_policy::WatchDecision;
use failures::Failure;
use informant_cache::{Environment, Source};
use informant_object::Shape;
use informant_object::frames::WATCH_LINE_BYTES_MAX;
use list_limits::ListLimits;
use liveness::Liveness;
pub(crate) use other_namespaces::OtherNamespaces;
use paging::ListVersions;
pub(crate) use probation::{RECONFIGURE_HOLD_MAX, ReflectorProbation, SHARDS_HOLD_MAX};
use watch::OpenWatch;
use watch_list::WatchListFailure;
use watch_list_support::WatchListSupport;

/// Page size of a list, in items. Source: client-go's pager.
pub(crate) const LIST_PAGE_ITEMS: usize = 500;

/// How long the initial events of a WatchList may take in all. A busy API server sends a hundred thousand large objects
/// in half a minute; one that does not support the request never marks their end.
pub(crate) const INITIAL_EVENTS_MAX: Duration = Duration::from_secs(180);

/// Items of a page of a list that leaves out namespaces of other shards. Larger than [`LIST_PAGE_ITEMS`], as each page
/// makes the API server look at what it leaves out, and small enough to be sent within its minute.
const OWN_PAGE_ITEMS: usize = 5_000;

/// The most objects of one list. Ten times what a large cluster has of a kind; a longer one has no end.
pub const LIST_OBJECTS_MAX: usize = 5_000_000;

/// The most bytes of one list, with all its pages, where the caches have no budget. Half a million objects of 8 KiB;
/// etcd itself holds 2 GiB by default and should not hold more than 8. With a budget, a list that exceeds it is kept as
/// heads instead.
pub const LIST_BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// The most pages of one list: twice [`LIST_OBJECTS_MAX`] in pages of 500.
pub const LIST_PAGES_MAX: usize = 20_000;

/// Options of a reflector.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReflectorOptions {
    /// Back-off between retries.
    pub backoff: BackoffOptions,
    /// The shortest time after which the API server should end a watch. The requested time is between this and twice
    /// this, so that a thousand watches do not end together. Default 5 min.
    pub watch_timeout_min: Duration,
    /// The longest accepted line of a watch and item of a list. Longer ones are skipped and counted, and their key is
    /// marked outdated. Default 16 MiB.
    pub watch_line_bytes_max: usize,
    /// Page size of a list, in items. If unset, lists are paged by 500 where the API server reads its database, and are
    /// not paged where its watch cache can serve them.
    pub page_items: Option<usize>,
    /// Whether to fetch the state by WatchList (a watch that starts with the current state). LIST is then used only
    /// where a WatchList is refused or does not end. Default true.
    pub watch_list: bool,
    /// How long the initial events of a WatchList may take. After that LIST is used, also for the following relists.
    /// Default 3 min.
    pub initial_events_max: Duration,
    /// The most objects of a list. A longer one fails, and is tried again every 5 minutes. Default
    /// [`LIST_OBJECTS_MAX`].
    pub list_objects_max: usize,
    /// The most bytes of a list, with all its pages, where the caches have no budget. Default [`LIST_BYTES_MAX`].
    pub list_bytes_max: u64,
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
            list_objects_max: LIST_OBJECTS_MAX,
            list_bytes_max: LIST_BYTES_MAX,
        }
    }
}

pub(crate) struct ReflectorParts {
    /// What errors and logs call the source.
    pub(crate) name: Arc<SourceName>,
    pub(crate) request: CollectionRequest,
    pub(crate) shape: Shape,
    pub(crate) link: ClusterLink,
    pub(crate) environment: Arc<dyn Environment>,
    pub(crate) source: Arc<Source>,
    pub(crate) updates: UpdateSender,
    pub(crate) status: Arc<StatusTracker>,
    pub(crate) metrics: Arc<SourceMetrics>,
    pub(crate) cache: Arc<CacheShare>,
    pub(crate) options: ReflectorOptions,
    /// What is known of the namespaces of other shards.
    pub(crate) others: Arc<OtherNamespaces>,
    /// The reflector's number among those of its source.
    pub(crate) generation: u64,
    /// Set while another reflector runs and keeps running until this one has its first list.
    pub(crate) probation: Option<ReflectorProbation>,
}

pub(crate) struct Reflector {
    parts: ReflectorParts,
    versions: ListVersions,
    watch_list: WatchListSupport,
    /// Between failed lists; ends with a list.
    list_backoff: Backoff,
    /// Between failed watches and the lists that they lead to; ends with a watch that lives.
    watch_backoff: Backoff,
    /// The state that the last failure led to, unless the source has recovered since.
    last_failure: Option<ReflectorState>,
    /// Whether a failure was logged as a warning, unless the source has recovered since.
    has_warned: bool,
    /// Whether some key is marked outdated, so that events have to be checked against the outdated keys.
    has_outdated: bool,
    /// Consecutive watches that ended early and without an event.
    fruitless_watches: u32,
    /// Watches that ended with 410, since one lived.
    expired_watches: u32,
    /// Why the state is fetched again, until it was.
    relist_reason: Option<&'static str>,
    /// The last failure, if the request got no response.
    unanswered: Option<Failure>,
    /// How the last watch was interrupted, until it is known whether another one can be opened.
    interrupted: Option<ApiError>,
    /// The outages of the API server that had ended when its failures were last forgotten.
    outages_ended: u64,
    /// Set after the API server was unreachable, or a watch lost its connection or was silent: it may be another server
    /// now, or a restored one.
    check_rollback: bool,
    liveness: Liveness,
    /// Whether the next list leaves out namespaces of other shards: not after one that failed.
    leaves_out: bool,
}

/// Why a list-and-watch round ended.
enum RoundEnd {
    /// The loop is gone, so the reflector stops.
    LoopGone,
    /// Relist after this time.
    RetryAfter(Duration),
}

enum ListFailure {
    LoopGone,
    Failed(ApiError),
    /// A lagging replica answered: the list is older than what was already seen.
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
            list_backoff: Backoff::new(parts.options.backoff),
            watch_backoff: Backoff::new(parts.options.backoff),
            last_failure: None,
            has_warned: false,
            has_outdated: false,
            fruitless_watches: 0,
            expired_watches: 0,
            relist_reason: None,
            unanswered: None,
            interrupted: None,
            outages_ended: parts.link.outages_ended(),
            check_rollback: false,
            liveness: Liveness::default(),
            leaves_out: true,
            parts,
        }
    }

    /// Lists and watches until the loop is gone. Dropping the future stops it at any point.
    pub(crate) async fn run(mut self) {
        while let RoundEnd::RetryAfter(pause) = self.list_and_watch().await {
            self.sleep(pause).await;
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

    /// Fetches the whole state and sends it to the loop. After a WatchList, returns its open watch.
    async fn fetch_state(&mut self) -> Result<Option<OpenWatch>, ListFailure> {
        // If it fails, or is given up, the next attempt asks for all.
        let leaves_out = std::mem::replace(&mut self.leaves_out, false);
        let end = match self.list_without_others(leaves_out).await {
            Some(end) => end.map(|()| None),
            None => self.fetch_all().await,
        };
        self.leaves_out = end.is_ok();
        end
    }

    async fn fetch_all(&mut self) -> Result<Option<OpenWatch>, ListFailure> {
        let reads_all = !self.parts.request.reads_nothing();
        if reads_all && self.watch_list.should_try(self.parts.environment.now()) {
            match self.watch_list().await {
                Ok(open) => return Ok(Some(open)),
                Err(WatchListFailure::List(end)) => return Err(end),
                Err(WatchListFailure::FallBackToList) => {}
            }
        }
        let end = self.list(&self.parts.request.clone(), None).await;
        if let Err(ListFailure::Failed(error)) = &end
            && self.watch_list.listing_failed(error)
        {
            self.parts.status.set_watch_list(WatchListUse::Untried);
        }
        end.map(|()| None)
    }

    /// Lists without the namespaces that are known to be of other shards: also if WatchList is supported, as the watch
    /// has to bring the deletes of these. None: they are not known, or cannot be left out.
    async fn list_without_others(&mut self, is_wanted: bool) -> Option<Result<(), ListFailure>> {
        let ReflectorParts {
            request,
            others,
            source,
            options,
            ..
        } = &self.parts;
        if !is_wanted || request.reads_nothing() {
            return None;
        }
        let excluded = others.excluded(request.shards.as_ref(), &source.snapshot())?;
        let limit = options.page_items.unwrap_or(OWN_PAGE_ITEMS);
        match self.list(&request.without(&excluded), Some(limit)).await {
            Err(ListFailure::Failed(error)) if error.is_about_request() => {
                log!(info, *self.parts.name, %error, "API server cannot leave out namespaces; listing all of them");
                None
            }
            end => Some(end),
        }
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
                WatchDecision::ReopenAfter(pause) => self.sleep(pause).await,
                WatchDecision::RelistAfter(pause, reason) => {
                    self.relist_reason = Some(reason);
                    return RoundEnd::RetryAfter(pause);
                }
            }
        }
    }

    /// Whether the API server was unreachable and now serves less than what was seen.
    async fn cluster_was_rolled_back(&mut self) -> Result<bool, ApiError> {
        // Kept for the next attempt if this one fails.
        let rolled_back = self.check_rollback && self.was_rolled_back().await?;
        self.check_rollback = false;
        Ok(rolled_back)
    }

    /// Relists consistently: only a consistent list can start a new epoch.
    fn relist_after_rollback(&mut self) -> RoundEnd {
        self.versions.refused();
        self.interrupted = None;
        self.relist_reason = Some("went-back");
        RoundEnd::RetryAfter(Duration::ZERO)
    }

    /// Sets the state of the source, if this reflector is its current one.
    fn set_reflector_state(&self, state: ReflectorState) {
        if self.parts.status.is_current(self.parts.generation) {
            self.parts.status.set_reflector_state(state);
        }
    }

    fn set_error(&self, text: String) {
        if self.parts.status.is_current(self.parts.generation) {
            self.parts.status.set_error(text);
        }
    }

    /// The watch has shown that it works.
    fn watch_lives(&mut self) {
        self.recovered();
    }

    /// The watch lasted: the next failure says nothing about earlier ones. The initial events of a WatchList do not
    /// count, because a server can answer them again and again and then fail: each round would be a whole list.
    fn watch_lasted(&mut self) {
        self.watch_lives();
        self.watch_backoff.reset();
        self.expired_watches = 0;
    }
}

#[cfg(test)]
mod tests;
