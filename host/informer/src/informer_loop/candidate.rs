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

use tokio_util::sync::CancellationToken;

use informant_cache::{Reason, ShardFilter};

use super::InformerLoop;
use crate::update_channel::{Update, UpdateReceiver, Updates};

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
            self.activate_candidate();
            self.apply_list(list, received).await;
            self.shards_before = self.parts.store.shards();
            self.parts.status.set_reconfigured();
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
