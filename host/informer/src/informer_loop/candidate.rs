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

use informant_object::KeyRef;
use tokio_util::sync::CancellationToken;

use informant_cache::{KeptDelete, Reason, ShardFilter};

use super::InformerLoop;
use crate::update_channel::{EventKind, Update, UpdateReceiver, Updates};

/// A reflector on probation.
pub(crate) struct Candidate {
    /// The number of its reflector; numbers only increase.
    pub(crate) generation: u64,
    pub(crate) updates: UpdateReceiver,
    /// The shards whose objects it reads.
    pub(crate) shards: Option<ShardFilter>,
    /// Ends its reflector.
    pub(crate) reflector: CancellationToken,
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
    pub(super) fn start_candidate(&mut self, candidate: Candidate) {
        self.paused = false;
        if let Some(before) = self.candidate.replace(candidate) {
            before.reflector.cancel();
        }
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
            let status = std::sync::Arc::clone(&self.parts.status);
            let accepted = self.check_list(list, Reason::Reconfigured, || {
                if let Some(generation) = generation {
                    status.begin_generation(generation);
                }
            });
            let Some(list) = accepted else { continue };
            self.shards_before = self.parts.store.shards();
            self.keep_waiting_deletes(list.version.as_ref().number());
            self.activate_candidate();
            let has_other_shards = self.shards_before != self.parts.store.shards();
            if has_other_shards {
                self.push_kept_deletes();
            }
            self.apply_list(list, received).await;
            if has_other_shards {
                self.end_shards();
            }
            self.shards_before = self.parts.store.shards();
            self.parts.status.set_reconfigured();
        }
    }

    /// Deletes of shards that were not read until now, or are not from now on, up to the version of the list, wait with
    /// the updates that the list makes obsolete.
    fn keep_waiting_deletes(&mut self, listed: Option<u64>) {
        let next = self.candidate.as_ref().and_then(|candidate| candidate.shards);
        let is_left = |key: KeyRef<'_>| next.is_some_and(|next| !next.includes(key));
        while let Ok(updates) = self.parts.updates.try_recv() {
            let (updates, received) = updates.into_parts();
            for update in updates {
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
        }
    }

    /// Of shards that are read from now on, deletes that this process has seen before.
    fn push_kept_deletes(&self) {
        let (before, now) = (self.shards_before, self.parts.environment.now());
        let was_read = |delete: &KeptDelete| before.is_none_or(|shards| shards.includes(delete.key.as_ref()));
        let mut kept = self.parts.kept_deletes.of(self.parts.source);
        kept.retain(|delete| !was_read(delete));
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
        self.parts.store.set_shards(candidate.shards);
        std::mem::replace(&mut self.parts.reflector, candidate.reflector).cancel();
    }

    fn is_candidate(&self, generation: u64) -> bool {
        self.candidate
            .as_ref()
            .is_some_and(|candidate| candidate.generation == generation)
    }
}
