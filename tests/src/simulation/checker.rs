//! The delivery contract, tested on a history: a pure function, so that it judges any recording.
//!
//! Per handler and key: calls are ordered and never overlap; nothing is told that the API server never held; a delete is told
//! once; one incarnation never becomes another without a delete in between; the store is at least as new as the call. At rest:
//! the last that was accepted is the last there is, the store is the cluster, the index is what a scan says.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::history::{Ended, Entry, History, ObjectVersion, Told};

/// A clause of the contract that a history breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The clause: `ordered`, `one at a time`, `no invention`, `delete seen once`, `incarnation safe`, `snapshot at least as
    /// new`, `sync complete`, `last state never lost`, `store converges`, `index coherent`.
    pub clause: &'static str,
    /// Which entry shows it, counted from 0.
    pub entry: usize,
    /// What was seen.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "entry {}: {}: {}", self.entry, self.clause, self.message)
    }
}

type Key = (String, String);

/// What one handler believes about one key.
#[derive(Default)]
struct Believed {
    running: Option<Running>,
    /// The newest state a call began with, whether it ended well or not.
    newest: Option<ObjectVersion>,
    /// The last state a call ended well with: there (true) or gone.
    accepted: Option<(bool, ObjectVersion)>,
    refused_for_good: bool,
}

struct Running {
    told: Told,
    object: ObjectVersion,
}

#[derive(Default)]
struct Handler {
    keys: BTreeMap<Key, Believed>,
    deleted: BTreeSet<(Key, String)>,
    attempted: BTreeSet<Key>,
    synced: bool,
}

#[derive(Default)]
struct Checker {
    /// All states that ever were, and the versions at which incarnations ended.
    held: BTreeSet<ObjectVersion>,
    handlers: BTreeMap<u32, Handler>,
    /// Handlers that were removed; calls that ran then may still end.
    left: BTreeSet<u32>,
    violations: Vec<Violation>,
}

/// Returns every breach of the contract, in order of appearance. Empty: it holds.
pub fn check(history: &History) -> Vec<Violation> {
    let mut checker = Checker::default();
    for (index, (_, entry)) in history.entries.iter().enumerate() {
        checker.see(index, entry);
    }
    checker.violations
}

impl Checker {
    fn see(&mut self, entry: usize, what: &Entry) {
        match what {
            Entry::Begin { handler, .. } | Entry::End { handler, .. } | Entry::Synced { handler, .. }
                if self.left.contains(handler) => {}
            Entry::Written { object } | Entry::Removed { object } => {
                self.held.insert(object.clone());
            }
            Entry::Fault { .. } => {}
            Entry::Begin {
                handler,
                told,
                object,
                old,
                stored,
                ..
            } => {
                self.begin(entry, *handler, *told, object, old.as_ref());
                self.snapshot(entry, *told, object, *stored);
            }
            Entry::End {
                handler,
                namespace,
                name,
                ended,
            } => self.end(entry, *handler, (namespace, name), *ended),
            Entry::Synced { handler, there } => self.synced(entry, *handler, there),
            Entry::Left { handler } => {
                self.handlers.remove(handler);
                self.left.insert(*handler);
            }
            Entry::Quiet {
                cluster,
                store,
                index,
                scan,
            } => {
                self.at_rest(entry, cluster, store);
                if index != scan {
                    self.violate(
                        entry,
                        "index coherent",
                        format!("the index says {index:?}, a scan {scan:?}"),
                    );
                }
            }
        }
    }

    fn violate(&mut self, entry: usize, clause: &'static str, message: String) {
        self.violations.push(Violation { clause, entry, message });
    }

    fn begin(&mut self, entry: usize, id: u32, told: Told, object: &ObjectVersion, old: Option<&ObjectVersion>) {
        for state in std::iter::once(object).chain(old) {
            if !self.held.contains(state) {
                self.violate(
                    entry,
                    "no invention",
                    format!("handler {id} was told of {state}, which never was"),
                );
            }
        }
        let key = (object.namespace.clone(), object.name.clone());
        let handler = self.handlers.entry(id).or_default();
        handler.attempted.insert(key.clone());
        let already_deleted = handler.deleted.contains(&(key.clone(), object.uid.clone()));
        let believed = handler.keys.entry(key).or_default();
        let mut breaches = Vec::new();
        if let Some(running) = &believed.running {
            breaches.push((
                "one at a time",
                format!("handler {id} still runs {:?} of {}", running.told, running.object),
            ));
        }
        if let Some(newest) = &believed.newest
            && newest.uid == object.uid
            && object.version < newest.version
        {
            breaches.push(("ordered", format!("handler {id} was told of {object} after {newest}")));
        }
        if already_deleted {
            let again = if told == Told::Delete {
                "was told again of the delete"
            } else {
                "was told of life after the delete"
            };
            breaches.push(("delete seen once", format!("handler {id} {again} of {object}")));
        }
        if told != Told::Delete
            && let Some((true, accepted)) = &believed.accepted
            && accepted.uid != object.uid
        {
            breaches.push((
                "incarnation safe",
                format!("handler {id} went from {accepted} to {object} without a delete"),
            ));
        }
        if let Some(old) = old
            && old.uid != object.uid
        {
            breaches.push((
                "incarnation safe",
                format!("handler {id} got {old} as the old state of {object}"),
            ));
        }
        believed.newest = Some(object.clone());
        believed.running = Some(Running {
            told,
            object: object.clone(),
        });
        for (clause, message) in breaches {
            self.violate(entry, clause, message);
        }
    }

