//! LIST: pages read item by item, staged, judged at the end, handed over whole.

use std::sync::atomic::Ordering;

use informant_cache::seeded_bug::{SeededBug, seeded_bug};
use informant_cache::{ListSource, ListVerdict, Moment};
use informant_object::ResourceVersion;
use informant_object::frames::{ListHead, ListSplitter};
use tokio::sync::oneshot;

use super::paging::ListPlan;
use super::staging::{Staged, Staging};
use super::{ListEnd, Reflector};
use crate::api::{ANSWER_SILENCE_MAX, ApiError, Cause, Frames, ListQuery, Patience, open};
use crate::status::Step;
use crate::updates::{StagedList, Update};

/// After so many items other tasks get their turn, however much of the answer is there already: about a millisecond.
const ITEMS_PER_TURN_MAX: usize = 256;

/// A list that has come whole, by LIST or by WatchList.
pub(super) struct Listed {
    pub(super) staged: Staged,
    pub(super) version: ResourceVersion,
    pub(super) pages: usize,
}

impl Reflector {
    /// Lists the collection and hands the result to the loop.
    pub(super) async fn list(&mut self) -> Result<(), ListEnd> {
        let mut plan = self.versions.plan();
        let mut result = self.list_by(&plan).await;
        if let Err(error) = &result
            && is_about_the_version(error)
            && plan.version.is_some()
        {
            // At once, and once: the API server knows a newer or an older history; whatever it has now will do.
            tracing::info!(
                "{}: list: {error}; asking for the newest state instead",
                self.parts.name
            );
            self.parts.metrics.count_list(error.cause().word());
            self.versions.refused();
            plan = self.versions.plan();
            result = self.list_by(&plan).await;
        }
        match result {
            Ok(listed) => {
                let end = self.hand_over(&plan, listed).await;
                self.parts.metrics.count_list(result_of(&end));
                end
            }
            Err(error) => {
                self.parts.metrics.count_list(error.cause().word());
                Err(ListEnd::Failed(error))
            }
        }
    }

    /// Has the loop judge a list, and take it if it is believed.
    pub(super) async fn hand_over(&mut self, plan: &ListPlan, listed: Listed) -> Result<(), ListEnd> {
        let Listed { staged, version, pages } = listed;
        let source = if plan.version.is_none() {
            ListSource::Consistent
        } else {
            ListSource::Cache
        };
        let (verdict, judged) = oneshot::channel();
        let list = StagedList {
            objects: staged.objects,
            version: version.clone(),
            source,
            verdict,
        };
        let received = self.parts.environment.now();
        if let Some(trial) = &self.parts.trial {
            trial.is_handed_over.store(true, Ordering::Relaxed);
        }
        let sent = self
            .parts
            .updates
            .send(vec![Update::Replace(list)], staged.new_bytes, received)
            .await;
        sent.map_err(|_| ListEnd::LoopGone)?;
        match judged.await.map_err(|_| ListEnd::LoopGone)? {
            ListVerdict::Outdated { list, high_water } => {
                self.parts.status.count_rejected("list");
                // The next one is to be consistent: only a replica's cache can lag.
                self.versions.refused();
                return Err(ListEnd::Rejected { list, high_water });
            }
            ListVerdict::Restored { .. } => {
                tracing::warn!(
                    "{}: the cluster went back to version {version}, as after a restored backup; it is believed",
                    self.parts.name
                );
                self.parts.status.begin_epoch();
            }
            ListVerdict::Accept => {}
        }
        self.parts.trial = None;
        self.versions.listed(plan, &version, pages);
        self.has_outdated |= staged.outdated;
        Ok(())
    }

    /// One list with all its pages. If the continuation expires on a later page, once more in one piece, at the same
    /// version.
    ///
    /// Source: client-go `tools/pager`, FullListIfExpired.
    async fn list_by(&self, plan: &ListPlan) -> Result<Listed, ApiError> {
        self.parts.status.count(Step::List);
        match self.list_pages(plan).await {
            Err((page, error)) if page > 0 && error.cause() == Cause::Expired => {
                tracing::info!(
                    "{}: list: page {}: {error}; asking for all in one piece",
                    self.parts.name,
                    page + 1
                );
                self.parts.metrics.count_list("expired-page");
                let whole = ListPlan {
                    version: plan.version.clone(),
                    limit: 0,
                };
                self.list_pages(&whole).await.map_err(|(_, error)| error)
            }
            other => other.map_err(|(_, error)| error),
        }
    }

    /// All pages; an error says on which page (from 0) it happened.
    async fn list_pages(&self, plan: &ListPlan) -> Result<Listed, (usize, ApiError)> {
        let mut staging = self.staging();
        let mut continuation = String::new();
        let mut page = 0;
        loop {
            let query = ListQuery {
                version: plan.version.as_deref(),
                limit: plan.limit,
                continuation: Some(continuation.as_str()).filter(|token| !token.is_empty()),
            };
            let head = self
                .list_page(&query, &mut staging)
                .await
                .map_err(|error| (page, error))?;
            page += 1;
            continuation = head.continue_token;
            if continuation.is_empty() || seeded_bug(SeededBug::FirstPageIsAll) {
                return Ok(Listed {
                    staged: staging.finish(),
                    version: head.version,
                    pages: page,
                });
            }
        }
    }

    /// A stage for a list. What another reflector stored may hold other fields: then nothing of it is taken for
    /// unchanged.
    pub(super) fn staging(&self) -> Staging<'_> {
        let staging = Staging::new(&self.parts.shape, &self.parts.status, self.parts.shown.snapshot());
        match &self.parts.trial {
            Some(trial) if trial.other_shape => staging.of_another_shape(),
            _ => staging,
        }
    }

    /// One page: its items go to `staging` as they arrive, what else it says is returned.
    async fn list_page(&self, query: &ListQuery<'_>, staging: &mut Staging<'_>) -> Result<ListHead, ApiError> {
        let environment = &self.parts.environment;
        let request = self.parts.request.list(query)?;
        let response = open(&self.parts.client, environment, request).await?;
        let patience = Patience {
            until: Moment::ZERO,
            silence: ANSWER_SILENCE_MAX,
        };
        let mut frames = Frames::new(response.into_body(), environment.clone(), patience);
        let mut splitter = ListSplitter::new(self.parts.options.watch_line_bytes_max);
        let mut turn = 0;
        while let Some(frame) = frames.next().await? {
            splitter.push(frame.bytes);
            while staging.take_next(&mut splitter)? {
                turn += 1;
                if turn == ITEMS_PER_TURN_MAX {
                    turn = 0;
                    tokio::task::yield_now().await;
                }
            }
        }
        Ok(splitter.finish()?)
    }
}

/// What came of handing a list over, in the words of the counters.
pub(super) fn result_of(end: &Result<(), ListEnd>) -> &'static str {
    match end {
        Ok(()) => "ok",
        Err(ListEnd::Rejected { .. }) => "rejected",
        Err(ListEnd::LoopGone) => "stopped",
        Err(ListEnd::Failed(error)) => error.cause().word(),
    }
}

pub(super) fn is_about_the_version(error: &ApiError) -> bool {
    matches!(error.cause(), Cause::Expired | Cause::VersionTooLarge)
}
