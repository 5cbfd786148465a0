//! Checks a history against the delivery contract: a pure function, so that it can check any recording.
//!
//! Per handler and key: calls are ordered and never overlap; no call has a state that the API server never held; a
//! delete is delivered once, and marked if and only if its final state was not seen; one incarnation never becomes
//! another without a delete in between; the store is at least as new as the call; no state or incarnation that a watch
//! shows is skipped or repeated. At rest: the last accepted state is the last one written, every handler received every
//! incarnation, and the store equals the cluster. At any time: an index equals a scan.
//!
//! An informer's selection may change, and objects may leave it and come back: then a delete means that the object is
//! no longer selected, and its incarnation may continue. What a watch shows during such a change is part of the
//! difference that handlers receive, so it is not required of informers whose selection ever changed.
//!
//! A handler of a durable informer continues from what the handler before the kill of its process had received: it
//! receives a delete of each of those incarnations that is gone, oldest first, and nothing more of one whose delete was
//! accepted. No handler receives a delete of an object that exists. An index whose values come from outside is complete
//! or not ready, and ready at rest.
//!
//! A call that a handler asks for is made once and not before it is due, unless another call for the key comes first.
//! A write that a call defers is sent once, after the call succeeded and before the next call for its key; never if the
//! call failed.
//!
//! Two calls for one key begin at least the handler's interval apart, unless the informer's selection has changed: then
//! the source may be another one. In a second at most as many calls begin as the handler's burst and rate allow.
//!
//! Calls of a handler about namespaces in which one trapped a short time ago run one at a time, and take their share of
//! its time at most, if it limits them.
//!
//! What a handler of a durable informer keeps with its calls is what they accepted, whenever its process was killed. If
//! a call also deferred a write, the next process finds what it kept only if the write was sent.
//!
//! A controller's last call about each object has seen its last state and that of its children; calls about one never
//! overlap. It prunes only while the cache has all of them. Its timer fires once for each time, or once for several
//! that were missed: after a kill, from the run on that is recorded. What a failed call defers or records is not sent.
//!
//! If the API server is restored from a backup, incarnations may return, and each key may go back once.

mod calls;
mod clause;
mod controllers;
mod rest;
mod restart;
mod source;
mod suspects;
mod takeovers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

pub use self::clause::Clause;
use self::controllers::Controllers;
use self::suspects::Suspects;
use self::takeovers::{Takeover, Takeovers};
use super::history::{Call, Entry, EventKind, History, ObjectVersion, Selection};

/// A violation of a clause by a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The clause.
    pub clause: Clause,
    /// The index of the entry that shows it.
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

/// What one handler has received for one key.
#[derive(Default)]
struct KeyState {
    running: Option<Running>,
    /// The instance that received its first event.
    instance: Option<u8>,
    /// The newest state with which a call began, successful or not.
    newest: Option<ObjectVersion>,
    /// The last state that a call accepted: existing (true) or deleted.
    accepted: Option<(bool, ObjectVersion)>,
    /// A call began with another state since, which it did not accept: after a restore, the accepted version may come
    /// again as a new state.
    went_on: bool,
    /// The last state whose delivery ended, successful or not; none after a delete.
    last_ended: Option<ObjectVersion>,
    /// The state of the last delete because of a changed selection.
    left_selection: Option<ObjectVersion>,
    /// The state that it rejected permanently or trapped on too often, existing (true) or deleted, if it has accepted
    /// nothing since.
    refused: Option<(bool, ObjectVersion)>,
    /// The last state that it trapped on, existing (true) or deleted, and how often.
    traps: Option<(bool, ObjectVersion, u32)>,
    /// How many restores of the API server its states have followed.
    restores: usize,
    /// When the call is due that it asked for, in nanoseconds since the start.
    asked: Option<u64>,
    /// The same of a call that may have become a dead letter.
    perhaps_asked: Option<u64>,
    /// When the last call began, in nanoseconds since the start.
    called: Option<u64>,
    /// The call that runs, or else the last one if it succeeded, deferred a write that was not sent yet.
    unsent: bool,
    /// The versions that calls have accepted whose deferred writes, if any, were sent.
    settled: BTreeSet<u64>,
    /// It is of an earlier process, whose last acknowledgements may be lost.
    inherited: bool,
    /// States since the accepted one may be merged, by the replay of its handler.
    replayed: bool,
    /// It was replayed before.
    was_replayed: bool,
    /// What was accepted last was accepted from another replica, which may have been ahead of this one.
    is_of_other_replica: bool,
}

/// A call that has begun.
#[derive(Clone)]
struct Running {
    kind: EventKind,
    object: ObjectVersion,
    old: Option<ObjectVersion>,
    unknown: bool,
    reason: String,
}

