//! What replicas owe each other's handlers when one acts in place of another.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::super::history::{Ended, Entry, EventKind, ObjectVersion, PARTS, Part};
use super::{Checker, Clause, Key, KeyState, Running};

/// The reason of a call by which a replica continues what another one did.
const TAKEOVER: &str = "takeover";

/// For how long each replica keeps deletes, in nanoseconds.
const KEPT_NS: u64 = 600 * 1_000_000_000;

/// What the checker knows of all replicas.
#[derive(Default)]
pub(super) struct Takeovers {
    /// The incarnations that informers have had: they know of their deletes.
    pub(super) held: BTreeSet<(u32, String)>,
    /// When incarnations ended, and with which version.
    pub(super) ended: BTreeMap<String, (u64, u64)>,
    /// Handlers, and those that are called instead.
    successors: BTreeMap<u32, u32>,
    /// The last ones.
    acting: BTreeSet<u32>,
    /// The last term that has written shared state.
    wrote: u32,
}

/// How a handler has begun in place of another one.
#[derive(Default)]
pub(super) struct Takeover {
    at: u64,
    continues: bool,
    watermarks: BTreeMap<String, u64>,
    /// What it is called about, if the objects are divided.
    pub(super) part: Option<Part>,
    /// The keys of which a delete was handed out.
    deleted: BTreeSet<Key>,
    /// What was accepted because of the takeover: incarnations, and whether it was the delete.
    accepted: BTreeSet<(String, bool)>,
}

impl Takeover {
    /// How a call repeats more than it has to.
    pub(super) fn repeats(&mut self, call: &Running) -> Option<String> {
        let is_delete = call.kind == EventKind::Delete;
        let key = (call.object.namespace.clone(), call.object.name.clone());
        if is_delete {
            self.deleted.insert(key.clone());
        }
        if call.reason != TAKEOVER {
            return None;
        }
        if self.accepted.contains(&(call.object.uid.clone(), is_delete)) {
            return Some(format!("received {} again because of the same takeover", call.object));
        }
        let watermark = self.watermark_of(&call.object.namespace)?;
        let is_covered = call.object.version <= watermark;
        // An unseen delete is known to be covered only if the list that showed it is.
        let is_left_out = match is_delete {
            true => !call.unknown,
            false => self.continues && !self.deleted.contains(&key),
        };
        (is_covered && is_left_out).then(|| format!("received {}, which the watermark {watermark} covers", call.object))
    }

    fn watermark_of(&self, namespace: &str) -> Option<u64> {
        let watermark = self.watermarks.get(namespace).or(self.watermarks.get(""));
        watermark.copied()
    }

    /// A call was accepted, or refused for good.
    pub(super) fn ended(&mut self, call: &Running) {
        if call.reason == TAKEOVER {
            let is_delete = call.kind == EventKind::Delete;
            self.accepted.insert((call.object.uid.clone(), is_delete));
        }
    }
}

impl Checker {
    /// The handler continues what the one before it did.
    pub(super) fn took_over(&mut self, entry: &Entry) {
        let Entry::TookOver {
            handler: id,
            after,
            continues,
            watermarks,
            part,
        } = entry
        else {
            return;
        };
        if let Some(after) = after {
            self.forget_covered(*after, watermarks);
        }
        let before = after.and_then(|after| {
            self.takeovers.successors.insert(after, *id);
            self.takeovers.acting.remove(&after);
            self.removed_handlers.insert(after);
            self.handlers.remove(&after)
        });
        let before = before.unwrap_or_default();
        self.takeovers.acting.insert(*id);
        let handler = self.handlers.entry(*id).or_default();
        handler.takeover = Some(Takeover {
            at: self.now,
            continues: *continues,
            watermarks: watermarks.clone(),
            part: *part,
            ..Takeover::default()
        });
        let inherit = |(key, state): (Key, KeyState)| {
            let state = KeyState {
                accepted: state.accepted,
                refused: state.refused,
                settled: state.settled,
                inherited: true,
                is_of_other_replica: true,
                ..KeyState::default()
            };
            (key, state)
        };
        handler.keys = before.keys.into_iter().map(inherit).collect();
        if *continues {
            handler.attempted = before.attempted;
        }
        let keys: Vec<Key> = handler.keys.keys().cloned().collect();
        for key in keys {
            self.forget_unknowable(*id, &key);
        }
    }

    /// A replica cannot know of the delete of an object that its informer has never had, and keeps no older ones.
    pub(super) fn forget_unknowable(&mut self, id: u32, key: &Key) {
        let Some(handler) = self.handlers.get_mut(&id) else {
            return;
        };
        let (Some(takeover), Some(state)) = (&handler.takeover, handler.keys.get_mut(key)) else {
            return;
        };
        let informer = handler.informer;
        let is_unknowable = |object: &ObjectVersion| {
            let ended = self.takeovers.ended.get(&object.uid);
            let is_known = match takeover.part {
                // It forgets the objects of shards that move.
                Some(_) => self.deletes_shown.contains(&(informer, object.uid.clone())),
                None => {
                    self.takeovers.held.contains(&(informer, object.uid.clone()))
                        || self
                            .shown
                            .iter()
                            .any(|(of, shown)| *of == informer && shown.uid == object.uid)
                }
            };
            ended.is_some_and(|(ended, _)| !is_known || ended + KEPT_NS < takeover.at)
        };
        if state.is_of_other_replica {
            state
                .accepted
                .take_if(|(exists, object)| *exists && is_unknowable(object));
        }
    }

