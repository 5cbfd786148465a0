//! Applies one delta to the store and records the changes for listeners.
//!
//! Source: client-go `processDeltas`: the store, not the event, decides between add and update.

use informant_cache::listener::{ChangeKind, ObjectChange};
use informant_cache::seeded_bug::{SeededBug, seeded_bug};
use informant_cache::{
    Delta, DeltaFifo, DeltaObject, DeltaType, EventVerdict, KeptDelete, Moment, Reason, ShardFilter, StoreWriter,
    Tombstone,
};
use informant_object::frames::RecoveredHead;
use informant_object::{KeyRef, Object, VersionRef};

use super::{InformerLoop, LoopParts};

impl InformerLoop {
    /// Whether an event is older than the known state, so that it must be rejected.
    pub(super) fn is_stale(&mut self, is_delete: bool, key: KeyRef<'_>, version: VersionRef<'_>) -> bool {
        let LoopParts { fifo, store, .. } = &self.parts;
        let verdict = self.guard.check_event(version, || {
            let known = newest(fifo, store, key)?;
            // Some servers do not give a delete a version of its own.
            let is_its_delete = is_delete && known.version() == version;
            Some(if is_its_delete {
                VersionRef::new("0")
            } else {
                known.version()
            })
        });
        verdict == EventVerdict::Outdated
    }

    /// Queues a delete whose object cannot be kept. Handlers receive it with the last known state, as of an object that
    /// vanished; if none is known, they never had it, and receive nothing.
    pub(super) fn queue_unread_delete(&mut self, head: RecoveredHead, received: Moment) {
        let RecoveredHead { key, version, .. } = head;
        // A version that cannot be read would turn the guard off.
        if !version.is_empty() && self.is_stale(true, key.as_ref(), version.as_ref()) {
            return self.parts.status.count_rejected("event");
        }
        let LoopParts { fifo, store, .. } = &mut self.parts;
        let object = newest(fifo, store, key.as_ref()).cloned();
        fifo.delete(Tombstone { key, object }, store, received);
        // A tombstone has no version of its own.
        if !version.is_empty() {
            fifo.bookmark(version.as_ref());
        }
    }

    /// Writes one delta to the store.
    pub(super) fn apply(&mut self, delta: &Delta) {
        match (&delta.kind, &delta.object) {
            (DeltaType::Deleted, object) => self.apply_delete(delta, object),
            (_, DeltaObject::Object(object)) => self.apply_object(delta, object),
            // Only deletes carry tombstones.
            (_, DeltaObject::Tombstone(_)) => {}
        }
    }

    fn apply_object(&mut self, delta: &Delta, object: &Object) {
        if delta.kind == DeltaType::Replaced {
            match self.compare_item(delta, object) {
                ListedItem::Changed => {}
                ListedItem::Unchanged(known) => return self.record_unchanged(delta, known),
                ListedItem::Outdated(known) => return self.record_known(delta, known),
            }
        }
        let old = self.parts.store.add(object.clone());
        let reason = match self.was_of_other_shard(object.key()) {
            true => Reason::Takeover,
            false => delta.reason,
        };
        let add = || ChangeKind::Add(object.clone());
        let Some(old) = old else {
            return self.record_change_because(delta, reason, add);
        };
        if old.uid() == object.uid() || seeded_bug(SeededBug::UpdateAcrossUids) {
            return self.record_change_because(delta, reason, || ChangeKind::Update {
                old,
                new: object.clone(),
            });
        }
        // A new object with the same name: the delete of the first was missed.
        self.record_delete(
            delta,
            deleted(old.key(), Some(old.clone()), true),
            object.version().number(),
        );
        if seeded_bug(SeededBug::NewIncarnationMissed) {
            return;
        }
        self.record_change_because(delta, reason, add);
    }

    /// Compares an item of a list with the stored object.
    fn compare_item(&mut self, delta: &Delta, object: &Object) -> ListedItem {
        let Some(old) = self.parts.store.get_by_key(object.key()) else {
            return ListedItem::Changed;
        };
        if old.uid() != object.uid() {
            return ListedItem::Changed;
        }
        // The object did not change between the lists.
        let is_same_version = old.version() == object.version() && !object.version().is_empty();
        if is_same_version && (!may_differ_at_one_version(delta.reason) || old.has_same_content(object)) {
            return ListedItem::Unchanged(old.clone());
        }
        let is_restored = delta.reason == Reason::Restored && !seeded_bug(SeededBug::RestoredStateRejected);
        let is_newer = is_restored || self.guard.check_item(object.version(), old.version());
        if is_newer {
            return ListedItem::Changed;
        }
        let known = old.clone();
        self.parts.status.count_rejected("item");
        ListedItem::Outdated(known)
    }

    /// client-go notifies handlers of unchanged objects, as updates with equal states; here only if configured.
    fn record_unchanged(&mut self, delta: &Delta, known: Object) {
        let is_relist = matches!(delta.reason, Reason::Relist | Reason::Restored);
        if is_relist && !self.parts.fifo.skips_unchanged() && !self.was_of_other_shard(known.key()) {
            return self.record_change(delta, || unchanged(known));
        }
        self.record_known(delta, known);
    }

    /// A list leaves an object as it is: those that wait for a list with other shards have not received it.
    fn record_known(&mut self, delta: &Delta, known: Object) {
        if self.was_of_other_shard(known.key()) {
            self.record_change_because(delta, Reason::Takeover, || unchanged(known));
        }
    }

