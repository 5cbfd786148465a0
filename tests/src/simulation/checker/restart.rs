//! What handlers of durable informers know when their process is killed, and what the next process owes them; and
//! indexes whose values come from outside.

use std::collections::{BTreeMap, BTreeSet};

use super::super::history::{EventKind, ObjectVersion};
use super::{Checker, Clause, Handler, Key, KeyState, Running};

/// What the handlers of one name know, one process after the other.
#[derive(Clone, Default)]
pub(super) struct Knowledge {
    /// The incarnations that were handed out and whose delete was not accepted.
    received: BTreeMap<Key, Vec<Incarnation>>,
    /// The incarnations whose delete was accepted or refused for good.
    over: BTreeSet<String>,
}

#[derive(Clone)]
struct Incarnation {
    object: ObjectVersion,
    /// Its delete was handed out in this process.
    delete_began: bool,
}

impl Knowledge {
    /// The other incarnations of its key of which no delete was handed out.
    fn undeleted_besides(&self, object: &ObjectVersion) -> impl Iterator<Item = &ObjectVersion> {
        let of_key = self.received.get(&key_of(object)).map_or(&[][..], Vec::as_slice);
        let others = of_key.iter().filter(|one| one.object.uid != object.uid);
        others.filter(|one| !one.delete_began).map(|one| &one.object)
    }

    /// A call begins.
    fn began(&mut self, kind: EventKind, object: &ObjectVersion) {
        let of_key = self.received.entry(key_of(object)).or_default();
        let known = of_key.iter_mut().find(|one| one.object.uid == object.uid);
        match (kind, known) {
            (EventKind::Delete, Some(known)) => known.delete_began = true,
            // It was stored, but never handed out.
            (EventKind::Delete, None) | (_, Some(_)) => {}
            (_, None) => of_key.push(Incarnation {
                object: object.clone(),
                delete_began: false,
            }),
        }
    }

    /// A delete was accepted, or refused for good: then it is a dead letter.
    pub(super) fn delete_ended(&mut self, object: &ObjectVersion) {
        if let Some(of_key) = self.received.get_mut(&key_of(object)) {
            of_key.retain(|one| one.object.uid != object.uid);
        }
        self.over.insert(object.uid.clone());
    }

    /// The process is killed: deletes that were handed out and not accepted have to be reported again. What is not
    /// stored cannot be reported; of those, a handler has received at most one of a key without its delete. Returns
    /// them.
    fn killed(&mut self, dropped: &[String]) -> Vec<ObjectVersion> {
        let mut unreportable = Vec::new();
        for of_key in self.received.values_mut() {
            of_key.iter_mut().for_each(|one| one.delete_began = false);
            if let Some(place) = of_key.iter().position(|one| dropped.contains(&one.object.uid)) {
                unreportable.push(of_key.remove(place).object);
            }
        }
        unreportable
    }
}

impl Checker {
    pub(super) fn killed(&mut self, id: u32, dropped: &[String]) {
        self.removed_handlers.insert(id);
        let Some(mut handler) = self.handlers.remove(&id) else {
            return;
        };
        if let Some(durable) = &mut handler.durable {
            for gone in durable.killed(dropped) {
                let state = handler.keys.entry(key_of(&gone)).or_default();
                // It still exists for the handler, which will not receive its delete.
                state.accepted.take_if(|(_, accepted)| accepted.uid == gone.uid);
            }
        }
        self.killed.insert(id, handler);
    }

    /// The handler takes over what the one before it knew.
    pub(super) fn resumed(&mut self, id: u32, after: Option<u32>, continues: bool) {
        let before = after.and_then(|after| self.killed.remove(&after)).unwrap_or_default();
        let handler = self.handlers.entry(id).or_default();
        handler.durable = Some(before.durable.unwrap_or_default());
        let inherit = |(key, state): (Key, KeyState)| {
            let state = KeyState {
                running: None,
                // Each process of a run may have another number of instances.
                instance: None,
                last_ended: None,
                traps: None,
                // Its event was not acknowledged.
                unsent: false,
                // What followed a restore of the API server was perhaps not stored as accepted, and follows it again.
                restores: 0,
                inherited: true,
                ..state
            };
            (key, state)
        };
        handler.keys = before.keys.into_iter().map(inherit).collect();
        if continues {
            handler.attempted = before.attempted;
        }
    }