    /// What a replica could not know of and its watermark covers: its successor may know, and counts it as accepted.
    fn forget_covered(&mut self, id: u32, watermarks: &BTreeMap<String, u64>) {
        let Some(handler) = self.handlers.get(&id) else {
            return;
        };
        let is_covered = |(key, state): (&Key, &KeyState)| {
            let (_, object) = state.accepted.as_ref()?;
            let (_, ended) = self.takeovers.ended.get(&object.uid)?;
            let watermark = watermarks.get(&key.0).or(watermarks.get(""))?;
            (ended <= watermark).then(|| key.clone())
        };
        let covered: Vec<Key> = handler.keys.iter().filter_map(is_covered).collect();
        for key in covered {
            self.forget_unknowable(id, &key);
        }
    }

    /// A replica may be behind the one before it: then later incarnations follow again.
    pub(super) fn forget_newer(&mut self, id: u32, key: &Key, object: &ObjectVersion) {
        let state = self.handlers.get_mut(&id).and_then(|handler| handler.keys.get_mut(key));
        let born = |object: &ObjectVersion| self.born.get(&object.uid);
        if let Some(state) = state.filter(|state| state.is_of_other_replica) {
            state.accepted.take_if(|(_, accepted)| born(object) < born(accepted));
        }
    }

    /// Whether the handler is called about a part of the objects.
    pub(super) fn is_divided(&self, id: u32) -> bool {
        let takeover = self.handlers.get(&id).and_then(|handler| handler.takeover.as_ref());
        takeover.is_some_and(|takeover| takeover.part.is_some())
    }

    /// A call about an object of a part that the handler is not called about.
    pub(super) fn of_another_part(&self, id: u32, call: &Running) -> Option<(Clause, String)> {
        let part = self.handlers.get(&id)?.takeover.as_ref()?.part?;
        let object = &call.object;
        let message = || format!("received {object}, which is not in part {}", part.number);
        (!part.covers(&object.namespace, &object.name)).then(|| (Clause::OneReplicaActs, message()))
    }

    /// What a handler does after another one has begun in its place.
    pub(super) fn after_takeover(&mut self, at: usize, entry: &Entry) {
        let (handler, did) = match entry {
            Entry::Begin(call) => (call.handler, format!("received {}", call.object)),
            Entry::End {
                handler,
                namespace,
                name,
                ended: Ended::Ok,
            } => (*handler, format!("accepted a state of {namespace}/{name}")),
            Entry::Sent {
                handler,
                namespace,
                name,
            } => (*handler, format!("wrote for {namespace}/{name}")),
            _ => return,
        };
        if let Some(successor) = self.takeovers.successors.get(&handler) {
            let message = format!("handler {handler} {did} after {successor} had begun in its place");
            self.violate(at, Clause::OneReplicaActs, message);
        }
    }

    /// No former term writes shared state after its successor has done so.
    pub(super) fn state_written(&mut self, at: usize, term: u32) {
        let last = self.takeovers.wrote;
        self.takeovers.wrote = last.max(term);
        if term < last {
            let message = format!("the term {term} wrote shared state after the term {last} had done so");
            self.violate(at, Clause::OneReplicaActs, message);
        }
    }

    /// A handler finds what was kept with each state that is acknowledged for sure: that the watermark covers.
    pub(super) fn unfound(&self, id: u32, values: &[(String, String, u64)]) -> Vec<String> {
        let Some(handler) = self.handlers.get(&id) else {
            return Vec::new();
        };
        let Some(takeover) = &handler.takeover else {
            return Vec::new();
        };
        let lost = handler.keys.iter().filter_map(|((namespace, name), state)| {
            let (exists, object) = state.accepted.as_ref().filter(|_| state.refused.is_none())?;
            let is_found = values
                .iter()
                .any(|(of, named, version)| (of, named, *version) == (namespace, name, object.version));
            let is_covered = takeover
                .watermark_of(namespace)
                .is_some_and(|all| object.version <= all);
            // A newer state may wait for the handler: then the one before it need not be acknowledged.
            let mut later = self.written.range((Bound::Excluded(object), Bound::Unbounded));
            let is_last = later.next().is_none_or(|(next, _)| next.uid != object.uid);
            // Of one that is gone, its end waits for the handler.
            let is_gone = self.takeovers.ended.contains_key(&object.uid);
            let is_lost = *exists && is_covered && is_last && !is_found && !is_gone;
            is_lost.then(|| format!("handler {id} does not find what was kept with {object}"))
        });
        lost.collect()
    }

    /// At rest, one replica acts.
    pub(super) fn acting_at_rest(&mut self, at: usize, handlers: &[u32]) {
        let acting: BTreeSet<u32> = handlers.iter().copied().collect();
        if acting != self.takeovers.acting || acting.is_empty() {
            let message = format!(
                "at rest {acting:?} are called, and {:?} have begun last",
                self.takeovers.acting
            );
            self.violate(at, Clause::OneReplicaActs, message);
        }
        let of_part = |id: &u32| self.handlers.get(id)?.takeover.as_ref()?.part;
        let parts: BTreeSet<u8> = acting.iter().filter_map(of_part).map(|part| part.number).collect();
        if !parts.is_empty() && parts.len() < usize::from(PARTS) {
            let message = format!("at rest only the parts {parts:?} have a holder");
            self.violate(at, Clause::OneReplicaActs, message);
        }
        for id in acting {
            let keys = self
                .handlers
                .get(&id)
                .into_iter()
                .flat_map(|handler| handler.keys.keys().cloned());
            for key in keys.collect::<Vec<_>>() {
                self.forget_unknowable(id, &key);
            }
        }
    }
}