    /// The last state is the one in the delete; for a tombstone, the last known one.
    fn apply_delete(&mut self, delta: &Delta, object: &DeltaObject) {
        let stored = self.parts.store.delete(object.key());
        if self.is_of_other_shard(object.key()) {
            let key = object.key().to_key();
            return self.record_change(delta, || ChangeKind::Forget { key });
        }
        // Nothing else needs the versions as numbers.
        let gone_by = match self.parts.kept_deletes.is_on() {
            true => gone_by(object, stored.as_ref()).or(self.listing),
            false => None,
        };
        let last = object.object().cloned().or(stored);
        // After a reconfiguration the fate of the other objects is known.
        let unknown = (object.is_tombstone() || seeded_bug(SeededBug::EveryDeleteMarked))
            && delta.reason != Reason::Reconfigured
            && !seeded_bug(SeededBug::TombstoneUnmarked);
        self.record_delete(delta, deleted(object.key(), last, unknown), gone_by);
    }

    /// Whether the object belongs to a shard that is not read, so that one that was stored has not been deleted.
    pub(super) fn is_of_other_shard(&self, key: KeyRef<'_>) -> bool {
        self.parts.store.shards().is_some_and(|shards| !shards.includes(key))
    }

    /// Whether this process has not read the object's shard, as it is now, until the list that is being applied.
    pub(super) fn was_of_other_shard(&self, key: KeyRef<'_>) -> bool {
        let is_of_other = |before: ShardFilter| !before.includes(key) || self.was_divided_otherwise();
        self.shards_before.is_some_and(is_of_other)
    }

    /// Whether the list that is being applied is divided otherwise than what was read before. Listeners wait for it.
    pub(super) fn was_divided_otherwise(&self) -> bool {
        let shards = self.shards_before.zip(self.parts.store.shards());
        shards.is_some_and(|(before, now)| before.division != now.division)
    }

    /// Records a delete of an object that is known to be gone at the version `gone_by`, and keeps it for handlers that
    /// another process calls.
    fn record_delete(&mut self, delta: &Delta, delete: ChangeKind, gone_by: Option<u64>) {
        if self.synced {
            self.keep_delete(&delete, gone_by, delta.received);
        }
        self.record_change(delta, || delete);
    }

    /// Keeps a delete of a shard that another process reads, for the case that this one takes it over.
    pub(super) fn keep_others_delete(&self, last: Object, received: Moment) {
        if seeded_bug(SeededBug::OthersDeletesNotKept) {
            return;
        }
        let gone_by = last.version().number();
        let delete = deleted(last.key(), Some(last.clone()), false);
        self.keep_delete(&delete, gone_by, received);
    }

    pub(super) fn keep_delete(&self, delete: &ChangeKind, gone_by: Option<u64>, received: Moment) {
        let ChangeKind::Delete {
            last,
            key,
            final_state_unknown,
        } = delete
        else {
            return;
        };
        let kept = || KeptDelete {
            key: key.clone(),
            last: last.clone(),
            final_state_unknown: *final_state_unknown,
            gone_by,
            received,
        };
        self.parts.kept_deletes.add(self.parts.source, kept);
    }

    /// Records a change for listeners and index plugins. Before the first list is complete, they receive no single
    /// objects.
    fn record_change(&mut self, delta: &Delta, kind: impl FnOnce() -> ChangeKind) {
        self.record_change_because(delta, delta.reason, kind);
    }

    fn record_change_because(&mut self, delta: &Delta, reason: Reason, kind: impl FnOnce() -> ChangeKind) {
        let has_consumer = !self.listeners.is_empty() || !self.feeds.is_empty() || self.parts.durable.is_some();
        if self.synced && has_consumer {
            self.changes.push(ObjectChange {
                kind: kind(),
                reason,
                received: delta.received,
            });
        }
    }
}

/// The newest known state of an object, queued or stored.
fn newest<'a>(fifo: &'a DeltaFifo, store: &'a StoreWriter, key: KeyRef<'_>) -> Option<&'a Object> {
    let queued = fifo.get_by_key(key).and_then(|deltas| deltas.newest().object.object());
    queued.or_else(|| store.get_by_key(key))
}

/// An item of a list, compared with the stored object.
enum ListedItem {
    /// New or newer.
    Changed,
    /// The same state.
    Unchanged(Object),
    /// Older than this one.
    Outdated(Object),
}

/// Whether one version of an object may have two representations: its shape changed, or the cluster was rolled back.
fn may_differ_at_one_version(reason: Reason) -> bool {
    matches!(reason, Reason::Reconfigured | Reason::Restored)
}

/// The version of a delete that was observed, if it has one of its own: some servers send the last state.
fn gone_by(delete: &DeltaObject, stored: Option<&Object>) -> Option<u64> {
    let DeltaObject::Object(last) = delete else {
        return None;
    };
    last.version()
        .number()
        .filter(|_| stored.is_some_and(|stored| stored.version() < last.version()))
}

fn unchanged(known: Object) -> ChangeKind {
    ChangeKind::Update {
        old: known.clone(),
        new: known,
    }
}

fn deleted(key: KeyRef<'_>, last: Option<Object>, final_state_unknown: bool) -> ChangeKind {
    ChangeKind::Delete {
        last,
        key: key.to_key(),
        final_state_unknown,
    }
}