    /// How a call contradicts what its handler knows from earlier processes; records the call.
    pub(super) fn known_before(&mut self, id: u32, call: &Running) -> Option<(Clause, String)> {
        let (kind, object) = (call.kind, &call.object);
        let durable = self.handlers.get_mut(&id)?.durable.as_mut()?;
        let is_revived = self.revived.contains(&object.uid);
        let finding = if kind != EventKind::Delete && durable.over.contains(&object.uid) && !is_revived {
            let message = format!("received a state of {object} after it accepted its delete");
            Some((Clause::DeleteSeenOnce, message))
        } else {
            let mut undeleted = durable.undeleted_besides(object);
            let born = |object: &ObjectVersion| self.born.get(&object.uid);
            undeleted
                .find(|other| born(other) < born(object) && !self.revived.contains(&other.uid))
                .map(|earlier| {
                    let message = format!("received {kind:?} of {object} before the delete of {earlier}");
                    (Clause::IncarnationSafe, message)
                })
        };
        durable.began(kind, object);
        finding
    }

    /// The incarnations that a handler of a durable informer received, that are gone, without their deletes.
    pub(super) fn unreported(&self, id: u32, handler: &Handler, cluster: &[ObjectVersion]) -> Vec<(Clause, String)> {
        let Some(durable) = &handler.durable else {
            return Vec::new();
        };
        let exists = |object: &ObjectVersion| {
            self.revived.contains(&object.uid) || cluster.iter().any(|now| now.uid == object.uid)
        };
        let all = durable.received.values().flatten().filter(|one| !one.delete_began);
        let lost = all.filter(|one| !exists(&one.object));
        let message = |object: &ObjectVersion| format!("handler {id} received {object}, but never its delete");
        lost.map(|one| (Clause::AtLeastOnce, message(&one.object))).collect()
    }

    /// For each object that exists, a handler has kept the state that it accepted last.
    pub(super) fn kept(&mut self, at: usize, id: u32, values: &[(String, String, u64)]) {
        let Some(handler) = self.handlers.get(&id) else { return };
        let is_kept = |key: &Key, version: u64| {
            let value = values
                .iter()
                .find(|(namespace, name, _)| (namespace, name) == (&key.0, &key.1));
            value.is_some_and(|(.., kept)| *kept == version)
        };
        let lost = handler.keys.iter().filter_map(|(key, state)| {
            let (exists, object) = state.accepted.as_ref().filter(|_| state.refused.is_none())?;
            let is_lost = *exists && self.living.contains(&object.uid) && !is_kept(key, object.version);
            is_lost.then(|| format!("handler {id} accepted {object}, but did not keep that"))
        });
        for message in lost.collect::<Vec<_>>() {
            self.violate(at, Clause::RememberedWithSuccess, message);
        }
    }

    /// What a handler finds was kept by calls whose writes were sent.
    pub(super) fn found(&mut self, at: usize, id: u32, values: &[(String, String, u64)]) {
        let Some(handler) = self.handlers.get(&id) else { return };
        let is_settled = |namespace: &String, name: &String, version: u64| {
            let state = handler.keys.get(&(namespace.clone(), name.clone()));
            state.is_some_and(|state| state.settled.contains(&version))
        };
        let unsettled = values
            .iter()
            .filter(|(namespace, name, version)| !is_settled(namespace, name, *version));
        let messages = unsettled.map(|(namespace, name, version)| {
            format!("handler {id} found that it kept {namespace}/{name}@{version}, but the write was not sent")
        });
        for message in messages.collect::<Vec<_>>() {
            self.violate(at, Clause::RememberedWithWrites, message);
        }
        for message in self.unfound(id, values) {
            self.violate(at, Clause::RememberedWithSuccess, message);
        }
    }

    /// An index whose values come from outside is complete or not ready, and ready at rest.
    pub(super) fn fed_index(
        &mut self,
        at: usize,
        informer: u32,
        at_rest: bool,
        index: Option<&Vec<(String, Vec<String>)>>,
        model: &[(String, Vec<String>)],
    ) {
        let message = match index {
            None if at_rest => format!("informer {informer}: the plugin's index is not ready at rest"),
            Some(index) if index != model => {
                format!("informer {informer}: the plugin's index has {index:?}, which should be {model:?}")
            }
            _ => return,
        };
        self.violate(at, Clause::IndexCoherent, message);
    }
}

fn key_of(object: &ObjectVersion) -> Key {
    (object.namespace.clone(), object.name.clone())
}
