//! LIST: pages read item by item, staged, checked at the end, and submitted as a whole.

use std::sync::atomic::Ordering;

use http::Request;
use informant_cache::seeded_bug::{SeededBug, seeded_bug};
use informant_cache::{ListSource, ListVerdict, Snapshot};
use informant_object::ResourceVersion;
use informant_object::frames::{ListHead, ListSplitter};
use kube::client::Body;
use tokio::sync::oneshot;

use super::paging::ListPlan;
use super::staging::{Staged, Staging};
use super::{ListFailure, ListLimits, Reflector};
use crate::api::{ANSWER_SILENCE_MAX, ApiError, ApiErrorCause, CollectionRequest, Frames, ListQuery, SilenceTimeout};
use crate::metrics::CounterFamily;
use crate::source_name::{log, log_unless};
use crate::status::RequestCounter;
use crate::update_channel::{StagedList, Update};

/// After this many items other tasks get a turn, even if more of the response is ready: about a millisecond.
const ITEMS_PER_YIELD: usize = 256;

/// A complete list, from LIST or WatchList.
pub(super) struct FetchedList {
    pub(super) staged: Staged,
    pub(super) version: ResourceVersion,
    pub(super) pages: usize,
}

impl Reflector {
    /// Lists the collection, or what `request` asks for of it, and hands the result to the loop. `limit` replaces the
    /// usual size of a page.
    pub(super) async fn list(&mut self, request: &CollectionRequest, limit: Option<usize>) -> Result<(), ListFailure> {
        let mut plan = self.list_plan(limit);
        let mut result = self.list_by(request, &plan).await;
        if let Err(error) = &result
            && is_version_error(error)
            && plan.version.is_some()
        {
            // Retry once, at once: the API server has a newer or an older history, and any state it has now is
            // acceptable.
            let quiet = self.parts.link.is_in_outage();
            log_unless!(quiet, info, *self.parts.name, %error, "list refused at this version; listing the newest state");
            self.parts.metrics.count(CounterFamily::Lists, error.cause().label());
            self.versions.refused();
            plan = self.list_plan(limit);
            result = self.list_by(request, &plan).await;
        }
        match result {
            Ok(fetched) => {
                let end = self.submit_list(&plan, fetched).await;
                self.parts.metrics.count(CounterFamily::Lists, result_label(&end));
                end
            }
            Err(error) => {
                self.parts.metrics.count(CounterFamily::Lists, error.cause().label());
                Err(ListFailure::Failed(error))
            }
        }
    }

    fn list_plan(&self, limit: Option<usize>) -> ListPlan {
        let usual = match self.parts.request.reads_nothing() {
            // Only the version is wanted, from which the watch continues.
            true => ListPlan {
                version: None,
                limit: 1,
            },
            false => self.versions.plan(),
        };
        ListPlan {
            limit: limit.unwrap_or(usual.limit),
            ..usual
        }
    }

    /// Submits a list to the loop, which checks it and applies it if it is accepted.
    pub(super) async fn submit_list(&mut self, plan: &ListPlan, fetched: FetchedList) -> Result<(), ListFailure> {
        let FetchedList { staged, version, pages } = fetched;
        let source = if plan.version.is_none() {
            ListSource::Consistent
        } else {
            ListSource::Cache
        };
        let (verdict, answer) = oneshot::channel();
        let list = StagedList {
            objects: staged.objects,
            memory: staged.memory,
            heads: staged.heads,
            version: version.clone(),
            source,
            verdict,
        };
        let received = self.parts.environment.now();
        if let Some(probation) = &self.parts.probation {
            probation.list_submitted.store(true, Ordering::Relaxed);
        }
        let sent = self
            .parts
            .updates
            .send(vec![Update::Replace(list)], staged.new_bytes, received)
            .await;
        sent.map_err(|_| ListFailure::LoopGone)?;
        match answer.await.map_err(|_| ListFailure::LoopGone)? {
            ListVerdict::Outdated { list, high_water } => {
                self.parts.status.count_rejected("list");
                // The next list must be consistent: only a replica's cache can lag.
                self.versions.refused();
                return Err(ListFailure::Rejected { list, high_water });
            }
            ListVerdict::Restored { .. } => {
                log!(
                    warn,
                    *self.parts.name,
                    resource_version = version.as_str(),
                    "cluster rolled back to an older version, as after restoring a backup; accepting it"
                );
                self.parts.status.begin_epoch();
            }
            ListVerdict::Accept => {}
        }
        self.parts.probation = None;
        if self.versions.last().is_some() {
            self.parts.status.count(RequestCounter::Relists);
        }
        if let Some(reason) = self.relist_reason.take() {
            self.parts.metrics.count(CounterFamily::Relists, reason);
        }
        self.list_backoff.reset();
        self.versions.listed(plan, &version, pages);
        self.has_outdated = !staged.outdated.is_empty();
        self.parts.status.set_outdated(staged.outdated);
        Ok(())
    }

