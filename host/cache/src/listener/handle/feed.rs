//! What informer loops and the journal push into a listener: sources, their objects, and what changed.

use std::sync::Arc;

use informant_object::{Key, KeyRef, SourceId};

use super::{Shared, SyncedCallback, lock};
use crate::listener::{Awaited, ObjectChange, ResumeState, Vanished};
use crate::{KeptDelete, Moment, Reason, Snapshot};

/// Feeds a listener. An informer loop attaches a source, pushes each change, and detaches it; the journal does so in
/// its
/// place for durable sources.
#[derive(Clone, Debug)]
pub struct Feed(pub(super) Arc<Shared>);

impl Feed {
    /// Attaches a source whose first list is complete and published as `snapshot`, and starts its initial list.
    ///
    /// Also used for a handler that is added late. Does nothing for a source that is attached already, or once closed.
    pub fn attach(&self, source: SourceId, snapshot: &Snapshot, now: Moment) {
        self.0.change(|listener| listener.attach(source, snapshot, now));
    }

    /// As [`attach`](Self::attach), for a handler that received the source in another process. First delivers what
    /// vanished since, as deletes with reason `Relist`; then every object as an add with reason `Initial`, except those
    /// it accepted already. In a takeover, all have the reason `Takeover`.
    pub fn attach_resumed(&self, source: SourceId, snapshot: &Snapshot, resume: ResumeState, now: Moment) {
        self.0
            .change(|listener| listener.attach_resumed(source, snapshot, resume, now));
    }

    /// Delivers what vanished before this process, for a handler that was attached before that was known: as deletes
    /// with reason `Relist`, each name's before an add of what is there now.
    pub fn push_vanished(&self, source: SourceId, deletes: Vec<Vanished>, now: Moment) {
        self.0
            .change(|listener| listener.push_vanished(source, deletes, Reason::Relist, now));
    }

    /// Deletes that were kept of shards that this process has gained, and that `source` is about to list. What the
    /// handler has accepted elsewhere is left out. Before the list is [pushed](Self::push), and again after it: then it
    /// takes those of shards that were gained meanwhile.
    pub fn push_kept_deletes(&self, source: SourceId, kept: Vec<KeptDelete>, now: Moment) {
        self.0.change(|listener| listener.push_kept_deletes(source, kept, now));
    }

    /// A list of other shards than before was pushed: those that were gained are complete.
    pub fn shards_listed(&self, source: SourceId, snapshot: &Snapshot, now: Moment) {
        self.0.change(|listener| listener.shards_listed(source, snapshot, now));
    }

    /// Accepts `changes`, exactly those between the snapshot pushed before and this one.
    ///
    /// Call it after each publish and before the next one: otherwise cursor and pushed changes would overlap. This call
    /// releases the snapshot pushed before, so free its garbage ([`StoreWriter::take_garbage`](crate::StoreWriter))
    /// after it, on another thread.
    ///
    /// Changes of a source that is not attached are counted and ignored (its initial list will deliver them), as are
    /// all changes once closed.
    pub fn push(&self, source: SourceId, snapshot: &Snapshot, changes: &[ObjectChange]) {
        self.0.change(|listener| listener.push(source, snapshot, changes));
    }

    /// Drops a source with all its pending events; no deletes are delivered.
    ///
    /// Outcomes of its deliveries in flight are counted and ignored from then on.
    pub fn detach(&self, source: SourceId) {
        self.0.change(|listener| listener.detach(source));
    }

    /// Attaches `new` in place of `olds` for the keys in its `scope`, whose objects the handler has seen from them. It
    /// receives only `changes`, the difference between what `olds` delivered and `snapshot`; pending, failing and
    /// in-flight events and requeues continue under the new source id.
    ///
    /// If `olds` were not delivered completely yet, `new` is delivered as by a [`replay`](super::Control::replay); if
    /// they were
    /// not attached, `new` is [attached](Self::attach) as usual. `olds` stay attached, for the deletes of objects that
    /// only they held.
    pub fn transfer(
        &self,
        olds: &[SourceId],
        new: SourceId,
        scope: &dyn Fn(KeyRef<'_>) -> bool,
        snapshot: &Snapshot,
        changes: &[ObjectChange],
        now: Moment,
    ) {
        self.0
            .change(|listener| listener.transfer(olds, new, scope, (snapshot, changes), now));
    }

    /// Transfers the pending, failing and in-flight events and the requeues of the keys in `scope` from `olds`, which
    /// were drained and have pushed all their deletes, to `new`, which is attached next: whatever `new` delivers of a
    /// key follows the key's delete.
    pub fn transfer_pending(&self, olds: &[SourceId], new: SourceId, scope: &dyn Fn(KeyRef<'_>) -> bool) {
        self.0.change(|listener| listener.transfer_pending(olds, new, scope));
    }

    /// Drops a source as [`detach`](Self::detach) does, for a handler that another process calls from now on: what is
    /// pending is delivered there, and counts as handed over. Its dead letters and requeues are dropped, too.
    pub fn hand_over(&self, source: SourceId) {
        self.0.change(|listener| listener.hand_over(source));
    }

    /// Sets the callback that is called, without any lock, when every key of a source's initial list was attempted.
    /// Replaces an earlier one.
    pub fn set_synced_callback(&self, callback: SyncedCallback) {
        *lock(&self.0.synced) = Some(callback);
    }

    /// Whether every key of the source's initial list was attempted; `false` for a source that is not attached.
    ///
    /// Source: client-go `ResourceEventHandlerRegistration.HasSynced`. A failing or trapping handler does not keep it
    /// `false`.
    #[must_use]
    pub fn has_synced(&self, source: SourceId) -> bool {
        self.0.lock().sources.get(source).is_some_and(|state| state.synced)
    }

    /// Whether the source is attached.
    #[must_use]
    pub fn is_attached(&self, source: SourceId) -> bool {
        self.0.lock().sources.get(source).is_some()
    }

    /// A source or an index is ready: calls that [waited](crate::listener::DeliveryOutcome::NotReady) for it are made.
    pub fn ready(&self, awaited: Awaited) {
        self.0.change(|listener| listener.ready(awaited));
    }

    /// How many keys of a source have events pending or in flight. Visits every pending key.
    #[must_use]
    pub fn busy_keys(&self, source: SourceId) -> usize {
        self.0.lock().busy_keys(source)
    }

    /// How many keys of a source are in back-off, and the first `max` of them. Visits every pending key.
    #[must_use]
    pub fn retrying_keys(&self, source: SourceId, max: usize) -> (usize, Vec<Key>) {
        self.0.lock().retrying_keys(source, max)
    }

    /// Of the [busy keys](Self::busy_keys), how many are worth waiting for in an orderly stop: none while an operator
    /// or a quarantine pauses the handler, and otherwise those that are not in back-off and do not wait.
    #[must_use]
    pub fn deliverable_keys(&self, source: SourceId) -> usize {
        self.0.lock().deliverable_keys(source)
    }
}
