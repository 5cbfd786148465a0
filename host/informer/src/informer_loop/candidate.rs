//! A source that is asked for in another way: the new request is tried out beside the reflector that runs, and takes
//! its place with its first list.
//!
//! ```text
//! candidate: probe ─▶ Hold ─▶ list (staged) ─▶ judged ─▶ the difference, reason `reconfigured` ─▶ its watch goes on
//! reflector: ────────────────┤ waits            └▶ ended            (refused, too slow: Release, it goes on)
//! ```
//!
//! While the candidate lists, the reflector's messages wait in their channel: so the list is at least as new as all
//! that was shown, and no event that it lacks can be lost. What runs is given up only for a list that was accepted.

use tokio_util::sync::CancellationToken;

use informant_cache::Reason;

use super::InformerLoop;
use crate::update_channel::{Update, UpdateReceiver, Updates};

/// A reflector on probation.
pub(crate) struct Candidate {
    /// The number of its reflector; numbers only grow.
    pub(crate) generation: u64,
    pub(crate) updates: UpdateReceiver,
    /// Ends its reflector.
    pub(crate) reflector: CancellationToken,
}

/// What the candidate, if there is one, brings.
pub(super) async fn first_message(candidate: &mut Option<Candidate>) -> Option<Updates> {
    match candidate {
        Some(candidate) => candidate.updates.recv().await,
        None => std::future::pending().await,
    }
}

impl InformerLoop {
    /// Lets a reflector with another request try, in place of one that has not succeeded yet.
    pub(super) fn start_candidate(&mut self, candidate: Candidate) {
        self.paused = false;
        if let Some(before) = self.candidate.replace(candidate) {
            before.reflector.cancel();
        }
    }

    /// The candidate is about to list: what the reflector brings waits. Says whether that is still wanted.
    pub(super) async fn pause(&mut self, generation: u64) -> bool {
        if !self.is_candidate(generation) {
            return false;
        }
        self.paused = true;
        self.process_queued().await;
        true
    }

    /// The candidate did not get its list: the reflector goes on.
    pub(super) fn resume(&mut self, generation: u64) {
        if self.is_candidate(generation) {
            self.paused = false;
        }
    }

    /// The candidate has its first list. If it is accepted, the difference is told and the candidate is the source's
    /// reflector.
    pub(super) async fn candidate_listed(&mut self, first: Option<Updates>) {
        let Some(first) = first else {
            // Its reflector is over, which only a panic or the end of everything explains.
            self.candidate = None;
            self.paused = false;
            return;
        };
        let (updates, received) = first.into_parts();
        for update in updates {
            // A reflector begins with a list, alone in its message.
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
            self.activate_candidate();
            self.apply_list(list, received).await;
            self.parts.status.set_reconfigured();
        }
    }

    fn activate_candidate(&mut self) {
        let Some(candidate) = self.candidate.take() else { return };
        self.paused = false;
        self.has_reflector = true;
        // What the old reflector had on the way is older than the list, or comes again on the new watch.
        self.parts.updates = candidate.updates;
        std::mem::replace(&mut self.parts.reflector, candidate.reflector).cancel();
    }

    fn is_candidate(&self, generation: u64) -> bool {
        self.candidate
            .as_ref()
            .is_some_and(|candidate| candidate.generation == generation)
    }
}
