//! A source that is asked for in another way: the new request is tried out beside the reflector that runs, and takes
//! its place with its first list.
//!
//! ```text
//! successor: probe ─▶ Hold ─▶ list (staged) ─▶ judged ─▶ the difference, reason `reconfigured` ─▶ its watch goes on
//! reflector: ────────────────┤ waits            └▶ ended            (refused, too slow: Release, it goes on)
//! ```
//!
//! While the successor lists, the reflector's messages wait in their channel: so the list is at least as new as all
//! that was shown, and no event that it lacks can be lost. What runs is given up only for a list that was believed.

use tokio_util::sync::CancellationToken;

use informant_cache::Reason;

use super::InformerLoop;
use crate::updates::{Update, UpdateReceiver, Updates};

/// A reflector on trial.
pub(crate) struct Successor {
    /// The number of its reflector; numbers only grow.
    pub(crate) generation: u64,
    pub(crate) updates: UpdateReceiver,
    /// Ends its reflector.
    pub(crate) reflector: CancellationToken,
}

/// What the successor, if there is one, brings.
pub(super) async fn first_message(successor: &mut Option<Successor>) -> Option<Updates> {
    match successor {
        Some(successor) => successor.updates.recv().await,
        None => std::future::pending().await,
    }
}

impl InformerLoop {
    /// Lets a reflector with another request try, in place of one that has not succeeded yet.
    pub(super) fn try_out(&mut self, successor: Successor) {
        self.held = false;
        if let Some(before) = self.successor.replace(successor) {
            before.reflector.cancel();
        }
    }

    /// The successor is about to list: what the reflector brings waits. Says whether that is still wanted.
    pub(super) async fn hold(&mut self, generation: u64) -> bool {
        if !self.is_on_trial(generation) {
            return false;
        }
        self.held = true;
        self.process_queued().await;
        true
    }

    /// The successor did not get its list: the reflector goes on.
    pub(super) fn release(&mut self, generation: u64) {
        if self.is_on_trial(generation) {
            self.held = false;
        }
    }

    /// The successor has its first list. If it is believed, the difference is told and the successor is the source's
    /// reflector.
    pub(super) async fn succeed(&mut self, first: Option<Updates>) {
        let Some(first) = first else {
            // Its reflector is over, which only a panic or the end of everything explains.
            self.successor = None;
            self.held = false;
            return;
        };
        let (updates, received) = first.into_parts();
        for update in updates {
            // A reflector begins with a list, alone in its message.
            let Update::Replace(list) = update else { continue };
            self.process_queued().await;
            let generation = self.successor.as_ref().map(|successor| successor.generation);
            let status = std::sync::Arc::clone(&self.parts.status);
            let believed = self.judge(list, Reason::Reconfigured, || {
                if let Some(generation) = generation {
                    status.begin_generation(generation);
                }
            });
            let Some(list) = believed else { continue };
            self.enthrone();
            self.take_all(list, received).await;
            self.parts.status.set_reconfigured();
        }
    }

    fn enthrone(&mut self) {
        let Some(successor) = self.successor.take() else { return };
        self.held = false;
        self.has_reflector = true;
        // What the old reflector had on the way is older than the list, or comes again on the new watch.
        self.parts.updates = successor.updates;
        std::mem::replace(&mut self.parts.reflector, successor.reflector).cancel();
    }

    fn is_on_trial(&self, generation: u64) -> bool {
        self.successor
            .as_ref()
            .is_some_and(|successor| successor.generation == generation)
    }
}
