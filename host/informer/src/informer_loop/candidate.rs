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
//! is accepted.

use std::sync::Arc;
use std::time::Duration;

use informant_object::KeyRef;
use tokio_util::sync::CancellationToken;

use informant_cache::{KeptDelete, Moment, Reason, ShardFilter};

use super::InformerLoop;
use crate::api::CollectionRequest;
use crate::spec::SourceSpec;
use crate::update_channel::{EventKind, Update, UpdateReceiver, Updates};

/// For how long the reflector before a candidate that reads other shards may send nothing until it counts as having
/// sent all that the candidate's list knows: 500 ms. A watch is seldom later than that.
const CATCH_UP_SILENCE_MAX: Duration = Duration::from_millis(500);

/// How long it is waited for altogether: 10 s. Deletes that it sends later are lost for handlers that have not had
/// them.
const CATCH_UP_MAX: Duration = Duration::from_secs(10);

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

    /// The candidate has its first list. If it is accepted, the difference is delivered and the candidate becomes the
    /// source's reflector.
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
            self.process_queued().await;
            let generation = self.candidate.as_ref().map(|candidate| candidate.generation);
            let status = Arc::clone(&self.parts.status);
            let accepted = self.check_list(list, self.candidate_reason(), || {
                if let Some(generation) = generation {
                    status.begin_generation(generation);
                }
            });
            let Some(list) = accepted else { continue };
            self.shards_before = self.parts.store.shards();
            self.catch_up(list.version.as_ref().number()).await;
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
            self.parts.status.set_reconfigured();
        }
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

    /// If the candidate reads other shards: reads what the reflector before sends up to the version of the list, and
    /// keeps the deletes of shards that were not read until now, or are not from now on. The list shows nothing of
    /// them.
    async fn catch_up(&mut self, listed: Option<u64>) {
        let next = self.candidate.as_ref().and_then(|candidate| candidate.spec.shards);
        if next == self.shards_before {
            return;
        }
        let until = self.parts.environment.now() + CATCH_UP_MAX;
        let mut seen = None;
        while seen < listed && self.parts.environment.now() < until {
            let silence = CATCH_UP_SILENCE_MAX.min(until - self.parts.environment.now());
            let silence = self.parts.environment.sleep(silence);
            let updates = tokio::select! {
                biased;
                updates = self.parts.updates.recv(), if self.has_reflector => updates,
                () = silence => None,
            };
            let Some(updates) = updates else { return };
            let (updates, received) = updates.into_parts();
            for update in updates {
                seen = seen.max(update.version());
                self.keep_waiting_delete(update, (next, listed), received);
            }
        }
    }

    fn keep_waiting_delete(
        &mut self,
        update: Update,
        (next, listed): (Option<ShardFilter>, Option<u64>),
        received: Moment,
    ) {
        let is_left = |key: KeyRef<'_>| next.is_some_and(|next| !next.includes(key));
        if let Update::Event {
            kind: EventKind::Deleted,
            object,
        } = update
            && (self.is_of_other_shard(object.key()) || is_left(object.key()))
            && object.version().number() <= listed
        {
            self.keep_others_delete(object, received);
        }
    }

    /// Of objects that are read from now on and were not until now, deletes that this process has seen before.
    fn push_kept_deletes(&self) {
        let (before, now) = (self.shards_before, self.parts.environment.now());
        let was_read = |delete: &KeptDelete| before.is_none_or(|shards| shards.includes(delete.key.as_ref()));
        let mut kept = self.parts.kept_deletes.of(self.parts.source);
        // Shards may have been gained since the candidate began: their deletes come with the next one.
        kept.retain(|delete| !was_read(delete) && !self.is_of_other_shard(delete.key.as_ref()));
        if self.synced && !kept.is_empty() {
            for listener in &self.listeners {
                listener.feed().push_kept_deletes(self.parts.source, kept.clone(), now);
            }
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