#[derive(Default)]
struct Handler {
    informer: u32,
    receives_every_state: bool,
    min_interval_ms: u64,
    calls_per_second_max: Option<u32>,
    /// When the calls of the last second began, in nanoseconds since the start.
    began: VecDeque<u64>,
    /// The namespaces in which a call trapped, if it limits the calls about them.
    suspects: Option<Suspects>,
    keys: BTreeMap<Key, KeyState>,
    deleted: BTreeSet<(Key, String)>,
    /// The incarnations of which it received a state.
    attempted: BTreeSet<(Key, String)>,
    /// The calls that a WebAssembly handler must remember.
    calls_remembered: u64,
    /// How many sources it is synced with.
    synced: usize,
    /// How many syncs are left until it has received everything once.
    syncs_left: usize,
    /// The selection changed before it had received everything: the rest comes as a replay, which merges states.
    replays: bool,
    /// The new incarnations that a watch showed since it is synced, and of which it has received nothing.
    owed: Vec<ObjectVersion>,
    /// What it knows across processes, if its informer is durable.
    durable: Option<restart::Knowledge>,
    /// How it has begun in place of another one, if it is called by a replica.
    takeover: Option<Takeover>,
}

#[derive(Default)]
struct Checker {
    /// Each state that ever existed, with its label.
    written: BTreeMap<ObjectVersion, String>,
    /// The states that a restored API server no longer has, with their labels.
    written_before_restore: BTreeMap<ObjectVersion, String>,
    /// The versions at which incarnations ended.
    removed: BTreeSet<ObjectVersion>,
    /// How often the API server was restored.
    restores: usize,
    /// The incarnations that a restore brought back: they may be deleted again.
    revived: BTreeSet<String>,
    /// The informers whose watch showed the delete of an incarnation.
    deletes_shown: BTreeSet<(u32, String)>,
    /// The states that an informer's watch showed. States of a list may be skipped.
    shown: BTreeSet<(u32, ObjectVersion)>,
    /// All selections that each informer has had.
    selections: BTreeMap<u32, Vec<Selection>>,
    handlers: BTreeMap<u32, Handler>,
    /// The last handlers of processes that were killed.
    killed: BTreeMap<u32, Handler>,
    /// The incarnations that exist, by uid.
    living: BTreeSet<String>,
    /// The order in which incarnations came into being, by uid.
    born: BTreeMap<String, usize>,
    controllers: Controllers,
    takeovers: Takeovers,
    /// Handlers that were removed; calls that ran at that time may still end.
    removed_handlers: BTreeSet<u32>,
    /// The time of the entry, in nanoseconds since the start.
    now: u64,
    violations: Vec<Violation>,
}

/// Returns every violation of the contract, in order; empty if it holds.
pub fn check(history: &History) -> Vec<Violation> {
    let mut checker = Checker::default();
    for (index, (nanos, entry)) in history.entries.iter().enumerate() {
        checker.now = *nanos;
        checker.apply(index, entry);
    }
    checker.violations
}

