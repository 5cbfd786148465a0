//! Checks a list and replaces the store's content with it.
//!
//! The list becomes visible as a whole: readers see the state before or after it, never half a relist. Source:
//! client-go's atomic `ReplacedAll`; here the list goes through the DeltaFIFO, which detects deleted objects, and the
//! root is published once the queue is empty.

use informant_cache::{ListVerdict, Moment, Reason};
use informant_object::{Object, ResourceVersion};

use super::{BATCH_DELTAS_MAX, InformerLoop, LoopParts};
use crate::metrics::StagedBytes;
use crate::source_name::log;
use crate::update_channel::{ListHeads, StagedList};

/// The capacity for changes that is kept after a list with many of them.
const CHANGES_KEPT_MAX: usize = 4 * BATCH_DELTAS_MAX;

/// A list that the version guard accepted, and why it is delivered.
pub(super) struct AcceptedList {
    objects: Vec<Object>,
    memory: StagedBytes,
    heads: ListHeads,
    pub(super) version: ResourceVersion,
    reason: Reason,
}

impl InformerLoop {
    pub(super) async fn replace(&mut self, list: StagedList, received: Moment) {
        if let Some(list) = self.check_list(list, Reason::Relist, || {}) {
            self.apply_list(list, received).await;
        }
    }

    /// Checks a list and answers its reflector. The reason of an accepted list is `relist`, unless it is the first one
    /// or the cluster was rolled back; `on_accept` runs before the reflector gets the answer.
    pub(super) fn check_list(
        &mut self,
        list: StagedList,
        relist: Reason,
        on_accept: impl FnOnce(),
    ) -> Option<AcceptedList> {
        let StagedList {
            objects,
            memory,
            heads,
            version,
            source,
            verdict,
        } = list;
        let answer = self.guard.check_list(version.as_ref(), source);
        self.parts.status.set_guarded(self.guard.is_on());
        let reason = match &answer {
            ListVerdict::Outdated { .. } => None,
            ListVerdict::Restored { .. } => Some(Reason::Restored),
            ListVerdict::Accept if self.synced => Some(relist),
            ListVerdict::Accept => Some(Reason::Initial),
        };
        if reason.is_some() {
            on_accept();
        }
        // The reflector may open its watch while the list is being processed. If it is gone, it does not need the
        // answer.
        let _ = verdict.send(answer);
        let Some(reason) = reason else {
            self.parts.dropper.drop_later((objects, memory));
            return None;
        };
        Some(AcceptedList {
            objects,
            memory,
            heads,
            version,
            reason,
        })
    }

    /// Replaces the store's content with a list.
    pub(super) async fn apply_list(&mut self, list: AcceptedList, received: Moment) {
        let AcceptedList {
            objects,
            memory,
            heads,
            version,
            reason,
        } = list;
        self.shed_with_list(&heads.namespaces).await;
        let was_divided_otherwise = self.was_divided_otherwise();
        let LoopParts { fifo, store, .. } = &mut self.parts;
        if let Some(fields) = &heads.fields {
            store.expect_heads(fields);
        }
        let skips_unchanged = fifo.skips_unchanged();
        // Listeners wait for all of it.
        fifo.set_skip_unchanged(skips_unchanged && !was_divided_otherwise);
        let summary = fifo.replace(objects, &version, store, reason, received);
        fifo.set_skip_unchanged(skips_unchanged);
        log!(
            debug,
            *self.parts.name,
            resource_version = version.as_str(),
            queued = summary.queued,
            unchanged = summary.unchanged,
            vanished = summary.vanished,
            "list applied"
        );
        self.listing = version.as_ref().number();
        while self.process_batch() {
            self.feed_indexes().await;
            tokio::task::yield_now().await;
        }
        self.listing = None;
        self.feed_indexes().await;
        // From now on the store counts the objects.
        drop(memory);
        self.publish();
        // Queues count what the store no longer keeps, also if nothing has changed.
        if self.synced && self.changes.is_empty() && !heads.namespaces.is_empty() {
            self.push_changes();
        }
        self.notify_listeners();
        self.parts.dropper.drop_later(self.parts.store.take_garbage());
        self.count_bytes();
        if self.changes.capacity() > CHANGES_KEPT_MAX {
            let changes = Vec::with_capacity(BATCH_DELTAS_MAX);
            self.parts
                .dropper
                .drop_later(std::mem::replace(&mut self.changes, changes));
        }
        if !self.synced && self.parts.fifo.has_synced() {
            self.mark_synced(reason);
        }
    }

    /// The first list is complete and published: listeners receive events from now on.
    fn mark_synced(&mut self, reason: Reason) {
        self.synced = true;
        if let Some(durable) = &self.parts.durable {
            let restored = reason == Reason::Restored;
            durable
                .journal
                .begin(self.parts.source, self.parts.store.published(), restored);
        }
        self.begin_backfills();
        self.parts.status.set_synced();
        self.attach_all();
        log!(
            info,
            *self.parts.name,
            objects = self.parts.store.len(),
            "source synced"
        );
    }
}
