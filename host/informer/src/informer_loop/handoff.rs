//! One source after another: what the sources of an informer hand over when its namespaces change.
//!
//! ```text
//! old: Rest (nothing new is read) ──────────────────────────────────────▶ Leave: deletes for what no target covers, then the end
//! new: synced, told to nobody ─▶ as far as the old ones ─▶ SourceTransfer: the difference to what the old ones showed
//! ```

use std::sync::Arc;

use informant_cache::listener::{Change, ChangeKind};
use informant_cache::{ListenerHandle, Moment, Reason, Snapshot};
use informant_object::{KeyRef, Object, SourceId};
use tokio::sync::oneshot;

use super::{BATCH_DELTAS_MAX, InformerLoop};
use crate::resource::GroupVersionResource;

/// A source that rests, as a new one takes over from it; or a new one, as an old one leaves.
#[derive(Debug, Clone)]
pub(crate) struct SourceHandoff {
    pub(crate) source: SourceId,
    pub(crate) resource: GroupVersionResource,
    /// `None` is all of them.
    pub(crate) namespace: Option<String>,
    pub(crate) snapshot: Snapshot,
}

/// What a new source takes over.
pub(crate) struct SourceTransfer {
    pub(crate) listeners: Vec<ListenerHandle>,
    /// The namespace of the new source; `None` is all of them.
    pub(crate) namespace: Option<String>,
    pub(crate) from: Arc<Vec<SourceHandoff>>,
}

/// What a listener is given of the sources before.
struct ListenerTransfer {
    sources: Vec<SourceId>,
    new: SourceId,
    namespace: Option<String>,
    snapshot: Snapshot,
    changes: Vec<Change>,
    now: Moment,
}

impl ListenerTransfer {
    fn apply(&self, listener: &ListenerHandle) {
        let scope = |key: KeyRef<'_>| covers(self.namespace.as_deref(), key);
        listener.inherit(&self.sources, self.new, &scope, &self.snapshot, &self.changes, self.now);
    }
}

impl SourceHandoff {
    fn covers(&self, key: KeyRef<'_>) -> bool {
        covers(self.namespace.as_deref(), key)
    }

    /// The object of this name, in whatever incarnation.
    fn get(&self, key: KeyRef<'_>) -> Option<&Object> {
        self.snapshot.get(key)
    }

    /// Whether it is known to hold all that `other` held of what both cover: it has seen as far, or holds the very
    /// same.
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
    /// Reads nothing any more. What was read is in the snapshot.
    pub(super) async fn quiesce(&mut self) -> Snapshot {
        if let Some(candidate) = self.candidate.take() {
            candidate.reflector.cancel();
        }
        self.parts.reflector.cancel();
        self.process_queued().await;
        self.paused = true;
        self.parts.store.published().clone()
    }

    /// Tells listeners how this source differs from what they were told by others: at once, or when the journal comes
    /// to it.
    pub(super) async fn transfer_in(&mut self, request: SourceTransfer) {
        let SourceTransfer {
            listeners,
            namespace,
            from,
        } = request;
        let snapshot = self.parts.store.published().clone();
        let now = self.parts.environment.now();
        let mut changes = Vec::new();
        for (index, object) in snapshot.iter().enumerate() {
            if index % BATCH_DELTAS_MAX == BATCH_DELTAS_MAX - 1 {
                tokio::task::yield_now().await;
            }
            let mut covering = from.iter().filter(|handoff| handoff.covers(object.key()));
            push_difference(
                covering.find_map(|handoff| handoff.get(object.key())),
                object,
                now,
                &mut changes,
            );
        }
        for handoff in from.iter() {
            push_vanished(handoff, namespace.as_deref(), &snapshot, now, &mut changes);
        }
        let transfer = Arc::new(ListenerTransfer {
            sources: from.iter().map(|handoff| handoff.source).collect(),
            new: self.parts.source,
            namespace,
            snapshot,
            changes,
            now,
        });
        for listener in listeners {
            if self.listeners.iter().any(|known| known.ptr_eq(&listener)) {
                continue;
            }
            self.deliver_after_predecessors(&listener);
            match &self.parts.durable {
                Some(durable) => {
                    let (target, transfer) = (listener.clone(), Arc::clone(&transfer));
                    durable
                        .journal
                        .adopt(&listener, Box::new(move || transfer.apply(&target)));
                }
                None => transfer.apply(&listener),
            }
            self.listeners.push(listener);
        }
    }

    /// Answers once all that was told so far has reached its listeners.
    pub(super) fn reply_once_delivered(&self, done: oneshot::Sender<()>) {
        // Who does not wait for the answer does not need it.
        match &self.parts.durable {
            Some(durable) => durable.journal.flush(Box::new(move || {
                let _ = done.send(());
            })),
            None => {
                let _ = done.send(());
            }
        }
    }

    /// Has what waits in `listener` for sources that left this one's index go before what this one shows.
    pub(super) fn deliver_after_predecessors(&self, listener: &ListenerHandle) {
        if self.predecessors.is_empty() {
            return;
        }
        let namespace = self.parts.namespace.as_deref();
        listener.follow(&self.predecessors, self.parts.source, &|key| covers(namespace, key));
    }

    /// Tells listeners that what no other source tells of is gone from the informer. The loop is over then.
    pub(super) async fn drain(&mut self, targets: &[SourceHandoff]) {
        let snapshot = self.quiesce().await;
        let now = self.parts.environment.now();
        for (index, object) in snapshot.iter().enumerate() {
            if index % BATCH_DELTAS_MAX == BATCH_DELTAS_MAX - 1 {
                tokio::task::yield_now().await;
            }
            self.parts.store.delete(object.key());
            // What an target covers is the target's to tell of.
            if self.synced && !targets.iter().any(|target| target.covers(object.key())) {
                self.changes.push(removal(object, now));
            }
        }
        self.publish();
        self.notify_listeners();
        self.parts.dropper.drop_later(snapshot.into_garbage());
    }
}

/// Notes what is to be told of `object`, given what was told of its name by another source.
fn push_difference(known: Option<&Object>, object: &Object, now: Moment, changes: &mut Vec<Change>) {
    let Some(known) = known else {
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
    // What was told is newer: this source's watch will bring it.
    let is_behind = object.version() < known.version();
    if is_behind || object.json() == known.json() {
        return;
    }
    let update = ChangeKind::Update {
        old: known.clone(),
        new: object.clone(),
    };
    changes.push(reconfigured(update, now));
}

/// Notes as deletes what another source told of, and the one that takes over for `namespace` does not hold. What is
/// newer than all it has seen, its watch will bring.
fn push_vanished(
    known: &SourceHandoff,
    namespace: Option<&str>,
    holds: &Snapshot,
    now: Moment,
    changes: &mut Vec<Change>,
) {
    let seen = holds.version().and_then(|version| version.number());
    let is_seen = |object: &Object| {
        let own = object.version().number();
        seen.zip(own).is_none_or(|(seen, own)| own <= seen)
    };
    let gone = known.snapshot.iter().filter(|object| {
        let key = object.key();
        covers(namespace, key) && holds.get(key).is_none() && is_seen(object)
    });
    changes.extend(gone.map(|object| removal(object, now)));
}

fn removal(object: &Object, now: Moment) -> Change {
    let delete = ChangeKind::Delete {
        last: Some(object.clone()),
        key: object.key().to_key(),
        final_state_unknown: false,
    };
    reconfigured(delete, now)
}

fn reconfigured(kind: ChangeKind, received: Moment) -> Change {
    Change {
        kind,
        reason: Reason::Reconfigured,
        received,
    }
}
