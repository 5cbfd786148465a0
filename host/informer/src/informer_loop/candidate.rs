//! Changing the request of a source: a candidate with the new request runs next to the current reflector and replaces
//! it with its first list.
//!
//! ```text
//! candidate: preflight ─▶ Pause ─▶ list (staged) ─▶ checked ─▶ difference, reason `reconfigured` ─▶ watch continues
//! reflector: ─────────────────────┤ waits           └▶ ended          (refused, too slow: Resume, it continues)
//! ```
//!
//! While the candidate lists, the reflector's messages wait in their channel. So the list is at least as new as
//! everything that was published, and no event that it lacks can be lost. The current reflector ends only when a list
//! is accepted. A list of shards [waits](super::catch_up) until the reflector has sent what precedes it.

use std::sync::Arc;

use informant_cache::{KeptDelete, Moment, Reason};
use tokio_util::sync::CancellationToken;

use super::InformerLoop;
use super::catch_up::WaitingList;
use crate::api::CollectionRequest;
use crate::spec::SourceSpec;
use crate::update_channel::{StagedList, Update, UpdateReceiver, Updates};

/// A reflector on probation.
pub(crate) struct Candidate {
    /// The number of its reflector; numbers only increase.
    pub(crate) generation: u64,
    pub(crate) updates: UpdateReceiver,
    /// What it requests.
    pub(crate) spec: Arc<SourceSpec>,
    /// Ends its reflector.
    pub(crate) reflector: CancellationToken,
    /// One that it replaced was to read other shards.
    pub(crate) replaced_other_shards: bool,
}

/// The candidate's next message; pending if there is no candidate.
pub(super) async fn first_message(candidate: &mut Option<Candidate>) -> Option<Updates> {
    match candidate {
        Some(candidate) => candidate.updates.recv().await,
        None => std::future::pending().await,
    }
}

impl InformerLoop {
    /// Starts a reflector with another request, replacing a candidate that has not succeeded yet.
    pub(super) fn start_candidate(&mut self, mut candidate: Candidate) {
        self.paused = false;
        self.drop_waiting_list();
        if let Some(before) = self.candidate.take() {
            let had_other = before.spec.shards != candidate.spec.shards;
            candidate.replaced_other_shards = had_other || before.replaced_other_shards;
            before.reflector.cancel();
        }
        self.candidate = Some(candidate);
    }

    /// The candidate is about to list: the reflector's updates wait from now on. Returns whether this candidate is
    /// still wanted.
    pub(super) async fn pause(&mut self, generation: u64) -> bool {
        if !self.is_candidate(generation) {
            return false;
        }
        self.paused = true;
        self.process_queued().await;
        true
    }

    /// The candidate's list failed: the reflector continues.
    pub(super) fn resume(&mut self, generation: u64) {
        if self.is_candidate(generation) {
            self.paused = false;
        }
    }

    /// The candidate has its first list, which is applied at once unless the source is divided.
    pub(super) async fn candidate_listed(&mut self, first: Option<Updates>) {
        let Some(first) = first else {
            // Its reflector is over: it panicked, or the process shuts down.
            self.candidate = None;
            self.paused = false;
            return;
        };
        let (updates, received) = first.into_parts();
        for update in updates {
            // A reflector's first message is a single list.
            let Update::Replace(list) = update else { continue };
            if self.has_to_catch_up(&list) {
                let now = self.parts.environment.now();
                self.waiting_list = Some(WaitingList::new(list, received, now));
            } else {
                self.replace_reflector(list, received).await;
            }
        }
    }

    fn has_to_catch_up(&self, list: &StagedList) -> bool {
        let next = self.candidate.as_ref().and_then(|candidate| candidate.spec.shards);
        // Also if it reads the same: the reflector keeps deletes of the others.
        let is_divided = next.is_some() || self.parts.store.shards().is_some();
        is_divided && self.has_reflector && list.version.as_ref().number().is_some()
    }

    /// If the candidate's list is accepted, the difference is delivered and the candidate becomes the source's
    /// reflector. Returns whether it is.
    pub(super) async fn replace_reflector(&mut self, list: StagedList, received: Moment) -> bool {
        self.process_queued().await;
        let generation = self.candidate.as_ref().map(|candidate| candidate.generation);
        let status = Arc::clone(&self.parts.status);
        let accepted = self.check_list(list, self.candidate_reason(), || {
            if let Some(generation) = generation {
                status.begin_generation(generation);
            }
        });
        let Some(list) = accepted else { return false };
        self.shards_before = self.parts.store.shards();
        self.activate_candidate();
        let has_other_shards = self.shards_before != self.parts.store.shards();
        if has_other_shards {
            self.push_kept_deletes();
        }
        self.apply_list(list, received).await;
        if has_other_shards {
            // Of shards that were gained while the list was applied.
            self.push_kept_deletes();
            self.end_shards();
        }
        self.shards_before = self.parts.store.shards();
        if let Some(generation) = generation {
            self.parts.status.set_reconfigured(generation);
        }
        true
    }

    /// With the same selection, what is missing of shards that were read before was deleted: also if a candidate with
    /// other shards was replaced by one with these.
    fn candidate_reason(&self) -> Reason {
        let (before, candidate) = (&self.parts.spec, self.candidate.as_ref());
        let is_same = candidate.is_some_and(|candidate| {
            let next = &candidate.spec;
            let [old, new] = [before, next].map(|spec| CollectionRequest::of_all_shards(spec));
            let has_moved = next.shards != before.shards || candidate.replaced_other_shards;
            has_moved && old == new && next.keeps_same_shape(before)
        });
        match is_same {
            true => Reason::Relist,
            false => Reason::Reconfigured,
        }
    }

    /// Of objects that are read from now on and were not until now, or as parts of other shards, deletes that this
    /// process has seen before.
    fn push_kept_deletes(&self) {
        let now = self.parts.environment.now();
        let was_read = |delete: &KeptDelete| !self.was_of_other_shard(delete.key.as_ref());
        let mut kept = self.parts.kept_deletes.of(self.parts.source);
        // Shards may have been gained since the candidate began: their deletes come with the next one.
        kept.retain(|delete| !was_read(delete) && !self.is_of_other_shard(delete.key.as_ref()));
        // Also without any: those that the list shows come with it.
        for listener in self.listeners.iter().filter(|_| self.synced) {
            listener.feed().push_kept_deletes(self.parts.source, kept.clone(), now);
        }
    }

    fn end_shards(&self) {
        let now = self.parts.environment.now();
        for listener in self.listeners.iter().filter(|_| self.synced) {
            let snapshot = self.parts.store.published();
            listener.feed().shards_listed(self.parts.source, snapshot, now);
        }
    }

    fn activate_candidate(&mut self) {
        let Some(candidate) = self.candidate.take() else { return };
        self.paused = false;
        self.has_reflector = true;
        // Updates of the old reflector are older than the list, or the new watch sends them again.
        self.parts.updates = candidate.updates;
        self.parts.store.set_shards(candidate.spec.shards);
        self.parts.spec = candidate.spec;
        std::mem::replace(&mut self.parts.reflector, candidate.reflector).cancel();
    }

    fn is_candidate(&self, generation: u64) -> bool {
        self.candidate
            .as_ref()
            .is_some_and(|candidate| candidate.generation == generation)
    }
}
