//! Handoff between the sources of an informer when its namespaces or resources change.
//!
//! ```text
//! old: Quiesce (reads nothing more) ───────────────────▶ Drain: deletes for what no target covers, then ends
//!          └▶ ResumeReading, if the new ones do not catch up in time
//! new: synced, not visible ─▶ caught up with the old ones ─▶ TransferIn: the difference to what they delivered
//! ```

use std::sync::Arc;

use informant_cache::listener::{ChangeKind, ObjectChange};
use informant_cache::{ListenerHandle, Moment, Reason, Snapshot};
use informant_object::{KeyRef, Object, SourceId};
use informant_spec::GroupVersionResource;
use tokio::sync::oneshot;

use super::{BATCH_DELTAS_MAX, InformerLoop, LoopParts};

/// A quiesced source, for the one that replaces it; or a new source, for the one that is draining.
#[derive(Debug, Clone)]
pub(crate) struct SourceHandoff {
    pub(crate) source: SourceId,
    pub(crate) resource: GroupVersionResource,
    /// `None` for all namespaces.
    pub(crate) namespace: Option<String>,
    pub(crate) snapshot: Snapshot,
    /// Whether the cluster was rolled back since this state, or may have been: its versions say nothing about what is
    /// newer, and the source that replaces it is right.
    pub(crate) is_lost: bool,
}

impl SourceHandoff {
    fn covers(&self, key: KeyRef<'_>) -> bool {
        covers(self.namespace.as_deref(), key)
    }

    /// The object with this name, whatever its uid.
    fn get(&self, key: KeyRef<'_>) -> Option<&Object> {
        self.snapshot.get(key)
    }

    /// Whether this source is known to have everything that `other` had in their common scope: it has seen at least its
    /// version, or holds the same objects.
    pub(crate) fn has_caught_up_with(&self, other: &SourceHandoff) -> bool {
        let number = |handoff: &SourceHandoff| handoff.snapshot.version().and_then(|version| version.number());
        let has_reached = number(self).zip(number(other)).is_none_or(|(own, other)| own >= other);
        self.resource != other.resource || has_reached || self.holds_the_same(other)
    }

    fn holds_the_same(&self, other: &SourceHandoff) -> bool {
        let shared = |object: &&Object| self.covers(object.key()) && other.covers(object.key());
        let is_same = |object: &Object| {
            let held = self.get(object.key());
            held.is_some_and(|held| held.uid() == object.uid() && held.version() == object.version())
        };
        let held = self.snapshot.iter().filter(shared).count();
        let mut others = 0;
        let mut counted = other.snapshot.iter().filter(shared).inspect(|_| others += 1);
        counted.all(is_same) && others == held
    }
}

fn covers(namespace: Option<&str>, key: KeyRef<'_>) -> bool {
    namespace.is_none_or(|namespace| namespace == key.namespace)
}

impl InformerLoop {
    /// Reads nothing more, until it is [resumed](super::Control::ResumeReading). Everything that was read is in the
    /// snapshot.
    pub(super) async fn quiesce(&mut self) -> Snapshot {
        self.process_queued().await;
        self.quiesced = true;
        self.parts.store.published().clone()
    }

    /// Delivers how this source differs from the sources that it replaces: at once, or when the journal reaches it.
    pub(super) async fn transfer_in(&mut self, listeners: Vec<ListenerHandle>, from: Vec<SourceHandoff>) {
        let namespace = self.parts.namespace.clone();
        let snapshot = self.parts.store.published().clone();
        let now = self.parts.environment.now();
        let mut changes = Vec::new();
        for (index, object) in snapshot.iter().enumerate() {
            if index % BATCH_DELTAS_MAX == BATCH_DELTAS_MAX - 1 {
                tokio::task::yield_now().await;
            }
            let known = from
                .iter()
                .filter(|handoff| handoff.covers(object.key()))
                .find_map(|handoff| {
                    let known = handoff.get(object.key())?;
                    Some((handoff, known))
                });
            push_difference(known, object, now, &mut changes);
        }
        for handoff in &from {
            push_vanished(handoff, namespace.as_deref(), &snapshot, now, &mut changes);
        }
        self.keep_deletes_of(&from, &changes, now);
        let (sources, new): (Vec<_>, _) = (from.iter().map(|handoff| handoff.source).collect(), self.parts.source);
        // What a listener receives instead of the initial list of the new source.
        let transfer = Arc::new(move |listener: &ListenerHandle| {
            let scope = |key: KeyRef<'_>| covers(namespace.as_deref(), key);
            listener
                .feed()
                .transfer(&sources, new, &scope, &snapshot, &changes, now);
        });
        for listener in listeners {
            if self.listeners.iter().any(|known| known.ptr_eq(&listener)) {
                continue;
            }
            self.deliver_after_predecessors(&listener);
            match &self.parts.durable {
                Some(durable) => {
                    let (target, transfer) = (listener.clone(), Arc::clone(&transfer));
                    durable.journal.transfer(&listener, Box::new(move || transfer(&target)));
                }
                None => transfer(&listener),
            }
            self.listeners.push(listener);
        }
    }

