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

use informant_cache::{Environment, KeptDelete, Moment, Reason, ShardFilter};

use super::InformerLoop;
use crate::api::CollectionRequest;
use crate::spec::SourceSpec;
use crate::update_channel::{EventKind, StagedList, Update, UpdateReceiver, Updates};

/// For how long the reflector before a candidate that reads other shards may send nothing until it counts as having
/// sent all that the candidate's list knows: 500 ms. A watch is seldom later than that.
const CATCH_UP_SILENCE_MAX: Duration = Duration::from_millis(500);

/// How long it is waited for altogether: 10 s. Deletes that it sends later are lost for handlers that have not had
/// them.
const CATCH_UP_MAX: Duration = Duration::from_secs(10);

/// How many updates it may send until then: 65,536.
const CATCH_UP_UPDATES_MAX: usize = 1 << 16;

/// The list of a candidate that reads other shards waits until the reflector before has sent what the list knows of
/// them. Meanwhile commands are handled: a candidate that is started next replaces it.
pub(super) struct CatchUp {
    list: StagedList,
    received: Moment,
    /// What the candidate reads.
    shards: Option<ShardFilter>,
    until: Moment,
    silent_until: Moment,
    /// The newest version that the reflector before has sent.
    seen: Option<u64>,
    /// What it has sent.
    updates: Vec<(Update, Moment)>,
}

impl CatchUp {
    fn listed(&self) -> Option<u64> {
        self.list.version.as_ref().number()
    }
}

/// When the reflector before has been silent for too long, or sent for too long; pending if no list waits.
pub(super) async fn catch_up_over(catching_up: Option<&CatchUp>, environment: &dyn Environment) {
    let Some(catching_up) = catching_up else {
        return std::future::pending().await;
    };
    let until = catching_up.until.min(catching_up.silent_until);
    let now = environment.now();
    if now < until {
        environment.sleep(until - now).await;
    }
}

/// A reflector on probation.
pub(crate) struct Candidate {
    /// The number of its reflector; numbers only increase.
    pub(crate) generation: u64,
    pub(crate) updates: UpdateReceiver,
    /// What it requests.
    pub(crate) spec: Arc<SourceSpec>,
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
    pub(super) async fn start_candidate(&mut self, candidate: Candidate) {
        self.abandon_catch_up().await;
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

    /// The candidate has its first list, which is applied at once if it reads the shards that were read before.
    pub(super) async fn candidate_listed(&mut self, first: Option<Updates>) {
        let Some(first) = first else {
            // Its reflector is over: it panicked, or the process shuts down.
            self.candidate = None;
            self.paused = false;
            return;
        };
        let (updates, received) = first.into_parts();
        // A reflector's first message is a single list.
        let list = updates.into_iter().find_map(|update| match update {
            Update::Replace(list) => Some(list),
            _ => None,
        });
        let Some(list) = list else { return };
        self.process_queued().await;
        let is_numbered = list.version.as_ref().number().is_some();
        let now = self.parts.environment.now();
        let shards = self.candidate.as_ref().and_then(|candidate| candidate.spec.shards);
        self.catching_up = Some(CatchUp {
            list,
            received,
            shards,
            until: now + CATCH_UP_MAX,
            silent_until: now + CATCH_UP_SILENCE_MAX,
            seen: None,
            updates: Vec::new(),
        });
        let is_same = shards == self.parts.store.shards();
        if is_same || !is_numbered || !self.has_reflector {
            self.end_catch_up().await;
        }
    }

    /// The reflector before has sent what a candidate's list does not show. None: it is over.
    pub(super) async fn caught_up_with(&mut self, updates: Option<Updates>) {
        let now = self.parts.environment.now();
        let Some(catching_up) = &mut self.catching_up else {
            return;
        };
        let is_over = updates.is_none();
        if let Some(updates) = updates {
            let (updates, received) = updates.into_parts();
            for update in updates {
                catching_up.seen = catching_up.seen.max(update.version());
                catching_up.updates.push((update, received));
            }
            catching_up.silent_until = now + CATCH_UP_SILENCE_MAX;
        }
        let is_full = catching_up.updates.len() >= CATCH_UP_UPDATES_MAX;
        if is_over || is_full || catching_up.seen >= catching_up.listed() {
            self.end_catch_up().await;
        }
    }

    /// If the candidate's list is accepted, the difference is delivered and the candidate becomes the source's
    /// reflector.
    pub(super) async fn end_catch_up(&mut self) {
        let Some(catching_up) = self.catching_up.take() else {
            return;
        };
        let CatchUp {
            list,
            received,
            shards,
            updates,
            ..
        } = catching_up;
        let listed = list.version.as_ref().number();
        let generation = self.candidate.as_ref().map(|candidate| candidate.generation);
        let status = Arc::clone(&self.parts.status);
        let accepted = self.check_list(list, self.candidate_reason(), || {
            if let Some(generation) = generation {
                status.begin_generation(generation);
            }
        });
        let Some(list) = accepted else {
            return self.receive_waiting(updates).await;
        };
        self.shards_before = self.parts.store.shards();
        for (update, received) in updates {
            self.keep_waiting_delete(update, (shards, listed), received);
        }
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

    /// The list that waited for these updates is not applied: they are, as if there had been none.
    async fn receive_waiting(&mut self, updates: Vec<(Update, Moment)>) {
        for (update, received) in updates {
            self.receive_one(update, received).await;
        }
        self.process_queued().await;
    }

    /// What the list of a candidate that is not wanted any more has waited for.
    pub(super) async fn abandon_catch_up(&mut self) {
        if let Some(catching_up) = self.catching_up.take() {
            self.receive_waiting(catching_up.updates).await;
        }
    }

    /// With the same selection, what is missing of shards that were read before was deleted: also if a candidate with
    /// other shards was replaced by one with these.
    fn candidate_reason(&self) -> Reason {
        let (before, candidate) = (&self.parts.spec, self.candidate.as_ref());
        let is_same = candidate.is_some_and(|candidate| {
            let next = &candidate.spec;
            let [old, new] = [before, next].map(|spec| CollectionRequest::of_all_shards(spec));
            old == new && next.keeps_same_shape(before)
        });
        match is_same {
            true => Reason::Relist,
            false => Reason::Reconfigured,
        }
    }

    /// Keeps a delete of a shard that was not read until now, or is not from now on: the list shows nothing of them.
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