    /// A handler that looks its object up finds that state or a newer one; after a delete a newer one or none.
    fn snapshot(&mut self, entry: usize, told: Told, object: &ObjectVersion, stored: Option<u64>) {
        let fresh = match (told, stored) {
            (Told::Delete, None) => true,
            (Told::Delete, Some(stored)) => stored > object.version,
            (_, Some(stored)) => stored >= object.version,
            // Gone already: a delete follows.
            (_, None) => true,
        };
        if !fresh {
            let message = format!("told of {told:?} {object} while the store held version {stored:?}");
            self.violate(entry, "snapshot at least as new", message);
        }
    }

    fn end(&mut self, entry: usize, id: u32, (namespace, name): (&str, &str), ended: Ended) {
        let key = (namespace.to_owned(), name.to_owned());
        let handler = self.handlers.entry(id).or_default();
        let believed = handler.keys.entry(key.clone()).or_default();
        let Some(running) = believed.running.take() else {
            self.violate(
                entry,
                "one at a time",
                format!("handler {id}: an end without a begin for {namespace}/{name}"),
            );
            return;
        };
        match ended {
            Ended::Ok => {
                if running.told == Told::Delete {
                    handler.deleted.insert((key, running.object.uid.clone()));
                }
                believed.refused_for_good = false;
                believed.accepted = Some((running.told != Told::Delete, running.object));
            }
            Ended::Retry => {}
            Ended::Permanent => {
                believed.refused_for_good = true;
                if running.told == Told::Delete {
                    // It was told of the delete; what it makes of it is its own affair.
                    believed.accepted = None;
                }
            }
        }
    }

    fn synced(&mut self, entry: usize, id: u32, there: &[Key]) {
        let handler = self.handlers.entry(id).or_default();
        handler.synced = true;
        let missed = there.iter().find(|key| !handler.attempted.contains(*key)).cloned();
        if let Some((namespace, name)) = missed {
            let message = format!("handler {id} was told it is synced, but never of {namespace}/{name}");
            self.violate(entry, "sync complete", message);
        }
    }

    fn at_rest(&mut self, entry: usize, cluster: &[ObjectVersion], store: &[ObjectVersion]) {
        if cluster != store {
            let message = format!("the cluster holds {}, the store {}", shown(cluster), shown(store));
            self.violate(entry, "store converges", message);
        }
        let there: BTreeMap<_, _> = cluster.iter().map(|object| (object.key(), object)).collect();
        let mut breaches = Vec::new();
        for (id, handler) in &self.handlers {
            for (key, believed) in &handler.keys {
                let current = there.get(&(key.0.as_str(), key.1.as_str())).copied();
                if let Some(running) = &believed.running {
                    breaches.push(format!("handler {id} never came back from {}", running.object));
                }
                if let Some(breach) = lost(believed, current) {
                    breaches.push(format!("handler {id}, {}/{}: {breach}", key.0, key.1));
                }
            }
            for object in cluster {
                if handler.synced
                    && !handler
                        .keys
                        .contains_key(&(object.namespace.clone(), object.name.clone()))
                {
                    breaches.push(format!("handler {id} was never told of {object}"));
                }
            }
        }
        for message in breaches {
            self.violate(entry, "last state never lost", message);
        }
    }
}

/// What is wrong with the last state that was accepted, given the state there is.
fn lost(believed: &Believed, current: Option<&ObjectVersion>) -> Option<String> {
    // What was refused for good is a dead letter: it is listed, not lost.
    if believed.refused_for_good {
        return None;
    }
    match (&believed.accepted, current) {
        (Some((true, accepted)), Some(current)) if accepted == current => None,
        (Some((false, _)) | None, None) => None,
        (accepted, current) => Some(format!("accepted {accepted:?}, but there is {current:?}")),
    }
}

fn shown(objects: &[ObjectVersion]) -> String {
    objects
        .iter()
        .map(ObjectVersion::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests;