    /// Keeps what was kept of the sources that this one replaces, and the deletes that are part of the difference.
    fn keep_deletes_of(&self, from: &[SourceHandoff], changes: &[ObjectChange], now: Moment) {
        let LoopParts {
            kept_deletes,
            source,
            namespace,
            store,
            ..
        } = &self.parts;
        let olds: Vec<SourceId> = from.iter().map(|handoff| handoff.source).collect();
        kept_deletes.transfer(&olds, *source, |key| covers(namespace.as_deref(), key));
        for change in changes {
            self.keep_delete(&change.kind, store.published().complete_through(), now);
        }
    }

    /// Replies once all earlier changes have been delivered to the listeners.
    pub(super) fn reply_once_delivered(&self, done: oneshot::Sender<()>) {
        // A receiver that is gone does not need the answer.
        match &self.parts.durable {
            Some(durable) => durable.journal.flush(Box::new(move || {
                let _ = done.send(());
            })),
            None => {
                let _ = done.send(());
            }
        }
    }

    /// Makes `listener` process the queued events of this source's predecessors before those of this source.
    pub(super) fn deliver_after_predecessors(&self, listener: &ListenerHandle) {
        if self.predecessors.is_empty() {
            return;
        }
        let namespace = self.parts.namespace.as_deref();
        listener
            .feed()
            .transfer_pending(&self.predecessors, self.parts.source, &|key| covers(namespace, key));
    }

    /// Delivers deletes for everything that no other source covers. The loop ends afterwards.
    pub(super) async fn drain(&mut self, targets: &[SourceHandoff]) {
        self.drop_waiting_list();
        if let Some(candidate) = self.candidate.take() {
            candidate.reflector.cancel();
        }
        self.parts.reflector.cancel();
        let snapshot = self.quiesce().await;
        let now = self.parts.environment.now();
        for (index, object) in snapshot.iter().enumerate() {
            if index % BATCH_DELTAS_MAX == BATCH_DELTAS_MAX - 1 {
                tokio::task::yield_now().await;
            }
            self.parts.store.delete(object.key());
            // The target reports objects that it covers.
            if self.synced && !targets.iter().any(|target| target.covers(object.key())) {
                self.changes.push(removal(object, now));
            }
        }
        self.publish();
        self.notify_listeners();
        self.parts.dropper.drop_later(snapshot.into_garbage());
    }
}

/// Adds the changes from the state that another source delivered under this name to `object`.
fn push_difference(
    known: Option<(&SourceHandoff, &Object)>,
    object: &Object,
    now: Moment,
    changes: &mut Vec<ObjectChange>,
) {
    let Some((handoff, known)) = known else {
        return changes.push(reconfigured(ChangeKind::Add(object.clone()), now));
    };
    if known.uid() != object.uid() {
        let delete = ChangeKind::Delete {
            last: Some(known.clone()),
            key: known.key().to_key(),
            final_state_unknown: true,
        };
        changes.push(reconfigured(delete, now));
        return changes.push(reconfigured(ChangeKind::Add(object.clone()), now));
    }
    // The delivered state is newer: this source's watch will send it.
    let is_behind = !handoff.is_lost && object.version() < known.version();
    if is_behind || object.has_same_content(known) {
        return;
    }
    let update = ChangeKind::Update {
        old: known.clone(),
        new: object.clone(),
    };
    changes.push(reconfigured(update, now));
}

/// Adds deletes for objects that another source delivered and the one that replaces it in `namespace` does not have.
/// Objects newer than everything it has seen are left to its watch.
fn push_vanished(
    known: &SourceHandoff,
    namespace: Option<&str>,
    holds: &Snapshot,
    now: Moment,
    changes: &mut Vec<ObjectChange>,
) {
    let seen = holds.version().and_then(|version| version.number());
    let is_seen = |object: &Object| {
        let own = object.version().number();
        known.is_lost || seen.zip(own).is_none_or(|(seen, own)| own <= seen)
    };
    let gone = known.snapshot.iter().filter(|object| {
        let key = object.key();
        covers(namespace, key) && holds.get(key).is_none() && is_seen(object)
    });
    changes.extend(gone.map(|object| removal(object, now)));
}

fn removal(object: &Object, now: Moment) -> ObjectChange {
    let delete = ChangeKind::Delete {
        last: Some(object.clone()),
        key: object.key().to_key(),
        final_state_unknown: false,
    };
    reconfigured(delete, now)
}

fn reconfigured(kind: ChangeKind, received: Moment) -> ObjectChange {
    ObjectChange {
        kind,
        reason: Reason::Reconfigured,
        received,
    }
}