impl Checker {
    fn apply(&mut self, at: usize, entry: &Entry) {
        match entry {
            Entry::Begin(Call { handler, .. })
            | Entry::Remembers { handler, .. }
            | Entry::Suspects { handler, .. }
            | Entry::Kept { handler, .. }
            | Entry::Found { handler, .. }
            | Entry::End { handler, .. }
            | Entry::Asked { handler, .. }
            | Entry::Deferred { handler, .. }
            | Entry::Sent { handler, .. }
            | Entry::Synced { handler, .. }
                if self.removed_handlers.contains(handler) =>
            {
                self.after_takeover(at, entry);
            }
            Entry::Written { object, group } => {
                self.living.insert(object.uid.clone());
                let next = self.born.len();
                self.born.entry(object.uid.clone()).or_insert(next);
                self.written.insert(object.clone(), group.clone());
            }
            Entry::Removed { object } => {
                self.living.remove(&object.uid);
                self.takeovers
                    .ended
                    .insert(object.uid.clone(), (self.now, object.version));
                self.removed.insert(object.clone());
            }
            Entry::Restored { version, objects } => self.restored(*version, objects),
            Entry::Shown { informer, kind, object } => self.shown(*informer, *kind, object),
            Entry::Fault { .. } => {}
            Entry::Controller(did) => self.violations.extend(self.controllers.apply(at, did)),
            Entry::Selected { informer, selection } => self.selected(*informer, selection),
            Entry::HandlerAdded { .. } => self.handler_added(entry),
            Entry::Resumed {
                handler,
                after,
                continues,
            } => self.resumed(*handler, *after, *continues),
            Entry::TookOver { .. } => self.took_over(entry),
            Entry::Holds { informer, uids } => {
                let held = uids.iter().map(|uid| (*informer, uid.clone()));
                self.takeovers.held.extend(held);
            }
            Entry::StateWritten { term } => self.state_written(at, *term),
            Entry::Acting { handlers } => self.acting_at_rest(at, handlers),
            Entry::Killed { handler, dropped } => self.killed(*handler, dropped),
            Entry::Kept { handler, values } => self.kept(at, *handler, values),
            Entry::Found { handler, values } => self.found(at, *handler, values),
            Entry::Begin(call) => self.begin(at, call),
            Entry::Remembers { handler, calls } => self.remembers(at, *handler, *calls),
            Entry::Suspects { handler, namespaces } => {
                let handler = self.handlers.entry(*handler).or_default();
                handler
                    .suspects
                    .iter_mut()
                    .for_each(|suspects| suspects.name(namespaces));
            }
            Entry::End {
                handler,
                namespace,
                name,
                ended,
            } => self.end(at, *handler, (namespace, name), *ended),
            Entry::Asked {
                handler,
                namespace,
                name,
                after_ms,
            } => self.asked(*handler, (namespace, name), *after_ms),
            Entry::Deferred {
                handler,
                namespace,
                name,
            } => self.key_state(*handler, (namespace, name)).unsent = true,
            Entry::Sent {
                handler,
                namespace,
                name,
            } => self.sent(at, *handler, (namespace, name)),
            Entry::Synced { handler, lane, there } => self.synced(at, *handler, *lane, there),
            Entry::HandlerRemoved { handler } => {
                self.handlers.remove(handler);
                self.removed_handlers.insert(*handler);
            }
            Entry::FedIndexChecked {
                informer,
                at_rest,
                index,
                model,
            } => self.fed_index(at, *informer, *at_rest, index.as_ref(), model),
            Entry::IndexChecked { .. } | Entry::BodyRead { .. } | Entry::Released { .. } => self.compare(at, entry),
            Entry::CacheAtRest { .. } => self.cache_at_rest(at, entry),
            Entry::AtRest {
                informer,
                cluster,
                store,
            } => self.at_rest(at, *informer, cluster, store),
        }
    }

    /// Entries that have all that their clause compares.
    fn compare(&mut self, at: usize, entry: &Entry) {
        match entry {
            Entry::IndexChecked { informer, index, scan } if index != scan => {
                let message = format!("informer {informer}: the index has {index:?}, a scan {scan:?}");
                self.violate(at, Clause::IndexCoherent, message);
            }
            Entry::BodyRead { head, body }
                if body.incarnation() != head.incarnation() || body.version < head.version =>
            {
                let message = format!("the body of {head} is of {body}");
                self.violate(at, Clause::ShedNeverOlder, message);
            }
            Entry::Released {
                handler,
                waited_ms,
                wait_max_ms,
                missing,
            } if !missing.is_empty() && waited_ms < wait_max_ms => {
                let message = format!("handler {handler} is called after {waited_ms} ms without {missing:?}");
                self.violate(at, Clause::BarrierKept, message);
            }
            _ => {}
        }
    }

    fn handler_added(&mut self, entry: &Entry) {
        if let Entry::HandlerAdded {
            handler,
            informer,
            receives_every_state,
            min_interval_ms,
            calls_per_second_max,
            limits_suspects,
            forgets_suspects,
        } = entry
        {
            let syncs_left = self.sources(*informer);
            let added = self.handlers.entry(*handler).or_default();
            (added.informer, added.receives_every_state) = (*informer, *receives_every_state);
            (added.min_interval_ms, added.calls_per_second_max) = (*min_interval_ms, *calls_per_second_max);
            added.suspects = limits_suspects.then(|| Suspects::new(*forgets_suspects));
            added.syncs_left = syncs_left;
        }
    }

    fn violate(&mut self, entry: usize, clause: Clause, message: String) {
        self.violations.push(Violation { clause, entry, message });
    }

    /// Whether the informer's selection has ever changed.
    fn ever_reconfigured(&self, informer: u32) -> bool {
        self.selections.get(&informer).is_some_and(|all| all.len() > 1)
    }

    /// Whether the informer has ever selected objects by their labels: then one may leave and come back.
    fn ever_selected_by_state(&self, informer: u32) -> bool {
        let selections = self.selections.get(&informer);
        selections.is_some_and(|all| all.iter().any(|selection| selection.group.is_some()))
    }

    fn existed(&self, state: &ObjectVersion) -> bool {
        self.written.contains_key(state)
            || self.removed.contains(state)
            || self.written_before_restore.contains_key(state)
    }
}

#[cfg(test)]
mod tests;