    /// One list with all its pages. If the continuation expires on a later page, lists once more without pages, at the
    /// same version.
    ///
    /// Source: client-go `tools/pager`, FullListIfExpired.
    async fn list_by(&self, request: &CollectionRequest, plan: &ListPlan) -> Result<FetchedList, ApiError> {
        self.parts.status.count(RequestCounter::Lists);
        match self.list_pages(request, plan).await {
            Err((page, error)) if page > 0 && error.cause() == ApiErrorCause::Expired => {
                log!(
                    info,
                    *self.parts.name,
                    page = page + 1,
                    %error,
                    "list continuation expired; listing without pages"
                );
                self.parts.metrics.count(CounterFamily::Lists, "expired-page");
                let whole = ListPlan {
                    version: plan.version.clone(),
                    limit: 0,
                };
                self.list_pages(request, &whole).await.map_err(|(_, error)| error)
            }
            other => other.map_err(|(_, error)| error),
        }
    }

    /// All pages; an error names the page (from 0) on which it happened.
    async fn list_pages(&self, request: &CollectionRequest, plan: &ListPlan) -> Result<FetchedList, (usize, ApiError)> {
        let known = self.parts.source.snapshot();
        let mut staging = self.staging(plan, &known);
        let mut limits = ListLimits::new(&self.parts.options, self.parts.cache.budget.max_bytes().is_some());
        let mut continuation = String::new();
        loop {
            let page = limits.pages();
            let query = ListQuery {
                version: plan.version.as_deref(),
                limit: plan.limit,
                continuation: Some(continuation.as_str()).filter(|token| !token.is_empty()),
            };
            let head = self
                .list_page(request.list(&query), &mut staging, &mut limits)
                .await
                .map_err(|error| (page, error))?;
            limits
                .page(&continuation, &head.continue_token)
                .map_err(|error| (page, error))?;
            continuation = head.continue_token;
            let is_enough = continuation.is_empty() || self.parts.request.reads_nothing();
            if is_enough || seeded_bug(SeededBug::FirstPageTakenForList) {
                return Ok(FetchedList {
                    staged: staging.finish(),
                    version: head.version,
                    pages: limits.pages(),
                });
            }
        }
    }

    /// Staging for a list, where the store has `known`. If the list is to be consistent, the same uid and version may
    /// be another state: the cluster was rolled back, or this reflector is on probation and stores objects in another
    /// shape.
    pub(super) fn staging<'a>(&'a self, plan: &ListPlan, known: &'a Snapshot) -> Staging<'a> {
        let staging = Staging::new(&self.parts, known);
        if plan.version.is_none() {
            staging.comparing_content()
        } else {
            staging
        }
    }

    /// One page: its items go to `staging` as they arrive; returns its head.
    async fn list_page(
        &self,
        request: Result<Request<Body>, ApiError>,
        staging: &mut Staging<'_>,
        limits: &mut ListLimits,
    ) -> Result<ListHead, ApiError> {
        let link = &self.parts.link;
        let response = link.open(request?).await?;
        let silence_timeout = SilenceTimeout::after(ANSWER_SILENCE_MAX);
        let mut frames = Frames::of_source(response.into_body(), link, silence_timeout);
        let mut splitter = ListSplitter::new(self.parts.options.watch_line_bytes_max);
        let mut since_yield = 0;
        while let Some(frame) = frames.next().await? {
            limits.frame(frame.bytes.len(), staging.len())?;
            splitter.push(frame.bytes);
            while staging.stage_next(&mut splitter)? {
                since_yield += 1;
                if since_yield == ITEMS_PER_YIELD {
                    since_yield = 0;
                    tokio::task::yield_now().await;
                }
            }
            shed_excess(staging).await;
        }
        Ok(splitter.finish()?)
    }
}

/// Makes heads of what the budget has no room for before more is read: a list takes at most one frame more than the
/// budget.
pub(super) async fn shed_excess(staging: &mut Staging<'_>) {
    while staging.shed_some(ITEMS_PER_YIELD) {
        tokio::task::yield_now().await;
    }
}

/// The counter label for the result of a list.
pub(super) fn result_label(end: &Result<(), ListFailure>) -> &'static str {
    match end {
        Ok(()) => "ok",
        Err(ListFailure::Rejected { .. }) => "rejected",
        Err(ListFailure::LoopGone) => "stopped",
        Err(ListFailure::Failed(error)) => error.cause().label(),
    }
}

pub(super) fn is_version_error(error: &ApiError) -> bool {
    matches!(error.cause(), ApiErrorCause::Expired | ApiErrorCause::VersionTooLarge)
}
