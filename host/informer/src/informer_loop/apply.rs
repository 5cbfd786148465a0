//! One delta into the store, and what listeners are to hear of it.
//!
//! Source: client-go `processDeltas`: the store, not the event, decides between add and update.

use informant_cache::listener::{Change, ChangeKind};
use informant_cache::seeded_bug::{SeededBug, seeded_bug};
use informant_cache::{Delta, DeltaObject, DeltaType, EventVerdict, Reason};
use informant_object::{KeyRef, Object, VersionRef};

use super::{InformerLoop, LoopParts};
use crate::update_channel::EventKind;

impl InformerLoop {
    /// Whether an event is older than what is known, and so to be refused.
    pub(super) fn is_stale(&mut self, kind: EventKind, object: &Object) -> bool {
        let LoopParts { fifo, store, .. } = &self.parts;
        let verdict = self.guard.judge_event(object.version(), || {
            let queued = fifo
                .get_by_key(object.key())
                .and_then(|deltas| deltas.newest().object.object());
            let known = queued.or_else(|| store.get_by_key(object.key()))?;
            // Some servers do not give a delete a version of its own.
            let is_its_delete = kind == EventKind::Deleted && known.version() == object.version();
            Some(if is_its_delete {
                VersionRef::new("0")
            } else {
                known.version()
            })
        });
        verdict == EventVerdict::Outdated
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
                ListedItem::Outdated => return,
            }
        }
        let Some(old) = self.parts.store.add(object.clone()) else {
            return self.record_change(delta, || ChangeKind::Add(object.clone()));
        };
        if old.uid() == object.uid() || seeded_bug(SeededBug::UpdateAcrossUids) {
            return self.record_change(delta, || ChangeKind::Update {
                old,
                new: object.clone(),
            });
        }
        // Another incarnation: the delete of the first was not seen.
        self.record_change(delta, || deleted(old.key(), Some(old.clone()), true));
        self.record_change(delta, || ChangeKind::Add(object.clone()));
    }

    /// What an item of a list says of its object.
    fn compare_item(&mut self, delta: &Delta, object: &Object) -> ListedItem {
        let Some(old) = self.parts.store.get_by_key(object.key()) else {
            return ListedItem::Changed;
        };
        if old.uid() != object.uid() {
            return ListedItem::Changed;
        }
        // Nothing happened to it between the lists.
        let is_same_version = old.version() == object.version() && !object.version().is_empty();
        if is_same_version && !(may_differ_at_one_version(delta.reason) && old.json() != object.json()) {
            return ListedItem::Unchanged(old.clone());
        }
        let is_newer = delta.reason == Reason::Restored || self.guard.judge_item(object.version(), old.version());
        if is_newer {
            return ListedItem::Changed;
        }
        self.parts.status.count_rejected("item");
        ListedItem::Outdated
    }

    /// client-go tells handlers of what is unchanged, as an update from itself to itself; here those hear of it who ask
    /// for it.
    fn record_unchanged(&mut self, delta: &Delta, known: Object) {
        let is_relist = matches!(delta.reason, Reason::Relist | Reason::Restored);
        if is_relist && !self.parts.fifo.skips_unchanged() {
            self.record_change(delta, || ChangeKind::Update {
                old: known.clone(),
                new: known,
            });
        }
    }

    /// The last state is the one the delete brought; a tombstone brings what was known.
    fn apply_delete(&mut self, delta: &Delta, object: &DeltaObject) {
        let stored = self.parts.store.delete(object.key());
        let last = object.object().cloned().or(stored);
        // Who changes what is asked for knows what became of the rest.
        let unknown =
            object.is_tombstone() && delta.reason != Reason::Reconfigured && !seeded_bug(SeededBug::TombstoneUnmarked);
        self.record_change(delta, || deleted(object.key(), last, unknown));
    }

    /// Notes a change for listeners and index plugins; before the first list is complete they hear nothing of single
    /// objects.
    fn record_change(&mut self, delta: &Delta, kind: impl FnOnce() -> ChangeKind) {
        let has_consumer = !self.listeners.is_empty() || !self.feeds.is_empty() || self.parts.durable.is_some();
        if self.synced && has_consumer {
            self.changes.push(Change {
                kind: kind(),
                reason: delta.reason,
                received: delta.received,
            });
        }
    }
}

/// What an item of a list says of its object.
enum ListedItem {
    /// Something new.
    Changed,
    /// What is known.
    Unchanged(Object),
    /// Less than is known.
    Outdated,
}

/// Whether one version of an object may come in two forms: other fields are kept than before, or the cluster's history
/// is another.
fn may_differ_at_one_version(reason: Reason) -> bool {
    matches!(reason, Reason::Reconfigured | Reason::Restored)
}

fn deleted(key: KeyRef<'_>, last: Option<Object>, final_state_unknown: bool) -> ChangeKind {
    ChangeKind::Delete {
        last,
        key: key.to_key(),
        final_state_unknown,
    }
}
